//! Statements for many rows as one statement of PostgreSQL: a column of all rows is an array, and `unnest` makes rows
//! of the arrays.
//!
//! A query stands behind `LATERAL` and ends with `OFFSET 0`, so that it is asked for each row in their order. Joined
//! freely, the planner turns the two round as long as it has no statistics of a table. It then reads the table as a
//! whole, and the arrays again for each row of it.

use std::fmt::Write as _;

use tokio_postgres::types::Type;
use weir_store::{StoreError, postgres::Owned};

use crate::Value;

/// The statement for many rows of values, made from that for one. `None`: it has another form than a query, `INSERT`,
/// `UPDATE … WHERE` or `DELETE … WHERE`, or a parameter of another type than columns have.
pub(crate) fn statement(text: &str, types: &[Type]) -> Option<String> {
    let rows = rows(types)?;
    let columns = with_columns(text);
    if let Some((head, tail)) = columns
        .split_once(" VALUES (")
        .filter(|_| columns.starts_with("INSERT"))
    {
        let end = closing(tail)?;
        return Some(format!(
            "{head} SELECT {} FROM {rows}{}",
            &tail[..end],
            &tail[end + 1..]
        ));
    }
    let (first, rest) = columns.split_once(' ')?;
    Some(match first {
        "SELECT" | "WITH" => format!("SELECT s.* FROM {rows}, LATERAL ({columns} OFFSET 0) AS s"),
        "INSERT" => {
            let (head, select) = rest.split_once(" SELECT ")?;
            let (select, tail) = match select.split_once(" ON CONFLICT ") {
                Some((select, tail)) => (select, format!(" ON CONFLICT {tail}")),
                None => (select, String::new()),
            };
            format!("INSERT {head} SELECT s.* FROM {rows}, LATERAL (SELECT {select} OFFSET 0) AS s{tail}")
        }
        "UPDATE" => {
            let (before, after) = columns.split_once(" WHERE ")?;
            format!("{before} FROM {rows} WHERE {after}")
        }
        "DELETE" => {
            let (before, after) = columns.split_once(" WHERE ")?;
            format!("{before} USING {rows} WHERE {after}")
        }
        _ => return None,
    })
}

/// `unnest($1::bigint[], $2::text[]) AS v(c1, c2)`.
fn rows(types: &[Type]) -> Option<String> {
    let (mut arrays, mut names) = (String::new(), String::new());
    for (at, ty) in types.iter().enumerate() {
        let (comma, n) = (if at == 0 { "" } else { ", " }, at + 1);
        let _ = write!(arrays, "{comma}${n}::{}[]", name(ty)?);
        let _ = write!(names, "{comma}c{n}");
    }
    (!types.is_empty()).then(|| format!("unnest({arrays}) AS v({names})"))
}

fn name(ty: &Type) -> Option<&'static str> {
    Some(match *ty {
        Type::INT8 => "bigint",
        Type::INT4 => "integer",
        Type::FLOAT8 => "double precision",
        Type::BOOL => "boolean",
        Type::TEXT | Type::VARCHAR => "text",
        Type::BYTEA => "bytea",
        _ => return None,
    })
}

/// The text with `v.c1` for `$1`, in one line. Statements have no `$` but for parameters.
fn with_columns(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('$', "v.c")
}

