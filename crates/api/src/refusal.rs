//! What a request is answered when it is not done: a code, words, details. The store's failures become
//! codes here and nowhere else.

use api_types::{ApiError, ErrorBody, ErrorCode};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kernel::db::StoreError;
use serde_json::Value;

/// A refusal on its way out.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub code: ErrorCode,
    pub message: String,
    pub details: Value,
    /// An authorization decision, which a mutation leaves an audit row of.
    pub denied: bool,
}

impl Refusal {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Value::Null, denied: false }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidInput, message)
    }

    pub fn not_found(what: &str, name: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("there is no {what} {name:?}"))
    }

    pub fn unauthenticated() -> Self {
        let message = "send a valid API token as `Authorization: Bearer bct_<id>.<secret>`; this one is missing, unknown, expired or revoked";
        Self::new(ErrorCode::Unauthenticated, message)
    }

    pub fn with(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    pub fn denied(mut self) -> Self {
        self.denied = true;
        self
    }

    /// The answer on the wire. What is a defect of ours is logged with the request id and not shown.
    pub fn into_response(self, request_id: &str) -> Response {
        let mut message = self.message;
        if self.code == ErrorCode::Internal {
            tracing::error!(request_id, error = %message, "a request failed by a defect");
            "the control plane failed; its log has the reason under this request id".clone_into(&mut message);
        }
        let error = ApiError { code: self.code, message, details: self.details, request_id: request_id.to_owned() };
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(ErrorBody { error })).into_response();
        if self.code == ErrorCode::Unavailable {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.code == ErrorCode::Unauthenticated {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Unavailable(_) | StoreError::Full | StoreError::Closed => ErrorCode::Unavailable,
            _ => ErrorCode::Internal,
        };
        Self::new(code, error.to_string())
    }
}
