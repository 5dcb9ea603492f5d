//! Times as FTS3 writes them, and the one clock of this crate.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, UTC: how the store keeps times.
pub(crate) type Millis = i64;

/// Reads the wall clock. Only drivers, doors and the executor ask for it; decisions are given the time.
pub(crate) fn now() -> Millis {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as Millis)
}

/// `YYYY-MM-DDTHH:MM:SS`, UTC, neither zone nor fraction: clients parse exactly this.
pub(crate) fn format(millis: Millis) -> String {
    let whole = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    whole.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// [`format()`], or JSON null.
pub(crate) fn json(millis: Option<Millis>) -> serde_json::Value {
    millis.map_or(serde_json::Value::Null, |at| format(at).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_neither_zone_nor_fraction() {
        assert_eq!(format(1_795_259_583_999), "2026-11-21T11:13:03");
    }
}
