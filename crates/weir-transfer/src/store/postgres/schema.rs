//! Tables, and how an older database becomes a newer one.

/// Migrations, in order; the table `schema_version` counts the applied ones. Never change a released one.
pub(super) const MIGRATIONS: &[&str] = &[
    FIRST,
    NODES,
    TAPE,
    SECRETS,
    RENEWALS,
    URLS,
    DESTINATIONS,
    LISTED,
    DISTINCT,
    HOLDINGS,
    HOSTS,
    TERMS,
    COUNTED,
    FIRST_BYTE,
    WAITS,
];

/// As in SQLite: the number of a job is the id of its first file, and ids of its files are consecutive. `files` has no
/// index but that of the ids. So a change of state writes into the page of its row and nowhere else (`fillfactor`).
///
/// `scheduler` has one row: the current leader, and the last batch that was written (see
/// `weir_store::postgres::Election`).
const FIRST: &str = "
CREATE TABLE scheduler (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch  bigint NOT NULL,
    holder text NOT NULL,
    until  timestamptz NOT NULL,
    batch  bigint NOT NULL,
    mark   bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);
INSERT INTO scheduler VALUES (true, 0, '', '-infinity', 0, 0);

CREATE TABLE ids (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    next_file bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);
INSERT INTO ids VALUES (true, 1);

