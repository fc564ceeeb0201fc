//! A node's standing and the time it is told.

use crate::command::named;
use std::fmt;

named! {
    /// Where a node is in its life. The metal states come with the metal module.
    Lifecycle {
        Adopting = "adopting",
        Ready = "ready",
        Draining = "draining",
        Retired = "retired",
    }
}

/// Server time in Unix milliseconds: the control plane's clock, never the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTimeMs(pub i64);

impl ServerTimeMs {
    pub fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// `self - earlier` in milliseconds, negative if `earlier` is later.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}
