//! Distances: which RSEs have a link, and how far they are from each other.

use weir_database::{Session, values};
use weir_rules::{ids::RseId, sources::Links};
use weir_store::StoreError;

use super::rse_id;
use crate::refusal::{Class, Refusal};

/// Sets the distance of a link, which is there from then on.
pub fn set(session: &mut dyn Session, source: RseId, destination: RseId, distance: u32) -> Result<(), StoreError> {
    let text = "INSERT INTO distances (source, destination, distance) VALUES ($1, $2, $3)
        ON CONFLICT (source, destination) DO UPDATE SET distance = excluded.distance";
    session
        .execute(text, &values![source.0, destination.0, distance])
        .map(drop)
}

/// The distance of a link; `None` if there is no link.
pub fn get(session: &mut dyn Session, source: RseId, destination: RseId) -> Result<Option<u32>, StoreError> {
    let text = "SELECT distance FROM distances WHERE source = $1 AND destination = $2";
    let row = session.row(text, &values![source.0, destination.0])?;
    row.map(|row| Ok(row.size(0)? as u32)).transpose()
}

/// Takes a link away.
///
/// # Errors
/// [`Class::RseAttributeNotFound`].
pub fn remove(session: &mut dyn Session, source: RseId, destination: RseId) -> Result<(), StoreError> {
    let text = "DELETE FROM distances WHERE source = $1 AND destination = $2";
    if session.execute(text, &values![source.0, destination.0])? == 0 {
        return Err(Refusal::new(Class::RseAttributeNotFound, "There is no distance between these RSEs").into());
    }
    Ok(())
}

/// All links, without hops.
pub fn all(session: &mut dyn Session) -> Result<Links, StoreError> {
    let mut links = Links::default();
    for row in session.query("SELECT source, destination, distance FROM distances", &[])? {
        links.set(rse_id(&row, 0)?, rse_id(&row, 1)?, row.size(2)? as u32);
    }
    Ok(links)
}
