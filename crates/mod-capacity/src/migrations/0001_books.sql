-- What nodes have, who has booked it, and the reservations that ask for it.

-- The node's resource row: locked last by a placement.
CREATE TABLE capacity_nodes (
    node_id TEXT PRIMARY KEY REFERENCES nodes (id),
    inventory_digest TEXT NOT NULL,
    gpu_driver BIGINT NOT NULL,
    numa TEXT NOT NULL,
    vcpu_total BIGINT NOT NULL,
    vcpu_booked BIGINT NOT NULL,
    memory_total BIGINT NOT NULL,
    memory_booked BIGINT NOT NULL,
    hugepages_total BIGINT NOT NULL,
    hugepages_booked BIGINT NOT NULL,
    -- The newest generation whose devices came from these books.
    spec_generation BIGINT NOT NULL,
    -- What the node last said it holds, and when; NULL before it did.
    holds TEXT,
    holds_at BIGINT
);

-- Guard rows: locked in the order of their UUIDs, before anything of the GPU is booked.
CREATE TABLE capacity_gpus (
    node_id TEXT NOT NULL REFERENCES capacity_nodes (node_id),
    uuid TEXT NOT NULL,
    numa BIGINT,
    mig BIGINT NOT NULL,
    present BIGINT NOT NULL,
    -- The node that has it booked although this one lists it.
    elsewhere TEXT,
    guard TEXT NOT NULL CHECK (guard IN ('free', 'whole', 'parts')),
    -- Booked parts; 0 unless the guard says `parts`.
    parts BIGINT NOT NULL,
    PRIMARY KEY (node_id, uuid)
);
CREATE INDEX capacity_gpus_uuid ON capacity_gpus (uuid);

CREATE TABLE capacity_instances (
    node_id TEXT NOT NULL,
    atom_id TEXT NOT NULL,
    uuid TEXT NOT NULL,
    profile TEXT NOT NULL,
    present BIGINT NOT NULL,
    PRIMARY KEY (node_id, atom_id),
    FOREIGN KEY (node_id, uuid) REFERENCES capacity_gpus (node_id, uuid)
);

CREATE TABLE capacity_reservations (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    principal_id TEXT NOT NULL,
    pool_id TEXT NOT NULL REFERENCES pools (id),
    request TEXT NOT NULL,
    may_wait BIGINT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    -- The allocation in force; NULL while none is.
    allocation_id TEXT,
    -- Placements so far.
    attempt BIGINT NOT NULL,
    -- Not looked at before, whatever changes.
    not_before BIGINT NOT NULL,
    -- Looked at again then, or as soon as the pool's revision is another.
    recheck_at BIGINT NOT NULL,
    checked_revision BIGINT NOT NULL,
    -- What quotas count.
    gpus BIGINT NOT NULL,
    migs BIGINT NOT NULL,
    slots BIGINT NOT NULL,
    vcpu BIGINT NOT NULL,
    memory_gib BIGINT NOT NULL,
    hugepages_1gi BIGINT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    active_at BIGINT,
    over_at BIGINT
);
CREATE INDEX capacity_reservations_pending ON capacity_reservations (n) WHERE state = 'pending';
CREATE INDEX capacity_reservations_live ON capacity_reservations (tenant_id) WHERE over_at IS NULL;
CREATE INDEX capacity_reservations_tenant ON capacity_reservations (tenant_id, n);
CREATE INDEX capacity_reservations_pool ON capacity_reservations (pool_id, n);

-- One reservation on one node. `ended_at` NULL: it is booked.
CREATE TABLE capacity_allocations (
    id TEXT PRIMARY KEY,
    reservation_id TEXT NOT NULL REFERENCES capacity_reservations (id),
    node_id TEXT NOT NULL REFERENCES capacity_nodes (node_id),
    attempt BIGINT NOT NULL,
    binding TEXT NOT NULL,
    devices TEXT NOT NULL,
    vcpu BIGINT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    hugepages_1gi BIGINT NOT NULL,
    -- NULL where nothing of the host is booked.
    cpus TEXT,
    mems TEXT,
    -- Whether the node's spec is to name it.
    wanted BIGINT NOT NULL,
    -- What reports have said.
    bound BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    last_generation BIGINT NOT NULL,
    cdi_devices TEXT NOT NULL,
    -- The first generation that names it, and the first that does not any more.
    spec_generation BIGINT,
    drop_generation BIGINT,
    -- Since when the node has observed it and said nothing.
    silent_since BIGINT,
    created_at BIGINT NOT NULL,
    bound_at BIGINT,
    ended_at BIGINT,
    ended_by TEXT
);
CREATE INDEX capacity_allocations_node ON capacity_allocations (node_id, id) WHERE ended_at IS NULL;
CREATE INDEX capacity_allocations_reservation ON capacity_allocations (reservation_id, attempt);
CREATE INDEX capacity_allocations_dropping ON capacity_allocations (id) WHERE ended_at IS NULL AND wanted = 0;
CREATE INDEX capacity_allocations_unbound ON capacity_allocations (id)
    WHERE ended_at IS NULL AND wanted = 1 AND bound = 0;

-- Booked atoms: the key is what keeps one atom out of two bookings.
CREATE TABLE capacity_atoms (
    node_id TEXT NOT NULL,
    atom_id TEXT NOT NULL,
    uuid TEXT NOT NULL,
    class TEXT NOT NULL,
    allocation_id TEXT NOT NULL REFERENCES capacity_allocations (id),
    PRIMARY KEY (node_id, atom_id),
    FOREIGN KEY (node_id, uuid) REFERENCES capacity_gpus (node_id, uuid)
);
CREATE INDEX capacity_atoms_allocation ON capacity_atoms (allocation_id);
CREATE INDEX capacity_atoms_gpu ON capacity_atoms (node_id, uuid);

-- Nodes where a reservation failed, kept out of its way for a while.
CREATE TABLE capacity_avoided (
    reservation_id TEXT NOT NULL REFERENCES capacity_reservations (id),
    node_id TEXT NOT NULL,
    failures BIGINT NOT NULL,
    until BIGINT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (reservation_id, node_id)
);

-- Reports that wait for the verifier, as received.
CREATE TABLE capacity_reports (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    node_id TEXT NOT NULL REFERENCES nodes (id),
    allocation_id TEXT NOT NULL REFERENCES capacity_allocations (id),
    kind TEXT NOT NULL,
    sig_body BLOB,
    sig_kid TEXT,
    sig_chain BLOB,
    sig_signature BLOB,
    at BIGINT NOT NULL
);
CREATE INDEX capacity_reports_allocation ON capacity_reports (allocation_id, n);

-- The most a tenant and its descendants may have at once.
CREATE TABLE capacity_quotas (
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    resource TEXT NOT NULL,
    most BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, resource)
);

-- Rises with every change that may let a waiting reservation through.
CREATE TABLE capacity_pools (
    pool_id TEXT PRIMARY KEY REFERENCES pools (id),
    revision BIGINT NOT NULL
);
