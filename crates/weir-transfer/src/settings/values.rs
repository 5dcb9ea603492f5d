//! Values in administrators' requests: numbers that may come as text, rates, names of storage elements.

use serde_json::{Map, Value};
use weir_executor::surl::{Scheme, Surl};
use weir_units::BitRate;

/// The problem of a setting, for the administrator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

/// A JSON object.
pub type Object = Map<String, Value>;
pub(super) type Checked<T> = Result<T, Invalid>;

pub(super) fn invalid<T>(why: impl Into<String>) -> Checked<T> {
    Err(Invalid(why.into()))
}

/// A value that is there and not null.
pub(super) fn given<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// A whole number, also as text: old clients quote them.
pub(super) fn integer(object: &Object, key: &str) -> Checked<Option<i64>> {
    let Some(value) = given(object, key) else {
        return Ok(None);
    };
    let read = value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
    match read {
        Some(number) => Ok(Some(number)),
        None => invalid(format!("{key} must be an integer, not {value}")),
    }
}

/// A whole number, from 0 to the largest that the core can count.
pub(super) fn count(object: &Object, key: &str) -> Checked<Option<u32>> {
    match integer(object, key)? {
        None => Ok(None),
        Some(number) => match u32::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => invalid(format!("{key} must be between 0 and {}, not {number}", u32::MAX)),
        },
    }
}

/// As [`count()`]; 0 and less are nothing, as in FTS3's limits of storage elements.
pub(super) fn positive(object: &Object, key: &str) -> Checked<Option<u32>> {
    match integer(object, key)? {
        Some(number) if number > 0 => count(object, key),
        _ => Ok(None),
    }
}

/// A number, also as text; never infinite.
pub(super) fn number(object: &Object, key: &str) -> Checked<Option<f64>> {
    let Some(value) = given(object, key) else {
        return Ok(None);
    };
    let read = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    match read.filter(|number: &f64| number.is_finite()) {
        Some(number) => Ok(Some(number)),
        None => invalid(format!("{key} must be a number, not {value}")),
    }
}

/// A yes or no.
pub(super) fn flag(object: &Object, key: &str) -> Checked<Option<bool>> {
    let Some(value) = given(object, key) else {
        return Ok(None);
    };
    match yes_or_no(value) {
        Some(flag) => Ok(Some(flag)),
        None => invalid(format!("{key} must be true or false, not {value}")),
    }
}

/// A yes or no, also as forms write it, which have no booleans.
pub fn yes_or_no(value: &Value) -> Option<bool> {
    let text = match value {
        Value::Bool(flag) => return Some(*flag),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "y" | "on" => Some(true),
        "false" | "0" | "no" | "n" | "off" | "" => Some(false),
        _ => None,
    }
}

/// A text that is not empty.
pub(super) fn text(object: &Object, key: &str) -> Checked<Option<String>> {
    match given(object, key) {
        None => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
        Some(other) => invalid(format!("{key} must be a string, not {other}")),
    }
}

/// A rate: `"10 Gb/s"`, or a number of bits per second.
pub(super) fn rate(object: &Object, key: &str) -> Checked<Option<BitRate>> {
    match given(object, key) {
        None => Ok(None),
        Some(Value::Number(bits)) if bits.is_u64() => Ok(bits.as_u64().map(BitRate)),
        Some(Value::String(text)) => match text.parse() {
            Ok(rate) => Ok(Some(rate)),
            Err(error) => invalid(format!("{key}: {error}")),
        },
        Some(other) => invalid(format!("{key} must be a rate such as \"10 Gb/s\", not {other}")),
    }
}

/// An object.
pub(super) fn object<'a>(of: &'a Object, key: &str) -> Checked<Option<&'a Object>> {
    match given(of, key) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => invalid(format!("{key} must be an object, not {other}")),
    }
}

