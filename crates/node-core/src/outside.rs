//! What the machine asks of its surroundings: bytes to values, keys, and chance. Every call is pure
//! or nearly so, quick, and never blocks.

use model::frame::{Any, CommandBody, CommandResult, DesiredStateBody, Report, ResultStatement, Signed};
use model::{BootId, Kind, ServerTimeMs};

/// What became of a trust bundle a gateway handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleVerdict {
    /// Newer and genuine: it counts from now on, and the shell stores it.
    Adopted,
    /// The one already held.
    Unchanged,
    /// Older, forged, of another fleet or unreadable: ignored.
    Refused,
}

pub trait Outside {
    fn decode_body(&self, bytes: &[u8]) -> Option<CommandBody>;
    fn decode_desired_state(&self, bytes: &[u8]) -> Option<DesiredStateBody>;
    /// Whether this build can hold the spec: today only an empty one (F-Q15).
    fn can_hold_spec(&self, spec: &[u8]) -> bool;
    fn encode_result(&self, result: &CommandResult) -> Vec<u8>;
    fn encode_report(&self, report: &Report) -> Vec<u8>;
    /// `NodeRebootResult` with the boot that ended.
    fn reboot_result(&self, previous: &BootId) -> Any;

    /// Whether the trust bundle holds command-signing roots: from then on nothing unsigned counts.
    fn has_command_roots(&self) -> bool;
    /// Purpose `command`, chained to a command-signing root, at server time.
    fn verify_command(&self, signed: &Signed, at: ServerTimeMs) -> bool;
    /// Purpose `desired-state`, likewise.
    fn verify_spec(&self, signed: &Signed, at: ServerTimeMs) -> bool;
    /// Purpose `server-time`, likewise but at the stated time itself. `None` if it does not verify.
    fn verify_server_time(&self, signed: &Signed) -> Option<ServerTimeMs>;
    /// Purpose `trust-bundle`, by the pinned join signing key.
    fn adopt_bundle(&mut self, signed: &Signed) -> BundleVerdict;
    /// Purpose `command-result`, by the node's key.
    fn sign_result(&self, statement: &ResultStatement) -> Signed;

    /// Kinds this process can run.
    fn implements(&self, kind: Kind) -> bool;
    /// Devices the command acts on, as GPU UUIDs or disk names; two commands that share one never run
    /// at once. Empty for a payload that does not decode.
    fn resources(&self, kind: Kind, payload: &Any) -> Vec<String>;
    /// Uniform in `low..=high`.
    fn random(&mut self, low: u64, high: u64) -> u64;
}