/// The place of the bracket that closes the one before this text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, one) in text.char_indices() {
        match one {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The columns of rows, as arrays of these types.
pub(crate) fn arrays(many: &[Vec<Value>], types: &[Type]) -> Result<Vec<Owned>, StoreError> {
    let array = |(at, ty): (usize, &Type)| {
        let values = many.iter().map(move |row| row.get(at).unwrap_or(&Value::Null));
        let wrong = |value: &Value| StoreError::Broken(format!("{value:?} is no value of the type {ty}").into());
        Ok::<Owned, StoreError>(match *ty {
            Type::INT8 => Box::new(
                column(values, |value| match value {
                    Value::Int(number) => Some(*number),
                    _ => None,
                })
                .map_err(wrong)?,
            ),
            Type::INT4 => Box::new(
                column(values, |value| match value {
                    Value::Int(number) => i32::try_from(*number).ok(),
                    _ => None,
                })
                .map_err(wrong)?,
            ),
            Type::FLOAT8 => Box::new(
                column(values, |value| match value {
                    Value::Real(number) => Some(*number),
                    _ => None,
                })
                .map_err(wrong)?,
            ),
            Type::BOOL => Box::new(
                column(values, |value| match value {
                    Value::Bool(value) => Some(*value),
                    _ => None,
                })
                .map_err(wrong)?,
            ),
            Type::BYTEA => Box::new(
                column(values, |value| match value {
                    Value::Bytes(bytes) => Some(bytes.clone()),
                    _ => None,
                })
                .map_err(wrong)?,
            ),
            _ => Box::new(
                column(values, |value| match value {
                    Value::Text(text) => Some(text.clone()),
                    _ => None,
                })
                .map_err(wrong)?,
            ),
        })
    };
    types.iter().enumerate().map(array).collect()
}

/// A column of one type. Fails with the first value of another one.
fn column<'a, T>(
    values: impl Iterator<Item = &'a Value>,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<Option<T>>, &'a Value> {
    values
        .map(|value| match value {
            Value::Null => Ok(None),
            value => read(value).map(Some).ok_or(value),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_each_form_take_rows() {
        let two = [Type::INT8, Type::TEXT];
        let bulk = |text| statement(text, &two);
        let rows = "unnest($1::bigint[], $2::text[]) AS v(c1, c2)";
        let expected = |text: &str| Some(text.replace("ROWS", rows));
        assert_eq!(
            bulk("INSERT INTO t (a, b, c)\n        VALUES ($1, coalesce($2, 'x'), $1) ON CONFLICT (a) DO NOTHING"),
            expected(
                "INSERT INTO t (a, b, c) SELECT v.c1, coalesce(v.c2, 'x'), v.c1 FROM ROWS ON CONFLICT (a) DO NOTHING"
            )
        );
        assert_eq!(
            bulk("INSERT INTO t (a) SELECT d.a FROM d WHERE d.a = $1 AND d.b = $2"),
            expected(
                "INSERT INTO t (a) SELECT s.* FROM ROWS, LATERAL (SELECT d.a FROM d WHERE d.a = v.c1 AND d.b = v.c2 OFFSET 0) AS s"
            )
        );
        assert_eq!(
            bulk("INSERT INTO t (a) SELECT d.a FROM d WHERE d.a = $1 ON CONFLICT (a) DO NOTHING"),
            expected(
                "INSERT INTO t (a) SELECT s.* FROM ROWS, LATERAL (SELECT d.a FROM d WHERE d.a = v.c1 OFFSET 0) AS s \
                 ON CONFLICT (a) DO NOTHING"
            )
        );
        assert_eq!(
            bulk("SELECT d.a FROM d WHERE d.a = $1 AND d.b = $2 FOR UPDATE OF d"),
            expected(
                "SELECT s.* FROM ROWS, LATERAL (SELECT d.a FROM d WHERE d.a = v.c1 AND d.b = v.c2 FOR UPDATE OF d OFFSET 0) AS s"
            )
        );
        assert_eq!(
            bulk("UPDATE t SET b = $2 WHERE a = $1"),
            expected("UPDATE t SET b = v.c2 FROM ROWS WHERE a = v.c1")
        );
        assert_eq!(
            bulk("DELETE FROM t WHERE a = $1 AND b = $2"),
            expected("DELETE FROM t USING ROWS WHERE a = v.c1 AND b = v.c2")
        );
        assert_eq!(bulk("LOCK TABLE t"), None);
        assert_eq!(statement("DELETE FROM t WHERE a = $1", &[Type::JSON]), None);
    }
}
