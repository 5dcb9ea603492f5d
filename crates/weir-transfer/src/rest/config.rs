//! Limits, changed while the service runs. For administrators.

use std::collections::HashMap;

use axum::extract::{Path, Query};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{
    State,
    answer::{Answer, ApiError, json_answer, ok},
    body::JsonBody,
    caller::Caller,
};
use crate::{
    driver::{NamedLimit, Request},
    settings::{link_change, link_limit, se_change, se_limits},
};

/// `GET /config/links`.
pub(super) async fn links(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    Ok(ok(&service.settings.links().values().collect::<Vec<_>>()))
}

/// `GET /config/links/{name}`.
pub(super) async fn link(service: State, caller: Caller, Path(name): Path<String>) -> Answer {
    caller.require_admin()?;
    match service.settings.links().get(&name) {
        Some(link) => Ok(ok(link)),
        None => Err(ApiError::not_found("Link not found")),
    }
}

/// `POST /config/links`.
pub(super) async fn set_link(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    caller.require_admin()?;
    let link = normal_link(&body)?;
    let name = link["symbolicname"].as_str().unwrap_or_default().to_owned();
    let limit = link_limit(&link).ok_or_else(|| ApiError::bad_request("max_active is missing or no number"))?;
    let settings = vec![link_change(&name, Some(&link))];
    service
        .driver
        .ask(|reply| Request::Limits {
            changes: vec![limit],
            settings,
            reply,
        })
        .await?;
    service.settings.note_link(&name, Some(link.clone()));
    Ok(json_answer(StatusCode::CREATED, &link))
}

/// A link as it is kept and shown.
pub(super) fn normal_link(body: &Value) -> Result<Map<String, Value>, ApiError> {
    let text = |key: &str| {
        body.get(key)
            .and_then(Value::as_str)
            .map(|text| text.trim_end_matches('/').to_owned())
            .filter(|text| !text.is_empty())
            .ok_or_else(|| ApiError::bad_request(format!("{key} is missing")))
    };
    let (name, source, destination) = (text("symbolicname")?, text("source")?, text("destination")?);
    if (source == "*") != (destination == "*") {
        return Err(ApiError::bad_request(
            "Limits of a link name both storage elements, or are for all links (* to *); use /config/se for one side",
        ));
    }
    for se in [&source, &destination] {
        if se != "*" && !se.contains("://") {
            return Err(ApiError::bad_request(format!(
                "'{se}' is not of the form scheme://host"
            )));
        }
    }
    let number = |key: &str| body.get(key).and_then(Value::as_u64);
    let Some(max_active) = number("max_active") else {
        return Err(ApiError::bad_request("max_active is missing or no number"));
    };
    let link = json!({
        "symbolicname": name,
        "source": source,
        "destination": destination,
        "min_active": number("min_active").unwrap_or(max_active),
        "max_active": max_active,
        "optimizer_mode": number("optimizer_mode").unwrap_or(0),
        "tcp_buffer_size": number("tcp_buffer_size").unwrap_or(0),
        "nostreams": number("nostreams").unwrap_or(0),
        "no_delegation": body.get("no_delegation").and_then(Value::as_bool).unwrap_or(false),
    });
    match link {
        Value::Object(link) => Ok(link),
        _ => Err(ApiError::bad_request("not an object")),
    }
}

/// `DELETE /config/links/{name}`.
pub(super) async fn forget_link(service: State, caller: Caller, Path(name): Path<String>) -> Answer {
    caller.require_admin()?;
    let links = service.settings.links();
    let link = links.get(&name).ok_or_else(|| ApiError::not_found("Link not found"))?;
    let changes = match link_limit(link) {
        Some(NamedLimit::Link(source, destination, _)) => vec![NamedLimit::Link(source, destination, None)],
        _ => vec![NamedLimit::EveryLink(service.default_link_limit)],
    };
    let settings = vec![link_change(&name, None)];
    service
        .driver
        .ask(|reply| Request::Limits {
            changes,
            settings,
            reply,
        })
        .await?;
    service.settings.note_link(&name, None);
    Ok(json_answer(StatusCode::NO_CONTENT, &Value::Null))
}

/// `GET /config/se[?se=]`.
pub(super) async fn ses(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    caller.require_admin()?;
    let ses = service
        .settings
        .ses()
        .into_iter()
        .filter(|(se, _)| query.get("se").is_none_or(|asked| asked == se));
    let shown = ses.map(|(se, info)| (se, json!({ "se_info": info, "operations": {} })));
    Ok(ok(&shown.collect::<Map<_, _>>()))
}

/// `POST /config/se`: `{"<se>": {"se_info": {...}}}`.
pub(super) async fn set_ses(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    caller.require_admin()?;
    let Value::Object(body) = body else {
        return Err(ApiError::bad_request("The body is not an object"));
    };
    let known = service.settings.ses();
    let (mut changes, mut settings, mut notes, mut shown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (se, config) in &body {
        if !se.contains("://") {
            return Err(ApiError::bad_request(format!(
                "'{se}' is not of the form scheme://host"
            )));
        }
        let Some(info) = config.get("se_info").and_then(Value::as_object) else {
            continue;
        };
        let mut merged = known.get(se).cloned().unwrap_or_default();
        merged.extend(info.clone());
        changes.extend(se_limits(se, info));
        settings.push(se_change(se, Some(&merged)));
        shown.push(json!([merged, {}]));
        notes.push((se.clone(), merged));
    }
    service
        .driver
        .ask(|reply| Request::Limits {
            changes,
            settings,
            reply,
        })
        .await?;
    for (se, info) in notes {
        service.settings.note_se(&se, Some(info));
    }
    Ok(if shown.len() == 1 {
        ok(&shown.remove(0))
    } else {
        ok(&shown)
    })
}

/// `DELETE /config/se?se=`.
pub(super) async fn forget_se(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    caller.require_admin()?;
    let se = query
        .get("se")
        .ok_or_else(|| ApiError::bad_request("Missing storage (se)"))?;
    let changes = vec![
        NamedLimit::Inbound(se.clone(), None),
        NamedLimit::Outbound(se.clone(), None),
    ];
    let settings = vec![se_change(se, None)];
    service
        .driver
        .ask(|reply| Request::Limits {
            changes,
            settings,
            reply,
        })
        .await?;
    service.settings.note_se(se, None);
    Ok(json_answer(StatusCode::NO_CONTENT, &Value::Null))
}
