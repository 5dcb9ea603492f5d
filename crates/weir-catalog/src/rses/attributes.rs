//! Attributes of RSEs: RSE expressions match them, and some change how the catalogue treats an RSE.

use std::collections::BTreeMap;

use weir_database::{Session, values};
use weir_rules::ids::RseId;
use weir_store::StoreError;

use super::rse_id;
use crate::refusal::{Class, Refusal};

/// Sets an attribute.
pub fn set(session: &mut dyn Session, rse: RseId, key: &str, value: &str) -> Result<(), StoreError> {
    let text = "INSERT INTO rse_attributes (rse_id, key, value) VALUES ($1, $2, $3)
        ON CONFLICT (rse_id, key) DO UPDATE SET value = excluded.value";
    session.execute(text, &values![rse.0, key, value]).map(drop)
}

/// Takes an attribute away.
///
/// # Errors
/// [`Class::RseAttributeNotFound`].
pub fn remove(session: &mut dyn Session, rse: RseId, key: &str) -> Result<(), StoreError> {
    let text = "DELETE FROM rse_attributes WHERE rse_id = $1 AND key = $2";
    if session.execute(text, &values![rse.0, key])? == 0 {
        let message = format!("RSE attribute '{key}' cannot be found");
        return Err(Refusal::new(Class::RseAttributeNotFound, message).into());
    }
    Ok(())
}

/// The attributes of an RSE, without its name.
pub fn of(session: &mut dyn Session, rse: RseId) -> Result<BTreeMap<String, String>, StoreError> {
    let rows = session.query(
        "SELECT key, value FROM rse_attributes WHERE rse_id = $1",
        &values![rse.0],
    )?;
    rows.iter()
        .map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))
        .collect()
}

/// The attributes of all RSEs.
pub(super) fn all(session: &mut dyn Session) -> Result<BTreeMap<RseId, BTreeMap<String, String>>, StoreError> {
    let mut all = BTreeMap::<_, BTreeMap<_, _>>::new();
    for row in session.query("SELECT rse_id, key, value FROM rse_attributes", &[])? {
        let of = all.entry(rse_id(&row, 0)?).or_default();
        of.insert(row.text(1)?.to_owned(), row.text(2)?.to_owned());
    }
    Ok(all)
}
