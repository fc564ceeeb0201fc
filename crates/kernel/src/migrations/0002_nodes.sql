-- Nodes, their certificates, their sessions, and the gateways that hold them.
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    site_id TEXT NOT NULL REFERENCES sites (id),
    pool_id TEXT NOT NULL REFERENCES pools (id),
    role TEXT NOT NULL,
    lifecycle TEXT NOT NULL,
    revoked_at BIGINT,
    revoked_reason TEXT,
    hardware_key TEXT,
    product_uuid TEXT NOT NULL,
    product_serial TEXT NOT NULL,
    next_cmd_seq BIGINT NOT NULL,
    applied_generation BIGINT NOT NULL,
    applied_spec_hash TEXT NOT NULL,
    observed_generation BIGINT NOT NULL,
    hostname TEXT NOT NULL,
    daemon_version TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    status TEXT,
    status_at BIGINT,
    inventory BLOB,
    inventory_digest TEXT NOT NULL,
    inventory_at BIGINT,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX nodes_tenant ON nodes (tenant_id, id);
CREATE INDEX nodes_pool ON nodes (pool_id);
CREATE UNIQUE INDEX nodes_hardware_key ON nodes (hardware_key)
    WHERE hardware_key IS NOT NULL AND revoked_at IS NULL AND lifecycle <> 'retired';

CREATE TABLE join_token_uses (
    token_id TEXT NOT NULL REFERENCES join_tokens (id),
    csr_sha256 BLOB NOT NULL,
    node_id TEXT NOT NULL REFERENCES nodes (id),
    used_at BIGINT NOT NULL,
    PRIMARY KEY (token_id, csr_sha256)
);

CREATE TABLE node_certificates (
    serial TEXT PRIMARY KEY,
    node_id TEXT NOT NULL REFERENCES nodes (id),
    der BLOB NOT NULL,
    spki BLOB NOT NULL,
    not_after BIGINT NOT NULL,
    issued_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX node_certificates_node ON node_certificates (node_id, issued_at);
CREATE INDEX node_certificates_expiry ON node_certificates (not_after);

CREATE TABLE gateways (
    id TEXT PRIMARY KEY,
    started_at BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL
);

-- One row a node: its newest session, open or closed.
CREATE TABLE node_sessions (
    node_id TEXT PRIMARY KEY REFERENCES nodes (id),
    session_epoch BIGINT NOT NULL,
    gateway_id TEXT NOT NULL,
    state TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    journal_id TEXT NOT NULL,
    journal_since BIGINT NOT NULL,
    resign_due BIGINT NOT NULL,
    acked_event_seq BIGINT NOT NULL,
    certificate_serial TEXT NOT NULL,
    certificate_not_after BIGINT NOT NULL,
    allowed_kinds TEXT NOT NULL,
    upgrade_required BIGINT NOT NULL,
    connected_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    lost_since BIGINT,
    end_code TEXT
);
CREATE INDEX node_sessions_open ON node_sessions (gateway_id, node_id) WHERE state <> 'closed';
CREATE INDEX node_sessions_resign ON node_sessions (node_id) WHERE resign_due = 1;

-- What was stored of the journals a node had before, for a session of an older process that comes late.
CREATE TABLE node_journals (
    node_id TEXT NOT NULL REFERENCES nodes (id),
    journal_id TEXT NOT NULL,
    acked_event_seq BIGINT NOT NULL,
    replaced_at BIGINT NOT NULL,
    PRIMARY KEY (node_id, journal_id)
);

CREATE TABLE node_event_gaps (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    node_id TEXT NOT NULL REFERENCES nodes (id),
    journal_id TEXT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX node_event_gaps_node ON node_event_gaps (node_id, n);

CREATE TABLE join_requests (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    csr_sha256 BLOB NOT NULL,
    request BLOB NOT NULL,
    answer BLOB,
    created_at BIGINT NOT NULL,
    answered_at BIGINT
);
CREATE INDEX join_requests_waiting ON join_requests (n) WHERE answer IS NULL;
