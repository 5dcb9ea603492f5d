//! `/config/global`: defaults for jobs of a VO, or of all (`*`).

use std::collections::HashMap;

use axum::extract::Query;
use http::StatusCode;
use serde_json::{Map, Value};

use super::{change, object, remove};
use crate::{
    access::caller::Caller,
    messages::{
        answer::{Answer, ApiError, json_answer, ok},
        body::JsonBody,
    },
    state::State,
};
use weir_transfer::settings::{GLOBAL_KEYS, Kind, Object};

fn shown(vo: &str, row: &Object) -> Value {
    let mut shown: Object = GLOBAL_KEYS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
    shown.extend(row.clone());
    shown.insert("vo_name".to_owned(), vo.into());
    Value::Object(shown)
}

/// By VO.
pub(super) async fn all(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    let rows = service.settings.all(Kind::Global).into_iter();
    let rows = rows.map(|(vo, row)| {
        let row = shown(&vo, &row);
        (vo, row)
    });
    Ok(ok(&rows.collect::<Map<_, _>>()))
}

/// `{"*": {...}, "atlas": {...}}`, or one of these objects with `vo_name`.
fn by_vo(body: Object) -> Answer<Vec<(String, Object)>> {
    let flat = body.keys().any(|key| GLOBAL_KEYS.contains(&key.as_str()));
    if flat {
        let vo = match body.get("vo_name") {
            None | Some(Value::Null) => "*".to_owned(),
            Some(Value::String(vo)) if !vo.is_empty() => vo.clone(),
            Some(_) => return Err(ApiError::bad_request("vo_name must be a string")),
        };
        return Ok(vec![(vo, body)]);
    }
    let named = body.into_iter().map(|(vo, row)| match row {
        Value::Object(row) => Ok((vo, row)),
        _ => Err(ApiError::bad_request(format!(
            "{vo} is neither a key nor a VO with an object"
        ))),
    });
    named.collect()
}

/// Null takes a value away.
pub(super) async fn set(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    let config = body.to_string();
    caller.require_admin()?;
    let asked = by_vo(object(body)?)?;
    if asked.is_empty() {
        return Err(ApiError::bad_request("Malformed configuration"));
    }
    change(&service, &caller, "set-globals", config, move |settings| {
        let rows = asked.into_iter().map(|(vo, asked)| {
            let mut row = settings.get(Kind::Global, &vo).unwrap_or_default();
            row.extend(asked);
            row.retain(|key, value| !value.is_null() && key != "vo_name");
            ((Kind::Global, vo), Some(row))
        });
        Ok(rows.collect())
    })
    .await?;
    all(service, caller).await
}

/// `?vo_name=`.
pub(super) async fn forget(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    caller.require_admin()?;
    let vo = query.get("vo_name").filter(|vo| !vo.is_empty());
    let vo = vo.ok_or_else(|| ApiError::bad_request("Missing VO name"))?;
    remove(&service, &caller, "delete-globals", (Kind::Global, vo.clone()), None).await?;
    Ok(json_answer(StatusCode::NO_CONTENT, &Value::Null))
}
