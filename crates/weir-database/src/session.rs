//! The operations of a transaction.

use weir_store::StoreError;

use super::value::{Row, Value};

/// Begins a line of a migration that is not for SQLite.
pub(crate) const POSTGRESQL_ONLY: &str = "ON POSTGRESQL ";

/// The operations of a transaction. Statements are prepared once for each text.
pub trait Session {
    /// The rows of a query.
    ///
    /// # Errors
    /// Here and below: the database refuses the statement, or cannot work.
    fn query(&mut self, text: &str, values: &[Value]) -> Result<Vec<Row>, StoreError>;

    /// The rows of a query for each of many values, in their order. A lock of rows is taken in that order too.
    fn query_many(&mut self, text: &str, many: &[Vec<Value>]) -> Result<Vec<Row>, StoreError>;

    /// The rows of a query whose joins look each row up by an index. A freely planned query that begins with a few
    /// rows reads whole tables instead, as long as these are small.
    fn query_by_index(&mut self, text: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.query(text, values)
    }

    /// Executes a statement: how many rows it changed.
    fn execute(&mut self, text: &str, values: &[Value]) -> Result<u64, StoreError>;

    /// Executes a statement for each of many values: how many rows it changed in all.
    fn execute_many(&mut self, text: &str, many: &[Vec<Value>]) -> Result<u64, StoreError>;

    /// As [`Self::execute`], for statements whose count is not needed: executed at the latest at the end of the
    /// transaction, before each later statement. Its error may be reported by a later statement.
    fn execute_later(&mut self, text: &str, many: Vec<Vec<Value>>) -> Result<(), StoreError>;

    /// The only row, if there is one.
    fn row(&mut self, text: &str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(text, values)?.into_iter().next())
    }
}

/// The body of one transaction. It runs again from its beginning after a deadlock.
pub trait Work<T>: Fn(&mut dyn Session) -> Result<T, StoreError> + Send + 'static {}
