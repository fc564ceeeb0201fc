//! The keys and certificates of every simulated world, made once a process: a fleet, a foreign fleet with
//! the same id, and a few nodes.
//!
//! Certificates carry randomized signatures of 70 to 72 bytes, and some end up in journals, whose
//! sectors a crash loses one by one. So that a seed replays in another process, each certificate here
//! is made until it has its largest length.

use crate::outside::frame_signed;
use model::frame::Signed;
use model::{NodeId, Role, TokenId};
use pki::ca::NodeRequest;
use pki::{Bundle, FleetId, KeyPair, Purpose};
use proto::{Message, v1};
use std::sync::OnceLock;

/// When a world begins, Unix milliseconds (2027-01-15T08:00:00Z).
pub const T0: i64 = 1_800_000_000_000;
/// When nodes joined.
pub const JOINED_AT: i64 = T0 - 60_000;
/// How far a world may leap at once: just over the seven days a journal keeps what is settled.
pub const LEAP_MS: i64 = 7 * 24 * 3_600_000 + 3_600_000;
/// Nodes that have keys.
pub const SLOTS: usize = 3;
/// Certificates made to find one of the largest length: three of four are shorter.
const TRIES: usize = 48;

pub struct NodeKeys {
    pub token: TokenId,
    /// Stands for the digest of the node's certificate request.
    pub csr: [u8; 32],
    pub node_id: NodeId,
    pub key: KeyPair,
    /// Valid from the start, and after the leap.
    pub leaves: [Vec<u8>; 2],
    /// The same names from another fleet's authority.
    pub foreign_leaf: Vec<u8>,
}

pub struct Pool {
    pub fleet: Bundle,
    pub foreign: Bundle,
    pub nodes: Vec<NodeKeys>,
    /// Trust bundles of version 1 and 2, and one of version 3 that another fleet signed.
    pub bundles: [Signed; 2],
    pub forged_bundle: Signed,
}

/// The keys of this process.
pub fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(Pool::new)
}

impl Pool {
    fn new() -> Self {
        let (fleet, foreign) = (new_fleet(), new_fleet());
        let nodes = (0..SLOTS).map(|slot| node_keys(&fleet, &foreign, slot)).collect();
        let bundles = [1, 2].map(|version| trust_bundle(&fleet, version));
        let forged_bundle = trust_bundle(&foreign, 3);
        Self { fleet, foreign, nodes, bundles, forged_bundle }
    }

    pub fn fleet_id(&self) -> &str {
        self.fleet.public.fleet_id.as_str()
    }
}

fn new_fleet() -> Bundle {
    let names = ["gateway.example".to_owned()];
    let id = FleetId::parse("fleet-simulated").expect("a fleet id");
    let fleet = Bundle::create(id, &names, T0).expect("a fleet's keys");
    let bytes = |fleet: &Bundle| fleet.api.certificate().len() + fleet.controllers.certificate().len();
    let candidates = (0..2 * TRIES).map(|_| fleet.renew(&names, T0).expect("a fleet's keys"));
    candidates.max_by_key(bytes).unwrap_or(fleet)
}

fn node_keys(fleet: &Bundle, foreign: &Bundle, slot: usize) -> NodeKeys {
    let token = TokenId::new(format!("jt_{slot}"));
    let csr = stdx::hex::sha256(format!("certificate request {slot}").as_bytes());
    let node_id =
        NodeId::new(format!("node_{}", stdx::id::derive(&["join", token.as_str(), &stdx::hex::encode(&csr)])));
    let key = KeyPair::generate();
    let kinds: Vec<String> = model::Kind::allowed_for(Role::Node).map(str::to_owned).collect();
    let request = NodeRequest { node_id: &node_id, role: Role::Node, allowed_kinds: &kinds, public_key: key.public() };
    let issue = |authority: &Bundle, at: i64| {
        let one = || authority.node_ca.issue_node(&authority.public.fleet_id, &request, at).expect("a certificate");
        let leaves = (0..TRIES).map(|_| one().to_vec());
        leaves.max_by_key(Vec::len).expect("at least one try")
    };
    let leaves = [issue(fleet, T0), issue(fleet, T0 + LEAP_MS)];
    let foreign_leaf = issue(foreign, T0);
    NodeKeys { token, csr, node_id, key, leaves, foreign_leaf }
}

fn trust_bundle(fleet: &Bundle, version: u64) -> Signed {
    let bundle = v1::TrustBundle {
        version,
        fleet_id: fleet.public.fleet_id.to_string(),
        command_roots: vec![fleet.public.command_root.to_vec()],
        node_cas: vec![fleet.public.node_ca.to_vec()],
        serving_cas: vec![fleet.public.serving_ca.to_vec()],
        issued_at_ms: T0,
    };
    let signed = fleet.join_signing.sign(Purpose::TrustBundle, bundle.encode_to_vec());
    frame_signed(signed.expect("the join key signs bundles"))
}
