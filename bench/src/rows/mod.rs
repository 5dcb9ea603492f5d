//! The rows: the work, the contenders, and the timing of a round.

mod bulk;
mod copies;
mod names;
mod row;
mod small;

use crate::lab::Lab;
pub(crate) use row::Row;
pub(crate) use row::shuffled;
use row::{Side, empty};

/// Every row, in the order of the table.
pub(crate) fn all(lab: &Lab) -> Vec<Row> {
    let rows = [bulk::rows(lab), copies::rows(lab), small::rows(lab), names::rows(lab)];
    rows.into_iter().flatten().collect()
}
