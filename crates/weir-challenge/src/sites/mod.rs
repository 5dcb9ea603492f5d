//! Preflight of every storage that a plan uses, and of transfer service and catalogue if they run elsewhere. The checks
//! cover connection, trust in both directions, upload, download, the copies with other storages that the plan needs,
//! and deletion.
//!
//! Storage that starts with the grid is tried only as the other end of a link to one that does not. Everything is
//! written below the run's own directory and deleted again. The number of copies and the time are bounded, and omitted
//! checks are listed.

mod catalog;
mod checks;
mod choice;
mod endpoint;
mod links;
mod probe;
mod service;
mod ways;

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde::Serialize;
use weir_plan::Plan;

pub use self::endpoint::look_at;
pub(crate) use self::links::CopyMeans;
pub use self::probe::{Asking, Probed, Speed, probe};
use crate::inject::injection::InjectionDoor;
use checks::FILE_SIZE;
pub use checks::{CopyCheck, SiteChecks};
pub(crate) use checks::{TestFile, in_time, timed};
pub use weir_service::check::{Check, Outcome};

/// Storages looked at at once.
const SITES_AT_ONCE: usize = 8;

/// Copies that are tried at most: each is a few requests at two storages.
const COPIES_MAX: usize = 40;

/// Copies under way at once.
const COPIES_AT_ONCE: usize = 8;

/// The results.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SitesReport {
    /// The transfer service and the catalogue if they run elsewhere, every external storage, and those of the grid that
    /// take part in a copy with one.
    pub sites: Vec<SiteChecks>,
    /// Copies between them.
    pub copies: Vec<CopyCheck>,
    /// Copy modes that work in each direction: a sentence for each external storage that takes part in a copy.
    pub ways: Vec<String>,
    /// Copies that the plan needs and that were not tried, because others stand for them.
    pub copies_left_out: usize,
    /// How long everything took, in seconds.
    pub took_s: f64,
}

impl SitesReport {
    /// The first failure, in one sentence.
    pub fn first_failure(&self) -> Option<String> {
        let cause = |outcome: &Outcome| match outcome {
            Outcome::Failed { cause, .. } => Some(cause.clone()),
            _ => None,
        };
        let of_site = |site: &SiteChecks| {
            let checks = site.checks.iter();
            checks
                .into_iter()
                .find_map(|check| Some(format!("{} {}: {}", site.rse, check.name, cause(&check.outcome)?)))
        };
        let of_copy = |copy: &CopyCheck| {
            Some(format!(
                "{} -> {}: {}",
                copy.source,
                copy.destination,
                cause(&copy.outcome)?
            ))
        };
        self.sites
            .iter()
            .find_map(of_site)
            .or_else(|| self.copies.iter().find_map(of_copy))
    }

    /// How many checks failed.
    pub fn failures(&self) -> usize {
        let checks = self
            .sites
            .iter()
            .flat_map(|site| &site.checks)
            .map(|check| &check.outcome);
        let copies = self.copies.iter().map(|copy| &copy.outcome);
        checks.chain(copies).filter(|outcome| outcome.has_failed()).count()
    }
}

/// Looks at the storages and the services of a plan, for `limit` at most; `None` if all of them start with the grid.
pub(crate) async fn check<D: InjectionDoor>(
    plan: &Plan,
    ground: &CopyMeans<'_, D>,
    limit: Duration,
) -> Option<SitesReport> {
    let begun = Instant::now();
    let deadline = tokio::time::Instant::now() + limit;
    let doors = ground.doors;
    let service = plan.grid.transfer_service.as_ref();
    if service.is_none() && ground.catalog.is_none() && doors.iter().all(|door| door.embedded) {
        return None;
    }
    let catalog = match ground.catalog {
        Some(catalog) => Some(Box::pin(catalog::check(plan, catalog, doors, deadline)).await),
        None => None,
    };
    let service = match (service, doors.first()) {
        (Some(service), Some(door)) => {
            Some(Box::pin(service::check(service, ground.transfer, &door.client, deadline)).await)
        }
        _ => None,
    };
    let is_served = |service: &SiteChecks| !service.checks.iter().any(|check| check.outcome.has_failed());
    let served = service.as_ref().is_none_or(is_served);
    let (copies, copies_left_out) = choice::copies(plan, doors, COPIES_MAX);
    let needs = choice::needs(plan, doors);
    let takes_part = |number: usize| {
        copies
            .iter()
            .any(|copy| copy.source == number || copy.destination == number)
    };
    let numbers: Vec<usize> = (0..doors.len())
        .filter(|number| !doors[*number].embedded || takes_part(*number))
        .collect();
    let site = |number: usize| {
        let file = TestFile::of(&doors[number], number, plan.seed);
        let needed = needs[number];
        async move {
            (
                number,
                Box::pin(endpoint::check(&doors[number], &file, needed, ground.made, deadline)).await,
            )
        }
    };
    let sites = futures_util::stream::iter(numbers.into_iter().map(site)).buffered(SITES_AT_ONCE);
    let mut sites: Vec<(usize, SiteChecks)> = sites.collect().await;
    let ready: Vec<usize> = sites
        .iter()
        .filter(|(_, site)| {
            site.checks
                .iter()
                .any(|check| check.name == "write" && !check.outcome.has_failed())
        })
        .map(|(number, _)| *number)
        .collect();
    let one = |(id, copy): (usize, &choice::Copy)| {
        let copy = *copy;
        let ready = &ready;
        async move {
            if served {
                links::check(plan, ground, id as u64, copy, ready, deadline).await
            } else {
                links::skipped(ground, copy, "the transfer service cannot be used")
            }
        }
    };
    let copies = futures_util::stream::iter(copies.iter().enumerate().map(one)).buffered(COPIES_AT_ONCE);
    let mut copies: Vec<CopyCheck> = copies.collect().await;
    ways::forgive(&mut copies);
    let external = doors.iter().filter(|door| !door.embedded);
    let ways = external.filter_map(|door| ways::of(&door.name, &copies)).collect();
    for (number, site) in &mut sites {
        let file = TestFile::of(&doors[*number], *number, plan.seed);
        let tried = site.checks.iter().any(|check| check.name == "write");
        if !tried {
            continue;
        }
        let deletion = endpoint::delete(&doors[*number], &file, Some(ground.made)).await;
        // An aborted write may have left its file all the same; a refused one has nothing to delete.
        if ready.contains(number) {
            site.checks.push(deletion);
        }
    }
    Some(SitesReport {
        sites: service
            .into_iter()
            .chain(catalog)
            .chain(sites.into_iter().map(|(_, site)| site))
            .collect(),
        copies,
        ways,
        copies_left_out,
        took_s: begun.elapsed().as_secs_f64(),
    })
}
