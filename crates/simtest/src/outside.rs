//! What a simulated daemon's machine asks of its surroundings: the real keys, the real codecs, chance
//! from the seed. The same shape as the daemon's own, without its files.

use crate::keys::{NodeKeys, pool};
use model::frame::{Any, CommandBody, CommandResult, DesiredStateBody, Report, ResultStatement, Signed};
use model::{BootId, Kind, ServerTimeMs};
use node_core::{BundleVerdict, Outside};
use pki::{CertificateDer, Purpose};
use proto::{Message, v1};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::cell::RefCell;
use std::collections::HashMap;

/// Kinds a simulated node runs, as the daemon of this version does.
pub const IMPLEMENTED: &[Kind] =
    &[Kind::InventoryRefresh, Kind::DiagNvml, Kind::GpuReset, Kind::NodeReboot, Kind::LogsCollect];

/// Verdicts on time statements kept.
const STATEMENTS_KEPT: usize = 4096;

pub struct SimOutside {
    node: &'static NodeKeys,
    leaf: Vec<u8>,
    version: u64,
    command_roots: Vec<CertificateDer<'static>>,
    bundle_body: Vec<u8>,
    rng: SmallRng,
}

impl SimOutside {
    pub fn new(node: &'static NodeKeys, leaf: Vec<u8>, bundle: &Signed, seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        let mut outside = Self { node, leaf, version: 0, command_roots: Vec::new(), bundle_body: Vec::new(), rng };
        outside.adopt_bundle(bundle);
        outside
    }

    fn verifies(&self, purpose: Purpose, signed: &Signed, at_ms: i64) -> bool {
        pki_signed(signed).verify_chain(purpose, &self.command_roots, at_ms).is_ok()
    }
}

impl Outside for SimOutside {
    fn decode_body(&self, bytes: &[u8]) -> Option<CommandBody> {
        proto::decode_body(bytes).ok()
    }
    fn decode_desired_state(&self, bytes: &[u8]) -> Option<DesiredStateBody> {
        proto::decode_desired_state(bytes).ok()
    }
    fn can_hold_spec(&self, spec: &[u8]) -> bool {
        spec.is_empty()
    }
    fn encode_result(&self, result: &CommandResult) -> Vec<u8> {
        proto::encode_result(result)
    }
    fn encode_report(&self, report: &Report) -> Vec<u8> {
        proto::encode_report(report)
    }
    fn reboot_result(&self, previous: &BootId) -> Any {
        proto::pack(&v1::NodeRebootResult { previous_boot_id: previous.to_string() })
    }
    fn has_command_roots(&self) -> bool {
        !self.command_roots.is_empty()
    }
    fn verify_command(&self, signed: &Signed, at: ServerTimeMs) -> bool {
        self.verifies(Purpose::Command, signed, at.0)
    }
    fn verify_spec(&self, signed: &Signed, at: ServerTimeMs) -> bool {
        self.verifies(Purpose::DesiredState, signed, at.0)
    }
    fn verify_server_time(&self, signed: &Signed) -> Option<ServerTimeMs> {
        verified_time(signed, |at| self.verifies(Purpose::ServerTime, signed, at))
    }
    fn adopt_bundle(&mut self, signed: &Signed) -> BundleVerdict {
        if signed.body == self.bundle_body && !self.bundle_body.is_empty() {
            return BundleVerdict::Unchanged;
        }
        let pin = pool().fleet.pins().join_signing_key_pin;
        let Ok(body) = pki_signed(signed).verify_pinned(Purpose::TrustBundle, &pin).map(<[u8]>::to_vec) else {
            return BundleVerdict::Refused;
        };
        match v1::TrustBundle::decode(body.as_slice()) {
            Ok(bundle) if bundle.fleet_id == pool().fleet_id() && bundle.version > self.version => {
                self.version = bundle.version;
                self.command_roots = bundle.command_roots.into_iter().map(CertificateDer::from).collect();
                self.bundle_body = body;
                BundleVerdict::Adopted
            }
            _ => BundleVerdict::Refused,
        }
    }
    fn sign_result(&self, statement: &ResultStatement) -> Signed {
        let body = proto::encode_statement(statement);
        frame_signed(pki::Signed::sign(Purpose::CommandResult, body, &self.node.key, vec![self.leaf.clone()]))
    }
    fn implements(&self, kind: Kind) -> bool {
        IMPLEMENTED.contains(&kind)
    }
    fn resources(&self, kind: Kind, payload: &Any) -> Vec<String> {
        match kind {
            Kind::GpuReset => gpus(payload),
            _ => Vec::new(),
        }
    }
    fn random(&mut self, low: u64, high: u64) -> u64 {
        self.rng.random_range(low..=high.max(low))
    }
}

/// The GPUs a `gpu.reset` names.
pub fn gpus(payload: &Any) -> Vec<String> {
    proto::unpack::<v1::GpuResetRequest>(payload).map(|request| request.gpu_uuids).unwrap_or_default()
}

/// A time statement is relayed many times unchanged, and its verdict does not depend on who asks: all
/// simulated nodes trust the same root.
fn verified_time(signed: &Signed, verify: impl FnOnce(i64) -> bool) -> Option<ServerTimeMs> {
    thread_local! {
        static SEEN: RefCell<HashMap<[u8; 32], bool>> = RefCell::default();
    }
    let stated = v1::ServerTime::decode(signed.body.as_slice()).ok()?;
    let key = stdx::hex::sha256(&[signed.body.as_slice(), &signed.signature].concat());
    let known = SEEN.with_borrow(|seen| seen.get(&key).copied());
    let holds = known.unwrap_or_else(|| {
        let holds = stated.fleet_id == pool().fleet_id() && verify(stated.unix_ms);
        SEEN.with_borrow_mut(|seen| {
            if seen.len() > STATEMENTS_KEPT {
                seen.clear();
            }
            seen.insert(key, holds);
        });
        holds
    });
    holds.then_some(ServerTimeMs(stated.unix_ms))
}

pub fn pki_signed(signed: &Signed) -> pki::Signed {
    let Signed { body, kid, chain, signature } = signed.clone();
    pki::Signed { body, kid, chain, signature }
}

pub fn frame_signed(signed: pki::Signed) -> Signed {
    let pki::Signed { body, kid, chain, signature } = signed;
    Signed { body, kid, chain, signature }
}
