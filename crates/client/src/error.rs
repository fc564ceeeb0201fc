//! Why a call did not succeed, in words that say what to do.

use api_types::{ApiError, ErrorCode};

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "{url:?} is not a URL of the API: {reason}; it looks like http://127.0.0.1:8420 or https://api.example.com"
    )]
    BadUrl { url: String, reason: &'static str },
    #[error("the token holds a character that no token has; copy it again, without spaces or line breaks")]
    BadToken,
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    #[error("cannot reach the control plane at {url} ({attempts} attempts); is it running, and is the URL right?")]
    Unreachable {
        url: String,
        attempts: u32,
        #[source]
        source: reqwest::Error,
    },
    #[error("{code}: {message} (request {request_id})", code = .0.code, message = .0.message, request_id = .0.request_id)]
    Refused(Box<ApiError>),
    #[error("{url} answered with HTTP status {status} and no error of this API; is the URL the API's?")]
    NotTheApi { url: String, status: u16 },
    #[error("the answer to {verb} is not what this version of the client reads; is the control plane much newer?")]
    Decode {
        verb: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("the answer is longer than {bytes_max} bytes")]
    TooLong { bytes_max: usize },
    #[error("the blob's SHA-256 is {actual} and not {expected}: it was damaged on its way or in the store; try again")]
    BlobDigest { expected: String, actual: String },
    #[error("the request cannot be written as JSON")]
    Encode(#[source] serde_json::Error),
    #[error("the event stream does not follow the rules of server-sent events: {0}")]
    Stream(&'static str),
}

impl ClientError {
    /// The API's code, when the API answered.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(error) => Some(error.code),
            _ => None,
        }
    }
}
