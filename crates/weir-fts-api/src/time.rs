//! Times as FTS3 writes them.

use std::{borrow::Cow, fmt, time::SystemTime};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use weir_service::time::{self, Millis};

/// A time: UTC, neither zone nor fraction in JSON, as in `2026-11-21T11:03:03`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FtsTime(pub Millis);

impl FtsTime {
    /// The same for the clock of the system.
    pub fn system(self) -> SystemTime {
        let millis = u64::try_from(self.0).unwrap_or_default();
        SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(millis)
    }
}

impl fmt::Display for FtsTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&time::format(self.0))
    }
}

impl Serialize for FtsTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&time::format(self.0))
    }
}

impl<'de> Deserialize<'de> for FtsTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let whole = text.split_once('.').map_or(&*text, |(whole, _)| whole);
        let read = time::parse(whole.trim_end_matches('Z'));
        read.map(Self)
            .ok_or_else(|| D::Error::custom("no time as 2026-11-21T11:03:03"))
    }
}

impl JsonSchema for FtsTime {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$"
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn times_have_neither_zone_nor_fraction() {
        let read = |text: &str| serde_json::from_value::<FtsTime>(text.into());
        let time = read("2026-11-21T11:03:03").unwrap();
        assert_eq!(serde_json::to_value(time).unwrap(), "2026-11-21T11:03:03");
        // Other services add them.
        assert_eq!(read("2026-11-21T11:03:03.123Z").unwrap(), time);
        assert!(read("yesterday").is_err() && read("").is_err());
    }
}
