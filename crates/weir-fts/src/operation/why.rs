//! `/why`: the reasons that hold a transfer or a link back, in words and as data.

use std::{borrow::Cow, collections::HashMap};

use axum::{
    Router,
    extract::{Path, Query},
    routing::get,
};
use weir_fts_api::{self as api, FtsTime, GivenUpMode, LinkState, TransferState};
use weir_sched::{Cause, Decision, Link, Names, Reason, Resource, Scheduler, Verdict, Why};
use weir_world::{ErrorClass, Party, TransferId};

use crate::state::Door;
use crate::state::State;
use crate::{
    access::{caller::Caller, visible_links::VisibleLinks},
    jobs::query::one,
    messages::answer::{Answer, ApiError, ok},
    operation::waits,
};
use std::sync::Arc;
use weir_executor::job::File;
use weir_transfer::{driver::Meter, settings::se_name};

/// Files of a job whose reasons are returned; the first ones represent the rest.
const FILES_MAX: usize = 100;

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/why/link", get(link))
        .route("/why/waits", get(waits))
        .route("/why/jobs/{id}", get(job))
        .route("/why/files/{id}", get(file))
}

fn reasons(reasons: &[Reason], names: &Names) -> Vec<api::Reason<'static>> {
    let kind = |reason: &Reason| match reason {
        Reason::Restoring => "restoring",
        Reason::Held => "held",
        Reason::Forced => "forced",
        Reason::Next => "next",
        Reason::Idle => "idle",
        Reason::Behind { .. } => "behind",
        Reason::Full { .. } => "full",
        Reason::Retry { .. } => "retry",
        Reason::Issuer { .. } => "issuer",
        Reason::Staging { .. } => "staging",
        Reason::Archiving { .. } => "archiving",
        Reason::Store => "store",
        Reason::Running { .. } => "running",
        Reason::Stopping => "stopping",
        Reason::Alternative => "alternative",
        Reason::Hop => "hop",
    };
    let shown = |reason: &Reason| {
        let fault = fault(reason);
        let (party, class) = fault.unwrap_or_default();
        api::Reason {
            reason: kind(reason).into(),
            text: reason.with(names).to_string(),
            faults: fault.is_some(),
            party: party.map(Party::as_str).map(Cow::from),
            error_class: class.map(ErrorClass::as_str).map(Cow::from),
        }
    };
    reasons.iter().map(shown).collect()
}

/// Whether a reason is that nothing but failures came from something; the party, if it is one of the two, and the last class.
fn fault(reason: &Reason) -> Option<(Option<Party>, Option<ErrorClass>)> {
    let Reason::Full {
        resource,
        cause: Cause::Faults { class, .. },
        ..
    } = reason
    else {
        return None;
    };
    let party = match resource {
        Resource::Inbound(_) | Resource::VoInbound(..) => Some(Party::Destination),
        Resource::Outbound(_) | Resource::VoOutbound(..) | Resource::Staging(_) | Resource::VoStaging(..) => {
            Some(Party::Source)
        }
        Resource::Link(_) | Resource::Group(_) => None,
    };
    Some((party, *class))
}

fn decision(decision: &Decision, names: &Names) -> api::Decision<'static> {
    let (verdict, text) = match decision.verdict {
        Verdict::Start { active, allowed, order } => {
            let order = serde_json::to_value(order).unwrap_or_default();
            let order = order.as_str().unwrap_or_default().to_owned();
            (
                "start",
                format!("started by {order}, as transfer {active} of {allowed}"),
            )
        }
        Verdict::Wait { resource, cause } => {
            let full = Reason::Full {
                resource,
                allowed: 0,
                active: 0,
                cause,
                holders: Vec::new(),
            };
            ("wait", without_figures(&full.with(names).to_string()))
        }
    };
    api::Decision {
        at: decision.at.rfc3339(),
        file_id: decision.transfer.0,
        verdict: verdict.into(),
        text,
    }
}

/// A decision names the full resource, not its figures.
fn without_figures(text: &str) -> String {
    text.replace(" 0, which is 0 transfers now", "")
        .replace("the 0 transfers", "the transfers")
}

fn link_shown(
    core: &Scheduler,
    (names, meter): (&Names, &Meter),
    pair: &(String, String),
    visible: &VisibleLinks,
) -> Option<LinkState<'static>> {
    let link = Link {
        source: names.find_se(&pair.0)?,
        destination: names.find_se(&pair.1)?,
    };
    let stats = core.link(link).filter(|_| visible.covers(core, names, link))?;
    let decisions = core.decisions(link);
    Some(LinkState {
        source_se: pair.0.clone().into(),
        dest_se: pair.1.clone().into(),
        limit: stats.limit,
        allowed: stats.allowed,
        active: stats.counts.active,
        queued: stats.counts.queued,
        delayed: stats.counts.delayed,
        each_bps: stats.each,
        failing: f64::from(stats.failing) / 1000.0,
        reasons: reasons(&visible.reasons(core, names, link), names),
        decisions: decisions.iter().map(|one| decision(one, names)).collect(),
        modes_given_up: Vec::new(),
        waits: waits::of(core, names, meter, |other| other == link)
            .pop()
            .map_or_else(Vec::new, |link| link.waits),
    })
}

