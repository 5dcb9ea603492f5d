//! The door's view of the settings for submissions, computed once per change.

use std::collections::HashMap;

use super::{
    Kind, Rows, ends,
    rows::pairs,
    values::{Object, integer},
};
use weir_executor::surl::Surl;
use weir_service::time::Millis;

use crate::draft::Draft;

const MIB: u64 = 1 << 20;
const YEAR: u64 = 366 * 86_400;

/// See the module.
#[derive(Debug, Default)]
pub struct DoorView {
    /// By VO; `*` for all.
    globals: HashMap<String, Global>,
    /// Streams of links.
    streams: HashMap<(String, String), u32>,
    storages: HashMap<String, Vec<Ban>>,
    users: HashMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Global {
    retry: Option<i32>,
    hours: Option<u64>,
    timeout: Option<u64>,
    per_mib: Option<u64>,
}

/// A ban of a storage element.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ban {
    /// Only this VO.
    vo: Option<String>,
    /// Whether new transfers are taken, to wait.
    takes: bool,
    /// Whether a ban cancels existing transfers.
    cancels: bool,
}

/// A value of 1 or more. Rows are checked when they are written.
fn whole(row: &Object, key: &str) -> Option<u64> {
    let number = integer(row, key).ok().flatten()?;
    u64::try_from(number).ok().filter(|number| *number > 0)
}

fn text(row: &Object, key: &str) -> Option<String> {
    row.get(key)?.as_str().map(str::to_owned)
}

impl DoorView {
    pub(super) fn of(rows: &Rows) -> Self {
        let mut view = Self::default();
        for ((kind, name), row) in rows {
            match kind {
                Kind::Global => {
                    let retry = integer(row, "retry").ok().flatten();
                    let global = Global {
                        retry: retry.and_then(|retry| i32::try_from(retry).ok()),
                        hours: whole(row, "max_time_queue"),
                        timeout: whole(row, "global_timeout"),
                        per_mib: whole(row, "sec_per_mb"),
                    };
                    view.globals.insert(name.clone(), global);
                }
                Kind::Link => {
                    if let Some(streams) = whole(row, "nostreams") {
                        let pairs = pairs(&ends(row)).into_iter();
                        view.streams.extend(pairs.map(|pair| (pair, streams as u32)));
                    }
                }
                Kind::BannedStorage => {
                    let ban = Ban {
                        vo: text(row, "vo"),
                        takes: row.get("status").is_some_and(|status| status == "WAIT_AS"),
                        cancels: row.get("status").is_some_and(|status| status == "CANCEL"),
                    };
                    let se = text(row, "se").unwrap_or_else(|| name.clone());
                    view.storages.entry(se).or_default().push(ban);
                }
                Kind::BannedUser => {
                    view.users
                        .insert(name.clone(), text(row, "message").unwrap_or_default());
                }
                Kind::Storage | Kind::Share | Kind::Activities | Kind::Group | Kind::Drain => {}
            }
        }
        view
    }

    /// Whether a user is banned, and with which words.
    pub fn banned_user(&self, user_dn: &str) -> Option<&str> {
        self.users.get(user_dn).map(String::as_str)
    }

    /// The first storage element of a submission that takes nothing.
    pub fn banned_storage(&self, draft: &Draft) -> Option<String> {
        if self.storages.is_empty() {
            return None;
        }
        let urls = draft.files.iter().flat_map(|file| [&file.source, &file.destination]);
        let mut ses = urls.map(Surl::se);
        ses.find(|se| self.refuses(se, &draft.job.vo))
    }

    fn bans(&self, se: &str, vo: &str) -> impl Iterator<Item = &Ban> {
        // By its name, or by its host alone.
        let host = se.split_once("://").map_or(se, |(_, host)| host);
        let of = |name: &str| self.storages.get(name).map(Vec::as_slice).unwrap_or_default();
        of(se)
            .iter()
            .chain(of(host))
            .filter(move |ban| ban.vo.as_deref().is_none_or(|of| of == vo))
    }

    /// Whether a storage element takes nothing from this VO.
    pub fn refuses(&self, se: &str, vo: &str) -> bool {
        self.bans(se, vo).any(|ban| !ban.takes)
    }

