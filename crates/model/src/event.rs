//! Events: what a daemon observes by itself, journaled, numbered and acknowledged.

use crate::command::named;
use std::fmt;

named! {
    /// What a full journal may do with an event: it drops the oldest metrics, and nothing else.
    EventClass {
        Metric = "metric",
        Transition = "transition",
        Result = "result",
    }
}
