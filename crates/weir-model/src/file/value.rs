//! Values of keys: from TOML to valid types, or a refusal with a remedy.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::{DeInteger, DeTable, DeValue};
use weir_units::{Algorithm, BitRate, Bytes, ParseError, Timestamp, duration};

use super::suggest::nearest;
use crate::names::{GridName, Link, NameError, RseName, SiteName, VoName};

/// The refusal of a value, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The problem.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl Refusal {
    /// Makes a refusal of its two halves.
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Refusal {
        Refusal {
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

/// A type that can be the value of a key.
pub trait FromValue: Sized {
    /// Reads the value.
    fn from_value(value: &DeValue<'_>) -> Result<Self, Refusal>;
}

/// Finds `text` among words with their meanings; a near miss is suggested, else the words are listed.
pub fn one_of<T: Clone>(text: &str, words: &[(&str, T)]) -> Result<T, Refusal> {
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(meaning.clone());
    }
    let remedy = match nearest(text, words.iter().map(|(word, _)| *word)) {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => format!(
            "use one of {}",
            words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
        ),
    };
    Err(Refusal::new(format!("\"{text}\" is not known here"), remedy))
}

fn found(value: &DeValue<'_>) -> String {
    let article = if matches!(value, DeValue::Integer(_) | DeValue::Array(_)) {
        "an"
    } else {
        "a"
    };
    let kind = if value.is_str() { "text" } else { value.type_str() };
    format!("{article} {kind}")
}

pub(super) fn wrong_kind(value: &DeValue<'_>, wanted: &str, example: &str) -> Refusal {
    Refusal::new(
        format!("must be {wanted}, not {}", found(value)),
        format!("write {example}"),
    )
}

fn text<'a>(value: &'a DeValue<'_>, example: &str) -> Result<&'a str, Refusal> {
    value.as_str().ok_or_else(|| wrong_kind(value, "a text", example))
}

fn integer(value: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(value.as_str(), value.radix()).ok()
}

/// Copies a table out of the text it was read from. Numbers that TOML cannot hold do not occur: they are problems before.
pub(super) fn table(content: &DeTable<'_>) -> toml::Table {
    content
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), owned(value.get_ref())))
        .collect()
}

fn owned(value: &DeValue<'_>) -> toml::Value {
    match value {
        DeValue::String(text) => toml::Value::String(text.to_string()),
        DeValue::Integer(number) => toml::Value::Integer(integer(number).map_or(0, |number| number as i64)),
        DeValue::Float(number) => toml::Value::Float(number.as_str().parse().unwrap_or(0.0)),
        DeValue::Boolean(yes) => toml::Value::Boolean(*yes),
        DeValue::Datetime(moment) => toml::Value::Datetime(*moment),
        DeValue::Array(items) => toml::Value::Array(items.iter().map(|item| owned(item.get_ref())).collect()),
        DeValue::Table(content) => toml::Value::Table(table(content)),
    }
}

impl FromValue for String {
    fn from_value(value: &DeValue<'_>) -> Result<String, Refusal> {
        text(value, "it in quotes").map(str::to_owned)
    }
}

impl FromValue for PathBuf {
    fn from_value(value: &DeValue<'_>) -> Result<PathBuf, Refusal> {
        let path = text(value, "a path in quotes")?;
        if path.is_empty() || path.contains('\0') {
            return Err(Refusal::new(
                "is not a path",
                "write the path of a file, relative to this one",
            ));
        }
        Ok(PathBuf::from(path))
    }
}

impl FromValue for bool {
    fn from_value(value: &DeValue<'_>) -> Result<bool, Refusal> {
        value
            .as_bool()
            .ok_or_else(|| wrong_kind(value, "true or false", "true or false, without quotes"))
    }
}

impl FromValue for u64 {
    /// Reads a whole number from 0 to 2^63 - 1, the range of TOML.
    fn from_value(value: &DeValue<'_>) -> Result<u64, Refusal> {
        let DeValue::Integer(number) = value else {
            return Err(wrong_kind(value, "a whole number", "a whole number, without quotes"));
        };
        match integer(number) {
            Some(number @ 0..=0x7fff_ffff_ffff_ffff) => Ok(number as u64),
            Some(..0) => Err(Refusal::new(format!("{number} is negative"), "write 0 or more")),
            _ => Err(Refusal::new(
                format!("{number} is too large"),
                "write at most 9223372036854775807",
            )),
        }
    }
}

