//! The database under the operations: one SQLite file (or memory), one writer, a clock, migrations.
//!
//! [`Tx`] is the only user of the SQL driver, so that another engine can stand behind it later.

mod clock;
mod connection;
mod error;
mod hint;
mod memory;
mod migrate;
mod pool;
mod savepoint;
mod store;
mod tx;
mod value;
mod writer;

pub use clock::{Clock, SystemClock};
pub use error::StoreError;
pub use hint::{Hint, HintBus};
pub use memory::MemoryStore;
pub use store::{Store, StoreOptions};
pub use tx::{Row, Tx};
pub use value::args;
pub use value::{FromValue, ToValue, Value};
