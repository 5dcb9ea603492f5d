//! `POST /admin/force-start`: files that start past all limits.

use std::{collections::HashSet, sync::Arc};

use axum::{Router, routing::post};
use serde_json::Value;
use tokio::sync::oneshot;
use weir_fts_api::NotForced;

use crate::state::State;
use crate::{
    access::caller::Caller,
    messages::{
        answer::{Answer, ApiError, ok},
        body::JsonBody,
    },
};
use weir_service::time;
use weir_transfer::driver::Request;

use crate::state::Door;

/// Files of one request.
const FILES_MAX: usize = 1000;

/// Files that the audit names; of more it says how many.
const NAMED_MAX: usize = 100;

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new().route("/admin/force-start", post(force_start))
}

/// `[file_id, …]`; answers the files that are not forced, with the reason, in FTS3's words.
///
/// It overrides limits that only full administrators may set, so only they may call it.
async fn force_start(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    caller.require_admin()?;
    let asked = read(&body)?;
    let mut forced = HashSet::new();
    if !asked.is_empty() {
        forced.extend(force(&service, &caller, &asked).await?);
    }
    // An id given twice is not forced the second time.
    let refused = asked.into_iter().filter(|id| !forced.remove(id)).collect::<Vec<_>>();
    let answered = service
        .read(move |store| {
            let mut answered = Vec::with_capacity(refused.len());
            for id in refused {
                let known = match u64::try_from(id) {
                    Ok(file) => store.file(file)?.is_some(),
                    Err(_) => false,
                };
                let error = if known {
                    "File is not in SUBMITTED state"
                } else {
                    "File does not exist"
                };
                answered.push(NotForced {
                    file_id: id,
                    error: error.into(),
                });
            }
            Ok(answered)
        })
        .await?;
    Ok(ok(&answered))
}

fn read(body: &Value) -> Answer<Vec<i64>> {
    let ids = body
        .as_array()
        .and_then(|ids| ids.iter().map(Value::as_i64).collect::<Option<Vec<_>>>());
    let ids = ids.ok_or_else(|| ApiError::bad_request("Only accepts a list of integer fileIDs"))?;
    if ids.len() > FILES_MAX {
        return Err(ApiError::bad_request(format!(
            "At most {FILES_MAX} files can be forced at once"
        )));
    }
    Ok(ids)
}

/// Returns the forced files, durably. It continues if the client leaves.
async fn force(service: &Arc<Door>, caller: &Caller, asked: &[i64]) -> Answer<Vec<i64>> {
    let files = asked
        .iter()
        .filter_map(|id| u64::try_from(*id).ok())
        .collect::<Vec<_>>();
    let (service, who) = (service.clone(), caller.user_dn.clone());
    let done = tokio::spawn(async move {
        let _alone = service.settings.changing.lock().await;
        let (told, forced) = oneshot::channel();
        let drafting = service.clone();
        let forcing = Box::new(move |forced: &[u64]| {
            if forced.is_empty() {
                return Vec::new();
            }
            let audit = &drafting.settings.audit;
            let (entry, changes) = audit.draft(time::now(), &who, "force-start", named(forced));
            // The caller may have left.
            let _ = told.send((forced.to_vec(), entry));
            changes
        });
        service
            .driver
            .ask(|reply| Request::Force { files, forcing, reply })
            .await?;
        let Ok((forced, entry)) = forced.await else {
            return Ok(Vec::new());
        };
        tracing::info!(who = entry.dn, entry.config, "files were forced to start");
        service.settings.audit.note(entry);
        Ok(forced.into_iter().filter_map(|file| i64::try_from(file).ok()).collect())
    });
    done.await
        .map_err(|_| ApiError::unavailable("The service is stopping"))?
}

/// `1, 2, 3 and 7 more`
fn named(files: &[u64]) -> String {
    let (named, more) = files.split_at(files.len().min(NAMED_MAX));
    let named = named.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match more.len() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_are_lists_of_numbers() {
        assert_eq!(read(&json!([1, -2, 3])).unwrap(), [1, -2, 3]);
        assert!(read(&json!([])).unwrap().is_empty());
        for body in [
            json!({ "files": [1] }),
            json!(["1"]),
            json!([1.5]),
            json!([1, null]),
            json!(7),
        ] {
            let refused = read(&body).unwrap_err();
            assert_eq!(
                (refused.status.as_u16(), refused.message.as_str()),
                (400, "Only accepts a list of integer fileIDs")
            );
        }
        assert!(read(&json!(vec![1; FILES_MAX])).is_ok());
        assert_eq!(read(&json!(vec![1; FILES_MAX + 1])).unwrap_err().status.as_u16(), 400);
    }

    #[test]
    fn the_audit_stays_short() {
        // Ten thousand entries of a thousand ids each would fill the memory of every node.
        assert_eq!(named(&[1, 2]), "1, 2");
        let many = named(&(0..1000).collect::<Vec<_>>());
        assert!(many.len() < 500 && many.ends_with(" 99 and 900 more"), "{many}");
    }
}
