//! How the catalogue stands, for its operators.

use serde_json::{Value, json};

use super::{
    State,
    answer::{Answer, json_answer},
    caller::Caller,
};
use crate::{figures, permissions::Operation, transfers::ServiceState};
use weir_database::Session;

/// `GET /.well-known/weir/catalog`: counts of rules and requests by state, deletions, transfer services.
pub(crate) async fn status(door: State, caller: Caller) -> Answer {
    let read = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeRses, None)?;
        figures::read(session)
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
    Ok(json_answer(&json!({
        "version": env!("CARGO_PKG_VERSION"), "rules": figures.rules, "requests": figures.requests, "deletions": figures.deletions(),
        "services": services,
    })))
}
