//! `GET /.well-known/weir/queue`: how deep queues are, and how deep they may be, before anybody is refused.

use axum::{Extension, Json, response::Response};
use serde_json::{Value, json};
use weir_sched::{Names, Scheduler};

use super::{
    State,
    answer::{Answer, ApiError, ok},
    caller::Caller,
};
use crate::{
    driver::{Meter, NotTaken, Room, Standing},
    nodes::Relayed,
    time,
};

fn shown(standing: &Standing, now: time::Millis) -> Value {
    let age = standing.oldest.map(|oldest| (now - oldest).max(0) / 1000);
    json!({
        "kind": standing.kind,
        "name": standing.name,
        "depth": standing.depth,
        "depth_limit": standing.limit.depth,
        "oldest_s": age,
        "oldest_limit_s": standing.limit.age.map(|age| age.as_secs()),
    })
}

/// Whether there is room for a job that came in at another node, which asks.
pub(super) async fn room(service: State, node: Option<Extension<Relayed>>, Json(room): Json<Room>) -> Answer<Response> {
    if node.is_none() {
        return Err(ApiError::not_found("The requested URL was not found on the server."));
    }
    let room = service
        .driver
        .look(move |_: &Scheduler, names: &Names, meter: &Meter| meter.depth.room(&room, names))
        .await;
    room.ok_or_else(|| ApiError::unavailable("The service is stopping"))?
        .map_err(|full| ApiError::from(NotTaken::Full(full)))?;
    Ok(ok(&json!({})))
}

/// The caller's own queue, that of its VO, and those of all links; for administrators, all.
pub(super) async fn queue(service: State, caller: Caller) -> Answer<Response> {
    let standings = service
        .driver
        .look(|_: &Scheduler, names: &Names, meter: &Meter| meter.depth.standings(names))
        .await;
    let standings = standings.ok_or_else(|| ApiError::unavailable("The service is stopping"))?;
    let seen = |standing: &&Standing| {
        caller.admin
            || match standing.kind {
                "vo" => standing.name == caller.vo,
                "client" => standing.name == caller.cred_id,
                _ => true,
            }
    };
    let now = time::now();
    let queues = standings.iter().filter(seen).map(|standing| shown(standing, now));
    Ok(ok(&queues.collect::<Vec<_>>()))
}