CREATE TABLE settings (
    key   text COLLATE \"C\" PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE tokens (
    token_no   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash       bytea NOT NULL UNIQUE,
    sealed     bytea NOT NULL,
    first_seen bigint NOT NULL,
    n_refs     bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE jobs (
    job_no     bigint PRIMARY KEY,
    job_id     uuid NOT NULL UNIQUE,
    kind       text NOT NULL,
    state      smallint NOT NULL DEFAULT 0,
    user_dn    text NOT NULL,
    cred_id    text NOT NULL,
    vo         text NOT NULL,
    priority   smallint NOT NULL,
    submitted  bigint NOT NULL,
    expires    bigint,
    finished   bigint,
    reason     text,
    cancelled  boolean NOT NULL DEFAULT false,
    source_se  text,
    dest_se    text,
    params     text NOT NULL,
    metadata   text,
    n_files    bigint NOT NULL,
    n_started  bigint NOT NULL DEFAULT 0,
    n_finished bigint NOT NULL DEFAULT 0,
    n_failed   bigint NOT NULL DEFAULT 0,
    n_canceled bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX jobs_live ON jobs (job_no) WHERE finished IS NULL;
CREATE INDEX jobs_expiring ON jobs (expires) WHERE finished IS NULL AND expires IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (finished) WHERE finished IS NOT NULL;

CREATE TABLE files (
    file_id      bigint PRIMARY KEY,
    job_no       bigint NOT NULL,
    not_before   bigint NOT NULL DEFAULT 0,
    moved        bigint NOT NULL DEFAULT 0,
    moved_total  bigint NOT NULL DEFAULT 0,
    epoch        bigint,
    first_start  bigint,
    started      bigint,
    finished     bigint,
    size         bigint,
    filesize     bigint,
    src_token    bigint,
    dst_token    bigint,
    claim_since  bigint,
    claim_until  bigint,
    attempts     integer NOT NULL DEFAULT 0,
    scitag       integer,
    state        smallint NOT NULL DEFAULT 0,
    failures     smallint NOT NULL DEFAULT 0,
    free_retries smallint NOT NULL DEFAULT 0,
    stopping     boolean NOT NULL DEFAULT false,
    resume       boolean NOT NULL DEFAULT false,
    again        boolean,
    source       text NOT NULL,
    dest         text NOT NULL,
    checksum     text NOT NULL,
    activity     text NOT NULL,
    strategy     text NOT NULL,
    metadata     text,
    staging      text,
    archive      text,
    mode         text,
    reason       text,
    class        text,
    party        text,
    phase        text,
    remedy       text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.5);

CREATE TABLE attempts (
    file_id bigint NOT NULL,
    attempt integer NOT NULL,
    ended   bigint NOT NULL,
    reason  text NOT NULL,
    PRIMARY KEY (file_id, attempt)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE history (LIKE jobs INCLUDING DEFAULTS, PRIMARY KEY (job_no), UNIQUE (job_id));
CREATE INDEX history_finished ON history (finished);
CREATE INDEX history_cred ON history (cred_id, job_no);

CREATE TABLE history_files (
    first_file bigint PRIMARY KEY,
    files      text NOT NULL
);
";

/// Several nodes on one database. These rows concern the moment: if all of them were lost, the scheduler would order
/// the running operations again.
///
/// - `nodes`: one row per living process; `epoch`: it has stopped the operations of all older ones.
/// - `arrivals`: jobs submitted at a node that does not schedule, until the scheduler knows them.
/// - `leases`: operations that run at other nodes, until their end is known.
/// - `relays`: requests that only the scheduler can answer, and answers. Unlogged: no client waits through a crash.
const NODES: &str = "
CREATE TABLE nodes (
    node   uuid PRIMARY KEY,
    name   text NOT NULL,
    url    text NOT NULL,
    role   text NOT NULL,
    slots  integer NOT NULL,
    epoch  bigint NOT NULL,
    until  timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE arrivals (job_no bigint PRIMARY KEY) WITH (autovacuum_vacuum_threshold = 1000);

CREATE TABLE leases (
    file_id bigint PRIMARY KEY,
    attempt integer NOT NULL,
    epoch   bigint NOT NULL,
    node    uuid NOT NULL,
    op      text NOT NULL,
    taken   boolean NOT NULL DEFAULT false,
    stop    boolean NOT NULL DEFAULT false,
    moved   bigint,
    report  text
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 1000);
CREATE INDEX leases_new ON leases (node) WHERE NOT taken;
CREATE INDEX leases_stop ON leases (node) WHERE stop;
CREATE INDEX leases_done ON leases (epoch) WHERE report IS NOT NULL;

CREATE UNLOGGED TABLE relays (
    relay_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asked    timestamptz NOT NULL DEFAULT clock_timestamp(),
    request  text NOT NULL,
    body     bytea NOT NULL,
    response text,
    answer   bytea
);
";

/// Tape operations of a file, and whether its pin is still to be released: a table of its own, as few files need it.
const TAPE: &str = "
CREATE TABLE tape (
    file_id          bigint PRIMARY KEY,
    staging_start    bigint,
    staging_finished bigint,
    archive_start    bigint,
    archive_finished bigint,
    request          text,
    pinned           boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX tape_pinned ON tape (file_id) WHERE pinned;
ALTER TABLE jobs ADD COLUMN n_archiving bigint NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN n_archiving bigint NOT NULL DEFAULT 0;
";

/// See [`crate::store::Kept`]: delegated proxies, and keys of delegations that are under way.
const SECRETS: &str = "
CREATE TABLE secrets (
    name   text COLLATE \"C\" PRIMARY KEY,
    sealed bytea NOT NULL,
    until  bigint NOT NULL
);
";

/// See [`crate::store::Renewal`], and the same table in SQLite. `claimed`: until when a node has the right to ask the issuer.
const RENEWALS: &str = "
CREATE TABLE renewals (
    token_no   bigint PRIMARY KEY,
    expires    bigint NOT NULL,
    due        bigint,
    first_file bigint NOT NULL,
    last_file  bigint NOT NULL,
    claimed    bigint,
    sealed     bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX renewals_due ON renewals (due) WHERE due IS NOT NULL;
";

/// Sealed queries of URLs: see `store::urls`.
const URLS: &str = "
CREATE TABLE urls (
    file_id bigint PRIMARY KEY,
    source  bytea,
    dest    bytea
);
";

/// The transfer that a destination was last reserved for, where a VO wants one writer for each. A row whose transfer
/// has ended is replaced by the next, so that ends of transfers need not look here.
const DESTINATIONS: &str = "
CREATE TABLE destinations (
    file_id bigint PRIMARY KEY,
    name    bytea NOT NULL UNIQUE
);
";

/// As in SQLite.
const LISTED: &str = "
CREATE INDEX jobs_of ON jobs (user_dn, job_no);
CREATE INDEX history_of ON history (user_dn, job_no);
DROP INDEX history_cred;
";

/// As in SQLite: one row less for each token. The index of their hashes stays whole, as several nodes write.
const DISTINCT: &str = "
ALTER TABLE tokens ADD COLUMN expires bigint, ADD COLUMN due bigint, ADD COLUMN first_file bigint, ADD COLUMN last_file bigint,
    ADD COLUMN renewed boolean NOT NULL DEFAULT false;
UPDATE tokens t SET expires = r.expires, due = r.due, first_file = r.first_file, last_file = r.last_file, renewed = r.sealed IS NOT NULL
    FROM renewals r WHERE r.token_no = t.token_no;
ALTER TABLE renewals DROP COLUMN expires, DROP COLUMN due, DROP COLUMN first_file, DROP COLUMN last_file;
CREATE INDEX tokens_due ON tokens (due) WHERE due IS NOT NULL;
";

/// The scheduler's holdings, published with its heartbeats (JSON): with them doors estimate the free room without a
/// request.
const HOLDINGS: &str = "ALTER TABLE nodes ADD COLUMN holds text;";

/// The host of the node that copied.
const HOSTS: &str = "ALTER TABLE files ADD COLUMN host text;";

/// Seconds for which a node counts as living after a heartbeat, measured by the other node's clock.
const TERMS: &str = "ALTER TABLE nodes ADD COLUMN term float8 NOT NULL DEFAULT 8;";

/// Bytes that the service saw moving in a copy that succeeded, without sizes that it looked up.
const COUNTED: &str = "ALTER TABLE files ADD COLUMN counted bigint;";

/// How long the first byte of data of a copy that succeeded took: not known of files of before.
const FIRST_BYTE: &str = "ALTER TABLE files ADD COLUMN first_byte bigint;";

/// The time that the newest attempt spent in each state, as [`weir_world::Waits`] writes itself: not known of files of before.
const WAITS: &str = "ALTER TABLE files ADD COLUMN waits text;";
