//! Why a session ends (decision F-Q14) and the figures of a session (`completion.md`, Sessions).

use crate::command::named;
use crate::kind::Role;
use std::fmt;

named! {
    /// The code a session ends with, on the wire and in metrics.
    SessionEnd {
        /// A newer session of the same node was accepted.
        Superseded = "superseded",
        /// The node or its certificate was revoked or retired.
        Revoked = "revoked",
        CertificateExpired = "certificate-expired",
        /// The certificate was issued by another fleet.
        WrongFleet = "wrong-fleet",
        /// A frame above 4 MiB.
        FrameTooLarge = "frame-too-large",
        /// A frame that does not decode, comes out of order or breaks a bound.
        ProtocolError = "protocol-error",
        /// Three heartbeats were missed.
        HeartbeatLost = "heartbeat-lost",
        /// The stored epoch is no longer this session's.
        EpochLost = "epoch-lost",
        /// The gateway is going away and asked for a reconnect elsewhere.
        Draining = "draining",
        /// The agent refused the server time of `Welcome`.
        TimeRefused = "time-refused",
        /// One side stops.
        Shutdown = "shutdown",
    }
}

/// Protocol versions this build speaks, lowest and highest.
pub const PROTOCOL_MIN: u32 = 1;
pub const PROTOCOL_MAX: u32 = 1;

/// Missed heartbeats that end a session.
pub const HEARTBEATS_MISSED_MAX: u32 = 3;

/// Milliseconds between heartbeats; a site agent fences a boot lease on them, so it beats faster (S-Q17).
pub const fn heartbeat_interval_ms(role: Role) -> u32 {
    match role {
        Role::Site => 5_000,
        Role::Node | Role::Ramdisk => 10_000,
    }
}

/// Reconnect delays with full jitter, milliseconds.
pub const RECONNECT_FIRST_MS: u64 = 500;
pub const RECONNECT_MOST_MS: u64 = 30_000;
