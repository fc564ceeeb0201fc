-- Who may do what, where machines stand, and what makes a retried request the same request.
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE tenants (
    id TEXT PRIMARY KEY,
    parent_id TEXT REFERENCES tenants (id),
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX tenants_parent ON tenants (parent_id);

CREATE TABLE principals (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX principals_tenant ON principals (tenant_id, id);

-- `bct_<id>.<secret>`: only the hash of the secret is kept.
CREATE TABLE api_tokens (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    principal_id TEXT NOT NULL REFERENCES principals (id),
    name TEXT NOT NULL,
    secret_sha256 BLOB NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    created_at BIGINT NOT NULL
);
CREATE INDEX api_tokens_tenant ON api_tokens (tenant_id, id);

-- Kept for good.
CREATE TABLE idempotency (
    tenant_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    verb TEXT NOT NULL,
    key TEXT NOT NULL,
    request_sha256 BLOB NOT NULL,
    response TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, principal_id, verb, key)
);

CREATE TABLE audit (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    at BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    verb TEXT NOT NULL,
    resource TEXT NOT NULL,
    allowed BIGINT NOT NULL,
    request_id TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX audit_tenant ON audit (tenant_id, n);

CREATE TABLE sites (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    name TEXT,
    kind TEXT NOT NULL,
    region TEXT NOT NULL,
    iam_region TEXT,
    dedicated_tenant_id TEXT REFERENCES tenants (id),
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);

CREATE TABLE pools (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    site_id TEXT NOT NULL REFERENCES sites (id),
    name TEXT NOT NULL,
    policy TEXT NOT NULL,
    tenant_controlled BIGINT NOT NULL,
    adoption TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (site_id, name)
);
CREATE INDEX pools_tenant ON pools (tenant_id, id);

CREATE TABLE join_tokens (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    site_id TEXT NOT NULL REFERENCES sites (id),
    pool_id TEXT NOT NULL REFERENCES pools (id),
    role TEXT NOT NULL,
    secret_sha256 BLOB NOT NULL,
    uses_max BIGINT NOT NULL,
    uses BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    expect_mac TEXT,
    allow_reclaim BIGINT NOT NULL,
    revoked_at BIGINT,
    created_at BIGINT NOT NULL
);
CREATE INDEX join_tokens_tenant ON join_tokens (tenant_id, id);
