//! The vocabulary both sides share: ids, lanes, roles, the table of command kinds, the states a
//! command goes through, why a session ends, and every limit with its name.
//!
//! Pure values: no I/O, no serialization, no clock.

pub mod command;
pub mod event;
pub mod frame;
pub mod ids;
pub mod kind;
pub mod limits;
pub mod node;
pub mod session;
pub mod spec;

pub use command::{CommandState, FailCode, Outcome, RejectReason};
pub use event::EventClass;
pub use ids::{
    AllocationId, BootId, CommandId, GatewayId, IncarnationId, JournalId, NodeId, PoolId, PrincipalId, ReservationId,
    SiteId, TenantId, TokenId,
};
pub use kind::{Kind, KindSpec, Lane, Role};
pub use node::{Lifecycle, ServerTimeMs};
pub use session::SessionEnd;
