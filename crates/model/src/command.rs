//! What becomes of a command: the states of its row in the control plane, the outcomes a daemon
//! reports, and why one is refused.
//!
//! ```text
//! pending ──▶ dispatched ──▶ acked ──▶ running ──▶ succeeded | failed | rejected | cancelled
//!    │            │  ▲ BUSY    │          │
//!    │            └──┘         └──────────┴──▶ failed(timeout | journal-lost)
//!    └──▶ expired | cancelled
//! ```
//!
//! Reports may skip steps and never move a row backwards; a terminal row never changes.

use std::fmt;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            pub fn parse(text: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.name() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;

named! {
    /// The state of a command's row.
    CommandState {
        Pending = "pending",
        Dispatched = "dispatched",
        Acked = "acked",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        Rejected = "rejected",
        Cancelled = "cancelled",
        Expired = "expired",
    }
}

impl CommandState {
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Rejected | Self::Cancelled | Self::Expired)
    }

    /// Sent to a node and not yet settled.
    pub const fn is_in_flight(self) -> bool {
        matches!(self, Self::Dispatched | Self::Acked | Self::Running)
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Pending => 0,
            Self::Dispatched => 1,
            Self::Acked => 2,
            Self::Running => 3,
            _ => 4,
        }
    }

    /// Whether a node's report may move a row from `self` to `to`: forward only, never out of a
    /// terminal state, never to `expired`, which only the sweeper writes. A `pending` row may take a
    /// report, since a lost commit of the dispatch does not unsend the frame.
    pub const fn accepts(self, to: CommandState) -> bool {
        !self.is_terminal() && to.rank() > self.rank() && !matches!(to, Self::Expired | Self::Dispatched)
    }
}

named! {
    /// The one terminal outcome a daemon reports.
    Outcome {
        Succeeded = "succeeded",
        Failed = "failed",
        Rejected = "rejected",
        Cancelled = "cancelled",
    }
}

impl Outcome {
    pub const fn state(self) -> CommandState {
        match self {
            Self::Succeeded => CommandState::Succeeded,
            Self::Failed => CommandState::Failed,
            Self::Rejected => CommandState::Rejected,
            Self::Cancelled => CommandState::Cancelled,
        }
    }
}

named! {
    /// Why a daemon refuses a command. All but `Busy` are terminal and journaled.
    RejectReason {
        Unsupported = "UNSUPPORTED",
        StaleGeneration = "STALE_GENERATION",
        Expired = "EXPIRED",
        BadSignature = "BAD_SIGNATURE",
        BatchUnapproved = "BATCH_UNAPPROVED",
        UnbatchedLimit = "UNBATCHED_LIMIT",
        Busy = "BUSY",
    }
}

named! {
    /// Error codes of `failed` and `cancelled` commands that no single kind owns. A kind adds its own.
    FailCode {
        /// A crash interrupted a command that is not retry-safe.
        Interrupted = "interrupted",
        /// The payload is not the kind's request message.
        InvalidPayload = "invalid-payload",
        /// A defect or an error of the host that no other code names.
        Internal = "internal",
        /// The node's journal was replaced, so it cannot be known whether the effect happened.
        JournalLost = "journal-lost",
        /// No result within the kind's timeout.
        Timeout = "timeout",
        /// The host lacks what the kind needs.
        UnsupportedHost = "unsupported-host",
        /// A GPU is held or passed through to a VM.
        GpuBusy = "gpu-busy",
        /// An attested result whose signature does not verify.
        BadAttestation = "bad-attestation",
        /// The stored body does not decode, lacks `not_after`, or names another command or node.
        InvalidBody = "invalid-body",
        /// The node's certificate does not allow the kind.
        KindNotAllowed = "kind-not-allowed",
        /// A destructive kind for a node its tenant controls.
        TenantControlled = "tenant-controlled",
        /// Somebody asked for the cancellation.
        CancelRequested = "cancel-requested",
        /// The result would exceed its bound.
        ResultTooLarge = "result-too-large",
        /// The node was retired or revoked.
        NodeRetired = "node-retired",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_report_leaves_a_terminal_state_or_goes_back() {
        for from in CommandState::ALL {
            for to in CommandState::ALL {
                let allowed = from.accepts(*to);
                if from.is_terminal() || to.rank() <= from.rank() {
                    assert!(!allowed, "{from} -> {to}");
                }
            }
        }
        assert!(CommandState::Dispatched.accepts(CommandState::Succeeded), "reports may skip steps");
        assert!(CommandState::Pending.accepts(CommandState::Acked), "a lost dispatch commit does not unsend a frame");
        assert!(!CommandState::Pending.accepts(CommandState::Dispatched), "only dispatch writes dispatched");
        assert!(!CommandState::Running.accepts(CommandState::Expired), "only the sweeper expires");
    }

    #[test]
    fn names_round_trip() {
        for state in CommandState::ALL {
            assert_eq!(CommandState::parse(state.name()), Some(*state));
        }
        for reason in RejectReason::ALL {
            assert_eq!(RejectReason::parse(reason.name()), Some(*reason));
        }
    }
}
