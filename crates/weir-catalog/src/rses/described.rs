//! RSEs with their attributes, as expressions select them.

use std::collections::BTreeMap;

use weir_database::{Row, Session, values};
use weir_rules::{
    expression::{Attributes, Expression, ExpressionError},
    ids::RseId,
};
use weir_store::StoreError;

use super::{COLUMNS, Rse, attributes, rse};
use crate::refusal::{Class, Refusal};

/// An RSE with its attributes, to which expressions apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The RSE.
    pub rse: Rse,
    /// Its attributes, without its name.
    pub attributes: BTreeMap<String, String>,
}

impl Attributes for Described {
    fn attribute(&self, key: &str) -> Option<&str> {
        let own = (key == self.rse.name.as_str()).then_some("true");
        own.or_else(|| self.attributes.get(key).map(String::as_str))
    }
}

/// All RSEs with their attributes, by name.
pub fn list(session: &mut dyn Session) -> Result<Vec<Described>, StoreError> {
    let mut attributes = attributes::all(session)?;
    let text = format!("SELECT {COLUMNS} FROM rses WHERE deleted IS NULL ORDER BY name");
    let described = |row: &Row| {
        let rse = rse(row)?;
        let attributes = attributes.remove(&rse.id).unwrap_or_default();
        Ok(Described { rse, attributes })
    };
    session.query(&text, &[])?.iter().map(described).collect()
}

/// An RSE by its number, with its attributes, if it is not deleted.
pub fn by_number(session: &mut dyn Session, id: RseId) -> Result<Option<Described>, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM rses WHERE rse_id = $1 AND deleted IS NULL");
    let Some(row) = session.row(&text, &values![id.0])? else {
        return Ok(None);
    };
    Ok(Some(Described {
        rse: rse(&row)?,
        attributes: attributes::of(session, id)?,
    }))
}

/// The RSEs that an expression means, by name; at least one.
///
/// # Errors
/// [`Class::InvalidRseExpression`]: it cannot be read, or means none.
pub fn matching(session: &mut dyn Session, expression: &str) -> Result<Vec<Described>, StoreError> {
    let invalid = |message: String| Refusal::new(Class::InvalidRseExpression, message);
    let read = expression.parse::<Expression>();
    let read = read.map_err(|error: ExpressionError| invalid(error.to_string()))?;
    let mut all = list(session)?;
    all.retain(|rse| read.matches(rse));
    if all.is_empty() {
        let message = format!("RSE Expression resulted in an empty set: {read}");
        return Err(invalid(message).into());
    }
    Ok(all)
}
