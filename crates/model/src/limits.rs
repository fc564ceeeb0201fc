//! Every bound of the delivery path, with its unit and its source. A bound of one crate alone
//! stands in that crate.

/// One frame of a session, bytes. A longer one ends the session (`completion.md`, Sessions).
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// One command result, bytes; larger output goes to a blob (`completion.md`).
pub const RESULT_BYTES_MAX: usize = 256 << 10;
/// Unacknowledged results carried by `Hello`, bytes together; the rest follow (`completion.md`).
pub const HELLO_RESULTS_BYTES_MAX: usize = 1 << 20;
/// Commands in flight that `Hello` names; one left out is delivered again and recognised.
pub const HELLO_IN_FLIGHT_MAX: usize = 128;
/// One blob, bytes (F-Q8).
pub const BLOB_BYTES_MAX: u64 = 64 << 20;
/// One chunk of a blob, bytes.
pub const BLOB_CHUNK_BYTES_MAX: usize = 256 << 10;
/// One command body, bytes, so that it fits a frame and a journal record with room to spare.
pub const COMMAND_BODY_BYTES_MAX: usize = 1 << 20;
/// Commands deferred in memory on one node; beyond that `BUSY` (D-Q2).
pub const DEFERRED_COMMANDS_MAX: usize = 64;
/// Journal size, bytes. `config.toml` may lower it (`delivery.md`, Bounds).
pub const JOURNAL_BYTES_MAX: u64 = 64 << 20;
/// Unacknowledged events. `config.toml` may lower it.
pub const JOURNAL_EVENTS_MAX: u32 = 10_000;
/// Used exec tickets kept (`delivery.md`, The journal).
pub const EXEC_TICKETS_MAX: usize = 10_000;
/// Milliseconds a settled entry stays in the journal after it was acknowledged: 7 days.
pub const JOURNAL_DONE_KEPT_MS: u64 = 7 * 24 * 3_600_000;
/// Events in one `EventBatch`.
pub const EVENT_BATCH_MAX: usize = 256;
/// Bytes of events in one `EventBatch`.
pub const EVENT_BATCH_BYTES_MAX: usize = 1 << 20;
/// One event body, bytes.
pub const EVENT_BYTES_MAX: usize = 64 << 10;
/// Rows one dispatch query takes (`delivery.md`, Dispatch).
pub const DISPATCH_ROWS_MAX: u32 = 1000;
/// How far a `Welcome`'s server time may lie before the mark, milliseconds: 5 minutes.
pub const SERVER_TIME_BACKSLIDE_MS: i64 = 5 * 60_000;
/// How often the server-time statement is signed anew, milliseconds (`completion.md`).
pub const SERVER_TIME_SIGNED_EVERY_MS: i64 = 30_000;
/// The command sweeper's period, milliseconds (`delivery.md`, Timeouts).
pub const SWEEP_EVERY_MS: i64 = 5_000;
/// The gateway's dispatch period without a poke, milliseconds.
pub const DISPATCH_EVERY_MS: u64 = 1_000;
/// The gateway writes coalesced status about this often, milliseconds.
pub const STATUS_WRITE_EVERY_MS: u64 = 1_000;
/// Default of `notAfterSeconds` (F-Q11).
pub const NOT_AFTER_DEFAULT_S: i64 = 300;
/// Largest `notAfterSeconds`: 7 days, the time a journal keeps what nobody redelivers.
pub const NOT_AFTER_MAX_S: i64 = 7 * 24 * 3600;
/// `BUSY` sends a command back with a delay doubling between these, milliseconds (D-Q27).
pub const BUSY_DELAY_FIRST_MS: i64 = 1_000;
pub const BUSY_DELAY_MOST_MS: i64 = 30_000;
/// Counters above this are refused: they would not survive JSON (`completion.md`).
pub const COUNTER_MAX: u64 = 1 << 53;
/// Outbox rows are kept this long, milliseconds: 30 days.
pub const OUTBOX_KEPT_MS: i64 = 30 * 24 * 3_600_000;
/// Node certificates: life, milliseconds (24 hours; 2 for a ramdisk), and how far back they start.
pub const CERT_LIFE_MS: i64 = 24 * 3_600_000;
pub const CERT_LIFE_RAMDISK_MS: i64 = 2 * 3_600_000;
pub const CERT_BACKDATE_MS: i64 = 3_600_000;
/// How long after expiry a certificate may still renew, milliseconds: 7 days.
pub const CERT_GRACE_MS: i64 = 7 * 24 * 3_600_000;
/// A deferred join is retried this often, milliseconds.
pub const JOIN_RETRY_MS: u64 = 30_000;
/// `config.toml`, bytes.
pub const CONFIG_BYTES_MAX: u64 = 64 << 10;
/// A join token, bytes, as read from standard input, the environment or a file.
pub const JOIN_TOKEN_BYTES_MAX: u64 = 4 << 10;
/// A text of a frame that no other bound names, bytes.
pub const TEXT_BYTES_MAX: usize = 4 << 10;
/// The message of a `SessionEnd`, bytes.
pub const SESSION_END_MESSAGE_BYTES_MAX: usize = 1 << 10;
/// Capabilities a `Hello` names.
pub const CAPABILITIES_MAX: usize = 64;
/// Updates in one `CommandUpdates`, and the bytes of their results together.
pub const UPDATES_MAX: usize = 256;
pub const UPDATES_BYTES_MAX: usize = 1 << 20;
/// Conditions and gauges in one `StatusReport`.
pub const CONDITIONS_MAX: usize = 256;
pub const GAUGES_MAX: usize = 1024;
/// Certificates of one signature, and the bytes of each.
pub const SIGNATURE_CHAIN_MAX: usize = 4;
pub const CERTIFICATE_BYTES_MAX: usize = 8 << 10;
/// An ES256 signature in P1363 form, bytes.
pub const SIGNATURE_BYTES: usize = 64;
