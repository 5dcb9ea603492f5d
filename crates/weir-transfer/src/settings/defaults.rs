//! What a submission does not say, and the settings do.

use super::{
    Kind, Settings, ends,
    values::{Object, integer},
};
use crate::{submission::Draft, time::Millis};

const MIB: u64 = 1 << 20;
const YEAR: u64 = 366 * 86_400;

fn whole(row: &Object, key: &str) -> Option<u64> {
    // Rows are checked when they are written.
    let number = integer(row, key).ok().flatten()?;
    u64::try_from(number).ok().filter(|number| *number > 0)
}

impl Settings {
    /// A VO's global settings, laid over those of all.
    fn global(&self, vo: &str) -> Object {
        let mut row = self.get(Kind::Global, "*").unwrap_or_default();
        row.extend(self.get(Kind::Global, vo).unwrap_or_default());
        row
    }

    /// Completes a submission. What is taken from here stays with the job, whatever is set later.
    pub(crate) fn complete(&self, draft: &mut Draft, now: Millis) {
        let global = self.global(&draft.job.vo);
        let params = &mut draft.job.params;
        if params.retry == 0 {
            let retry = integer(&global, "retry").ok().flatten();
            params.retry = retry.and_then(|retry| i32::try_from(retry).ok()).unwrap_or(0);
        }
        if params.max_time_in_queue.is_none() {
            let hours = whole(&global, "max_time_queue");
            params.max_time_in_queue = hours.map(|hours| now / 1000 + hours as i64 * 3600);
        }
        if params.timeout.is_none() {
            params.timeout = timeout(&global, draft.files.iter().map(|file| file.user_filesize));
        }
        if params.nostreams.is_none() {
            params.nostreams = self.streams(draft.job.source_se.as_deref(), draft.job.dest_se.as_deref());
        }
    }

    /// Streams of the one link that a job uses.
    fn streams(&self, source: Option<&str>, destination: Option<&str>) -> Option<u32> {
        let asked = (source?.to_owned(), destination?.to_owned());
        let links = self.all(Kind::Link);
        let of = |pair: &(String, String)| {
            let (_, link) = links.iter().find(|(_, link)| ends(link) == *pair)?;
            whole(link, "nostreams").map(|streams| streams as u32)
        };
        of(&asked).or_else(|| of(&("*".to_owned(), "*".to_owned())))
    }
}

/// `global_timeout`, and `sec_per_mb` for each MiB of the largest file. If that counts and a size is not known, the executor's own.
fn timeout(global: &Object, mut sizes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let fixed = whole(global, "global_timeout")?;
    let Some(each) = whole(global, "sec_per_mb") else {
        return Some(fixed);
    };
    let largest = sizes.try_fold(0, |largest, size| Some(size?.max(largest)))?;
    Some(
        fixed
            .saturating_add(each.saturating_mul(largest.div_ceil(MIB)))
            .min(YEAR),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use serde_json::{Value, json};
    use weir_auth::Secret;

    use super::*;
    use crate::submission::{self, SubmissionLimits, Submitter};

    fn settings(rows: &[(Kind, &str, Value)]) -> Settings {
        let settings = Settings::default();
        let rows = rows
            .iter()
            .map(|(kind, name, row)| ((*kind, (*name).to_owned()), row.as_object().cloned()));
        settings.note(settings.draft(rows.collect()).unwrap());
        settings
    }

    fn completed(settings: &Settings, params: &Value, size: Option<u64>) -> crate::model::JobParams {
        let user = Submitter {
            user_dn: "alice".into(),
            cred_id: "01".into(),
            vo: "atlas".into(),
            token: Secret::new("t"),
        };
        let file = json!({ "sources": ["https://a/f"], "destinations": ["https://b/f"], "filesize": size });
        let body = json!({ "files": [file], "params": params });
        let mut draft = submission::read(&body, &user, &SubmissionLimits::default(), 0).unwrap();
        settings.complete(&mut draft, 0);
        draft.job.params
    }

    #[test]
    fn what_a_job_says_outweighs_its_vo_and_that_all_others() {
        let link = json!({ "symbolicname": "ab", "source": "https://a", "destination": "https://b", "nostreams": 4 });
        let settings = settings(&[
            (
                Kind::Global,
                "*",
                json!({ "retry": 1, "max_time_queue": 2, "global_timeout": 100, "sec_per_mb": 3 }),
            ),
            (Kind::Global, "atlas", json!({ "retry": 7 })),
            (Kind::Link, "ab", link),
        ]);
        let silent = completed(&settings, &json!({}), Some(10 * MIB));
        assert_eq!((silent.retry, silent.max_time_in_queue), (7, Some(7200)));
        assert_eq!((silent.timeout, silent.nostreams), (Some(130), Some(4)));
        let params = json!({ "retry": -1, "max_time_in_queue": "60s", "timeout": 5, "nostreams": 2 });
        let loud = completed(&settings, &params, None);
        assert_eq!((loud.retry, loud.max_time_in_queue), (-1, Some(60)));
        assert_eq!((loud.timeout, loud.nostreams), (Some(5), Some(2)));
        assert_eq!(completed(&settings, &json!({}), None).timeout, None);
        assert_eq!(
            completed(&Settings::default(), &json!({}), None),
            crate::model::JobParams::default()
        );
    }
}
