//! Looks at a catalogue that does not start with the grid.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use tokio::time::Instant;
use weir_plan::{Inject, Plan};

use super::{Outcome, SiteChecks, endpoint, in_time, timed};
use crate::inject::injection::InjectionError;
use crate::inject::rules::RulesDoor;
use crate::services::storage::StorageDoor;

/// Its name in the table, in place of an RSE's.
const NAME: &str = "catalogue";

/// Tries its name, connection, certificate, clock, whether it lets the run in, and whether it has the RSEs where the grid file has them.
pub(super) async fn check(plan: &Plan, catalog: &RulesDoor, doors: &[StorageDoor], deadline: Instant) -> SiteChecks {
    let by_rules = plan.rates().filter(|(_, rates)| rates.inject == Inject::Rules);
    let links = by_rules.flat_map(|(_, rates)| rates.links.iter().map(|rated| &rated.link));
    let ends = links.flat_map(|link| [link.source.as_str(), link.destination.as_str()]);
    let ends: BTreeSet<usize> = ends
        .filter_map(|rse| doors.iter().position(|door| door.name == rse))
        .collect();

    // Rucio 41.5.1 breaks off where OPTIONS is asked and its configuration has no [webui].
    let ping = format!("{}/ping", catalog.url());
    let mut checks = endpoint::look_at(catalog.client(), (Method::GET, &ping), deadline).await;
    let has_failed = |check: &super::Check| check.outcome.has_failed() && check.name != "clock";
    if !checks.iter().any(has_failed) {
        checks.push(timed("login", in_time(deadline, login(catalog))).await);
    }
    if !checks.iter().any(has_failed) {
        checks.push(timed("RSEs", in_time(deadline, rses(catalog, &ends))).await);
    }
    SiteChecks {
        rse: NAME.to_owned(),
        url: catalog.url().to_owned(),
        checks,
    }
}

async fn login(catalog: &RulesDoor) -> Outcome {
    let error = match catalog.known_as().await {
        Ok(account) => return Outcome::ok(format!("it knows the run as {account}")),
        Err(error) => error,
    };
    let remedy = match &error {
        InjectionError::Refused { status, .. } if *status == StatusCode::UNAUTHORIZED => {
            "have the catalogue map the identity to the account, or give another login in [catalog]"
        }
        InjectionError::Token { .. } => "see the login and the account in [catalog] of the grid file",
        _ => "see that it runs and speaks the Rucio REST API at this URL",
    };
    Outcome::failed(weir_auth::error_chain(&error), remedy)
}

async fn rses(catalog: &RulesDoor, doors: &BTreeSet<usize>) -> Outcome {
    match catalog.find_rses(doors).await {
        Ok(()) => Outcome::ok(format!("it has {} where the grid file has them", doors.len())),
        Err(error) => Outcome::failed(
            weir_auth::error_chain(&error),
            "give the RSE the name that the catalogue has for it, and the URL of its WebDAV protocol",
        ),
    }
}
