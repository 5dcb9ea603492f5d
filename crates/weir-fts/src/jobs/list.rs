//! `GET /jobs`.

use std::collections::HashMap;

use axum::extract::Query;

use crate::state::State;
use crate::{
    access::caller::Caller,
    jobs::objects::JobObject,
    messages::answer::{Answer, ApiError, ok},
};
use weir_executor::job::job_state_from_name;
use weir_service::time;
use weir_transfer::{config::Level, store::JobFilter};

/// Jobs of a listing without a limit, the newest first: some 10 MB.
pub(crate) const JOBS_MAX: usize = 10_000;

/// Lists jobs: without filters, the unfinished ones that the caller may see.
pub(crate) async fn jobs(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    let Some(filter) = filter(&query, &caller)? else {
        return Ok(ok(&Vec::<()>::new()));
    };
    let keys = given(&query, "fields").map(|keys| keys.split(',').map(str::to_owned).collect::<Vec<_>>());
    let mut jobs = service.read(move |store| store.jobs(&filter)).await?;
    jobs.retain(|job| caller.may_see(job));
    let object = |job| JobObject {
        keys: keys.as_deref(),
        ..JobObject::plain(job, service.one_host())
    };
    Ok(ok(&jobs.iter().map(object).collect::<Vec<_>>()))
}

fn given<'a>(query: &'a HashMap<String, String>, key: &str) -> Option<&'a str> {
    query.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// `None`: nothing can fit, because no job is ever in one of the states that were asked for. FTS3 answers an empty list.
pub(crate) fn filter(query: &HashMap<String, String>, caller: &Caller) -> Result<Option<JobFilter>, ApiError> {
    let beyond = caller.reach > Level::Private;
    let (foreign_id, foreign_dn) = (
        given(query, "dlg_id").is_some_and(|id| id != caller.cred_id),
        given(query, "user_dn").is_some_and(|dn| dn != caller.user_dn),
    );
    if foreign_id {
        return Err(ApiError::forbidden(
            "The provided delegation id does not match your delegation id",
        ));
    }
    // FTS3 answers so for every other user; here a caller who may see other users' jobs can filter by one of them.
    if foreign_dn && (!beyond || given(query, "dlg_id").is_some()) {
        return Err(ApiError::bad_request(
            "The provided DN and delegation id do not correspond to the same user",
        ));
    }
    if caller.reach < Level::All && given(query, "vo_name").is_some_and(|vo| vo != caller.vo) {
        return Ok(None);
    }
    // A number that is none is passed over, as FTS3 does.
    let limit = given(query, "limit").and_then(|limit| limit.parse::<i64>().ok());
    if limit.is_some_and(|limit| !(0..=500).contains(&limit)) {
        return Err(ApiError::bad_request(
            "The limit must be positive and less or equal than 500",
        ));
    }
    let text = |key| given(query, key).map(str::to_owned);
    let mut states = Vec::new();
    if let Some(names) = given(query, "state_in") {
        states.extend(names.split(',').filter_map(|name| job_state_from_name(name.trim())));
        if states.is_empty() {
            return Ok(None);
        }
    }
    let finished_since = given(query, "time_window")
        .and_then(window)
        .map(|window| time::now() - window);
    if limit.is_none() && finished_since.is_none() && !states.is_empty() {
        // FTS3 lists no finished jobs without a limit or a window.
        states.retain(|state| !state.is_terminal());
        if states.is_empty() {
            return Ok(None);
        }
    }
    let (cred_id, user_dn) = match text("dlg_id") {
        asked if beyond => (asked, text("user_dn")),
        // Groups and roles are part of the delegation id: a user with others today is the same user.
        None if caller.by.is_certificate() => (None, Some(caller.user_dn.clone())),
        // The name finds them: stores have an index of names.
        _ => (Some(caller.cred_id.clone()), Some(caller.user_dn.clone())),
    };
    Ok(Some(JobFilter {
        states,
        user_dn,
        cred_id,
        vo: if caller.reach == Level::All {
            text("vo_name")
        } else {
            Some(caller.vo.clone())
        },
        source_se: text("source_se"),
        dest_se: text("dest_se"),
        finished_since,
        limit: limit
            .filter(|limit| *limit > 0)
            .map(|limit| limit as usize)
            .or(Some(JOBS_MAX)),
    }))
}

