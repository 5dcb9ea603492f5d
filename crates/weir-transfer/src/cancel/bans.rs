//! Bans: immediate cancellation, and cancellation of files that wait too long.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use uuid::Uuid;

use super::{Done, Fits, Seen, cancel, matching_each};
use weir_executor::{
    job::{File, SEVERAL_HOPS},
    surl::Surl,
};
use weir_service::time::{self, Millis};

use crate::{
    service::Service,
    settings::{Kind, Object},
};

/// Reason of files that are cancelled because their storage element was banned, in FTS3's words.
pub const STORAGE_BANNED: &str = "Storage banned";
/// The same of users.
pub const USER_BANNED: &str = "User banned";

/// Files that touch a storage element, of one VO or of all.
pub fn of_storage(se: String, vo: Option<String>) -> Fits {
    Box::new(move |seen| vo.as_ref().is_none_or(|vo| seen.job.job.vo == *vo) && seen.touches(&se))
}

/// Files of a user.
pub fn of_user(dn: String) -> Fits {
    Box::new(move |seen| seen.job.job.user_dn == dn)
}

/// Interval between sweeps for files whose ban's patience is over: each sweep looks at every transfer.
const SWEEP_EVERY: Millis = 600_000;

/// Interval after a sweep that failed.
const SWEEP_AGAIN: Millis = 60_000;

/// Time of the last sweep, by the ban's name and the end of its patience.
#[derive(Debug, Default)]
pub struct Sweeps(Mutex<HashMap<(String, Millis), Millis>>);

impl Sweeps {
    fn is_due(&self, name: &str, until: Millis, now: Millis) -> bool {
        let mut sweeps = self.0.lock();
        sweeps.retain(|(of, end), _| of != name || *end == until);
        let last = sweeps.get(&(name.to_owned(), until));
        last.is_none_or(|last| now.saturating_sub(*last) >= SWEEP_EVERY)
    }

    fn done(&self, name: String, until: Millis, now: Millis) {
        let mut sweeps = self.0.lock();
        sweeps.insert((name, until), now);
    }
}

/// A ban for which a look is due.
struct DueBan {
    name: String,
    until: Millis,
    reason: &'static str,
    /// Once nothing is left, never again: nothing comes any more.
    ends: bool,
}

/// Cancels files that have waited for a banned storage element for longer than the ban allows.
///
/// It covers files that waited at the end of the ban's patience, and files that were running then and came back to the
/// queue later. It also completes bans that cancel: the service may have stopped meanwhile, and other nodes take jobs
/// until they know the ban. One sweep serves all bans.
pub async fn expire(service: &Arc<Service>, sweeps: &Sweeps, now: Millis) -> Done<()> {
    let (due, fits): (Vec<DueBan>, Vec<Fits>) = due(service, sweeps, now).into_iter().unzip();
    if due.is_empty() {
        return Ok(());
    }
    let found = matching_each(service, fits).await?;
    let mut first = Ok(());
    for (ban, affected) in due.into_iter().zip(found) {
        let clear = affected.is_empty();
        let outcome = cancel(service, affected, false, ban.reason).await;
        let done = match &outcome {
            Err(_) => now - SWEEP_EVERY + SWEEP_AGAIN,
            Ok(()) if ban.ends && clear => Millis::MAX,
            Ok(()) => now,
        };
        sweeps.done(ban.name, ban.until, done);
        first = first.and(outcome);
    }
    first
}

fn due(service: &Service, sweeps: &Sweeps, now: Millis) -> Vec<(DueBan, Fits)> {
    let word = |ban: &Object, key: &str| ban.get(key).and_then(Value::as_str).map(str::to_owned);
    let added = |ban: &Object| ban.get("added_ms").and_then(Value::as_i64).unwrap_or_default();
    let mut due = Vec::new();
    for (name, ban) in service.settings.all(Kind::BannedStorage) {
        let of_it = of_storage(word(&ban, "se").unwrap_or_default(), word(&ban, "vo"));
        let (until, ends, fits): (_, _, Fits) = if word(&ban, "status").as_deref() == Some("CANCEL") {
            (added(&ban), true, of_it)
        } else if let Some(until) = ban.get("waits_until_ms").and_then(Value::as_i64) {
            let banned = word(&ban, "addition_time");
            let waits = move |seen: &Seen| {
                let before = Some(time::format(seen.job.job.submitted)) <= banned;
                before && !seen.file.running && of_it(seen)
            };
            (until, false, Box::new(waits))
        } else {
            continue;
        };
        let reason = STORAGE_BANNED;
        due.push((
            DueBan {
                name,
                until,
                reason,
                ends,
            },
            fits,
        ));
    }
    for (dn, ban) in service.settings.all(Kind::BannedUser) {
        let ban = DueBan {
            name: format!("user {dn}"),
            until: added(&ban),
            reason: USER_BANNED,
            ends: true,
        };
        due.push((ban, of_user(dn)));
    }
    due.retain(|(ban, _)| {
        let patience = if ban.ends { HEARD_AFTER } else { 0 };
        now >= ban.until.saturating_add(patience) && sweeps.is_due(&ban.name, ban.until, now)
    });
    due
}

/// Time after which every node knows a ban, and jobs that were under way have arrived.
const HEARD_AFTER: Millis = 60_000;

/// Cancels files of a submission that passed the door just before a ban was recorded: they would never start.
pub async fn catch_up(service: &Arc<Service>, job: Uuid, user_dn: &str, vo: &str) -> Done<()> {
    let door = service.settings.door();
    let files = service.read(move |store| store.files(job)).await?;
    let cancels = |url: &Surl| door.cancels(&url.se(), vo);
    let banned_user = door.banned_user(user_dn).is_some();
    let (reason, files) = if banned_user {
        (USER_BANNED, files)
    } else {
        let mut files = files;
        let hops = service.read(move |store| store.job(job)).await?;
        let hops = hops.is_some_and(|job| job.spec.kind == SEVERAL_HOPS);
        let affected = |file: &File| cancels(&file.spec.source) || cancels(&file.spec.destination);
        if !(hops && files.iter().any(affected)) {
            files.retain(affected);
        }
        (STORAGE_BANNED, files)
    };
    if files.is_empty() {
        return Ok(());
    }
    let files = files.iter().map(|file| file.spec.id).collect();
    cancel(service, vec![(job, files)], false, reason).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_waiters_are_looked_at_periodically() {
        // With ten million transfers, each look takes the store seconds.
        let sweeps = Sweeps::default();
        assert!(sweeps.is_due("https://b", 5, 10));
        sweeps.done("https://b".into(), 5, 10);
        assert!(!sweeps.is_due("https://b", 5, 11));
        assert!(sweeps.is_due("https://b", 5, 10 + SWEEP_EVERY));
        assert!(sweeps.is_due("https://b", 7, 11), "it was banned anew");
        sweeps.done("https://b".into(), 7, Millis::MAX);
        assert!(!sweeps.is_due("https://b", 7, Millis::MAX), "nothing was left");
    }
}
