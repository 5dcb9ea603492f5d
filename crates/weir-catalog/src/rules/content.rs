//! The locks that a rule should have, as SQL: parts of statements that depend on its grouping.
//!
//! A rule is placed in units: its DID with grouping `ALL`, datasets with `DATASET`, files with `NONE`. Each unit has its RSEs in `rule_units`.
//! Parameter `$1` is the rule, `$2` its DID.

use weir_model::catalog::Grouping;

/// The DIDs below the rule's DID, that one too; where units are datasets, the files in them are not needed.
fn below(grouping: Grouping) -> &'static str {
    match grouping {
        Grouping::All | Grouping::None => {
            "WITH RECURSIVE below (id) AS (SELECT CAST($2 AS BIGINT)
             UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id)"
        }
        Grouping::Dataset => {
            "WITH RECURSIVE below (id) AS (SELECT CAST($2 AS BIGINT)
             UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id
             WHERE (SELECT p.type FROM dids p WHERE p.did_id = b.id) = 'C')"
        }
    }
}

/// The lock is there already.
const IS_MADE: &str = "SELECT 1 FROM locks l WHERE l.rule_id = $1 AND l.did_id = w.file AND l.rse_id = w.rse";

/// The size of the file of a lock.
const SIZE: &str = "SELECT d.bytes FROM dids d WHERE d.did_id = w.file";

/// The locks that should be: file and RSE.
fn wanted(grouping: Grouping) -> &'static str {
    match grouping {
        Grouping::All => {
            "SELECT d.did_id AS file, u.rse_id AS rse FROM below b JOIN dids d ON d.did_id = b.id AND d.type = 'F'
             CROSS JOIN rule_units u WHERE u.rule_id = $1"
        }
        Grouping::Dataset => {
            "SELECT c.child AS file, u.rse_id AS rse FROM rule_units u JOIN contents c ON c.parent = u.unit
             WHERE u.rule_id = $1 AND u.unit IN (SELECT id FROM below)
             UNION SELECT u.unit, u.rse_id FROM rule_units u JOIN dids d ON d.did_id = u.unit AND d.type = 'F'
             WHERE u.rule_id = $1 AND u.unit IN (SELECT id FROM below)"
        }
        Grouping::None => {
            "SELECT u.unit AS file, u.rse_id AS rse FROM rule_units u WHERE u.rule_id = $1 AND u.unit IN (SELECT id FROM below)"
        }
    }
}

/// Locks to make: file, RSE and size of the file, at most `$3`, in order.
pub(super) fn missing(grouping: Grouping) -> String {
    format!(
        "{}, wanted (file, rse) AS ({}) SELECT w.file, w.rse, ({SIZE}) FROM wanted w WHERE NOT EXISTS ({IS_MADE})
         ORDER BY w.file, w.rse LIMIT $3",
        below(grouping),
        wanted(grouping)
    )
}

/// The locks of file `$4` and of files after it that should be, at most `$3`, in order, and whether each is there. Files before it are not
/// looked at again. Fewer than `$3` may be given where datasets share files.
pub(super) fn onward(grouping: Grouping) -> String {
    let wanted = match grouping {
        Grouping::Dataset => {
            // One look at the content, which ends early.
            "SELECT DISTINCT file, rse FROM (SELECT c.child AS file, u.rse_id AS rse FROM rule_units u JOIN contents c ON c.parent = u.unit
             WHERE u.rule_id = $1 AND c.child >= $4 AND u.unit IN (SELECT id FROM below) ORDER BY c.child, u.rse_id LIMIT $3) AS f"
                .to_owned()
        }
        _ => format!(
            "SELECT file, rse FROM ({}) AS f WHERE file >= $4 ORDER BY file, rse LIMIT $3",
            wanted(grouping)
        ),
    };
    format!(
        "{}, wanted (file, rse) AS ({wanted}) SELECT w.file, w.rse, ({SIZE}), EXISTS ({IS_MADE}) FROM wanted w ORDER BY w.file, w.rse",
        below(grouping)
    )
}

/// The last file that has a lock.
pub(super) const LAST: &str = "SELECT max(did_id) FROM locks WHERE rule_id = $1";

/// Locks to release: file, RSE and size of the file, at most `$3`, in order.
pub(super) fn surplus(grouping: Grouping) -> String {
    format!(
        "{}, wanted (file, rse) AS ({}) SELECT l.did_id, l.rse_id, d.bytes FROM locks l JOIN dids d ON d.did_id = l.did_id
         WHERE l.rule_id = $1 AND (l.did_id, l.rse_id) NOT IN (SELECT file, rse FROM wanted) ORDER BY 1, 2 LIMIT $3",
        below(grouping),
        wanted(grouping)
    )
}

/// All locks: file, RSE and size of the file, at most `$2`, in order.
pub(super) const HELD: &str = "SELECT l.did_id, l.rse_id, d.bytes FROM locks l JOIN dids d ON d.did_id = l.did_id
    WHERE l.rule_id = $1 ORDER BY 1, 2 LIMIT $2";

/// Units that have no RSEs yet, at most `$3`, in order, and whether each is a file.
pub(super) fn unplaced(grouping: Grouping) -> String {
    let is_unit = match grouping {
        Grouping::All => "id = $2",
        // A rule on a file has no dataset.
        Grouping::Dataset => "CASE kind WHEN 'D' THEN TRUE WHEN 'F' THEN id = $2 END",
        Grouping::None => "kind = 'F'",
    };
    format!(
        "{} SELECT id, kind = 'F' FROM (SELECT b.id, (SELECT d.type FROM dids d WHERE d.did_id = b.id) AS kind FROM below b) AS u
         WHERE {is_unit} AND id NOT IN (SELECT u.unit FROM rule_units u WHERE u.rule_id = $1) ORDER BY id LIMIT $3",
        below(grouping)
    )
}

/// The same as [`COLLECTION`] of a unit that is a file.
pub(super) const FILE: &str = "SELECT CAST(NULL AS BIGINT), coalesce(bytes, 0) FROM dids WHERE did_id = $1
    UNION ALL SELECT rse_id, bytes FROM replicas WHERE did_id = $1 AND state IN ('A', 'C') ORDER BY 1 NULLS FIRST";

/// The size of the files of a unit, which is `$1`, without an RSE; and by RSE the bytes that are there or on their way.
pub(super) const COLLECTION: &str = "WITH RECURSIVE below (id) AS (SELECT CAST($1 AS BIGINT)
    UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id)
    SELECT CAST(NULL AS BIGINT), CAST(coalesce(sum(d.bytes), 0) AS BIGINT) FROM below b JOIN dids d ON d.did_id = b.id AND d.type = 'F'
    UNION ALL SELECT p.rse_id, CAST(sum(p.bytes) AS BIGINT) FROM below b JOIN replicas p ON p.did_id = b.id
    WHERE p.state IN ('A', 'C') GROUP BY p.rse_id ORDER BY 1 NULLS FIRST";
