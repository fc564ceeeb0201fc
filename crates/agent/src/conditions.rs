//! What is wrong with this node, for as long as it is: the full set goes into every status report. A
//! condition has a kind, a subject it is about and an age on the clock that never jumps.

use model::frame::Condition;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use stdx::clock::Instant;

/// An XID error of a GPU; the subject is the GPU's UUID.
pub const XID_ERROR: &str = "XidError";
/// The journal has no room, so commands are answered `BUSY`.
pub const JOURNAL_FULL: &str = "JournalFull";
/// Conditions kept at once; the control plane takes no more of them.
const CONDITIONS_MAX: usize = model::limits::CONDITIONS_MAX;

#[derive(Debug, Default)]
pub struct Conditions(Mutex<BTreeMap<(String, String), Standing>>);

#[derive(Clone, Debug)]
struct Standing {
    message: String,
    since: Instant,
}

impl Conditions {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<(String, String), Standing>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Raises a condition, or keeps it with its age. Returns whether the set changed.
    pub fn raise(&self, kind: &str, subject: &str, message: &str, now: Instant) -> bool {
        self.with(|all| {
            let key = (kind.to_owned(), subject.to_owned());
            if all.contains_key(&key) || all.len() >= CONDITIONS_MAX {
                return false;
            }
            all.insert(key, Standing { message: message.to_owned(), since: now });
            true
        })
    }

    /// Drops a condition. Returns whether there was one.
    pub fn clear(&self, kind: &str, subject: &str) -> bool {
        self.with(|all| all.remove(&(kind.to_owned(), subject.to_owned())).is_some())
    }

    /// A GPU was reset and reads healthy: its XID errors are over.
    pub fn gpu_recovered(&self, uuid: &str) -> bool {
        self.clear(XID_ERROR, uuid)
    }

    /// The full set, sorted by kind, then subject.
    pub fn report(&self, now: Instant) -> Vec<Condition> {
        self.with(|all| {
            all.iter()
                .map(|((kind, subject), standing)| Condition {
                    kind: kind.clone(),
                    reason: subject.clone(),
                    message: standing.message.clone(),
                    age_ms: now.since(standing.since),
                })
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_age_until_it_is_cleared() {
        let conditions = Conditions::default();
        assert!(conditions.raise(XID_ERROR, "GPU-b", "XID 63", Instant(100)));
        assert!(!conditions.raise(XID_ERROR, "GPU-b", "XID 63", Instant(200)), "nothing new");
        assert!(conditions.raise(JOURNAL_FULL, "", "full", Instant(150)));
        let report = conditions.report(Instant(1_100));
        let seen: Vec<_> = report.iter().map(|c| (c.kind.as_str(), c.reason.as_str(), c.age_ms)).collect();
        assert_eq!(seen, [(JOURNAL_FULL, "", 950), (XID_ERROR, "GPU-b", 1000)]);
        assert!(conditions.gpu_recovered("GPU-b") && !conditions.gpu_recovered("GPU-b"));
        assert_eq!(conditions.report(Instant(0)).len(), 1);
    }

    #[test]
    fn the_set_is_bounded() {
        let conditions = Conditions::default();
        for number in 0..CONDITIONS_MAX + 5 {
            conditions.raise(XID_ERROR, &number.to_string(), "", Instant(0));
        }
        assert_eq!(conditions.report(Instant(0)).len(), CONDITIONS_MAX);
    }
}
