//! How the catalogue stands, for its operators.

use serde_json::{Value, json};

use super::{
    State,
    answer::{Answer, json_answer},
    caller::Caller,
};
use crate::{figures, permissions::Operation, transfers::ServiceState};
use weir_database::Session;
use weir_service::time;

/// `GET /.well-known/weir/catalog`: rules and requests by state, reasons of waiting requests, deletions, transfer services.
pub(crate) async fn status(door: State, caller: Caller) -> Answer {
    let (now, in_flight) = (time::now(), door.tasks.in_flight);
    let read = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeRses, None)?;
        figures::read(session, now, in_flight)
    };
    let figures = door.database.read(read).await?;
    let services = door.tasks.services.lock().clone();
    let service = |one: &ServiceState| {
        let (reason, left) = one
            .pause
            .as_ref()
            .map(|(reason, left)| (reason, left.as_secs()))
            .unzip();
        json!({ "url": one.url, "reason": reason, "pause_s": left })
    };
    let services = services.iter().map(service).collect::<Vec<Value>>();
    let open = &figures.open;
    let waits = open.waiting.iter().map(|((rse, wait), waiting)| {
        json!({ "rse": rse, "why": wait.as_str(), "requests": waiting.requests, "oldest_s": figures.age(waiting.since) })
    });
    let reserved = open
        .reserved
        .iter()
        .map(|(rse, all)| json!({ "rse": rse, "requests": all.requests, "bytes": all.bytes }));
    Ok(json_answer(&json!({
        "version": env!("CARGO_PKG_VERSION"), "rules": figures.rules, "requests": figures.requests, "deletions": figures.deletions(),
        "waits": waits.collect::<Vec<_>>(), "reserved": reserved.collect::<Vec<_>>(), "services": services,
    })))
}
