//! The tables of the catalogue. A migration that was released does not change.

/// In order. `ID PRIMARY KEY` is a number that the database gives; lines that begin with `ON POSTGRESQL` are for that database alone.
pub const MIGRATIONS: &[&str] = &[
    ACCOUNTS, RSES, DIDS, REPLICAS, RULES, TRANSFERS, HOPS, COUNTERS, PATHS, COPY_TIMES, LOADS, STREAMS, HELD,
];

/// Accounts, and their identities. Times are milliseconds since the epoch; states are the letters of
/// `weir_model::catalog`.
const ACCOUNTS: &str = "
CREATE TABLE accounts (
    account   TEXT PRIMARY KEY,
    type      TEXT NOT NULL,
    status    TEXT NOT NULL,
    email     TEXT,
    created   BIGINT NOT NULL,
    updated   BIGINT NOT NULL,
    suspended BIGINT,
    deleted   BIGINT
);
CREATE TABLE account_attributes (
    account TEXT NOT NULL REFERENCES accounts,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (account, key)
);
CREATE TABLE identities (
    identity TEXT NOT NULL,
    type     TEXT NOT NULL,
    email    TEXT,
    salt     BYTEA,
    password BYTEA,
    created  BIGINT NOT NULL,
    PRIMARY KEY (identity, type)
);
CREATE TABLE account_identities (
    account    TEXT NOT NULL REFERENCES accounts,
    identity   TEXT NOT NULL,
    type       TEXT NOT NULL,
    is_default BOOLEAN NOT NULL,
    created    BIGINT NOT NULL,
    PRIMARY KEY (identity, type, account),
    FOREIGN KEY (identity, type) REFERENCES identities (identity, type)
);
CREATE INDEX identities_of_account ON account_identities (account);
CREATE TABLE sessions (
    token    BYTEA PRIMARY KEY,
    account  TEXT NOT NULL REFERENCES accounts,
    identity TEXT NOT NULL,
    created  BIGINT NOT NULL,
    expires  BIGINT NOT NULL
);
CREATE INDEX sessions_by_end ON sessions (expires);
CREATE TABLE scopes (
    scope   TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts,
    created BIGINT NOT NULL
);
CREATE INDEX scopes_of_account ON scopes (account);
";

/// Storage elements. `about` and `extended` are JSON objects that are echoed to clients.
const RSES: &str = "
CREATE TABLE rses (
    rse_id        ID PRIMARY KEY,
    uid           TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    type          TEXT NOT NULL,
    deterministic BOOLEAN NOT NULL,
    volatile      BOOLEAN NOT NULL,
    staging_area  BOOLEAN NOT NULL,
    can_read      BOOLEAN NOT NULL,
    can_write     BOOLEAN NOT NULL,
    can_delete    BOOLEAN NOT NULL,
    about         TEXT NOT NULL,
    created       BIGINT NOT NULL,
    updated       BIGINT NOT NULL,
    deleted       BIGINT
);
CREATE UNIQUE INDEX rses_by_name ON rses (name) WHERE deleted IS NULL;
CREATE TABLE rse_attributes (
    rse_id BIGINT NOT NULL REFERENCES rses,
    key    TEXT NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (rse_id, key)
);
CREATE TABLE rse_protocols (
    rse_id     BIGINT NOT NULL REFERENCES rses,
    scheme     TEXT NOT NULL,
    hostname   TEXT NOT NULL,
    port       BIGINT NOT NULL,
    prefix     TEXT NOT NULL,
    impl       TEXT NOT NULL,
    extended   TEXT,
    lan_read   BIGINT,
    lan_write  BIGINT,
    lan_delete BIGINT,
    wan_read   BIGINT,
    wan_write  BIGINT,
    wan_delete BIGINT,
    tpc_read   BIGINT,
    tpc_write  BIGINT,
    PRIMARY KEY (rse_id, scheme, hostname, port)
);
CREATE TABLE rse_limits (
    rse_id BIGINT NOT NULL REFERENCES rses,
    name   TEXT NOT NULL,
    value  BIGINT NOT NULL,
    PRIMARY KEY (rse_id, name)
);
CREATE TABLE rse_usage (
    rse_id  BIGINT NOT NULL REFERENCES rses,
    source  TEXT NOT NULL,
    used    BIGINT NOT NULL,
    free    BIGINT,
    files   BIGINT,
    updated BIGINT NOT NULL,
    PRIMARY KEY (rse_id, source)
);
CREATE TABLE distances (
    source      BIGINT NOT NULL REFERENCES rses,
    destination BIGINT NOT NULL REFERENCES rses,
    distance    BIGINT NOT NULL,
    PRIMARY KEY (source, destination)
);
CREATE INDEX distances_to ON distances (destination);
";

