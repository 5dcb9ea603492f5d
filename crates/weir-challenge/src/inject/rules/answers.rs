//! The catalogue's answers about locks and requests.

use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::inject::injection::{Observed, Passages, Phase};

/// Reads JSON lines. A line that is none is an error: a listing that breaks off must not pass for a shorter one.
pub(super) fn lines<T: DeserializeOwned>(answer: &[u8]) -> Result<Vec<T>, serde_json::Error> {
    let lines = answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(serde_json::from_slice).collect()
}

/// The lock of a file.
#[derive(Debug, Deserialize)]
pub(super) struct Lock {
    pub(super) name: String,
    pub(super) state: String,
}

/// The request of a file, or an attempt that has ended.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Request {
    pub(super) id: String,
    state: String,
    #[serde(default)]
    external_id: Option<String>,
    #[serde(default)]
    external_host: Option<String>,
    #[serde(default)]
    err_msg: Option<String>,
    #[serde(default)]
    retry_count: Option<u32>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    updated_at: Option<String>,
    #[serde(default)]
    submitted_at: Option<String>,
    #[serde(default)]
    started_at: Option<String>,
    #[serde(default)]
    transferred_at: Option<String>,
    #[serde(default)]
    weir: Exact,
}

/// Additional data of Weir's catalogue: the same times in milliseconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Exact {
    #[serde(rename = "created_ms")]
    created: Option<u64>,
    #[serde(rename = "updated_ms")]
    updated: Option<u64>,
    #[serde(rename = "submitted_ms")]
    submitted: Option<u64>,
    #[serde(rename = "started_ms")]
    started: Option<u64>,
    #[serde(rename = "transferred_ms")]
    transferred: Option<u64>,
}

impl Request {
    /// Whether the transfer ended well.
    pub(super) fn is_done(&self) -> bool {
        self.state == "DONE"
    }

    /// The transfer service and the job that have it.
    pub(super) fn job(&self) -> Option<(&str, &str)> {
        self.external_host.as_deref().zip(self.external_id.as_deref())
    }

    /// Why it waits, or failed, as far as the catalogue says.
    pub(super) fn why(&self) -> Option<String> {
        let why = self.err_msg.clone().filter(|why| !why.is_empty());
        why.map(weir_auth::peer_text)
    }

    /// Whether it was made after this moment, or so little before that the clocks may differ: an earlier rule may have asked for the same
    /// file.
    pub(super) fn is_after(&self, moment: SystemTime, clocks: Duration) -> bool {
        self.created().is_none_or(|created| created + clocks >= moment)
    }

    /// When it was submitted to the transfer service.
    pub(super) fn submitted(&self) -> Option<SystemTime> {
        moment(self.weir.submitted, self.submitted_at.as_deref())
    }

    fn created(&self) -> Option<SystemTime> {
        moment(self.weir.created, self.created_at.as_deref())
    }

    /// The state of a transfer, combined with the transfer service's answer if it was asked.
    pub(super) fn observed(&self, id: u64, carried: Option<&Observed>) -> Observed {
        let ended = match self.state.as_str() {
            "DONE" => Some(Phase::Finished),
            "FAILED" | "LOST" => Some(Phase::Failed),
            _ => None,
        };
        let own = Observed {
            phase: ended.unwrap_or(Phase::Queued),
            started: moment(self.weir.started, self.started_at.as_deref()),
            ended: moment(self.weir.transferred, self.transferred_at.as_deref()),
            ..Observed::queued(id)
        };
        let carried = carried.cloned().unwrap_or(own);
        let repeated = self.retry_count.unwrap_or(0);
        Observed {
            id,
            phase: ended.unwrap_or(carried.phase),
            retries: carried.retries.saturating_add(repeated),
            passages: Some(Passages {
                requested: self.created(),
                submitted: self.submitted(),
                locked: ended.and(moment(self.weir.updated, self.updated_at.as_deref())),
            }),
            ..carried
        }
    }
}

/// The exact moment where there is one, else Rucio's own: `Sat, 21 Nov 2026 11:11:37 UTC`.
fn moment(millis: Option<u64>, text: Option<&str>) -> Option<SystemTime> {
    if let Some(millis) = millis {
        return Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
    }
    let text = text?.replace("UTC", "+0000");
    let moment = jiff::fmt::rfc2822::parse(&text).ok()?.timestamp();
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(moment.as_millisecond()).ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    fn request(more: &str) -> Request {
        let text = format!(
            r#"{{"id": "9", "state": "DONE", "created_at": "Sat, 21 Nov 2026 11:11:37 UTC", "submitted_at": null,
            "updated_at": "Sat, 21 Nov 2026 11:11:40 UTC", "retry_count": 1 {more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn times_are_exact_where_the_catalogue_tells_them() {
        // Wrong: the rooms of a rule's time are whole seconds with our catalogue, or empty with Rucio's.
        let rucio = request("").observed(7, None);
        let passages = rucio.passages.unwrap();
        assert_eq!((rucio.id, rucio.phase, rucio.retries), (7, Phase::Finished, 1));
        assert_eq!(passages.requested, Some(at(1_795_259_497_000)));
        assert_eq!(passages.locked, Some(at(1_795_259_500_000)));
        let own = request(r#", "weir": {"created_ms": 1795259497123, "started_ms": 1795259498000}"#);
        let observed = own.observed(7, None);
        assert_eq!(observed.passages.unwrap().requested, Some(at(1_795_259_497_123)));
        assert_eq!(observed.started, Some(at(1_795_259_498_000)));
    }

    #[test]
    fn a_listing_that_breaks_off_is_an_error() {
        // Wrong: copies that a broken answer does not name pass for deleted.
        let read = |text: &str| lines::<serde_json::Value>(text.as_bytes()).map(|rows| rows.len()).ok();
        assert_eq!(read("{\"name\": 1}\n{\"name\": 2}\n"), Some(2));
        assert_eq!(read(""), Some(0));
        assert_eq!(read("{\"name\": 1}\n{\"na"), None);
    }

    #[test]
    fn an_earlier_request_of_the_same_file_is_another_one() {
        // Wrong: a file whose request is not made yet counts as copied, because it was copied a minute before.
        let one = request("");
        assert!(one.is_after(at(1_795_259_498_000), Duration::from_secs(2)));
        assert!(!one.is_after(at(1_795_259_500_001), Duration::from_secs(2)));
    }
}