impl FromValue for u32 {
    fn from_value(value: &DeValue<'_>) -> Result<u32, Refusal> {
        let number = u64::from_value(value)?;
        u32::try_from(number)
            .map_err(|_| Refusal::new(format!("{number} is too large"), format!("write at most {}", u32::MAX)))
    }
}

impl FromValue for f64 {
    /// Reads a finite number, with or without a decimal point.
    fn from_value(value: &DeValue<'_>) -> Result<f64, Refusal> {
        let number = match value {
            DeValue::Integer(number) => integer(number).map(|number| number as f64),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => return Err(wrong_kind(value, "a number", "a number, without quotes")),
        };
        number
            .filter(|n| n.is_finite())
            .ok_or_else(|| Refusal::new("is not a finite number", "write a number"))
    }
}

/// Reads a quantity; a bare number is refused with the remedy that the text form would get.
fn quantity<T>(
    value: &DeValue<'_>,
    what: &str,
    example: &str,
    parse: impl Fn(&str) -> Result<T, ParseError>,
) -> Result<T, Refusal> {
    let bare = match value {
        DeValue::String(text) => {
            return parse(text).map_err(|error| Refusal::new(error.to_string(), error.remedy()));
        }
        DeValue::Integer(number) => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => {
            return Err(wrong_kind(
                value,
                &format!("a {what}"),
                &format!("it such as \"{example}\""),
            ));
        }
    };
    let remedy = match parse(bare) {
        Err(error) => format!("{}, in quotes", error.remedy()),
        Ok(_) => format!("write it such as \"{example}\""),
    };
    let wrong = if bare.starts_with('-') {
        "is negative"
    } else {
        "has no unit"
    };
    Err(Refusal::new(format!("{what} {bare} {wrong}"), remedy))
}

impl FromValue for Bytes {
    fn from_value(value: &DeValue<'_>) -> Result<Bytes, Refusal> {
        quantity(value, "size", "5 GB", str::parse)
    }
}

impl FromValue for BitRate {
    fn from_value(value: &DeValue<'_>) -> Result<BitRate, Refusal> {
        quantity(value, "rate", "5 Gb/s", str::parse)
    }
}

impl FromValue for Timestamp {
    fn from_value(value: &DeValue<'_>) -> Result<Timestamp, Refusal> {
        let text = text(value, "it in quotes, such as \"2024-02-12T00:00:00Z\"")?;
        Timestamp::parse_rfc3339(text).ok_or_else(|| {
            Refusal::new(
                format!("\"{text}\" is no moment"),
                "write date and time in UTC, such as \"2024-02-12T00:00:00Z\"",
            )
        })
    }
}

impl FromValue for Duration {
    fn from_value(value: &DeValue<'_>) -> Result<Duration, Refusal> {
        quantity(value, "duration", "30 s", duration::parse)
    }
}

impl FromValue for Algorithm {
    fn from_value(value: &DeValue<'_>) -> Result<Algorithm, Refusal> {
        let name = text(value, "\"adler32\"")?;
        name.parse()
            .or_else(|_| one_of(name, &Algorithm::ALL.map(|a| (a.as_str(), a))))
    }
}

fn name<T>(value: &DeValue<'_>, parse: impl Fn(&str) -> Result<T, NameError>) -> Result<T, Refusal> {
    let rule = "use 1 to 63 letters, digits, '.', '_' or '-', beginning with a letter or digit";
    parse(text(value, "a name in quotes")?).map_err(|error| Refusal::new(error.to_string(), rule))
}

macro_rules! names {
    ($($type:ident),*) => {$(
        impl FromValue for $type {
            fn from_value(value: &DeValue<'_>) -> Result<$type, Refusal> {
                name(value, str::parse)
            }
        }
    )*};
}

names!(RseName, SiteName, VoName, GridName);

impl FromValue for Link {
    fn from_value(value: &DeValue<'_>) -> Result<Link, Refusal> {
        let link = text(value, "\"SOURCE->DESTINATION\"")?;
        let refusal = || Refusal::new(format!("\"{link}\" is not a link"), "write \"SOURCE->DESTINATION\"");
        link.parse().map_err(|_| refusal())
    }
}
