//! Why a message from outside is not a value of `model::frame`.

/// A field is named as `Message.field`, after the `.proto` files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes are not a message of this type at all.
    #[error("{message} does not decode")]
    Decode {
        message: &'static str,
        #[source]
        source: prost::DecodeError,
    },
    /// A message field that must be set, or a `oneof` without a known member.
    #[error("{field} is missing")]
    Missing { field: &'static str },
    /// A number outside its range, or an enum value this build does not know.
    #[error("{field} cannot be {value}")]
    OutOfRange { field: &'static str, value: i128 },
    /// An id that `model::ids` refuses.
    #[error("{field} is not an id of 1 to 80 characters A-Z a-z 0-9 _ -")]
    BadId { field: &'static str },
    /// A digest that is not lower-case hex of its length.
    #[error("{field} is not a digest in lower-case hex")]
    BadHex { field: &'static str },
    /// More bytes or entries than its bound.
    #[error("{field} has {have}, at most {max} are allowed")]
    TooLong { field: &'static str, have: usize, max: usize },
    /// Bytes of a fixed length that have another.
    #[error("{field} has {have} bytes instead of {want}")]
    BadLength { field: &'static str, have: usize, want: usize },
    /// A field that is set where it means nothing.
    #[error("{field} is set and must not be")]
    Unexpected { field: &'static str },
    /// An `Any` that carries another message.
    #[error("the message is of type {found:?} instead of {expected:?}")]
    WrongType { expected: String, found: String },
}

impl WireError {
    /// Whether this is a frame above `FRAME_BYTES_MAX`, which ends a session with a code of its own.
    pub fn is_frame_too_large(&self) -> bool {
        matches!(self, Self::TooLong { field: "AgentFrame" | "GatewayFrame", .. })
    }
}
