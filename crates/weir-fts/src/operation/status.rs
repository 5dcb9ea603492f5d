//! `/status` and `/autocomplete`: current activity, and known names.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use axum::{
    Router,
    extract::{Path, Query},
    routing::get,
};
use serde_json::json;
use weir_fts_api::HostActivity;
use weir_sched::{Names, Scheduler, Work};

use crate::state::State;
use crate::{
    access::{caller::Caller, visible_links::VisibleLinks},
    messages::answer::{Answer, ApiError, ok},
};
use weir_transfer::store::JobFilter;

use crate::state::Door;

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/status/hosts", get(hosts))
        .route("/status/{host}", get(host))
        .route("/autocomplete/{what}", get(autocomplete))
}

/// `active` and `staging`: the two keys that clients add up.
async fn figures(service: &Door) -> Answer<HostActivity> {
    let figures = service
        .driver
        .look(|core: &Scheduler, _: &Names, _: &_| {
            let at_tapes = |work| {
                core.tapes()
                    .filter(move |tape| tape.work == work)
                    .map(|tape| tape.active)
            };
            let staging: u64 = at_tapes(Work::Stage).sum();
            let archiving: u64 = at_tapes(Work::Archive).sum();
            let active = core.totals().active - staging - archiving;
            HostActivity { active, staging }
        })
        .await;
    figures.ok_or_else(|| ApiError::unavailable("The service is stopping"))
}

/// `GET /status/hosts`: clients add up exactly these two keys.
async fn hosts(service: State, _caller: Caller) -> Answer {
    Ok(ok(&json!({ service.host.as_str(): figures(&service).await? })))
}

/// `GET /status/{hostname}`: one of them.
async fn host(service: State, _caller: Caller, Path(host): Path<String>) -> Answer {
    if host != service.host {
        return Err(ApiError::not_found("Host not found"));
    }
    Ok(ok(&figures(&service).await?))
}

/// Names that are offered at once.
const OFFERED: usize = 50;

/// Jobs whose owners are searched for names.
const JOBS: usize = 500;

/// `GET /autocomplete/{dn,source,destination,storage,vo}?term=`.
async fn autocomplete(
    service: State,
    caller: Caller,
    Path(what): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    let names: BTreeSet<String> = match what.as_str() {
        "source" | "destination" | "storage" => storages(&service, &what, VisibleLinks::of(&caller)).await?,
        "vo" if caller.is_admin() => service.callers.get().vos.values().cloned().collect(),
        "vo" => BTreeSet::from([caller.vo.clone()]),
        "dn" => {
            caller.require_admin()?;
            let filter = JobFilter {
                limit: Some(JOBS),
                ..JobFilter::default()
            };
            let jobs = service.read(move |store| store.jobs(&filter)).await?;
            jobs.into_iter().map(|job| job.spec.user_dn).collect()
        }
        _ => return Err(ApiError::not_found("The requested URL was not found on the server.")),
    };
    let term = query.get("term").map(String::as_str).unwrap_or_default();
    let fitting = names.into_iter().filter(|name| name.contains(term));
    Ok(ok(&fitting.take(OFFERED).collect::<Vec<_>>()))
}

/// Storage elements that ever had a transfer that the caller may know of, as sources, destinations or either.
async fn storages(service: &Door, what: &str, visible: VisibleLinks) -> Answer<BTreeSet<String>> {
    let (sources, destinations) = (what != "destination", what != "source");
    let names = service
        .driver
        .look(move |core: &Scheduler, names: &Names, _: &_| {
            let mut found = BTreeSet::new();
            for stats in core.links().filter(|stats| visible.covers(core, names, stats.link)) {
                let ends = [(sources, stats.link.source), (destinations, stats.link.destination)];
                let ends = ends.iter().filter(|(asked, _)| *asked);
                found.extend(ends.map(|(_, se)| names.se_name(*se).to_owned()));
            }
            found
        })
        .await;
    names.ok_or_else(|| ApiError::unavailable("The service is stopping"))
}
