-- What people and controllers say of a node beside its lifecycle.
CREATE TABLE node_labels (
    node_id TEXT NOT NULL REFERENCES nodes (id),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (node_id, name)
);

CREATE TABLE node_cordons (
    node_id TEXT NOT NULL REFERENCES nodes (id),
    owner TEXT NOT NULL,
    reason TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (node_id, owner, reason)
);
