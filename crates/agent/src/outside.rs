//! What the session machine asks of its surroundings, answered with this node's keys, the fleet's trust
//! bundle and the kinds this build runs.

use crate::certify::{self, Bundle};
use crate::keeper::Keeper;
use crate::kinds;
use crate::signed::{from_pki, to_pki};
use model::frame::{Any, CommandBody, CommandResult, DesiredStateBody, Report, ResultStatement, Signed};
use model::{BootId, Kind, ServerTimeMs};
use node_core::{BundleVerdict, Outside};
use pki::{FleetId, Pin, Purpose};
use proto::Message;
use proto::v1;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

pub struct NodeOutside {
    keeper: Keeper,
    join_signing_pin: Pin,
    fleet_id: FleetId,
    bundle: Bundle,
    /// The bytes of the bundle, to tell the same one from another of its version.
    bundle_body: Vec<u8>,
    rng: SmallRng,
}

impl NodeOutside {
    /// Starts with the trust bundle of the identity. One whose signature does not hold is left out, and
    /// the next `Welcome` brings another.
    pub fn new(keeper: Keeper, join_signing_pin: Pin) -> Self {
        let identity = keeper.identity();
        let mut outside = Self {
            keeper,
            join_signing_pin,
            fleet_id: identity.fleet_id,
            bundle: Bundle::default(),
            bundle_body: Vec::new(),
            rng: SmallRng::from_rng(&mut rand::rng()),
        };
        if let Some(stored) = identity.trust_bundle
            && outside.adopt_bundle(&stored) == BundleVerdict::Refused
        {
            tracing::error!("the trust bundle of identity.json does not verify and is left out");
        }
        outside
    }

    fn verifies(&self, purpose: Purpose, signed: &Signed, at_ms: i64) -> bool {
        to_pki(signed).verify_chain(purpose, &self.bundle.command_roots, at_ms).is_ok()
    }
}

impl Outside for NodeOutside {
    fn decode_body(&self, bytes: &[u8]) -> Option<CommandBody> {
        proto::decode_body(bytes).ok()
    }

    fn decode_desired_state(&self, bytes: &[u8]) -> Option<DesiredStateBody> {
        proto::decode_desired_state(bytes).ok()
    }

    /// Before specs exist only an empty one (F-Q15).
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
        !self.bundle.command_roots.is_empty()
    }

    fn verify_command(&self, signed: &Signed, at: ServerTimeMs) -> bool {
        self.verifies(Purpose::Command, signed, at.0)
    }

    fn verify_spec(&self, signed: &Signed, at: ServerTimeMs) -> bool {
        self.verifies(Purpose::DesiredState, signed, at.0)
    }

    fn verify_server_time(&self, signed: &Signed) -> Option<ServerTimeMs> {
        let stated = v1::ServerTime::decode(signed.body.as_slice()).ok()?;
        let holds =
            stated.fleet_id == self.fleet_id.as_str() && self.verifies(Purpose::ServerTime, signed, stated.unix_ms);
        holds.then_some(ServerTimeMs(stated.unix_ms))
    }

    fn adopt_bundle(&mut self, signed: &Signed) -> BundleVerdict {
        if signed.body == self.bundle_body && !self.bundle_body.is_empty() {
            return BundleVerdict::Unchanged;
        }
        let Ok(bundle) = certify::read_bundle(&to_pki(signed), &self.join_signing_pin) else {
            return BundleVerdict::Refused;
        };
        // A fleet that once signed its commands signs them for ever: roots never all go.
        let loses_roots = !self.bundle.command_roots.is_empty() && bundle.command_roots.is_empty();
        if bundle.fleet_id != self.fleet_id.as_str() || bundle.version <= self.bundle.version || loses_roots {
            return BundleVerdict::Refused;
        }
        self.bundle = bundle;
        self.bundle_body.clone_from(&signed.body);
        BundleVerdict::Adopted
    }

    fn sign_result(&self, statement: &ResultStatement) -> Signed {
        let credentials = self.keeper.credentials();
        let chain = credentials.chain.iter().take(1).cloned().collect();
        let body = proto::encode_statement(statement);
        from_pki(pki::Signed::sign(Purpose::CommandResult, body, &credentials.key, chain))
    }

    fn implements(&self, kind: Kind) -> bool {
        kinds::IMPLEMENTED.contains(&kind)
    }

    fn resources(&self, kind: Kind, payload: &Any) -> Vec<String> {
        kinds::resources(kind, payload)
    }

    fn random(&mut self, low: u64, high: u64) -> u64 {
        self.rng.random_range(low..=high.max(low))
    }
}

#[cfg(test)]
mod tests;
