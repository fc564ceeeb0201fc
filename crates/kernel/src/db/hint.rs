//! Hints: what a commit may have made worth looking at. They carry no facts and may be lost; every
//! reader also looks by timer.

use model::NodeId;
use tokio::sync::broadcast;

/// Hints kept for a slow reader before it loses the oldest.
const HINTS_KEPT: usize = 4096;

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hint {
    /// The node has pending work, freed credit or a cancel.
    Node(NodeId),
    /// A join or renewal waits for the join service, or was answered.
    Join,
    /// Rows wait for the sequencer.
    Outbox,
    /// An attested result waits for the verifier.
    Verify,
    /// A session of the node may have to end.
    Session(NodeId),
    /// Commands wait to be signed again (F-Q13).
    Resign,
}

/// Where hints of committed transactions go. Lossy by contract.
#[derive(Clone, Debug)]
pub struct HintBus {
    hints: broadcast::Sender<Hint>,
}

impl HintBus {
    pub fn new() -> Self {
        Self { hints: broadcast::Sender::new(HINTS_KEPT) }
    }

    /// Hints from now on. A reader that lags must look at everything once.
    pub fn subscribe(&self) -> broadcast::Receiver<Hint> {
        self.hints.subscribe()
    }

    /// Tells whoever listens; nobody listening is fine.
    pub fn send(&self, hint: Hint) {
        if self.hints.send(hint).is_err() {
            tracing::trace!("a hint found no reader");
        }
    }
}

impl Default for HintBus {
    fn default() -> Self {
        Self::new()
    }
}