/// `H[:M]` in milliseconds.
fn window(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':').unwrap_or((text, "0"));
    let (hours, minutes) = (hours.trim().parse::<i64>().ok()?, minutes.trim().parse::<i64>().ok()?);
    (hours >= 0 && minutes >= 0).then(|| {
        hours
            .saturating_mul(3_600_000)
            .saturating_add(minutes.saturating_mul(60_000))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_auth::Secret;

    use super::*;
    use crate::access::caller::By;

    fn caller(level: Level) -> Caller {
        let (user_dn, cred_id, vo) = ("alice".to_owned(), "01".to_owned(), "testvo".to_owned());
        Caller {
            user_dn,
            cred_id,
            vo,
            level,
            reach: level,
            by: By::Token(Secret::new("t"), std::time::SystemTime::UNIX_EPOCH),
        }
    }

    /// A renewed proxy without one of yesterday's roles would find none of yesterday's jobs.
    #[test]
    fn users_with_certificates_are_known_by_their_name() {
        let ada = Caller {
            by: By::Elsewhere { certificate: true },
            ..caller(Level::Private)
        };
        let read = |pair: &[(&str, &str)]| {
            let query = pair.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let filter = filter(&query.collect(), &ada).unwrap().unwrap();
            (filter.user_dn, filter.cred_id)
        };
        assert_eq!(read(&[]), (Some("alice".to_owned()), None));
        assert_eq!(read(&[("user_dn", "alice")]), (Some("alice".to_owned()), None));
        assert_eq!(
            read(&[("dlg_id", "01")]),
            (Some("alice".to_owned()), Some("01".to_owned()))
        );
    }

    fn find(text: &str, level: Level) -> Result<Option<JobFilter>, ApiError> {
        let query = text.split('&').filter_map(|pair| pair.split_once('='));
        filter(
            &query.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            &caller(level),
        )
    }

    fn read(text: &str, level: Level) -> Result<JobFilter, ApiError> {
        find(text, level).map(Option::unwrap)
    }

    #[test]
    fn a_state_that_does_not_exist_fits_no_job() {
        // It once listed every live job.
        assert!(find("state_in=NONSENSE", Level::Private).unwrap().is_none());
        assert_eq!(
            read("state_in=ACTIVE,FAILED,NONSENSE", Level::Private)
                .unwrap()
                .states
                .len(),
            1
        );
        assert!(read("state_in=", Level::Private).unwrap().states.is_empty());
        assert!(find("state_in=FAILED", Level::Private).unwrap().is_none());
    }

    #[test]
    fn users_see_their_own_and_administrators_all() {
        let own = read("", Level::Private).unwrap();
        assert_eq!(
            (own.cred_id.as_deref(), own.user_dn.as_deref()),
            (Some("01"), Some("alice"))
        );
        assert_eq!(
            own.vo.as_deref(),
            Some("testvo"),
            "the delegation id says nothing of the VO"
        );
        let all = read("", Level::All).unwrap();
        assert_eq!((all.cred_id, all.vo), (None, None));
        assert!(find("vo_name=other", Level::Private).unwrap().is_none());
        assert_eq!(read("vo_name=other", Level::All).unwrap().vo.as_deref(), Some("other"));
        assert_eq!(read("user_dn=bob", Level::Private).unwrap_err().status.as_u16(), 400);
        assert_eq!(read("user_dn=bob", Level::All).unwrap().user_dn.as_deref(), Some("bob"));
    }

    #[test]
    fn users_who_see_their_vo_list_it_as_fts3_does() {
        let of = |text| {
            let filter = read(text, Level::Vo).unwrap();
            (filter.vo, filter.cred_id, filter.user_dn)
        };
        let vo = Some("testvo".to_owned());
        assert_eq!(of(""), (vo.clone(), None, None));
        assert_eq!(of("vo_name=testvo"), (vo.clone(), None, None));
        assert_eq!(of("user_dn=bob"), (vo.clone(), None, Some("bob".to_owned())));
        assert_eq!(of("dlg_id=01"), (vo, Some("01".to_owned()), None));
        assert!(find("vo_name=other", Level::Vo).unwrap().is_none());
        for level in [Level::Private, Level::Vo, Level::All] {
            assert_eq!(read("dlg_id=02", level).unwrap_err().status.as_u16(), 403);
            assert_eq!(read("dlg_id=01&user_dn=bob", level).unwrap_err().status.as_u16(), 400);
        }
    }

    #[test]
    fn limits_and_windows_are_read_as_fts_reads_them() {
        assert_eq!(
            read("limit=501", Level::Private).unwrap_err().message,
            "The limit must be positive and less or equal than 500"
        );
        assert_eq!(read("limit=x", Level::Private).unwrap().limit, Some(JOBS_MAX));
        assert_eq!(read("limit=7", Level::Private).unwrap().limit, Some(7));
        assert_eq!(
            (window("1"), window("1:30"), window("x")),
            (Some(3_600_000), Some(5_400_000), None)
        );
    }
}