    /// Whether the transfers of this VO at a storage element are cancelled.
    pub fn cancels(&self, se: &str, vo: &str) -> bool {
        self.bans(se, vo).any(|ban| ban.cancels)
    }

    /// Streams configured for the copies of a link, or for all copies.
    pub fn streams(&self, source: &str, destination: &str) -> Option<u32> {
        let of = |source: &str, destination: &str| self.streams.get(&(source.to_owned(), destination.to_owned()));
        of(source, destination).or_else(|| of("*", "*")).copied()
    }

    /// Completes a submission with defaults. They stay with the job when settings change later.
    pub fn complete(&self, draft: &mut Draft, now: Millis) {
        let of = |vo: &str| self.globals.get(vo).copied().unwrap_or_default();
        let (own, all) = (of(&draft.job.vo), of("*"));
        let params = &mut draft.job.params;
        if params.retry == 0 {
            params.retry = own.retry.or(all.retry).unwrap_or(0);
        }
        if params.max_time_in_queue.is_none() {
            let hours = own.hours.or(all.hours);
            params.max_time_in_queue = hours.map(|hours| now / 1000 + hours as i64 * 3600);
        }
        if params.timeout.is_none() {
            let (fixed, per_mib) = (own.timeout.or(all.timeout), own.per_mib.or(all.per_mib));
            let sizes = draft.files.iter().map(|file| file.user_filesize);
            params.timeout = fixed.and_then(|fixed| timeout(fixed, per_mib, sizes));
        }
        if params.nostreams.is_none() && !self.streams.is_empty() {
            let ends = draft.job.source_se.as_deref().zip(draft.job.dest_se.as_deref());
            let (source, destination) = ends.unwrap_or(("*", "*"));
            params.nostreams = self.streams(source, destination);
        }
    }
}

/// The timeout of a job: a fixed part and a part for each MiB of its largest file. If sizes matter and one is unknown:
/// the executor's default.
fn timeout(fixed: u64, per_mib: Option<u64>, mut sizes: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let Some(each) = per_mib else {
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
    use weir_executor::job::JobParams;

    use super::{super::Settings, *};
    use crate::draft::Draft;

    fn settings(rows: &[(Kind, &str, Value)]) -> Settings {
        let settings = Settings::default();
        let rows = rows
            .iter()
            .map(|(kind, name, row)| ((*kind, (*name).to_owned()), row.as_object().cloned()));
        settings.note(settings.draft(rows.collect()).unwrap());
        settings
    }

    fn completed(settings: &Settings, params: JobParams, size: Option<u64>) -> JobParams {
        let mut submission = crate::store::submission(1, 1, 1);
        submission.job.vo = "atlas".into();
        submission.job.params = params;
        submission.files[0].user_filesize = size;
        let link = ("https://a".to_owned(), "https://b".to_owned());
        let mut draft = Draft {
            job: submission.job,
            files: submission.files,
            tokens: submission.tokens,
            storages: vec![link.0.clone(), link.1.clone()],
            links: vec![link],
            deterministic: false,
        };
        settings.door().complete(&mut draft, 0);
        draft.job.params
    }

    #[test]
    fn a_jobs_setting_outweighs_its_vos_and_that_the_general_one() {
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
        let silent = completed(&settings, JobParams::default(), Some(10 * MIB));
        assert_eq!((silent.retry, silent.max_time_in_queue), (7, Some(7200)));
        assert_eq!((silent.timeout, silent.nostreams), (Some(130), Some(4)));
        let params = JobParams {
            retry: -1,
            max_time_in_queue: Some(60),
            timeout: Some(5),
            nostreams: Some(2),
            ..JobParams::default()
        };
        let loud = completed(&settings, params, None);
        assert_eq!((loud.retry, loud.max_time_in_queue), (-1, Some(60)));
        assert_eq!((loud.timeout, loud.nostreams), (Some(5), Some(2)));
        assert_eq!(completed(&settings, JobParams::default(), None).timeout, None);
        assert_eq!(
            completed(&Settings::default(), JobParams::default(), None),
            JobParams::default()
        );
    }
}
