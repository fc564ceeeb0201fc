//! What goes wrong, as the caller sees it: one shape, one list of codes, one HTTP status for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal;)+) => {
        /// The code of an error (`completion.md`, API).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $variant),+
        }

        impl ErrorCode {
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => $text),+ }
            }

            /// The HTTP status an answer with this code has.
            pub const fn status(self) -> u16 {
                match self { $(ErrorCode::$variant => $status),+ }
            }
        }
    };
}

codes! {
    /// The request is malformed: a missing, unknown or unusable key, a body that is too long.
    InvalidInput = "INVALID_INPUT", 400;
    /// No token, or one that is unknown, expired or revoked.
    Unauthenticated = "UNAUTHENTICATED", 401;
    /// Visible to the caller, and not permitted.
    Forbidden = "FORBIDDEN", 403;
    /// It does not exist, or the caller may not see it.
    NotFound = "NOT_FOUND", 404;
    /// The key was used for another request, the version is stale, or the name is taken.
    Conflict = "CONFLICT", 409;
    /// The object is in a state that does not allow it.
    InvalidState = "INVALID_STATE", 409;
    /// This fleet cannot do it.
    Unsupported = "UNSUPPORTED", 501;
    /// The tenant's quota is used up.
    QuotaExceeded = "QUOTA_EXCEEDED", 429;
    /// Nothing in the fleet can satisfy it now.
    NoCapacity = "NO_CAPACITY", 409;
    /// A watch or a page continues from events that are no longer kept.
    CursorExpired = "CURSOR_EXPIRED", 410;
    /// The store cannot be written or reached; the same request may be tried again.
    Unavailable = "UNAVAILABLE", 503;
    /// A defect of the control plane; the request id finds it in the logs.
    Internal = "INTERNAL", 500;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiError {
    pub code: ErrorCode,
    /// For people.
    pub message: String,
    /// What a program needs to act on the code, as the ids an ambiguous name stands for.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub details: serde_json::Value,
    /// Finds this request in the logs.
    pub request_id: String,
}

/// The body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub error: ApiError,
}
