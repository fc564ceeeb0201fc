//! The states of a reservation, and why one fails or waits.

use std::fmt;

/// Where a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReservationState {
    /// Waits for a node that can take it.
    Pending,
    /// Booked on a node; no spec of the node names it yet.
    Placing,
    /// The node's spec names it; the node has not said that it is bound.
    Binding,
    Active,
    /// Asked to go; its booking has not ended.
    Releasing,
    Released,
    Failed,
}

impl ReservationState {
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Placing, Self::Binding, Self::Active, Self::Releasing, Self::Released, Self::Failed];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Placing => "placing",
            Self::Binding => "binding",
            Self::Active => "active",
            Self::Releasing => "releasing",
            Self::Released => "released",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == text)
    }

    /// Nothing of it is booked or ever will be.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Released | Self::Failed)
    }
}

impl fmt::Display for ReservationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reasons this side gives; a node's own (`overlap`, `device-missing`, ...) are passed on as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// No node can take it now.
    NoCapacity,
    /// No node of the pool could ever take it (F-Q16).
    NeverFits,
    /// The node converged on a spec that names it and said neither bound nor failed.
    NoReport,
    /// The node let go of it although it is wanted, as after a control plane was restored.
    ReleasedByNode,
    /// A person declared the node lost.
    NodeLost,
}

impl FailureReason {
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoCapacity => "no-capacity",
            Self::NeverFits => "never-fits",
            Self::NoReport => "no-report",
            Self::ReleasedByNode => "released-by-node",
            Self::NodeLost => "node-lost",
        }
    }
}
