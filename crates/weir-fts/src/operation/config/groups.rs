//! `/config/weir/groups`: resources that several storage elements share, such as a wide-area link or a set of gateways.

use axum::extract::Path;
use http::StatusCode;
use serde_json::Value;

use super::{change, forgotten, listed, object, row};
use crate::{
    access::caller::Caller,
    messages::{
        answer::{Answer, json_answer, ok},
        body::JsonBody,
    },
    state::State,
};
use weir_transfer::settings::{Kind, normal_group};

pub(super) async fn all(service: State, caller: Caller) -> Answer {
    listed(&service, &caller, Kind::Group)
}

pub(super) async fn one(service: State, caller: Caller, Path(name): Path<String>) -> Answer {
    let missing = format!("Group {name} does not exist");
    Ok(ok(&row(&service, &caller, Kind::Group, &name, &missing)?))
}

/// A group is replaced as a whole.
pub(super) async fn set(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    let config = body.to_string();
    caller.require_admin()?;
    let group = normal_group(&object(body)?)?;
    let name = group.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let answer = group.clone();
    change(&service, &caller, "group", config, move |_| {
        Ok(vec![((Kind::Group, name), Some(group))])
    })
    .await?;
    Ok(json_answer(StatusCode::CREATED, &answer))
}

pub(super) async fn forget(service: State, caller: Caller, Path(name): Path<String>) -> Answer {
    forgotten(&service, &caller, "group-delete", (Kind::Group, name), "Group").await
}
