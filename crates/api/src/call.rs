//! One call of a verb inside its transaction: for which tenant, whether it was made before, what it did,
//! and the rows that remember it.

use crate::auth::Caller;
use crate::refusal::Refusal;
use api_types::{Effect, ErrorCode, IDEMPOTENCY_KEY_BYTES_MAX, Request};
use kernel::access::{self, AuditEntry, Earlier};
use kernel::db::Tx;
use model::TenantId;
use pki::SigningIdentity;
use serde_json::Value;

/// What a verb's handler is given besides its request.
pub(crate) struct Call<'a> {
    /// The tenant acted for: the caller's own, or one below it.
    pub tenant: TenantId,
    pub caller: &'a Caller,
    /// Signs commands.
    pub worker: &'a SigningIdentity,
    pub version: &'static str,
    /// W3C trace context, handed on to what the call sets in motion.
    pub traceparent: &'a str,
    verb: &'static str,
    key: &'a str,
}

impl Call<'_> {
    /// The id of the object this call makes: the same for each retry.
    pub fn object_id(&self) -> String {
        stdx::id::derive(&[self.tenant.as_str(), self.caller.principal.as_str(), self.verb, self.key])
    }
}

/// What a verb does.
pub(crate) trait Handle: Request {
    fn handle(&self, tx: &mut Tx<'_>, call: &Call<'_>) -> Result<Self::Response, Refusal>;

    /// What is acted on, as `compute-node/{nodeId}`, for the audit.
    fn resource(&self) -> String;

    /// The answer as a retry sees it.
    fn without_secrets(response: Self::Response) -> Self::Response {
        response
    }
}

/// What every call of a process shares.
pub(crate) struct Frame<'a> {
    pub caller: &'a Caller,
    pub worker: &'a SigningIdentity,
    pub version: &'static str,
    pub request_id: &'a str,
    pub traceparent: &'a str,
}

/// Runs a call in the caller's transaction. An error leaves nothing of it.
pub(crate) fn run<R: Handle>(tx: &mut Tx<'_>, frame: &Frame<'_>, request: &R) -> Result<Value, Refusal> {
    let tenant = acting_tenant(tx, frame.caller, request.tenant_id())?;
    let key = request.idempotency_key().unwrap_or_default();
    let call = Call {
        tenant,
        caller: frame.caller,
        worker: frame.worker,
        version: frame.version,
        traceparent: frame.traceparent,
        verb: R::VERB,
        key,
    };
    match R::EFFECT {
        Effect::Read => to_value(request.handle(tx, &call)?),
        Effect::Mutation => mutate(tx, frame, request, &call),
    }
}

fn mutate<R: Handle>(tx: &mut Tx<'_>, frame: &Frame<'_>, request: &R, call: &Call<'_>) -> Result<Value, Refusal> {
    check_key(call.key)?;
    let earlier = access::Request {
        tenant: &call.tenant,
        principal: &call.caller.principal,
        verb: R::VERB,
        key: call.key,
        sha256: request_sha256(request)?,
    };
    match access::earlier(tx, &earlier)? {
        Earlier::New => {}
        Earlier::Same(response) => {
            let damaged = |error: serde_json::Error| Refusal::new(ErrorCode::Internal, error.to_string());
            return serde_json::from_str(&response).map_err(damaged);
        }
        Earlier::Conflict => {
            let message = format!("the idempotency key {:?} was used for another {} request", call.key, R::VERB);
            return Err(Refusal::new(ErrorCode::Conflict, message));
        }
    }
    let response = request.handle(tx, call)?;
    let answer = to_value(&response)?;
    let kept = to_value(R::without_secrets(response))?;
    access::record(tx, &earlier, &kept.to_string())?;
    audit(tx, frame, &call.tenant, request, None)?;
    Ok(answer)
}

/// Records a decision. A denied one is recorded by itself, since its transaction is gone.
pub(crate) fn audit<R: Handle>(
    tx: &mut Tx<'_>,
    frame: &Frame<'_>,
    tenant: &TenantId,
    request: &R,
    denied: Option<&str>,
) -> Result<(), Refusal> {
    let verb = api_types::verb(R::VERB).map_or("", |verb| verb.action);
    let detail = serde_json::json!({ "action": verb, "denied": denied });
    let entry = AuditEntry {
        tenant,
        principal: &frame.caller.principal,
        verb: R::VERB,
        resource: &request.resource(),
        allowed: denied.is_none(),
        request_id: frame.request_id,
        detail: &detail.to_string(),
    };
    Ok(access::audit(tx, &entry)?)
}

/// The tenant acted for. One that is neither the caller's nor below it does not exist for the caller.
fn acting_tenant(tx: &mut Tx<'_>, caller: &Caller, given: Option<&str>) -> Result<TenantId, Refusal> {
    let Some(given) = given.filter(|given| *given != caller.tenant.as_str()) else { return Ok(caller.tenant.clone()) };
    let tenant = TenantId::parse(given).map_err(|_| Refusal::not_found("tenant", given).denied())?;
    if access::is_within(tx, &tenant, &caller.tenant)? {
        return Ok(tenant);
    }
    Err(Refusal::not_found("tenant", given).denied())
}

fn check_key(key: &str) -> Result<(), Refusal> {
    let printable = key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) && printable {
        return Ok(());
    }
    Err(Refusal::invalid(format!("idempotencyKey is 1 to {IDEMPOTENCY_KEY_BYTES_MAX} printable ASCII characters")))
}

/// Key order and spelled-out defaults do not make another request.
fn request_sha256<R: Request>(request: &R) -> Result<[u8; 32], Refusal> {
    let value = to_value(request)?;
    let canonical = stdx::canonical::to_vec(&value).map_err(|error| Refusal::invalid(error.to_string()))?;
    Ok(stdx::hex::sha256(&canonical))
}

fn to_value(value: impl serde::Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::new(ErrorCode::Internal, error.to_string()))
}
