//! Where a reservation goes: a pure function from a request and the nodes of a pool to the devices of
//! one node. No SQL, no clock, no protobuf.
//!
//! ```text
//! Fleet (facts) ──filters──▶ nodes that can ──scores──▶ the best one ──▶ its atoms, its limits
//!                   └──▶ explain: every filter that refused a node, in words, only when asked
//! ```
//!
//! A decision reads one small row of numbers a node and allocates nothing for any of them; strings are
//! looked at only where a request names labels. Equal scores go to the lowest node id, so a decision is
//! the same wherever it is made.
//!
//! Not here: whether the books still agree when the decision is written down (`sql::book`).

mod choose;
mod cpulist;
mod explain;
mod filter;
mod fleet;
mod limits;
mod node;
mod request;
mod score;

pub use explain::{Explanation, NodeVerdict, Prospect, Refusal, could_ever_fit, explain};
pub use filter::{Avoided, Filter};
pub use fleet::Fleet;
pub(crate) use fleet::slot_bit;
pub use limits::Limits;
pub use node::{Amount, Connection, Cordon, Gpu, Guard, Host, MigInstance, Node, NumaNode};
pub use request::{
    Binding, CAPABILITY_KUBERNETES, CAPABILITY_LIMITS, DEVICES_MAX, Device, DeviceClass, DeviceRequest, HostRequest,
    LabelSelector, Request, RequestError, SELECTORS_MAX, Strategy,
};

use filter::Want;
use model::NodeId;
use score::Score;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub node: NodeId,
    /// Sorted by atom id.
    pub devices: Vec<Device>,
    /// `None` where no host resources were asked for.
    pub limits: Option<Limits>,
}

/// The best node for `request`, if one can take it now. `avoid` are nodes where it failed lately.
pub fn decide(request: &Request, avoid: &[Avoided], fleet: &Fleet) -> Option<Placement> {
    let want = Want::of(request, avoid);
    let mut best: Option<(Score, usize)> = None;
    for index in 0..fleet.len() {
        if want.refused_by(fleet, index).is_some() {
            continue;
        }
        // Nodes come by id, so the first of equal scores stays.
        let score = Score::of(&want, fleet, index);
        if best.is_none_or(|(found, _)| score < found) {
            best = Some((score, index));
        }
    }
    let node = fleet.node(best?.1);
    let devices = choose::devices(&want, node);
    let limits = limits::of(&request.host, node, &devices);
    Some(Placement { node: node.id.clone(), devices, limits })
}

#[cfg(test)]
mod tests;
