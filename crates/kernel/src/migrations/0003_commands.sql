-- Commands and what became of them. Partial indexes keep every periodic query flat in idle nodes and
-- in settled commands; the statements repeat their conditions word for word.
CREATE TABLE commands (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    node_id TEXT NOT NULL REFERENCES nodes (id),
    tenant_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    lane TEXT NOT NULL,
    state TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request_sha256 BLOB NOT NULL,
    retry_safe BIGINT NOT NULL,
    self_terminating BIGINT NOT NULL,
    attested BIGINT NOT NULL,
    destructive BIGINT NOT NULL,
    min_generation BIGINT NOT NULL,
    workflow_id TEXT NOT NULL,
    step_id TEXT NOT NULL,
    traceparent TEXT NOT NULL,
    batch_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    issued_at BIGINT NOT NULL,
    not_before BIGINT NOT NULL,
    not_after BIGINT NOT NULL,
    times_out_at BIGINT NOT NULL,
    -- Signed once, sent byte for byte.
    body BLOB NOT NULL,
    kid TEXT NOT NULL,
    chain BLOB NOT NULL,
    signature BLOB NOT NULL,
    -- Delivery.
    attempt BIGINT NOT NULL DEFAULT 0,
    busy_count BIGINT NOT NULL DEFAULT 0,
    session_epoch BIGINT,
    dispatched_boot_id TEXT,
    dispatched_journal_id TEXT,
    dispatched_at BIGINT,
    acked_at BIGINT,
    running_at BIGINT,
    -- Cancel.
    cancel_requested_at BIGINT,
    cancel_reason TEXT,
    cancel_sent_epoch BIGINT,
    -- Outcome. `awaiting` is 1 while an attested result waits for the verifier.
    awaiting BIGINT NOT NULL DEFAULT 0,
    reported_outcome TEXT,
    result BLOB,
    result_boot_id TEXT,
    result_at BIGINT,
    node_sig_body BLOB,
    node_sig_kid TEXT,
    node_sig_chain BLOB,
    node_sig_signature BLOB,
    attestation TEXT NOT NULL,
    code TEXT NOT NULL DEFAULT '',
    settled_at BIGINT,
    UNIQUE (node_id, seq),
    UNIQUE (node_id, idempotency_key)
);
CREATE INDEX commands_tenant ON commands (tenant_id, n);
CREATE INDEX commands_node ON commands (node_id, n);
CREATE INDEX commands_pending ON commands (node_id, lane, seq) WHERE state = 'pending';
CREATE INDEX commands_pending_expiry ON commands (not_after) WHERE state = 'pending';
CREATE INDEX commands_in_flight ON commands (node_id, lane, seq)
    WHERE state IN ('dispatched', 'acked', 'running') AND awaiting = 0;
CREATE INDEX commands_in_flight_timeout ON commands (times_out_at)
    WHERE state IN ('dispatched', 'acked', 'running') AND awaiting = 0;
CREATE INDEX commands_cancelling ON commands (node_id, seq)
    WHERE state IN ('dispatched', 'acked', 'running') AND awaiting = 0 AND cancel_requested_at IS NOT NULL;
CREATE INDEX commands_awaiting ON commands (n) WHERE awaiting = 1;
CREATE INDEX commands_settled ON commands (settled_at) WHERE settled_at IS NOT NULL;

-- Output too large for a result, by content.
CREATE TABLE blobs (
    sha256 TEXT NOT NULL,
    command_id TEXT NOT NULL,
    node_id TEXT NOT NULL REFERENCES nodes (id),
    size BIGINT NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (sha256, command_id)
);
CREATE INDEX blobs_stored ON blobs (stored_at);
CREATE INDEX blobs_command ON blobs (command_id);
