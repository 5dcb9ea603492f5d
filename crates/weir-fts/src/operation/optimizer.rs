//! `/optimizer`: the current and former limits of the optimiser, and their override.

use std::{collections::HashMap, sync::Arc};

use axum::{Router, extract::Query, routing::get};
use serde_json::{Value, json};
use weir_sched::{LinkStats, Names, Scheduler};

use crate::state::State;
use crate::{
    access::{caller::Caller, visible_links::VisibleLinks},
    messages::{
        answer::{Answer, ApiError, ok},
        body::JsonBody,
    },
    operation::config::change,
};
use weir_service::time;
use weir_transfer::{
    evolution::{Step, throughput},
    settings::{Key, Kind, ends, normal_link, se_name},
};

use crate::state::Door;

/// Decisions that are shown, as in FTS3.
const SHOWN: usize = 50;

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/optimizer", get(enabled))
        .route("/optimizer/evolution", get(evolution))
        .route("/optimizer/current", get(current).post(fix))
}

/// Whether the optimiser decides where nothing else is said.
async fn enabled(service: State, _caller: Caller) -> Answer {
    let mode = service.settings.plan().get(&Key::Optimiser).copied();
    let auto = mode.is_none_or(|mode| mode == weir_transfer::settings::Worth::Mode(weir_sched::Mode::Auto));
    Ok(ok(&auto))
}

/// `source_se` and `dest_se` of a query, each if it is given.
fn asked(query: &HashMap<String, String>) -> impl Fn(&str, &str) -> bool + Send + 'static {
    let end = |key: &str| {
        let text = query.get(key).filter(|text| !text.is_empty());
        text.map(|text| se_name(text).unwrap_or_else(|_| text.clone()))
    };
    let (source, destination) = (end("source_se"), end("dest_se"));
    move |from, to| {
        source.as_ref().is_none_or(|asked| asked == from) && destination.as_ref().is_none_or(|asked| asked == to)
    }
}

/// The last 50 changes of links' limits, newest first.
async fn evolution(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    let (fits, visible, this) = (asked(&query), VisibleLinks::of(&caller), service.0.clone());
    let steps = service.driver.look(move |core: &Scheduler, names: &Names, _: &_| {
        this.evolution.newest(SHOWN, |step| {
            let pair = (step.source_se.as_str(), step.dest_se.as_str());
            fits(pair.0, pair.1) && visible.covers_named(core, names, pair)
        })
    });
    let steps = steps
        .await
        .ok_or_else(|| ApiError::unavailable("The service is stopping"))?;
    Ok(ok(&steps.iter().map(shown).collect::<Vec<_>>()))
}

fn shown(step: &Step) -> Value {
    json!({
        "datetime": time::format(step.at),
        "source_se": step.source_se,
        "dest_se": step.dest_se,
        "active": step.allowed,
        "diff": i64::from(step.allowed) - i64::from(step.former),
        "actual_active": step.active,
        "queue_size": step.queued,
        "throughput": step.throughput,
        "ema": step.ema,
        "success": step.success,
        "rationale": step.rationale,
        "filesize_avg": step.sizes.map(|sizes| sizes.mean),
        "filesize_stddev": step.sizes.map(|sizes| sizes.deviation()),
    })
}

/// The current limit of each link.
async fn current(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    let (fits, visible, now) = (asked(&query), VisibleLinks::of(&caller), time::now());
    let this = service.0.clone();
    let links = service
        .driver
        .look(move |core: &Scheduler, names: &Names, _: &_| {
            let object = |stats: LinkStats| {
                let (source, destination) = (names.se_name(stats.link.source), names.se_name(stats.link.destination));
                let shown = fits(source, destination) && visible.covers(core, names, stats.link);
                shown.then(|| {
                    json!({
                        "source_se": source,
                        "dest_se": destination,
                        "datetime": time::format(now),
                        "active": stats.allowed,
                        "ema": this.evolution.ema(stats.link).unwrap_or_else(|| throughput(&stats)),
                        "nostreams": this.settings.door().streams(source, destination),
                    })
                })
            };
            core.links().filter_map(object).collect::<Vec<_>>()
        })
        .await;
    let links = links.ok_or_else(|| ApiError::unavailable("The service is stopping"))?;
    Ok(ok(&links))
}

/// `{source_se, dest_se, active, nostreams}`: so many transfers, until the link's setting is changed or removed.
async fn fix(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    caller.require_admin()?;
    let end = |key: &str| -> Answer<String> {
        let text = body.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| ApiError::bad_request("Missing source and/or destination"))?;
        Ok(se_name(text)?)
    };
    let pair = (end("source_se")?, end("dest_se")?);
    let number = |key: &str, otherwise: i64| match body.get(key) {
        None | Some(Value::Null) => Some(otherwise),
        Some(value) => value.as_i64().or_else(|| value.as_str()?.trim().parse().ok()),
    };
    let active = number("active", 2).ok_or_else(|| ApiError::bad_request("Active must be an integer"))?;
    let streams = number("nostreams", 1).ok_or_else(|| ApiError::bad_request("Nostreams must be an integer"))?;
    let mut link = json!({ "source": pair.0, "destination": pair.1, "nostreams": streams });
    link["weir"] = json!({ "optimiser": active });
    change(&service, &caller, "optimizer", body.to_string(), move |settings| {
        let links = settings.all(Kind::Link);
        let former = links.into_iter().find(|(_, link)| ends(link) == pair);
        let host = |se: &str| se.split_once("://").map_or(se, |(_, host)| host).to_owned();
        let name = former.as_ref().map(|(name, _)| name.clone());
        let name = name.unwrap_or_else(|| format!("{}-{}", host(&pair.0), host(&pair.1)));
        link["symbolicname"] = json!(name);
        if let Some(Value::Object(weir)) = former.as_ref().and_then(|(_, link)| link.get("weir")) {
            let mut weir = weir.clone();
            weir.insert("optimiser".to_owned(), json!(active));
            link["weir"] = Value::Object(weir);
        }
        let link = link.as_object().cloned().unwrap_or_default();
        let row = normal_link(&link, former.as_ref().map(|(_, link)| link))?;
        if former.is_none() && settings.get(Kind::Link, &name).is_some() {
            return Err(ApiError::bad_request(format!(
                "Another link is named {name}; set it through /config/links"
            )));
        }
        Ok(vec![((Kind::Link, name), Some(row))])
    })
    .await?;
    Ok(ok(&body))
}
