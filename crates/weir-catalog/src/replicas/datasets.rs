//! How much of a collection each RSE holds.

use weir_database::{Row, Session, values};
use weir_model::RseName;
use weir_rules::ids::DidId;
use weir_service::time::Millis;
use weir_store::StoreError;

/// The files of a collection at one RSE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The RSE.
    pub rse: RseName,
    /// The id of the RSE that clients see.
    pub rse_uid: String,
    /// Files that are there.
    pub n_files: u64,
    /// Their size.
    pub bytes: u64,
    /// When the first one was registered, and when one last changed.
    pub times: (Millis, Millis),
}

/// The RSEs that hold files of a collection, however deep, by name.
///
/// # Errors
/// The database fails.
pub fn of(session: &mut dyn Session, collection: DidId) -> Result<Vec<Held>, StoreError> {
    let text = "WITH RECURSIVE below (id) AS (SELECT child FROM contents WHERE parent = $1
        UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id)
        SELECT r.name, r.uid, CAST(sum(CASE WHEN p.state = 'A' THEN 1 ELSE 0 END) AS BIGINT),
        CAST(sum(CASE WHEN p.state = 'A' THEN p.bytes ELSE 0 END) AS BIGINT), min(p.created), max(p.updated)
        FROM below b JOIN replicas p ON p.did_id = b.id JOIN rses r ON r.rse_id = p.rse_id WHERE r.deleted IS NULL
        GROUP BY r.name, r.uid ORDER BY r.name";
    let held = |row: &Row| {
        Ok(Held {
            rse: row.parsed(0)?,
            rse_uid: row.text(1)?.to_owned(),
            n_files: row.size(2)?,
            bytes: row.size(3)?,
            times: (row.int(4)?, row.int(5)?),
        })
    };
    session.query(text, &values![collection.0])?.iter().map(held).collect()
}