/// Files, datasets and containers. A name is given once: the row of a deleted DID stays. `meta` is a JSON object.
const DIDS: &str = "
CREATE TABLE dids (
    did_id    ID PRIMARY KEY,
    scope     TEXT NOT NULL REFERENCES scopes,
    name      TEXT NOT NULL,
    type      TEXT NOT NULL,
    account   TEXT NOT NULL REFERENCES accounts,
    bytes     BIGINT,
    adler32   TEXT,
    md5       TEXT,
    is_open   BOOLEAN NOT NULL,
    monotonic BOOLEAN NOT NULL,
    meta      TEXT NOT NULL,
    created   BIGINT NOT NULL,
    updated   BIGINT NOT NULL,
    closed    BIGINT,
    expires   BIGINT,
    deleted   BIGINT,
    UNIQUE (scope, name)
);
CREATE TABLE contents (
    parent  BIGINT NOT NULL REFERENCES dids,
    child   BIGINT NOT NULL REFERENCES dids,
    created BIGINT NOT NULL,
    PRIMARY KEY (parent, child)
);
CREATE INDEX contents_by_child ON contents (child);
CREATE TABLE guards (
    name TEXT PRIMARY KEY
);
INSERT INTO guards VALUES ('containers');
";

/// Files at RSEs.
const REPLICAS: &str = "
CREATE TABLE replicas (
    did_id    BIGINT NOT NULL REFERENCES dids,
    rse_id    BIGINT NOT NULL REFERENCES rses,
    bytes     BIGINT NOT NULL,
    state     TEXT NOT NULL,
    n_locks   BIGINT NOT NULL,
    tombstone BIGINT,
    path      TEXT,
    created   BIGINT NOT NULL,
    updated   BIGINT NOT NULL,
    accessed  BIGINT,
    PRIMARY KEY (did_id, rse_id)
);
CREATE INDEX replicas_of_rse ON replicas (rse_id);
CREATE INDEX replicas_to_delete ON replicas (rse_id, tombstone) WHERE tombstone IS NOT NULL;
";

/// Rules with their locks and requests. A rule is due for evaluation at `evaluate_at`; the files of a unit are placed together.
const RULES: &str = "
CREATE TABLE account_limits (
    account TEXT NOT NULL REFERENCES accounts,
    rse_id  BIGINT NOT NULL REFERENCES rses,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (account, rse_id)
);
CREATE TABLE account_usage (
    account TEXT NOT NULL REFERENCES accounts,
    rse_id  BIGINT NOT NULL REFERENCES rses,
    bytes   BIGINT NOT NULL,
    files   BIGINT NOT NULL,
    PRIMARY KEY (account, rse_id)
);
CREATE TABLE rules (
    rule_id           ID PRIMARY KEY,
    uid               TEXT NOT NULL UNIQUE,
    did_id            BIGINT NOT NULL REFERENCES dids,
    account           TEXT NOT NULL REFERENCES accounts,
    state             TEXT NOT NULL,
    expression        TEXT NOT NULL,
    copies            BIGINT NOT NULL,
    grouped           TEXT NOT NULL,
    weight            TEXT,
    source_expression TEXT,
    activity          TEXT NOT NULL,
    priority          BIGINT NOT NULL,
    is_locked         BOOLEAN NOT NULL,
    purge             BOOLEAN NOT NULL,
    notify            TEXT NOT NULL,
    comments          TEXT,
    meta              TEXT,
    n_ok              BIGINT NOT NULL,
    n_replicating     BIGINT NOT NULL,
    n_stuck           BIGINT NOT NULL,
    error             TEXT,
    created           BIGINT NOT NULL,
    updated           BIGINT NOT NULL,
    expires           BIGINT,
    stuck_at          BIGINT,
    child             BIGINT,
    evaluate_at       BIGINT
);
CREATE UNIQUE INDEX rules_once ON rules (did_id, account, expression, copies);
CREATE INDEX rules_of_account ON rules (account);
CREATE INDEX rules_to_evaluate ON rules (evaluate_at) WHERE evaluate_at IS NOT NULL;
CREATE INDEX rules_by_end ON rules (expires) WHERE expires IS NOT NULL;
CREATE TABLE rule_units (
    rule_id BIGINT NOT NULL REFERENCES rules,
    unit    BIGINT NOT NULL REFERENCES dids,
    rse_id  BIGINT NOT NULL REFERENCES rses,
    PRIMARY KEY (rule_id, unit, rse_id)
);
CREATE TABLE locks (
    rule_id BIGINT NOT NULL REFERENCES rules,
    did_id  BIGINT NOT NULL REFERENCES dids,
    rse_id  BIGINT NOT NULL REFERENCES rses,
    PRIMARY KEY (rule_id, did_id, rse_id)
);
CREATE INDEX locks_at ON locks (did_id, rse_id);
CREATE TABLE requests (
    request_id ID PRIMARY KEY,
    did_id     BIGINT NOT NULL,
    rse_id     BIGINT NOT NULL,
    state      TEXT NOT NULL,
    n_failures BIGINT NOT NULL,
    cancel     BOOLEAN NOT NULL,
    not_before BIGINT NOT NULL,
    attempt    BIGINT NOT NULL,
    activity   TEXT NOT NULL,
    priority   BIGINT NOT NULL,
    account    TEXT NOT NULL,
    source     BIGINT,
    job        TEXT,
    reason     TEXT,
    created    BIGINT NOT NULL,
    updated    BIGINT NOT NULL,
    UNIQUE (did_id, rse_id)
);
CREATE INDEX requests_due ON requests (state, not_before);
CREATE INDEX requests_to_cancel ON requests (request_id) WHERE cancel;
";

