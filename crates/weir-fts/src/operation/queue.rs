//! `GET /.well-known/weir/queue`: how deep queues are, and how deep they may be, before anybody is refused.

use axum::{Json, extract::FromRequestParts, response::Response};
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_fts_api::Queue;
use weir_sched::{Link, Names, Scheduler, SeId, Strategy};
use weir_units::Bytes;

use crate::state::State;
use crate::{
    access::{
        caller::{Caller, Relayed},
        visible_links::VisibleLinks,
    },
    messages::answer::{Answer, ApiError, ok},
};
use weir_service::time;
use weir_transfer::driver::{Meter, NotTaken, QueueDepth, Room};

/// Where a node asks the scheduler whether a job may come in.
pub(crate) const ROOM: &str = "/.well-known/weir/room";

/// Where nodes ask the scheduler which source a file begins with.
pub(crate) const CHOICE: &str = "/.well-known/weir/choice";

fn shown(standing: &QueueDepth, now: time::Millis) -> Queue<'_> {
    let age = standing.oldest.map(|oldest| (now - oldest).max(0) / 1000);
    Queue {
        kind: standing.kind.into(),
        name: standing.name.as_str().into(),
        depth: standing.depth,
        depth_limit: standing.limit.depth,
        oldest_s: age,
        oldest_limit_s: standing.limit.age.map(|age| age.as_secs()),
    }
}

/// A request of another node, for itself. Checked before the body, which is not read for others.
pub(crate) struct FromNode;

impl<S: Sync> FromRequestParts<S> for FromNode {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match parts.extensions.get() {
            Some(Relayed(None)) => Ok(Self),
            _ => Err(ApiError::not_found("The requested URL was not found on the server.")),
        }
    }
}

/// Whether there is room for a job that came in at another node, which asks.
pub(crate) async fn room(service: State, _: FromNode, Json(room): Json<Room>) -> Answer<Response> {
    let look = move |core: &Scheduler, names: &Names, meter: &Meter| {
        meter.room(&room, names).map_err(NotTaken::Full)?;
        let room = core.room_for(room.links.len() as u64);
        room.map_err(|refusal| NotTaken::Busy(refusal.to_string()))
    };
    let room = service.driver.look(look).await;
    room.ok_or_else(|| ApiError::unavailable("The service is stopping"))??;
    Ok(ok(&json!({})))
}

/// The sources of a file that came in at another node, which asks with which of them it begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sources {
    pub(crate) strategy: Option<String>,
    pub(crate) size: u64,
    /// Source and destination.
    pub(crate) links: Vec<(String, String)>,
}

/// The place of the best source.
pub(crate) async fn choice(service: State, _: FromNode, Json(sources): Json<Sources>) -> Answer<Response> {
    let choose = move |core: &Scheduler, names: &Names, _: &Meter| {
        let strategy = sources
            .strategy
            .as_deref()
            .and_then(Strategy::named)
            .unwrap_or_default();
        // A name without a number belongs to no link.
        let se = |name: &str| names.find_se(name).unwrap_or(SeId(u32::MAX));
        let link = |(source, destination): &(String, String)| Link {
            source: se(source),
            destination: se(destination),
        };
        let links = sources.links.iter().map(link).collect::<Vec<_>>();
        core.best(strategy, &links, Bytes(sources.size))
    };
    let place = service.driver.look(choose).await;
    let place = place.ok_or_else(|| ApiError::unavailable("The service is stopping"))?;
    Ok(ok(&json!({ "place": place })))
}

/// The caller's own queue, that of its VO, and those of the links that the VO uses; for administrators, all.
pub(crate) async fn queue(service: State, caller: Caller) -> Answer<Response> {
    let look = move |core: &Scheduler, names: &Names, meter: &Meter| {
        let visible = VisibleLinks::of(&caller);
        let seen = |standing: &QueueDepth| {
            caller.is_admin()
                || match standing.link {
                    Some(link) => visible.covers(core, names, link),
                    None if standing.kind == "vo" => standing.name == caller.vo,
                    None => standing.name == caller.cred_id,
                }
        };
        let mut standings = meter.depth.standings(names);
        standings.retain(seen);
        standings
    };
    let standings = service.driver.look(look).await;
    let standings = standings.ok_or_else(|| ApiError::unavailable("The service is stopping"))?;
    let now = time::now();
    let queues = standings.iter().map(|standing| shown(standing, now));
    Ok(ok(&queues.collect::<Vec<_>>()))
}
