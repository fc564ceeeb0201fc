//! What a module of the control plane brings to the kernel: its tables and its handling of reports.
//! A host's own module registers the same way.
//!
//! Not here: a module's operations, which its callers name directly.

use crate::events::ReportHandler;

/// A migration's name, `<module>/<number>_<what>`, and its SQL.
pub type Migration = (&'static str, &'static str);

/// A part of the control plane beside the kernel.
pub trait Module: Send + Sync {
    /// The owner's name in its migrations, as `capacity`.
    fn name(&self) -> &'static str;

    /// Every migration, oldest first. Never edited once released, only added to.
    fn migrations(&self) -> &'static [Migration] {
        &[]
    }

    /// The reports of nodes that it acts on.
    fn report_handlers(&self) -> Vec<Box<dyn ReportHandler>> {
        Vec::new()
    }
}