/// The copy modes that this node has given up between two storage elements.
fn modes(service: &Door, pair: &(String, String)) -> Vec<GivenUpMode<'static>> {
    let given_up = service.modes.given_up(&pair.0, &pair.1);
    let shown = given_up.into_iter().map(|one| GivenUpMode {
        mode: one.mode.as_str().into(),
        source: one.source.into(),
        destination: one.destination.into(),
        credential: one.credential.map_or("any", |credential| credential.as_str()).into(),
        given_up_at: FtsTime(one.at),
        reason: one.reason.into(),
        tried_again_in_secs: one.again_in.as_secs(),
    });
    shown.collect()
}

/// `GET /why/link?source_se=&dest_se=`.
async fn link(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    let end = |key: &str| -> Answer<String> {
        let text = query.get(key).filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| ApiError::bad_request("Missing source_se and/or dest_se"))?;
        Ok(se_name(text)?)
    };
    let pair = (end("source_se")?, end("dest_se")?);
    let modes = modes(&service, &pair);
    let visible = VisibleLinks::of(&caller);
    let shown = service
        .driver
        .look(move |core: &Scheduler, names: &Names, meter: &Meter| link_shown(core, (names, meter), &pair, &visible))
        .await;
    match shown {
        Some(Some(mut shown)) => {
            shown.modes_given_up = modes;
            Ok(ok(&shown))
        }
        Some(None) => Err(ApiError::not_found("No transfer ever used this link")),
        None => Err(ApiError::unavailable("The service is stopping")),
    }
}

/// `GET /why/waits`: all links that the caller may see.
async fn waits(service: State, caller: Caller) -> Answer {
    let visible = VisibleLinks::of(&caller);
    let shown = service
        .driver
        .look(move |core: &Scheduler, names: &Names, meter: &Meter| {
            waits::of(core, names, meter, |link| visible.covers(core, names, link))
        })
        .await;
    let shown = shown.ok_or_else(|| ApiError::unavailable("The service is stopping"))?;
    Ok(ok(&shown))
}

fn why_shown(why: &Why, names: &Names) -> TransferState<'static> {
    TransferState {
        file_id: why.transfer.0,
        source_se: Some(names.se_name(why.link.source).to_owned().into()),
        dest_se: Some(names.se_name(why.link.destination).to_owned().into()),
        text: why.with(names),
        reasons: reasons(&why.reasons, names),
    }
}

/// The core's state of these files; ended ones are left out.
async fn ask_core(service: &Door, files: Vec<u64>, visible: VisibleLinks) -> Answer<Vec<TransferState<'static>>> {
    let shown = service
        .driver
        .look(move |core: &Scheduler, names: &Names, _: &_| {
            let told = files.iter().filter_map(|file| {
                let mut why = core.why(TransferId(*file))?;
                visible.hide(core, names, &mut why.reasons);
                Some(why)
            });
            told.take(FILES_MAX).map(|why| why_shown(&why, names)).collect()
        })
        .await;
    shown.ok_or_else(|| ApiError::unavailable("The service is stopping"))
}

/// `GET /why/jobs/{id}`: the first hundred files that have not ended.
async fn job(service: State, caller: Caller, Path(id): Path<String>) -> Answer {
    let visible = VisibleLinks::of(&caller);
    let files = service
        .read(move |store| match one(store, &caller, &id)? {
            Ok(job) => Ok(Ok(store.files(job.spec.id)?)),
            Err(error) => Ok(Err(error)),
        })
        .await??;
    let live = files.iter().filter(|file| !file.state.is_terminal());
    let live = live.map(|file| file.spec.id).take(FILES_MAX).collect();
    let mut told = ask_core(&service, live, visible).await?;
    for shown in &mut told {
        let file = files.iter().find(|file| shown.file_id == file.spec.id);
        name_issuer(shown, file);
    }
    Ok(ok(&told))
}

/// Adds the issuer that a transfer waits for, and the reason, from its last attempt.
fn name_issuer(shown: &mut TransferState<'_>, file: Option<&File>) {
    let Some(why) = file.and_then(|file| file.result.reason.as_deref()) else {
        return;
    };
    if let Some(waits) = shown.reasons.iter_mut().find(|reason| reason.reason == "issuer") {
        waits.text = format!("{}: {why}", waits.text);
        shown.text = format!("{}: {why}", shown.text);
    }
}

/// `GET /why/files/{id}`.
async fn file(service: State, caller: Caller, Path(id): Path<String>) -> Answer {
    let missing = ApiError::not_found(format!("No file with the id \"{id}\" has been found"));
    let Ok(number) = id.parse::<u64>() else {
        return Err(missing);
    };
    let visible = VisibleLinks::of(&caller);
    let found = service
        .read(move |store| {
            let Some(file) = store.file(number)? else {
                return Ok(None);
            };
            Ok(Some((one(store, &caller, &file.job.to_string())?, file)))
        })
        .await?;
    let Some((job, file)) = found else { return Err(missing) };
    job?;
    if let Some(mut shown) = ask_core(&service, vec![number], visible).await?.pop() {
        name_issuer(&mut shown, Some(&file));
        return Ok(ok(&shown));
    }
    let text = match file.result.reason {
        Some(reason) if file.state.is_terminal() => format!("{}: {reason}", file.state.as_str()),
        _ => file.state.as_str().to_owned(),
    };
    Ok(ok(&TransferState {
        file_id: number,
        text,
        ..TransferState::default()
    }))
}
