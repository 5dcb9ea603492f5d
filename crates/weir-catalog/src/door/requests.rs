//! Requests: the transfers that rules wait for, and ended ones.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::extract::{Path, Query};
use futures_util::stream;
use serde_json::{Value, json};
use weir_database::Session;
use weir_model::catalog::RequestState;
use weir_rules::ids::{RequestId, RseId};
use weir_store::StoreError;

use super::{
    Door, State,
    answer::{Answer, Failure, date, json_answer, streamed},
    caller::Caller,
    data::did,
    pages::PageSize,
    rses as names,
};
use crate::{
    dids,
    refusal::{Class, Refusal},
    requests::listing::{self, ListedRequest},
    rses,
};

/// Names and ids of RSEs.
type RseNames = BTreeMap<RseId, (String, String)>;

fn all_rses(session: &mut dyn Session) -> Result<RseNames, StoreError> {
    let all = rses::list(session)?.into_iter();
    Ok(all
        .map(|one| (one.rse.id, (one.rse.name.to_string(), one.rse.uid)))
        .collect())
}

impl Door {
    /// A request as clients see it.
    fn row(&self, shown: &ListedRequest, rses: &RseNames) -> Value {
        let name = |rse: Option<RseId>| rse.and_then(|rse| rses.get(&rse));
        let (from, to) = (name(shown.source), name(Some(shown.destination)));
        let rule = shown.rule.as_ref();
        let previous = (shown.number > 1).then(|| self.tasks.tag.uid(shown.request, shown.number - 1));
        let mut row = json!({
            "id": self.tasks.tag.uid(shown.request, shown.number), "request_type": "TRANSFER", "scope": shown.did.scope, "name": shown.did.name,
            "did_type": "FILE", "dest_rse_id": to.map(|rse| &rse.1), "dest_rse": to.map(|rse| &rse.0),
            "source_rse_id": from.map(|rse| &rse.1), "source_rse": from.map(|rse| &rse.0), "attributes": {
                "activity": shown.activity, "source_replica_expression": null, "lifetime": null, "ds_scope": rule.map(|rule| &rule.1.scope),
                "ds_name": rule.map(|rule| &rule.1.name),
                "bytes": shown.bytes, "md5": shown.checksums[1], "adler32": shown.checksums[0], "priority": shown.priority,
                "allow_tape_source": true,
            },
            "state": shown.state, "external_id": shown.job.as_ref().map(|job| &job.1), "external_host": shown.job.as_ref().map(|job| &job.0),
            "retry_count": shown.number.saturating_sub(1), "err_msg": shown.reason, "previous_attempt_id": previous, "rule_id": rule.map(|rule| &rule.0),
            "activity": shown.activity, "bytes": shown.bytes, "md5": shown.checksums[1], "adler32": shown.checksums[0], "dest_url": null,
            "submitted_at": shown.submitted.map(date), "started_at": shown.times.started.map(date),
            "transferred_at": shown.times.finished.map(date), "estimated_at": null,
            "submitter_id": null, "estimated_started_at": null, "estimated_transferred_at": null, "staging_started_at": null,
            "staging_finished_at": null, "account": shown.account, "requested_at": null, "last_processed_by": null,
            "last_processed_at": null, "priority": shown.priority, "transfertool": shown.job.as_ref().map(|_| "fts3"), "created_at": date(shown.created),
            "updated_at": date(shown.updated),
        });
        // Rucio's times are whole seconds; these are milliseconds since the epoch.
        row["weir"] = json!({
            "created_ms": shown.created, "submitted_ms": shown.submitted, "started_ms": shown.times.started,
            "transferred_ms": shown.times.finished, "updated_ms": shown.updated,
        });
        row
    }
}

/// The request of a file at an RSE, or its last attempt that ended.
async fn of_place(door: State, (scope, name, rse): (String, String, String), ended: bool) -> Answer {
    let (did, rse) = (did(&scope, &name)?, names::name(&rse)?);
    let read = move |session: &mut dyn Session| {
        let at = (dids::get(session, &did)?.id, rses::get(session, &rse)?.id);
        let found = if ended {
            listing::history_of_place(session, at, 1)?.pop()
        } else {
            listing::of_place(session, at)?
        };
        let missing = || {
            Refusal::new(
                Class::RequestNotFound,
                format!("No request found for DID {did} at RSE {rse}"),
            )
        };
        Ok((found.ok_or_else(missing)?, all_rses(session)?))
    };
    let (shown, rses) = door.database.read(read).await?;
    Ok(json_answer(&door.row(&shown, &rses)))
}

/// `GET /requests/{scope}/{name}/{rse}`.
pub(crate) async fn get(door: State, _: Caller, Path(place): Path<(String, String, String)>) -> Answer {
    of_place(door, place, false).await
}

