//! Parsing of clients' JSON into values under a memory limit: a small document with a large memory representation is
//! refused while it is read.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Memory of a value: its place in an array, and as the key of an object.
const VALUE: usize = std::mem::size_of::<Value>();
/// Memory of an object after its first entry, and for each further six: a node of the tree has room for eleven.
const NODE: usize = 11 * (VALUE + std::mem::size_of::<String>());
const ENTRIES: usize = 6;

/// Memory that a document may take for each of its bytes. `[0,0,…]` takes 16, and `[{"":0},…]` a hundred.
const PER_BYTE: usize = 4;
/// Additional memory for each file of a job. The shortest ones, of a source and a destination, take nine times their
/// size for their objects and lists; those of Rucio, with 15 values of metadata, five times.
const PER_FILE: usize = 2048;
/// And beside that, so that small documents may be as they like.
const FREE: usize = 1 << 20;

/// Reads a document. `files`: the most elements that an array `files` of it may have.
///
/// # Errors
/// Not JSON, deeper than 128 levels, more files, or more memory than a document of this size may take.
pub(crate) fn read(text: &[u8], files: usize) -> Result<Value, serde_json::Error> {
    let left = Cell::new(text.len().saturating_mul(PER_BYTE).saturating_add(FREE));
    let reader = Reader {
        left: &left,
        files,
        place: Place::Document,
    };
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = reader.deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

/// Where in a document a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Document,
    /// An entry of the document's object with one of the names that jobs give to their files.
    Files,
    Inside,
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    left: &'a Cell<usize>,
    files: usize,
    place: Place,
}

impl Reader<'_> {
    fn take<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes);
        let left = left.ok_or_else(|| E::custom("it would take far more memory than its own size (split the job)"))?;
        self.left.set(left);
        Ok(())
    }

    fn inside(self, place: Place) -> Self {
        Self { place, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        let allowance = if self.place == Place::Files { PER_FILE } else { 0 };
        loop {
            self.left.set(self.left.get().saturating_add(allowance));
            let Some(value) = sequence.next_element_seed(self.inside(Place::Inside))? else {
                return Ok(Value::Array(values));
            };
            if self.place == Place::Files && values.len() >= self.files {
                let text = format!("a job has at most {} files (split the job)", self.files);
                return Err(A::Error::custom(text));
            }
            self.take(VALUE)?;
            values.push(value);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.take(key.len())?;
            if values.len().is_multiple_of(ENTRIES) {
                self.take(NODE)?;
            }
            let place = match (self.place, key.as_str()) {
                (Place::Document, "files" | "Files") => Place::Files,
                _ => Place::Inside,
            };
            let value = map.next_value_seed(self.inside(place))?;
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]

    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> String {
        read(text.as_bytes(), 3).unwrap_err().to_string()
    }

    #[test]
    fn more_files_than_a_job_may_have_are_not_read_to_their_end() {
        // Gigabytes of memory for a request that is refused in the end.
        let files = |count: usize| format!(r#"{{"files": [{}], "params": {{}}}}"#, vec!["{}"; count].join(","));
        assert!(read(files(3).as_bytes(), 3).is_ok());
        let broken = format!("{}, no JSON", &files(1000)[..500]);
        for text in [files(4), broken] {
            assert!(refused(&text).contains("at most 3 files"), "{}", refused(&text));
        }
        // Only where a job has them.
        assert!(read(br#"{"params": {"files": [0, 0, 0, 0]}, "x": [0, 0, 0, 0]}"#, 3).is_ok());
    }

    #[test]
    fn few_bytes_do_not_become_much_memory() {
        for each in ["0,", "[],", "{\"\":0},", "\"\","] {
            let many = each.repeat((4 << 20) / each.len());
            let text = format!("{{\"x\": [{many}0]}}");
            assert!(refused(&text).contains("memory"), "{each}");
        }
        // Jobs of the shortest files, and as Rucio writes them.
        let file = r#"{"sources":["https://a.example.org/1"],"destinations":["https://b.example.org/1"]}"#;
        let text = format!("{{\"files\": [{}]}}", vec![file; 60_000].join(","));
        read(text.as_bytes(), 60_000).unwrap();
        let file = r#"{"sources": ["davs://a.example.org:443/vo/scope/aa/bb/name.of.a.file.0001"], "destinations":
            ["davs://b.example.org:443/vo/scope/aa/bb/name.of.a.file.0001"], "checksum": "ADLER32:12345678", "filesize": 123456789,
            "metadata": {"request_id": "0123456789abcdef0123456789abcdef", "scope": "scope", "name": "name.of.a.file.0001",
            "activity": "Data Challenge", "request_type": "transfer", "src_type": "DISK", "dst_type": "DISK", "src_rse": "A_DATADISK",
            "dst_rse": "B_DATADISK", "src_rse_id": "0123456789abcdef0123456789abcdef", "dest_rse_id": "0123456789abcdef0123456789abcdef",
            "filesize": 123456789, "md5": null, "adler32": "12345678"}, "activity": "default", "selection_strategy": "auto"}"#;
        let text = format!("{{\"files\": [{}]}}", vec![file; 6_000].join(","));
        assert!(text.len() > 4 << 20);
        read(text.as_bytes(), 6_000).unwrap();
    }

    #[test]
    fn nesting_has_an_end() {
        assert!(read("[".repeat(100_000).as_bytes(), 3).is_err());
    }

    proptest! {
        /// Another value than the client wrote would be another job.
        #[test]
        fn values_are_those_of_serde_json(text in r#"[\[\]{}:,"0-9eE.\-ntruefals \\u]{0,40}"#) {
            let due = serde_json::from_str::<Value>(&text).ok();
            prop_assert_eq!(read(text.as_bytes(), usize::MAX).ok(), due);
        }

        #[test]
        fn documents_come_back(strings in proptest::collection::vec(".{0,8}", 0..8), numbers in proptest::collection::vec(any::<f64>(), 0..8)) {
            let value = serde_json::json!({ "files": strings, "numbers": numbers, "more": { "a": [null, true, -5, u64::MAX] } });
            let text = value.to_string();
            prop_assert_eq!(read(text.as_bytes(), 8).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
