-- What changed, for whoever must hear of it, and who holds which controller.
CREATE TABLE outbox (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    position BIGINT UNIQUE,
    topic TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX outbox_unsequenced ON outbox (n) WHERE position IS NULL;

-- One row: the newest position given out, and the newest that is no longer kept.
CREATE TABLE outbox_positions (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    last BIGINT NOT NULL,
    pruned BIGINT NOT NULL
);
INSERT INTO outbox_positions (one, last, pruned) VALUES (1, 0, 0);

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    fence BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
