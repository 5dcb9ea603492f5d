//! Tables, and how an older database becomes a newer one.

/// Migrations, in order; the database's `user_version` counts the applied ones. Never change a released one.
pub(super) const MIGRATIONS: &[&str] = &[
    FIRST,
    CLAIMS,
    MOVED,
    HISTORY,
    TAPE,
    SECRETS,
    RENEWALS,
    URLS,
    DESTINATIONS,
    LISTED,
    DISTINCT,
    COUNTED,
    FIRST_BYTE,
    WAITS,
];

/// Hot and cold columns of a file share a row: one insert per file at submission. Ids of a job's files are consecutive, so
/// `first_file` and `n_files` find them, and the only index on `files` holds the live ones.
const FIRST: &str = "
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta VALUES ('epoch', 0), ('next_file', 1);

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE tokens (
    token_no   INTEGER PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    sealed     BLOB NOT NULL,
    first_seen INTEGER NOT NULL
);

CREATE TABLE jobs (
    job_no     INTEGER PRIMARY KEY,
    job_id     BLOB NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    state      INTEGER NOT NULL,
    user_dn    TEXT NOT NULL,
    cred_id    TEXT NOT NULL,
    vo         TEXT NOT NULL,
    priority   INTEGER NOT NULL,
    submitted  INTEGER NOT NULL,
    expires    INTEGER,
    finished   INTEGER,
    reason     TEXT,
    cancelled  INTEGER NOT NULL DEFAULT 0,
    source_se  TEXT,
    dest_se    TEXT,
    params     TEXT NOT NULL,
    metadata   TEXT,
    first_file INTEGER NOT NULL,
    n_files    INTEGER NOT NULL,
    n_started  INTEGER NOT NULL DEFAULT 0,
    n_finished INTEGER NOT NULL DEFAULT 0,
    n_failed   INTEGER NOT NULL DEFAULT 0,
    n_canceled INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX jobs_live ON jobs (job_no) WHERE finished IS NULL;
CREATE INDEX jobs_expiring ON jobs (expires) WHERE finished IS NULL AND expires IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (finished) WHERE finished IS NOT NULL;

CREATE TABLE files (
    file_id    INTEGER PRIMARY KEY,
    job_no     INTEGER NOT NULL,
    state      INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    epoch      INTEGER,
    first_start INTEGER,
    started    INTEGER,
    finished   INTEGER,
    stopping   INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0,
    free_retries INTEGER NOT NULL DEFAULT 0,
    resume     INTEGER NOT NULL DEFAULT 0,
    filesize   INTEGER,
    moved      INTEGER NOT NULL DEFAULT 0,
    mode       TEXT,
    reason     TEXT,
    class      TEXT,
    party      TEXT,
    phase      TEXT,
    remedy     TEXT,
    again      INTEGER,
    source     TEXT NOT NULL,
    dest       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    size       INTEGER,
    activity   TEXT NOT NULL,
    strategy   TEXT NOT NULL,
    scitag     INTEGER,
    metadata   TEXT,
    staging    TEXT,
    archive    TEXT,
    src_token  INTEGER,
    dst_token  INTEGER
);
CREATE INDEX files_live ON files (file_id) WHERE finished IS NULL;

CREATE TABLE attempts (
    file_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    ended   INTEGER NOT NULL,
    reason  TEXT NOT NULL,
    PRIMARY KEY (file_id, attempt)
) WITHOUT ROWID;
";

/// See [`weir_executor::job::Claim`].
const CLAIMS: &str = "
ALTER TABLE files ADD COLUMN claim_since INTEGER;
ALTER TABLE files ADD COLUMN claim_until INTEGER;
";

/// Bytes of all attempts; for older rows only the bytes of the newest attempt are known.
const MOVED: &str = "
ALTER TABLE files ADD COLUMN moved_total INTEGER NOT NULL DEFAULT 0;
UPDATE files SET moved_total = moved;
";

/// Ended jobs leave `jobs` and `files` for `history` (its columns are those of `jobs`, in the same order) and
/// `history_files` (packs of files). Live files are found by the ids of their jobs: an index of them would be written
/// twice for each. `n_refs` counts the live files that name a token.
const HISTORY: &str = "
CREATE TABLE history (
    job_no     INTEGER PRIMARY KEY,
    job_id     BLOB NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    state      INTEGER NOT NULL,
    user_dn    TEXT NOT NULL,
    cred_id    TEXT NOT NULL,
    vo         TEXT NOT NULL,
    priority   INTEGER NOT NULL,
    submitted  INTEGER NOT NULL,
    expires    INTEGER,
    finished   INTEGER NOT NULL,
    reason     TEXT,
    cancelled  INTEGER NOT NULL,
    source_se  TEXT,
    dest_se    TEXT,
    params     TEXT NOT NULL,
    metadata   TEXT,
    first_file INTEGER NOT NULL,
    n_files    INTEGER NOT NULL,
    n_started  INTEGER NOT NULL,
    n_finished INTEGER NOT NULL,
    n_failed   INTEGER NOT NULL,
    n_canceled INTEGER NOT NULL
);
CREATE INDEX history_finished ON history (finished);
CREATE INDEX history_cred ON history (cred_id, job_no);

CREATE TABLE history_files (
    first_file INTEGER PRIMARY KEY,
    files      TEXT NOT NULL
);

DROP INDEX files_live;
ALTER TABLE tokens ADD COLUMN n_refs INTEGER NOT NULL DEFAULT 0;
UPDATE tokens SET n_refs = n FROM (
    SELECT token, count(*) AS n FROM (SELECT src_token AS token FROM files UNION ALL SELECT dst_token FROM files)
    GROUP BY token) AS used WHERE used.token = token_no;
";

/// Tape operations of a file, and whether its pin is still to be released: a table of its own, as few files need it.
const TAPE: &str = "
CREATE TABLE tape (
    file_id          INTEGER PRIMARY KEY,
    staging_start    INTEGER,
    staging_finished INTEGER,
    archive_start    INTEGER,
    archive_finished INTEGER,
    request          TEXT,
    pinned           INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX tape_pinned ON tape (file_id) WHERE pinned;
ALTER TABLE jobs ADD COLUMN n_archiving INTEGER NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN n_archiving INTEGER NOT NULL DEFAULT 0;
";

/// See [`crate::store::Kept`]: delegated proxies, and keys of delegations that are under way.
const SECRETS: &str = "
CREATE TABLE secrets (
    name   TEXT PRIMARY KEY,
    sealed BLOB NOT NULL,
    until  INTEGER NOT NULL
) WITHOUT ROWID;
";

/// See [`crate::store::Renewal`]. `due`: when the token is to be exchanged, if it still is; `first_file` and `last_file`: where the files
/// are that name it.
const RENEWALS: &str = "
CREATE TABLE renewals (
    token_no   INTEGER PRIMARY KEY,
    expires    INTEGER NOT NULL,
    due        INTEGER,
    first_file INTEGER NOT NULL,
    last_file  INTEGER NOT NULL,
    sealed     BLOB
);
CREATE INDEX renewals_due ON renewals (due) WHERE due IS NOT NULL;
";

/// Sealed queries of URLs: see `store::urls`.
const URLS: &str = "
CREATE TABLE urls (
    file_id INTEGER PRIMARY KEY,
    source  BLOB,
    dest    BLOB
);
";

/// The transfer that a destination was last reserved for, where a VO wants one writer for each. A row whose transfer
/// has ended is replaced by the next, so that ends of transfers need not look here.
const DESTINATIONS: &str = "
CREATE TABLE destinations (
    file_id INTEGER PRIMARY KEY,
    name    BLOB NOT NULL UNIQUE
);
";

/// A user's own jobs, live and ended, are listed without a look at other users' jobs, for tokens and certificates
/// alike.
const LISTED: &str = "
CREATE INDEX jobs_of ON jobs (user_dn, job_no);
CREATE INDEX history_of ON history (user_dn, job_no);
DROP INDEX history_cred;
";

/// For jobs with a token for each file: the renewal state of each token is in its row, which is found by the first
/// bytes of its hash. Hashes are in no order, so each submission writes to pages all over their index, and its entries
/// are small. No two rows have one hash, as there is one writer. `renewed`: there is a row in `renewals`, which holds
/// only the issuer's tokens.
const DISTINCT: &str = "
CREATE TABLE distinct_tokens (
    token_no   INTEGER PRIMARY KEY,
    hash       BLOB NOT NULL,
    sealed     BLOB NOT NULL,
    first_seen INTEGER NOT NULL,
    n_refs     INTEGER NOT NULL,
    expires    INTEGER,
    due        INTEGER,
    first_file INTEGER,
    last_file  INTEGER,
    renewed    INTEGER NOT NULL DEFAULT 0
);
INSERT INTO distinct_tokens
    SELECT t.token_no, t.hash, t.sealed, t.first_seen, t.n_refs, r.expires, r.due, r.first_file, r.last_file, r.sealed IS NOT NULL
    FROM tokens t LEFT JOIN renewals r USING (token_no);
CREATE TABLE given (
    token_no INTEGER PRIMARY KEY,
    sealed   BLOB NOT NULL
);
INSERT INTO given SELECT token_no, sealed FROM renewals WHERE sealed IS NOT NULL;
DROP TABLE tokens;
DROP TABLE renewals;
ALTER TABLE distinct_tokens RENAME TO tokens;
ALTER TABLE given RENAME TO renewals;
CREATE INDEX tokens_named ON tokens (substr(hash, 1, 4));
CREATE INDEX tokens_due ON tokens (due) WHERE due IS NOT NULL;
";

/// Bytes that the service saw moving in a copy that succeeded, without sizes that it looked up.
const COUNTED: &str = "ALTER TABLE files ADD COLUMN counted INTEGER;";

/// How long the first byte of data of a copy that succeeded took: not known of files of before.
const FIRST_BYTE: &str = "ALTER TABLE files ADD COLUMN first_byte INTEGER;";

/// The time that the newest attempt spent in each state, as [`weir_world::Waits`] writes itself: not known of files of before.
const WAITS: &str = "ALTER TABLE files ADD COLUMN waits TEXT;";