/// `GET /requests/history/{scope}/{name}/{rse}`.
pub(crate) async fn get_ended(door: State, _: Caller, Path(place): Path<(String, String, String)>) -> Answer {
    of_place(door, place, true).await
}

/// `GET /requests/list`.
pub(crate) async fn list(door: State, _: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    listed(door, &query, false).await
}

/// `GET /requests/history/list`.
pub(crate) async fn list_ended(door: State, _: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    listed(door, &query, true).await
}

/// A listing under way.
#[derive(Debug)]
struct RequestListing {
    links: (Vec<RseId>, Vec<RseId>),
    states: Vec<RequestState>,
    ended: bool,
    rses: RseNames,
}

/// The page that comes next: after this attempt.
type Next = (Arc<Door>, Arc<RequestListing>, (RequestId, u64), PageSize);

async fn listed(door: State, query: &HashMap<String, String>, ended: bool) -> Answer {
    let states = states(query.get("request_states").map_or("", String::as_str))?;
    let sides = [side(query, "src")?, side(query, "dst")?];
    let read = move |session: &mut dyn Session| {
        let all = rses::list(session)?;
        let of = |side: &Side| {
            let is_one = |one: &&rses::Described| match side {
                Side::Rse(name) => one.rse.name.as_str() == name,
                Side::Site(site) => one.attributes.get("site") == Some(site),
            };
            let found = all.iter().filter(is_one).map(|one| one.rse.id).collect::<Vec<_>>();
            let (Side::Rse(name) | Side::Site(name)) = side;
            let missing = || Refusal::new(Class::RseNotFound, format!("RSE '{name}' cannot be found"));
            if found.is_empty() {
                Err(StoreError::from(missing()))
            } else {
                Ok(found)
            }
        };
        Ok((of(&sides[0])?, of(&sides[1])?, all_rses(session)?))
    };
    let (sources, destinations, rses) = door.database.read(read).await?;
    let listing = Arc::new(RequestListing {
        links: (sources, destinations),
        states,
        ended,
        rses,
    });
    let begin = Some((Arc::clone(&door.0), listing, (RequestId(0), 0), PageSize::first()));
    let pages = stream::try_unfold(begin, |state: Option<Next>| async move {
        let Some((door, listing, after, size)) = state else {
            return Ok(None);
        };
        let asked = listing.clone();
        let read = move |session: &mut dyn Session| {
            let RequestListing {
                links, states, ended, ..
            } = &*asked;
            listing::between(session, (&links.0, &links.1), states, (*ended, after, size.rows()))
        };
        let rows = door.database.read(read).await?;
        let text = rows
            .iter()
            .map(|row| format!("{}\n", door.row(row, &listing.rses)))
            .collect::<String>();
        let next = rows
            .last()
            .filter(|_| rows.len() == size.rows())
            .map(|row| (row.request, row.number));
        let size = size.after(text.len());
        Ok::<_, StoreError>(Some((text, next.map(|next| (door, listing, next, size)))))
    });
    Ok(streamed("application/x-json-stream", String::new(), pages))
}

/// One end of the links that are asked for.
#[derive(Debug)]
enum Side {
    Rse(String),
    Site(String),
}

fn side(query: &HashMap<String, String>, side: &str) -> Result<Side, Failure> {
    let get = |kind: &str| query.get(&format!("{side}_{kind}")).cloned();
    let found = get("rse").map(Side::Rse).or_else(|| get("site").map(Side::Site));
    found.ok_or_else(|| super::body::missing(&format!("{side}_rse")))
}

/// Letters or names, separated by commas, also as Python prints a list of them.
fn states(text: &str) -> Result<Vec<RequestState>, Failure> {
    let words = text
        .split(',')
        .map(|word| word.trim_matches(|c: char| "[]'\" ".contains(c)));
    let state = |word: &str| {
        let known = RequestState::ALL
            .iter()
            .find(|one| one.letter().to_string() == word || one.as_str() == word);
        known
            .copied()
            .ok_or_else(|| Failure::value(format!("{word:?} is no state of a request")))
    };
    let all = words
        .filter(|word| !word.is_empty())
        .map(state)
        .collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() {
        return Err(super::body::missing("request_states"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_clients_write_them() {
        let read = |text: &str| states(text).ok();
        assert_eq!(read("Q,S"), Some(vec![RequestState::Queued, RequestState::Submitted]));
        assert_eq!(
            read("['FAILED', 'D']"),
            Some(vec![RequestState::Failed, RequestState::Done])
        );
        assert_eq!((read(""), read("X1")), (None, None));
    }
}
