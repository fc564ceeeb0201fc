//! Joining: sealed requests that gateways leave for the join service, the use of a token, the node it
//! makes, and the certificates issued to it.
//!
//! Not here: opening a sealed request, issuing certificates, signing answers.

mod certificates;
mod node;
mod redeem;
mod requests;
mod revoke;

pub use certificates::{Certificate, node_certificates, store_certificate};
pub use redeem::{JoinFacts, Redeemed, TokenRefusal, redeem_token};
pub use requests::{
    JoinKind, JoinRequest, PutError, REQUESTS_WAITING_MAX, join_answer, join_answer_get, join_request_put,
    join_requests_take,
};
pub use revoke::{retire_node, revoke_certificate, revoke_node};
