//! Values of statements and of rows, the same for both databases.

use bytes::BytesMut;
use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio_postgres::types::{IsNull, ToSql, Type};
use weir_store::StoreError;

/// A value: of a statement's parameter, or of a row's column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Every whole number: columns are 64 bits wide.
    Int(i64),
    /// A number that is not whole.
    Real(f64),
    /// `true` or `false`. SQLite has 1 and 0 for it.
    Bool(bool),
    /// A text. PostgreSQL takes none with a NUL character.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u64> for Value {
    /// Numbers beyond 2^63 do not occur: sizes end at 2^53.
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<char> for Value {
    fn from(letter: char) -> Self {
        Self::Text(letter.to_string())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of a statement's parameters.
#[macro_export]
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        [$($crate::Value::from($value)),*]
    };
}

/// A row: its columns in the order of the statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub(crate) Vec<Value>);

impl Row {
    fn wrong(&self, column: usize, kind: &str) -> StoreError {
        // The value itself may be a secret.
        let found = match self.0.get(column) {
            None => "no column",
            Some(Value::Null) => "null",
            Some(Value::Int(_)) => "a whole number",
            Some(Value::Real(_)) => "a number",
            Some(Value::Bool(_)) => "a truth value",
            Some(Value::Text(_)) => "a text",
            Some(Value::Bytes(_)) => "bytes",
        };
        StoreError::Unreadable(format!("column {column} holds {found} where {kind} belongs"))
    }

    /// A whole number.
    ///
    /// # Errors
    /// Here and below: the column holds something else.
    pub fn int(&self, column: usize) -> Result<i64, StoreError> {
        match self.0.get(column) {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(self.wrong(column, "a whole number")),
        }
    }

    /// A whole number that is not negative.
    pub fn size(&self, column: usize) -> Result<u64, StoreError> {
        u64::try_from(self.int(column)?).map_err(|_| self.wrong(column, "a size"))
    }

    /// A truth value.
    pub fn bool(&self, column: usize) -> Result<bool, StoreError> {
        match self.0.get(column) {
            Some(Value::Bool(value)) => Ok(*value),
            Some(Value::Int(number @ (0 | 1))) => Ok(*number == 1),
            _ => Err(self.wrong(column, "a truth value")),
        }
    }

    /// A text.
    pub fn text(&self, column: usize) -> Result<&str, StoreError> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(self.wrong(column, "a text")),
        }
    }

    /// Bytes.
    pub fn bytes(&self, column: usize) -> Result<&[u8], StoreError> {
        match self.0.get(column) {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            _ => Err(self.wrong(column, "bytes")),
        }
    }

    /// A text that stands for something else, such as a state or a name.
    pub fn parsed<T: std::str::FromStr>(&self, column: usize) -> Result<T, StoreError>
    where
        T::Err: std::fmt::Display,
    {
        let text = self.text(column)?;
        text.parse()
            .map_err(|error| StoreError::Unreadable(format!("column {column}: {error}")))
    }

    /// `None` where the column is null, else the result of `read`.
    pub fn optional<'a, T>(
        &'a self,
        column: usize,
        read: impl FnOnce(&'a Self, usize) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self.0.get(column) {
            Some(Value::Null) => Ok(None),
            _ => read(self, column).map(Some),
        }
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Bool(value) => ValueRef::Integer(i64::from(*value)),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            // A number that a statement compares with a literal has the literal's type.
            Self::Int(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql_checked(ty, out),
            Self::Int(number) => number.to_sql_checked(ty, out),
            Self::Real(number) => number.to_sql_checked(ty, out),
            Self::Bool(value) => value.to_sql_checked(ty, out),
            Self::Text(text) => text.to_sql_checked(ty, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(ty, out),
        }
    }

    /// Each value looks by itself whether its type is the statement's.
    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn columns_are_read_as_what_they_are_and_nothing_else() {
        let row = Row(values![7_i64, "text", true, Option::<i64>::None, vec![1_u8], -1_i64, 1_i64].into());
        assert_eq!(
            (row.int(0).unwrap(), row.text(1).unwrap(), row.bool(2).unwrap()),
            (7, "text", true)
        );
        assert_eq!(
            (row.optional(3, Row::int).unwrap(), row.optional(0, Row::int).unwrap()),
            (None, Some(7))
        );
        assert_eq!((row.bytes(4).unwrap(), row.bool(6).unwrap()), (&[1_u8][..], true));
        let refused = |outcome: Result<u64, StoreError>| outcome.unwrap_err().to_string();
        let expected = "a row of the store cannot be read: column 5 holds a whole number where a size belongs";
        assert_eq!(refused(row.size(5)), expected);
        assert!(refused(row.size(1)).contains("column 1 holds a text"));
        assert!(row.int(9).is_err() && row.bool(0).is_err());
        assert!(row.parsed::<std::net::IpAddr>(1).is_err());
    }
}
