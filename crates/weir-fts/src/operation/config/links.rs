//! `/config/links`.

use axum::extract::Path;
use http::StatusCode;
use serde_json::Value;

use super::{change, forgotten, listed, object, row};
use crate::{
    access::caller::Caller,
    messages::{
        answer::{Answer, ApiError, json_answer, ok},
        body::JsonBody,
    },
    state::State,
};
use weir_transfer::settings::{Kind, Settings, ends, normal_link};

pub(super) async fn all(service: State, caller: Caller) -> Answer {
    listed(&service, &caller, Kind::Link)
}

pub(super) async fn one(service: State, caller: Caller, Path(name): Path<String>) -> Answer {
    let missing = format!("Link {name} does not exist");
    Ok(ok(&row(&service, &caller, Kind::Link, &name, &missing)?))
}

pub(super) async fn set(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    let config = body.to_string();
    let body = object(body)?;
    let name = body.get("symbolicname").and_then(Value::as_str).unwrap_or_default();
    let name = name.trim().to_owned();
    let key = (Kind::Link, name.clone());
    change(&service, &caller, "link", config, move |settings| {
        let link = normal_link(&body, settings.get(key.0, &key.1).as_ref())?;
        only_name(settings, &key.1, &ends(&link))?;
        Ok(vec![(key, Some(link))])
    })
    .await?;
    Ok(json_answer(
        StatusCode::CREATED,
        &row(&service, &caller, Kind::Link, &name, "The link was removed")?,
    ))
}

/// Two rows for one link would contradict each other.
fn only_name(settings: &Settings, name: &str, pair: &(String, String)) -> Answer<()> {
    let links = settings.all(Kind::Link);
    match links.iter().find(|(other, link)| other != name && ends(link) == *pair) {
        Some((other, _)) => Err(ApiError::bad_request(format!(
            "The link from {} to {} is configured as {other}",
            pair.0, pair.1
        ))),
        None => Ok(()),
    }
}

pub(super) async fn forget(service: State, caller: Caller, Path(name): Path<String>) -> Answer {
    forgotten(&service, &caller, "link-delete", (Kind::Link, name), "Link").await
}
