//! `/config/se`.

use std::collections::HashMap;

use axum::extract::Query;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{change, object, remove};
use crate::{
    access::caller::Caller,
    messages::{
        answer::{Answer, ApiError, json_answer, ok},
        body::JsonBody,
    },
    state::State,
};
use weir_transfer::settings::{Kind, Object, storage_name};

/// FTS3's keys of `se_info`, shown whether they are set or not.
const INFO_KEYS: [&str; 13] = [
    "inbound_max_active",
    "inbound_max_throughput",
    "outbound_max_active",
    "outbound_max_throughput",
    "udt",
    "ipv6",
    "se_metadata",
    "site",
    "debug_level",
    "eviction",
    "skip_eviction",
    "tpc_support",
    "overwrite_disk_enabled",
];

fn name_of(text: &str) -> Answer<String> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    Ok(storage_name(text)?)
}

fn shown(row: &Object) -> (Object, Object) {
    // Rows of the first versions hold `se_info` alone.
    let part = |key: &str| row.get(key).and_then(Value::as_object);
    let set = part("se_info").unwrap_or(row);
    let mut info: Object = INFO_KEYS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
    info.extend(set.clone());
    (info, part("operations").cloned().unwrap_or_default())
}

/// `?se=` asks for one.
pub(super) async fn all(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    caller.require_admin()?;
    let asked = query.get("se").map(|se| name_of(se)).transpose()?;
    let rows = service.settings.all(Kind::Storage).into_iter();
    let rows = rows.filter(|(se, _)| asked.as_ref().is_none_or(|asked| asked == se));
    let objects = rows.map(|(se, row)| {
        let (info, operations) = shown(&row);
        (se, json!({ "se_info": info, "operations": operations }))
    });
    Ok(ok(&objects.collect::<Map<_, _>>()))
}

/// Merges new values over the former ones. Null removes a value, and so does 0 for the limits of a VO.
fn merged(former: Option<Object>, config: &Object) -> Answer<Object> {
    let former = former.unwrap_or_default();
    let (mut info, mut operations) = shown(&former);
    let part = |key: &str| match config.get(key) {
        None | Some(Value::Null) => Ok(Object::new()),
        Some(Value::Object(part)) => Ok(part.clone()),
        Some(_) => Err(ApiError::bad_request("Malformed configuration")),
    };
    info.extend(part("se_info")?);
    info.retain(|_, value| !value.is_null());
    for (vo, limits) in part("operations")? {
        let Value::Object(limits) = limits else {
            return Err(ApiError::bad_request("Malformed configuration"));
        };
        let kept = operations.entry(vo).or_insert_with(|| json!({}));
        if let Value::Object(kept) = kept {
            kept.extend(limits);
            kept.retain(|_, limit| limit.as_i64().is_none_or(|limit| limit > 0) && !limit.is_null());
        }
    }
    operations.retain(|_, limits| limits.as_object().is_some_and(|limits| !limits.is_empty()));
    let row = json!({ "se_info": info, "operations": operations });
    Ok(row.as_object().cloned().unwrap_or_default())
}

/// `{"<se>": {"se_info": {...}, "operations": {...}}}`; answers the last one's `[se_info, operations]`.
pub(super) async fn set(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    caller.require_admin()?;
    let config = body.to_string();
    let mut asked = Vec::new();
    for (se, config) in object(body)? {
        let Value::Object(config) = config else {
            return Err(ApiError::bad_request("Malformed configuration"));
        };
        asked.push((name_of(&se)?, config));
    }
    let Some(last) = asked.last().map(|(se, _)| se.clone()) else {
        return Err(ApiError::bad_request("Malformed configuration"));
    };
    change(&service, &caller, "set-se-config", config, move |settings| {
        let mut rows = Vec::with_capacity(asked.len());
        for (se, config) in asked {
            let row = merged(settings.get(Kind::Storage, &se), &config)?;
            rows.push(((Kind::Storage, se), Some(row)));
        }
        Ok(rows)
    })
    .await?;
    Ok(ok(&shown(
        &service.settings.get(Kind::Storage, &last).unwrap_or_default(),
    )))
}

/// `?se=`.
pub(super) async fn forget(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    caller.require_admin()?;
    let se = query
        .get("se")
        .ok_or_else(|| ApiError::bad_request("Missing storage (se)"))?;
    remove(
        &service,
        &caller,
        "delete-se-config",
        (Kind::Storage, name_of(se)?),
        None,
    )
    .await?;
    Ok(json_answer(StatusCode::NO_CONTENT, &Value::Null))
}