/// Refuses unknown keys: a misspelt key would silently have no effect.
pub(super) fn only(object: &Object, known: &[&str]) -> Checked<()> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => invalid(format!("Field {key} unknown; there is {}", known.join(", "))),
        None => Ok(()),
    }
}

/// `scheme://host` as transfers have it: in lower case, without port and path.
pub fn se_name(text: &str) -> Checked<String> {
    let wrong = || Invalid(format!("'{text}' is not of the form scheme://host"));
    if !text.contains("://") {
        return Err(wrong());
    }
    let url = format!("{}/x", text.trim().trim_end_matches('/'));
    let surl = Surl::parse(&url).map_err(|_| wrong())?;
    if surl.as_str().matches('/').count() > 3 {
        return Err(wrong());
    }
    Ok(surl.se())
}

/// [`se_name`], or a host without a scheme, in lower case: it stands for the storage elements of every scheme on that host, as
/// `storage_elements` has them.
pub fn storage_name(text: &str) -> Checked<String> {
    if text.contains("://") {
        return se_name(text);
    }
    if text.contains('*') {
        return invalid("* stands for all storage elements only where that is said");
    }
    match se_name(&format!("https://{}", text.trim())) {
        Ok(se) => Ok(host_of(&se).to_owned()),
        Err(_) => invalid(format!("'{text}' is neither scheme://host nor a host")),
    }
}

fn host_of(se: &str) -> &str {
    se.split_once("://").map_or(se, |(_, host)| host)
}

/// The storage elements that a name of [`storage_name`] stands for.
pub(super) fn storage_elements(name: &str) -> Vec<String> {
    if name == "*" || name.contains("://") {
        return vec![name.to_owned()];
    }
    Scheme::ALL
        .iter()
        .map(|scheme| format!("{}://{name}", scheme.as_str()))
        .collect()
}

/// Whether a name of [`storage_name`] stands for this storage element.
pub fn stands_for(name: &str, se: &str) -> bool {
    name == se || name == host_of(se)
}

/// [`storage_name`], or `*`.
pub(super) fn se_or_all(text: &str) -> Checked<String> {
    if text == "*" {
        Ok(text.to_owned())
    } else {
        storage_name(text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn a_storage_element_is_named_as_transfers_name_it() {
        // A limit under another spelling would hold for nothing.
        assert_eq!(se_name("https://B.Example.org:8443/").unwrap(), "https://b.example.org");
        assert_eq!(se_name("davs://[::1]:443").unwrap(), "davs://[::1]");
        for wrong in [
            "b.example.org",
            "https://",
            "https://b/path",
            "gsiftp://b",
            "*",
            "https://b?x",
        ] {
            assert!(se_name(wrong).is_err(), "{wrong}");
        }
        assert_eq!(storage_name("B.Example.org:8443").unwrap(), "b.example.org");
        for wrong in ["", " ", "*", "b/path", "b?x", "gsiftp://b"] {
            assert!(storage_name(wrong).is_err(), "{wrong}");
        }
        for se in storage_elements("b.example.org") {
            assert!(stands_for("b.example.org", &se), "{se}");
            assert_eq!(se_name(&se).unwrap(), se);
        }
        assert_eq!(storage_elements("davs://b"), ["davs://b"]);
        assert!(!stands_for("b.example.org", "https://bb.example.org"));
        assert!(!stands_for("https://b", "davs://b"));
    }

    #[test]
    fn numbers_are_read_as_old_clients_write_them() {
        let row = serde_json::json!({ "a": "7", "b": 7.5, "c": null, "d": -1, "e": true });
        let row = row.as_object().unwrap();
        assert_eq!(integer(row, "a"), Ok(Some(7)));
        assert_eq!(integer(row, "c"), Ok(None));
        assert!(integer(row, "b").is_err() && count(row, "d").is_err() && number(row, "e").is_err());
        assert_eq!((positive(row, "d"), number(row, "b")), (Ok(None), Ok(Some(7.5))));
    }
}
