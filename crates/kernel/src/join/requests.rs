//! Requests on their way from a gateway to the join service and back: opaque bytes both ways, since
//! the gateway can open neither.

use crate::db::{Hint, StoreError, Tx, args};

/// Requests that may wait at once; a gateway answers more with "try again".
pub const REQUESTS_WAITING_MAX: u32 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Join,
    Renew,
}

impl JoinKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Renew => "renew",
        }
    }
}

/// A request that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    pub id: u64,
    pub kind: JoinKind,
    pub csr_sha256: [u8; 32],
    pub request: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("{REQUESTS_WAITING_MAX} joins and renewals wait already")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Leaves a request for the join service. Returns the id its answer will be under.
pub fn join_request_put(
    tx: &mut Tx<'_>,
    kind: JoinKind,
    csr_sha256: &[u8; 32],
    request: &[u8],
) -> Result<u64, PutError> {
    let sql = "SELECT 1 FROM join_requests WHERE answer IS NULL LIMIT 1 OFFSET ?1";
    if tx.exists(sql, args![REQUESTS_WAITING_MAX - 1])? {
        return Err(PutError::TooMany);
    }
    let now = tx.now()?;
    let id = tx.query_one(
        "INSERT INTO join_requests (kind, csr_sha256, request, created_at) VALUES (?1, ?2, ?3, ?4) RETURNING n",
        args![kind.name(), csr_sha256, request, now],
        |row| row.take(),
    )?;
    tx.hint(Hint::Join);
    Ok(id)
}

/// Up to `limit` requests without an answer, oldest first. They stay until [`join_answer`].
pub fn join_requests_take(tx: &mut Tx<'_>, limit: u32) -> Result<Vec<JoinRequest>, StoreError> {
    tx.query(
        "SELECT n, kind, csr_sha256, request FROM join_requests WHERE answer IS NULL ORDER BY n LIMIT ?1",
        args![limit],
        |row| {
            let id = row.take()?;
            let kind: String = row.take()?;
            let kind = [JoinKind::Join, JoinKind::Renew].into_iter().find(|known| known.name() == kind);
            let kind = kind.ok_or_else(|| StoreError::Corrupt(format!("the kind of join request {id}")))?;
            Ok(JoinRequest { id, kind, csr_sha256: row.take()?, request: row.take()? })
        },
    )
}

/// Answers a request; a second answer changes nothing.
pub fn join_answer(tx: &mut Tx<'_>, id: u64, answer: &[u8]) -> Result<(), StoreError> {
    let now = tx.now()?;
    tx.execute(
        "UPDATE join_requests SET answer = ?2, answered_at = ?3 WHERE n = ?1 AND answer IS NULL",
        args![id, answer, now],
    )?;
    tx.hint(Hint::Join);
    Ok(())
}

/// The answer to a request, once there is one.
pub fn join_answer_get(tx: &mut Tx<'_>, id: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let answer = tx.query_opt("SELECT answer FROM join_requests WHERE n = ?1", args![id], |row| row.take())?;
    Ok(answer.flatten())
}
