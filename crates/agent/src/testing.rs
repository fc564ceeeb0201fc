//! A fleet in a test: its keys, its answers, and a gateway that speaks the real protocol over real TLS.

pub mod gateway;

use crate::clock::AgentClock;
use crate::config::{Build, Config, parse};
use crate::identity::Identity;
use model::{NodeId, Role, ServerTimeMs};
use pki::ca::NodeRequest;
use pki::{Bundle, FleetId, PublicKey, Purpose};
use proto::Message;
use proto::v1;
use std::path::Path;

pub const NODE: &str = "node_01J00000000000000000000000";

pub struct Fleet {
    pub keys: Bundle,
    pub now_ms: i64,
}

impl Fleet {
    pub fn new() -> Self {
        let now_ms = stdx::clock::wall_unix_ms();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        Self { keys: Bundle::create(FleetId::random(), &names, now_ms).expect("fleet"), now_ms }
    }

    pub fn leaf(&self, key: &PublicKey, role: Role) -> Vec<u8> {
        let kinds: Vec<String> = model::Kind::allowed_for(role).map(str::to_owned).collect();
        let node_id = NodeId::new(NODE);
        let request = NodeRequest { node_id: &node_id, role, allowed_kinds: &kinds, public_key: key };
        self.keys.node_ca.issue_node(&self.keys.public.fleet_id, &request, self.now_ms).expect("leaf").to_vec()
    }

    pub fn trust_bundle(&self) -> v1::TrustBundle {
        v1::TrustBundle {
            version: 1,
            fleet_id: self.keys.public.fleet_id.to_string(),
            command_roots: vec![self.keys.public.command_root.to_vec()],
            node_cas: vec![self.keys.public.node_ca.to_vec()],
            serving_cas: vec![self.keys.public.serving_ca.to_vec()],
            issued_at_ms: self.now_ms,
        }
    }

    pub fn signed_bundle(&self) -> v1::Signed {
        let body = self.trust_bundle().encode_to_vec();
        crate::signed::to_wire(self.keys.join_signing.sign(Purpose::TrustBundle, body).expect("signs"))
    }

    /// The same as the cores see it.
    pub fn signed_bundle_frame(&self) -> model::frame::Signed {
        crate::signed::from_pki(crate::signed::from_wire(self.signed_bundle()))
    }

    /// The answer to `csr`, made for `key`.
    pub fn response(&self, csr: &[u8], key: &PublicKey) -> v1::JoinResponse {
        v1::JoinResponse {
            csr_sha256: stdx::hex::sha256(csr).to_vec(),
            fleet_id: self.keys.public.fleet_id.to_string(),
            node_id: NODE.to_owned(),
            site: "fsn1".to_owned(),
            pool: "pool_a".to_owned(),
            role: v1::Role::Node.into(),
            chain: vec![self.leaf(key, Role::Node)],
            trust_bundle: Some(self.signed_bundle()),
            issued_at_ms: self.now_ms,
        }
    }

    pub fn sign_response(&self, response: &v1::JoinResponse) -> v1::JoinReply {
        let signed = self.keys.join_signing.sign(Purpose::JoinResponse, response.encode_to_vec()).expect("signs");
        v1::JoinReply { reply: Some(v1::join_reply::Reply::Response(crate::signed::to_wire(signed))) }
    }

    /// A configuration of a machine of this fleet.
    pub fn config(&self, data_dir: &Path, port: u16) -> Config {
        let pins = self.keys.pins();
        let text = format!(
            "gateway_url = \"https://127.0.0.1:{port}\"\nsite = \"fsn1\"\nserving_ca_spki_pin = \"{}\"\n\
             join_signing_key_pin = \"{}\"\njoin_encryption_key_pin = \"{}\"\ndata_dir = \"{}\"\n",
            pins.serving_ca_spki_pin,
            pins.join_signing_key_pin,
            pins.join_encryption_key_pin,
            data_dir.display()
        );
        parse(text.as_bytes(), Build::Host).expect("config")
    }
}

/// An identity as a join of `key` would store it.
pub fn identity_of(fleet: &Fleet, key: &PublicKey) -> Identity {
    Identity {
        node_id: NodeId::new(NODE),
        fleet_id: fleet.keys.public.fleet_id.clone(),
        role: Role::Node,
        site: "fsn1".to_owned(),
        pool: "pool_a".to_owned(),
        chain: vec![fleet.leaf(key, Role::Node)],
        trust_bundle: Some(fleet.signed_bundle_frame()),
        time_mark: ServerTimeMs(fleet.now_ms),
        joined_at: ServerTimeMs(fleet.now_ms),
        journal_id: None,
    }
}

/// The clock of a process that was not told the time yet.
pub fn untold_clock() -> AgentClock {
    AgentClock::new(ServerTimeMs(0))
}
