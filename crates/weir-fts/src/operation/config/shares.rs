//! `/config/shares` and `/config/activity_shares`.

use std::collections::HashMap;

use axum::extract::{Path, Query};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{change, forgotten, listed, object, remove, row};
use crate::{
    access::caller::Caller,
    messages::{
        answer::{Answer, ApiError, json_answer, ok},
        body::JsonBody,
    },
    state::State,
};
use weir_transfer::settings::{Kind, Object, ends, normal_activities, normal_share};

pub(super) async fn all(service: State, caller: Caller) -> Answer {
    listed(&service, &caller, Kind::Share)
}

fn name_of(row: &Object) -> String {
    let (source, destination) = ends(row);
    let vo = row.get("vo").and_then(Value::as_str).unwrap_or_default();
    format!("{source} {destination} {vo}")
}

/// Answers the share, a number.
pub(super) async fn set(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    let config = body.to_string();
    caller.require_admin()?;
    let share = normal_share(&object(body)?)?;
    let answer = share.get("share").cloned().unwrap_or_default();
    change(&service, &caller, "share", config, move |_| {
        Ok(vec![((Kind::Share, name_of(&share)), Some(share))])
    })
    .await?;
    Ok(ok(&answer))
}

/// `?source=&destination=&vo=`.
pub(super) async fn forget(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    caller.require_admin()?;
    let given: Object = query.into_iter().map(|(key, value)| (key, value.into())).collect();
    if ["source", "destination", "vo"]
        .iter()
        .any(|key| !given.contains_key(*key))
    {
        return Err(ApiError::bad_request("Missing source, destination and/or vo"));
    }
    remove(&service, &caller, "share-delete", (Kind::Share, name_of(&given)), None).await?;
    Ok(json_answer(StatusCode::NO_CONTENT, &Value::Null))
}

/// By VO.
pub(super) async fn activities(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    let rows = service.settings.all(Kind::Activities).into_iter();
    let shown = rows.map(|(vo, row)| {
        let part = |key: &str| row.get(key).cloned().unwrap_or_default();
        (vo, json!({ "share": part("share"), "active": part("active") }))
    });
    Ok(ok(&shown.collect::<Map<_, _>>()))
}

pub(super) async fn activities_of(service: State, caller: Caller, Path(vo): Path<String>) -> Answer {
    let missing = format!("The activity share of {vo} does not exist");
    Ok(ok(&row(&service, &caller, Kind::Activities, &vo, &missing)?))
}

pub(super) async fn set_activities(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    let config = body.to_string();
    caller.require_admin()?;
    let row = normal_activities(&object(body)?)?;
    let vo = row.get("vo").and_then(Value::as_str).unwrap_or_default().to_owned();
    let answer = row.clone();
    change(&service, &caller, "activity-share", config, move |_| {
        Ok(vec![((Kind::Activities, vo), Some(row))])
    })
    .await?;
    Ok(ok(&answer))
}

pub(super) async fn forget_activities(service: State, caller: Caller, Path(vo): Path<String>) -> Answer {
    let key = (Kind::Activities, vo);
    forgotten(&service, &caller, "activity-share-delete", key, "The activity share of").await
}
