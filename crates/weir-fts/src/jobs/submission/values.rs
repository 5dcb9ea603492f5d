//! JSON as Python clients write it: flags as strings, numbers as strings, null for "not said".

use serde_json::{Map, Value, value::RawValue};

use super::Refusal;

pub(super) type Object = Map<String, Value>;

/// The value, unless it is missing or null.
pub(super) fn get<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// `null`, `[]`, `{}`, `""`, `false`.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        _ => false,
    }
}

/// `true`, `1`, `"Y..."`: yes.
pub(super) fn flag(object: &Object, key: &str) -> bool {
    match get(object, key) {
        Some(Value::Bool(yes)) => *yes,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => text.starts_with(['Y', 'y']),
        Some(Value::Array(_) | Value::Object(_) | Value::Null) | None => false,
    }
}

/// A whole number, also written as a string or as a float without fraction.
pub(super) fn integer(object: &Object, key: &str) -> Result<Option<i64>, Refusal> {
    let Some(value) = get(object, key) else { return Ok(None) };
    as_integer(value)
        .map(Some)
        .ok_or_else(|| Refusal::invalid(format!("'{key}' is not a number ({})", brief(value))))
}

pub(super) fn as_integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            number
                .as_f64()
                .filter(|f| f.fract() == 0.0 && f.abs() < 9e15)
                .map(|f| f as i64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(yes) => Some(i64::from(*yes)),
        _ => None,
    }
}

/// A string of printable characters; an empty one counts as not said.
pub(super) fn text(object: &Object, key: &str) -> Result<Option<String>, Refusal> {
    match get(object, key) {
        None => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text.contains(char::is_control) => {
            Err(Refusal::invalid(format!("'{key}' holds a control character")))
        }
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(Refusal::invalid(format!("'{key}' is not a string ({})", brief(other)))),
    }
}

/// A span of time: a number counts `unit` seconds each; a string may end in `s`, `m`, `h` or `d`.
pub(super) fn seconds(object: &Object, key: &str, unit: i64) -> Result<Option<i64>, Refusal> {
    let Some(value) = get(object, key) else { return Ok(None) };
    let wrong = || Refusal::invalid(format!("'{key}' is not a time ({})", brief(value)));
    let (digits, factor) = match value {
        Value::String(text) => {
            let text = text.trim();
            match text.as_bytes().last() {
                Some(b's') => (&text[..text.len() - 1], 1),
                Some(b'm') => (&text[..text.len() - 1], 60),
                Some(b'h') => (&text[..text.len() - 1], 3600),
                Some(b'd') => (&text[..text.len() - 1], 86_400),
                _ => (text, unit),
            }
        }
        other => {
            let number = as_integer(other).ok_or_else(wrong)?;
            return Ok(Some(number.saturating_mul(unit)));
        }
    };
    let number = digits.trim().parse::<i64>().map_err(|_| wrong())?;
    Ok(Some(number.saturating_mul(factor)))
}

/// Metadata: an object as it is; a string that holds one is read; any other string becomes `{"label": ...}` unless
/// `object_only`.
pub(super) fn metadata(
    value: Option<&Value>,
    name: &str,
    limit: usize,
    object_only: bool,
) -> Result<Option<Box<RawValue>>, Refusal> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let object = match value {
        Value::Object(_) => value.clone(),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ Value::Object(_)) => inner,
            _ if object_only => return Err(Refusal::invalid(format!("{name} not in JSON format"))),
            Ok(inner) if !inner.is_string() && !inner.is_null() => inner,
            _ => serde_json::json!({ "label": text }),
        },
        _ if object_only => return Err(Refusal::invalid(format!("{name} not in JSON format"))),
        other => serde_json::json!({ "label": other.to_string() }),
    };
    let text = object.to_string();
    if text.len() > limit {
        return Err(Refusal::invalid(format!(
            "{name} is {} bytes, at most {limit} are taken",
            text.len()
        )));
    }
    RawValue::from_string(text).map(Some).map_err(Refusal::malformed)
}

/// The beginning of a value, for a message.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(40).collect()
}