/// Jobs of requests, and attempts that have ended. `sid` is the name from which the id of a job is derived.
const TRANSFERS: &str = "
CREATE TABLE about (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
ALTER TABLE requests ADD COLUMN service TEXT;
ALTER TABLE requests ADD COLUMN sid TEXT;
ALTER TABLE requests ADD COLUMN submitted BIGINT;
ALTER TABLE requests ADD COLUMN polled BIGINT;
ALTER TABLE requests ADD COLUMN cancelled BIGINT;
CREATE INDEX requests_of_job ON requests (job) WHERE job IS NOT NULL;
CREATE TABLE request_history (
    request_id BIGINT NOT NULL,
    attempt    BIGINT NOT NULL,
    did_id     BIGINT NOT NULL,
    rse_id     BIGINT NOT NULL,
    source     BIGINT,
    state      TEXT NOT NULL,
    service    TEXT,
    job        TEXT,
    reason     TEXT,
    activity   TEXT NOT NULL,
    account    TEXT NOT NULL,
    created    BIGINT NOT NULL,
    submitted  BIGINT,
    ended      BIGINT NOT NULL,
    PRIMARY KEY (request_id, attempt)
);
CREATE INDEX request_history_by_end ON request_history (ended);
CREATE INDEX request_history_of_file ON request_history (did_id, rse_id);
CREATE INDEX dids_by_end ON dids (expires) WHERE expires IS NOT NULL AND deleted IS NULL;
CREATE INDEX rules_stuck ON rules (updated) WHERE state = 'S';
CREATE INDEX replicas_being_deleted ON replicas (rse_id, updated) WHERE state = 'B';
";

/// The RSEs over which a request goes, as numbers with commas between them.
const HOPS: &str = "
ALTER TABLE requests ADD COLUMN hops TEXT;
";

/// Changes of an account's usage are rows of their own, so that two rules of one account need not wait for each other;
/// they are added up later. Foreign keys are not checked for tables whose rows are never deleted, and whose reference
/// was just read. A check for each lock and replica costs PostgreSQL as much as the row itself.
const COUNTERS: &str = "
CREATE TABLE usage_changes (
    change_id ID PRIMARY KEY,
    account   TEXT NOT NULL,
    rse_id    BIGINT NOT NULL,
    bytes     BIGINT NOT NULL,
    files     BIGINT NOT NULL
);
CREATE INDEX usage_changes_of ON usage_changes (account);
ON POSTGRESQL ALTER TABLE dids DROP CONSTRAINT dids_scope_fkey, DROP CONSTRAINT dids_account_fkey;
ON POSTGRESQL ALTER TABLE contents DROP CONSTRAINT contents_parent_fkey, DROP CONSTRAINT contents_child_fkey;
ON POSTGRESQL ALTER TABLE replicas DROP CONSTRAINT replicas_did_id_fkey, DROP CONSTRAINT replicas_rse_id_fkey;
ON POSTGRESQL ALTER TABLE rules DROP CONSTRAINT rules_did_id_fkey, DROP CONSTRAINT rules_account_fkey;
ON POSTGRESQL ALTER TABLE rule_units DROP CONSTRAINT rule_units_rule_id_fkey, DROP CONSTRAINT rule_units_unit_fkey;
ON POSTGRESQL ALTER TABLE rule_units DROP CONSTRAINT rule_units_rse_id_fkey;
ON POSTGRESQL ALTER TABLE locks DROP CONSTRAINT locks_rule_id_fkey, DROP CONSTRAINT locks_did_id_fkey, DROP CONSTRAINT locks_rse_id_fkey;
";

/// A path of an RSE belongs to one file. Earlier versions accepted any path. Of the files that share one, the first
/// keeps `double_of` 0, and the others have their own number there. So `weir catalog check` finds them and the file is
/// not deleted while two have it.
pub(crate) const PATHS: &str = "
ALTER TABLE replicas ADD COLUMN double_of BIGINT NOT NULL DEFAULT 0;
CREATE INDEX replicas_with_paths ON replicas (rse_id, path, did_id) WHERE path IS NOT NULL;
UPDATE replicas SET double_of = did_id WHERE path IS NOT NULL AND EXISTS (SELECT 1 FROM replicas o WHERE o.rse_id = replicas.rse_id
    AND o.path = replicas.path AND o.path IS NOT NULL AND o.did_id < replicas.did_id);
DROP INDEX replicas_with_paths;
CREATE UNIQUE INDEX replicas_by_path ON replicas (rse_id, path, double_of) WHERE path IS NOT NULL;
";

/// When the transfer service began and ended the copy of an attempt, by its clock.
const COPY_TIMES: &str = "
ALTER TABLE request_history ADD COLUMN started BIGINT;
ALTER TABLE request_history ADD COLUMN finished BIGINT;
";

/// Load plans, and the ledger of their cycles. `settings` is a JSON object. A load is due for its next step at `due`. A
/// cycle is open as long as its rule is there; it is counted once its arrivals are in the sums of its load. The second
/// index of replicas is the first one with an order, in which loads go through the files of an RSE.
const LOADS: &str = "
CREATE TABLE loads (
    load_id        ID PRIMARY KEY,
    uid            TEXT NOT NULL UNIQUE,
    account        TEXT NOT NULL,
    source         BIGINT NOT NULL,
    destination    BIGINT NOT NULL,
    scope          TEXT NOT NULL,
    data           BIGINT,
    settings       TEXT NOT NULL,
    state          TEXT NOT NULL,
    starts         BIGINT NOT NULL,
    ends           BIGINT NOT NULL,
    due            BIGINT,
    place          BIGINT NOT NULL,
    n_cycles       BIGINT NOT NULL,
    injected_files BIGINT NOT NULL,
    injected_bytes BIGINT NOT NULL,
    arrived_files  BIGINT NOT NULL,
    arrived_bytes  BIGINT NOT NULL,
    lost_bytes     BIGINT NOT NULL,
    given_up_bytes BIGINT NOT NULL,
    ends_rules     BOOLEAN NOT NULL,
    held           TEXT,
    reason         TEXT,
    stopped        BIGINT,
    created        BIGINT NOT NULL,
    updated        BIGINT NOT NULL
);
CREATE INDEX loads_due ON loads (due) WHERE due IS NOT NULL;
CREATE INDEX loads_of_link ON loads (source, destination);
CREATE TABLE load_cycles (
    load_id        BIGINT NOT NULL,
    cycle          BIGINT NOT NULL,
    asked          BIGINT NOT NULL,
    due_bytes      BIGINT NOT NULL,
    given_up_bytes BIGINT NOT NULL,
    waiting_bytes  BIGINT NOT NULL,
    files          BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    dataset        BIGINT,
    rule_id        BIGINT,
    rule           TEXT,
    held           TEXT,
    reason         TEXT,
    ended          BIGINT,
    arrived_files  BIGINT NOT NULL,
    arrived_bytes  BIGINT NOT NULL,
    counted        BOOLEAN NOT NULL,
    PRIMARY KEY (load_id, cycle)
);
CREATE INDEX load_cycles_open ON load_cycles (load_id) WHERE NOT counted;
CREATE INDEX load_cycles_of_rule ON load_cycles (rule_id) WHERE NOT counted;
CREATE INDEX load_cycles_of_dataset ON load_cycles (dataset) WHERE dataset IS NOT NULL;
INSERT INTO guards VALUES ('loads');
DROP INDEX replicas_of_rse;
CREATE INDEX replicas_of_rse ON replicas (rse_id, did_id);
";

/// The requests that transfer services have are counted by RSE and activity before each submission.
const STREAMS: &str = "
CREATE INDEX requests_in_flight ON requests (rse_id, activity) WHERE state IN ('G', 'S');
";

/// The kind of the reason for which a request was put off, beside its text.
const HELD: &str = "
ALTER TABLE requests ADD COLUMN held TEXT;
";
