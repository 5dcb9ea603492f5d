//! Checks of the machine before a run, and the summary of the run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use weir_model::{GridIssuer, RseKind};
use weir_plan::{Plan, PlanSummary};
use weir_units::BitRate;
use weir_units::Bytes;

use crate::execute::progress::{Preflight, Progress, Update};
use crate::faults;
use crate::options::{Options, RunNetwork};
use crate::{RunError, prepare::host};

/// Open files a running transfer needs: a connection at each end of source and destination, one to the transfer service,
/// and the file at both.
const FILES_PER_TRANSFER: u64 = 8;

/// Open files of the services themselves.
const FILES_OF_SERVICES: u64 = 256;

/// Encrypted traffic that one core carries here through all doors, in bit/s, as a rule of thumb for a warning: reading,
/// encrypting, decrypting, checksumming and writing on the same machine.
const RATE_PER_CORE: u64 = 2_000_000_000;

/// Raises the limit on open files; shows the needs of the run and the resources of the machine.
///
/// # Errors
/// When the data areas do not fit on the disk.
pub(crate) async fn check(plan: &Plan, options: &Options, progress: &dyn Progress) -> Result<(), RunError> {
    if options.network == RunNetwork::Namespace
        && let Some(door) = outside(plan)
    {
        return Err(RunError::Outside { door });
    }
    let near = if faults::needs_relays(plan, &options.ground) {
        weir_grid::doors_here(&plan.grid).await.into_keys().collect()
    } else {
        BTreeSet::new()
    };
    if let Some((fault, reason)) = faults::cannot(plan, options, &near) {
        return Err(RunError::Fault {
            reason,
            name: fault.name.clone(),
            kind: fault.kind.to_string(),
            place: fault.place.to_string(),
        });
    }
    let summary = plan.summary();
    let scratch = existing(options.scratch.as_deref().unwrap_or(&options.out));
    let preflight = Preflight {
        challenge: plan.name.clone(),
        starts: starts(plan),
        asked_bps: (summary.asked > BitRate::ZERO).then_some(summary.asked),
        planned_s: (summary.asked.0 > 0).then(|| (plan.phases.ramp + plan.phases.hold).as_secs_f64()),
        volume_bytes: summary.volume.0,
        cores: host::cores(),
        free_bytes: host::free_space(&scratch),
        needed_bytes: summary.space.0,
        open_files: weir_http::raise_open_files(),
        warnings: Vec::new(),
    };
    let preflight = Preflight {
        warnings: warnings(&preflight, &summary),
        ..preflight
    };
    progress.show(&Update::Preflight(preflight.clone()));
    match preflight.free_bytes {
        Some(free) if free < preflight.needed_bytes => Err(RunError::Space {
            path: scratch,
            needed: Bytes(preflight.needed_bytes),
            free: Bytes(free),
        }),
        _ => Ok(()),
    }
}

/// A door that does not start with the grid, if there is one.
fn outside(plan: &Plan) -> Option<String> {
    let grid = &plan.grid;
    let storage = grid.rses.iter().find(|rse| !rse.kind.is_embedded());
    let catalog = grid.catalog.as_ref().and_then(|catalog| catalog.service.as_ref());
    let service = [
        ("the issuer", matches!(grid.issuer, GridIssuer::External(_))),
        ("the transfer service", grid.transfer_service.is_some()),
        ("the catalogue", catalog.is_some()),
        ("the broker", grid.broker.is_some()),
    ];
    let service = service.into_iter().find(|(_, is_outside)| *is_outside);
    storage
        .map(|rse| rse.name.to_string())
        .or(service.map(|(name, _)| name.to_owned()))
}

/// Describes in one sentence what the run will start.
fn starts(plan: &Plan) -> String {
    let embedded = plan.grid.rses.iter().filter(|rse| rse.kind.is_embedded()).count();
    let external = plan.grid.rses.iter().filter_map(|rse| match &rse.kind {
        RseKind::External { url, .. } => Some(url.as_str()),
        RseKind::Embedded { .. } => None,
    });
    let issuer = match &plan.grid.issuer {
        GridIssuer::Embedded(_) => None,
        GridIssuer::External(issuer) => Some(issuer.url.as_str()),
    };
    let transfer = plan.grid.transfer_service.as_ref().map(|service| service.url.as_str());
    let catalog = plan.grid.catalog.as_ref().filter(|_| plan.makes_rules());
    let catalog = catalog.map(|catalog| catalog.service.as_ref().map(|service| service.url.as_str()));
    let services = [
        ("an issuer", Some(issuer)),
        ("a transfer service", Some(transfer)),
        ("a catalogue", catalog),
    ];
    let services: Vec<(&str, Option<&str>)> = services
        .into_iter()
        .filter_map(|(name, url)| Some((name, url?)))
        .collect();
    let own = services.iter().filter(|(_, url)| url.is_none());
    let mut own: Vec<String> = own.map(|(name, _)| (*name).to_owned()).collect();
    own.push(counted(embedded, "storage endpoint"));
    let last = own.pop().unwrap_or_default();
    let first = if own.is_empty() {
        String::new()
    } else {
        format!("{} and ", own.join(", "))
    };
    let mut text = format!("{first}{last} on loopback addresses");
    let external: Vec<&str> = services.iter().filter_map(|(_, url)| *url).chain(external).collect();
    let hosts = plan.grid.rses.iter().filter_map(|rse| match &rse.kind {
        RseKind::Embedded { place: Some(place), .. } => Some(format!("{} at {}", rse.name, place.host)),
        _ => None,
    });
    let hosts: Vec<String> = hosts.collect();
    if !hosts.is_empty() {
        text = format!("{text}, other hosts reach {}", hosts.join(", "));
    }
    if !external.is_empty() {
        text = format!("{text}; uses {}", external.join(", "));
    }
    text
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 {
        format!("one {what}")
    } else {
        format!("{count} {what}s")
    }
}

fn warnings(preflight: &Preflight, summary: &PlanSummary) -> Vec<String> {
    let mut warnings = summary.notes.clone();
    let files = FILES_OF_SERVICES + summary.active_max * FILES_PER_TRANSFER;
    if let Some(limit) = preflight.open_files.filter(|limit| *limit < files) {
        warnings.push(format!(
            "{limit} open files are allowed, {files} may be needed: raise the limit (ulimit -n)"
        ));
    }
    let carries = BitRate(u64::from(preflight.cores) * RATE_PER_CORE);
    if let Some(asked) = preflight.asked_bps.filter(|asked| *asked > carries) {
        let (asked, cores) = (weir_measure::advice::rate(asked), preflight.cores);
        warnings.push(format!(
            "{asked} of encrypted traffic may be more than {cores} cores carry"
        ));
    }
    warnings
}

/// Returns the path or the nearest directory above it that exists.
fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"))
        .to_owned()
}
