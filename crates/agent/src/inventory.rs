//! What this machine was last seen to be made of: the report for the control plane, and whether it changed
//! since the last look of this process.

use model::frame::InventoryReport;
use proto::Message;
use proto::v1::Inventory;
use std::sync::{Mutex, PoisonError};

/// One look.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub report: InventoryReport,
    /// Another digest than the last one. The first look of a process changes nothing.
    pub is_changed: bool,
}

#[derive(Debug, Default)]
pub struct InventoryBoard {
    last_digest: Mutex<Option<String>>,
}

impl InventoryBoard {
    pub fn observe(&self, inventory: &Inventory) -> Observed {
        let bytes = inventory.encode_to_vec();
        let digest = stdx::hex::sha256_hex(&bytes);
        let mut last = self.last_digest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.replace(digest.clone());
        let is_changed = before.is_some_and(|before| before != digest);
        Observed { report: InventoryReport { digest, inventory: bytes }, is_changed }
    }

    /// Empty before the first look.
    pub fn digest(&self) -> String {
        self.last_digest.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_digest_is_a_change() {
        let board = InventoryBoard::default();
        let one = Inventory { hostname: "one".to_owned(), ..Inventory::default() };
        assert!(!board.observe(&one).is_changed, "the first look");
        let again = board.observe(&one);
        assert!(!again.is_changed);
        assert_eq!(again.report.digest, host::digest(&one));
        assert!(board.observe(&Inventory::default()).is_changed);
        assert_eq!(board.digest(), host::digest(&Inventory::default()));
    }
}
