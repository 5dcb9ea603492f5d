//! The report on an existing destination (`dst_file_report`), in the file's metadata: Rucio reads it and decides
//! whether that file is the wanted one.

use serde_json::{Value, json, value::RawValue};
use weir_world::Phase;

use crate::orders::Note;
use crate::steps::{attempt::Attempt, stat::Stat};

/// The client's metadata, with FTS3's key `dst_file`. Pure.
fn with_report(metadata: Option<&RawValue>, there: &Stat, locality: Option<&str>) -> Option<Box<RawValue>> {
    let mut object = match metadata.map(|raw| serde_json::from_str(raw.get())) {
        Some(Ok(Value::Object(object))) => object,
        None => serde_json::Map::new(),
        Some(_) => return None,
    };
    let mut report = json!({
        "file_size": there.size,
        "file_on_disk": locality != Some("TAPE"),
        "file_on_tape": matches!(locality, Some("TAPE" | "DISK_AND_TAPE")),
    });
    if let Some(checksum) = &there.checksum {
        report["checksum_type"] = json!(checksum.algorithm.as_str().to_ascii_uppercase());
        report["checksum_value"] = json!(checksum.hex());
    }
    object.insert("dst_file".to_owned(), report);
    serde_json::value::to_raw_value(&object).ok()
}

impl Attempt<'_> {
    /// Records the file at the destination. Its checksum is left out if the storage does not send one.
    pub(crate) async fn report_destination(&self, there: Stat, locality: Option<&str>) {
        let there = match there.checksum {
            Some(_) => there,
            None => match self.look(self.destination, Phase::Preparation, true).await {
                Ok(Some(again)) if again.is_same(&there) => again,
                _ => there,
            },
        };
        let file = &self.file.spec;
        if let Some(metadata) = with_report(file.metadata.as_deref(), &there, locality) {
            self.journal.note(Note::Metadata {
                file: file.id,
                metadata,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn the_report_has_the_keys_that_the_catalogue_reads() {
        // The catalogue compares size and checksum with its own, and takes the file as arrived if they agree.
        let there = Stat {
            size: Some(12),
            checksum: Some("adler32:0a1b2c3d".parse().unwrap()),
            ..Stat::default()
        };
        let metadata = RawValue::from_string(r#"{"request_id":"82aa"}"#.into()).unwrap();
        let report: Value = serde_json::from_str(with_report(Some(&metadata), &there, None).unwrap().get()).unwrap();
        let expected = json!({
            "request_id": "82aa",
            "dst_file": {
                "file_size": 12, "checksum_type": "ADLER32", "checksum_value": "0a1b2c3d",
                "file_on_disk": true, "file_on_tape": false
            }
        });
        assert_eq!(report, expected);
        let silent = with_report(None, &Stat::default(), Some("TAPE")).unwrap();
        let silent: Value = serde_json::from_str(silent.get()).unwrap();
        assert_eq!(silent["dst_file"]["file_size"], Value::Null);
        assert_eq!(
            (&silent["dst_file"]["file_on_disk"], &silent["dst_file"]["file_on_tape"]),
            (&json!(false), &json!(true))
        );
        assert!(silent["dst_file"].get("checksum_value").is_none());
    }
}
