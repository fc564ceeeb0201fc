//! What capacity registers with the kernel.

use crate::sql::reports::AllocationReports;
use kernel::events::ReportHandler;
use kernel::module::{Migration, Module};

/// The module. One value is made where a store is opened and where a gateway ingests.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Whether a report is acted on only once its signature was verified. On wherever commands are
    /// signed.
    pub attested_bindings: bool,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { attested_bindings: true }
    }
}

impl Module for Capacity {
    fn name(&self) -> &'static str {
        "capacity"
    }

    fn migrations(&self) -> &'static [Migration] {
        &[("capacity/0001_books", include_str!("migrations/0001_books.sql"))]
    }

    fn report_handlers(&self) -> Vec<Box<dyn ReportHandler>> {
        AllocationReports::all(self.attested_bindings)
    }
}
