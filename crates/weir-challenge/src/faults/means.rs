//! Decides whether a real run has means to make a fault.

use std::collections::BTreeSet;

use weir_grid::DiskFailure;
use weir_model::RseKind;
use weir_plan::fault::{Amount, Fault, FaultKind, FaultPlace, Service, Way};
use weir_plan::{Mode, Plan, Workload};

use super::counters::is_of_counters;
use super::ground::NetworkGround;
use super::reach::{file_sizes, out_of_reach};
use super::rules::{damage, disk_failure};
use crate::options::{Options, RunNetwork};

/// The first fault of a plan that cannot be made here, and the reason. `near` has the doors of other programs on this machine.
pub(crate) fn cannot<'p>(plan: &'p Plan, options: &Options, near: &BTreeSet<String>) -> Option<(&'p Fault, String)> {
    let here = Here {
        ground: &options.ground,
        near,
        network: options.network,
        has_processes: with_processes(plan, options),
        has_program: options.program.is_some(),
        has_clock: weir_grid::clock_library().is_some(),
    };
    plan.faults
        .iter()
        .find_map(|fault| Some((fault, reason(fault, plan, &here)?)))
}

/// The last fault of a plan, which was added by hand to a run under way: the reason why it cannot be made.
pub(super) fn cannot_add(plan: &Plan, here: &Here<'_>) -> Option<String> {
    let fault = plan.faults.last()?;
    if fault.kind == FaultKind::SmallFiles {
        return Some("its files are made before a run: write it into the file".to_owned());
    }
    reason(fault, plan, here)
}

/// The things that a run has for its faults.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here<'h> {
    pub(super) ground: &'h NetworkGround,
    /// The doors of other programs that have relays.
    pub(super) near: &'h BTreeSet<String>,
    /// Where the packets go.
    pub(super) network: RunNetwork,
    /// Whether the storages of each site have a process of their own.
    pub(super) has_processes: bool,
    /// Whether there is a program that can be these processes.
    pub(super) has_program: bool,
    /// Whether their clocks can be wrong.
    pub(super) has_clock: bool,
}

/// Whether the storages of each site run in a process of their own.
pub(crate) fn with_processes(plan: &Plan, options: &Options) -> bool {
    options.processes || plan.faults.iter().any(|fault| fault.kind.is_of_processes())
}

/// Whether the clocks of sites may become wrong.
pub(crate) fn needs_clock(plan: &Plan) -> bool {
    plan.faults.iter().any(|fault| fault.kind == FaultKind::SkewedClock)
}

/// Whether a plan needs relays in front of its doors.
pub(crate) fn needs_relays(plan: &Plan, ground: &NetworkGround) -> bool {
    !ground.is_empty() || plan.faults.iter().any(|fault| needs(fault, plan))
}

/// Whether a fault needs a relay or a disk that can be slow.
pub(super) fn needs(fault: &Fault, plan: &Plan) -> bool {
    let is_elsewhere = match fault.place {
        FaultPlace::Workload(_) => true,
        FaultPlace::Service(Service::Transfer) => plan.grid.transfer_service.is_none(),
        _ => false,
    };
    !is_elsewhere && fault.kind != FaultKind::Slots && !fault.kind.is_of_processes() && !is_of_counters(fault.kind)
}

fn reason(fault: &Fault, plan: &Plan, here: &Here<'_>) -> Option<String> {
    let ground = here.ground;
    let by_relay = |known: Option<String>| out_of_reach(fault, plan, ground, here.near).or(known);
    match fault.kind {
        kind if (is_of_disks(kind) || disk_failure(fault).is_some()) && here.has_processes => {
            Some("the disks of sites with processes of their own are out of reach: leave out --processes".to_owned())
        }
        FaultKind::Mixing => disks(fault, plan).or_else(|| mixing(fault, plan, ground)),
        kind if is_of_disks(kind) => disks(fault, plan),
        kind if is_of_counters(kind) => counters(fault, plan),
        FaultKind::RoundTrip | FaultKind::Mtu | FaultKind::SlowIssuer | FaultKind::FailingIssuer => by_relay(None),
        FaultKind::PacketLoss if here.network == RunNetwork::Namespace => by_relay(None),
        FaultKind::Window | FaultKind::PacketLoss => by_relay(window(fault, plan, ground)),
        FaultKind::Outage | FaultKind::Capacity | FaultKind::ForeignLoad => by_relay(place(fault, ground)),
        FaultKind::Failures if disk_failure(fault).is_some() => disks(fault, plan).or_else(|| disk_failures(fault)),
        FaultKind::Failures => by_relay(failures(fault, plan)),
        FaultKind::Slots | FaultKind::SlowStore | FaultKind::FrozenStore | FaultKind::LateDecisions => transfer(plan),
        FaultKind::Pause | FaultKind::Comb | FaultKind::Controller => rated(fault, plan),
        FaultKind::MissingSource => rated(fault, plan).or_else(|| by_transfers(fault, plan)),
        FaultKind::Volume => match fault.amount {
            Amount::Factor(factor) if factor > 1.0 => Some("more than was asked cannot be injected".to_owned()),
            _ => rated(fault, plan),
        },
        FaultKind::FrozenSite | FaultKind::KilledSite | FaultKind::SkewedClock => processes(fault, plan, here),
        FaultKind::Reroute => by_relay(detour(fault, ground)),
        FaultKind::SmallFiles => rated(fault, plan).or_else(|| by_transfers(fault, plan)),
        FaultKind::SlowServer | FaultKind::Uneven => Some("a storage of a grid is one server".to_owned()),
        FaultKind::Fifo => {
            Some("the grid's transfer service serves links in turn, and has no other order".to_owned())
        }
        FaultKind::TokenLifetime => Some(
            "the transfer service renews tokens, and storages accept one for 60 s after its end: break the issuer instead".to_owned(),
        ),
        FaultKind::LateCounters => Some("a run reads counters at its end, when late ones have come".to_owned()),
        FaultKind::LateSubmission | FaultKind::SlowSubmission | FaultKind::LateDeletion => {
            Some("the daemons of a real catalogue have no such delay: break it as a whole (outage)".to_owned())
        }
        _ => Some("its service is not there yet".to_owned()),
    }
}

/// What acts on the processes of a site needs one there.
fn processes(fault: &Fault, plan: &Plan, here: &Here<'_>) -> Option<String> {
    let FaultPlace::Site(pattern, _) = &fault.place else {
        return None;
    };
    let mut rses = plan.grid.rses.iter().filter(|rse| pattern.fits(rse.site.as_str()));
    if let Some(rse) = rses.find(|rse| !matches!(rse.kind, RseKind::Embedded { .. })) {
        return Some(format!(
            "the process of {} runs elsewhere, and is not ours to stop",
            rse.name
        ));
    }
    if !here.has_program {
        return Some("there is no weir binary to run the site".to_owned());
    }
    if !here.has_processes {
        return Some("its sites have no processes of their own: begin the run with --processes".to_owned());
    }
    if fault.kind == FaultKind::SkewedClock && !here.has_clock {
        return Some(
            "it needs libfaketime (apt-get install libfaketime), and by hand a run with --breakable".to_owned(),
        );
    }
    None
}

/// Whether a fault acts at the back end of a storage.
pub(super) fn is_of_disks(kind: FaultKind) -> bool {
    const OF_DISKS: [FaultKind; 15] = [
        FaultKind::SlowRead,
        FaultKind::SlowWrite,
        FaultKind::SlowDisk,
        FaultKind::SlowStream,
        FaultKind::SlowClose,
        FaultKind::SlowDelete,
        FaultKind::Overwrite,
        FaultKind::ReadBack,
        FaultKind::Mixing,
        FaultKind::Overload,
        FaultKind::Quota,
        FaultKind::Vanish,
        FaultKind::Corrupt,
        FaultKind::Connections,
        FaultKind::Crash,
    ];
    OF_DISKS.contains(&kind)
}

/// Reads and writes at once cost a share of a rate, which disks without a limit do not have.
fn mixing(fault: &Fault, plan: &Plan, ground: &NetworkGround) -> Option<String> {
    let FaultPlace::Rse(pattern, _) = &fault.place else {
        return None;
    };
    let has_rate = |kind| matches!(kind, FaultKind::SlowRead | FaultKind::SlowWrite | FaultKind::SlowDisk);
    let slowed = plan
        .faults
        .iter()
        .any(|other| has_rate(other.kind) && other.place == fault.place);
    let known = ground.disks.iter().any(|(rse, _)| pattern.fits(rse.as_str()));
    (!slowed && !known).then(|| "it costs a share of a rate: add the fault slow-disk at the same storage".to_owned())
}

/// The counters of storages of other programs are not read.
fn counters(fault: &Fault, plan: &Plan) -> Option<String> {
    let FaultPlace::Rse(pattern, _) = &fault.place else {
        return None;
    };
    let mut named = plan.grid.rses.iter().filter(|rse| pattern.fits(rse.name.as_str()));
    let rse = named.find(|rse| !rse.kind.is_embedded())?;
    Some(format!("{} has no counters that a run reads", rse.name))
}

/// A detour needs a segment to take.
fn detour(fault: &Fault, ground: &NetworkGround) -> Option<String> {
    let to = fault.details.to.as_deref().unwrap_or_default();
    let known = ground.shared(to).is_some();
    (!known).then(|| "segments are a part of the simulated network: run it shaped as that".to_owned())
}

/// Only the disks of storages in this process can be slow.
fn disks(fault: &Fault, plan: &Plan) -> Option<String> {
    let FaultPlace::Rse(pattern, _) = &fault.place else {
        return None;
    };
    let mut named = plan.grid.rses.iter().filter(|rse| pattern.fits(rse.name.as_str()));
    let rse = named.find(|rse| !rse.kind.is_embedded())?;
    Some(format!("the disks of {} are another program's", rse.name))
}

fn transfer(plan: &Plan) -> Option<String> {
    let is_own = plan.grid.transfer_service.is_none();
    (!is_own).then(|| "the transfer service runs elsewhere".to_owned())
}

fn rated(fault: &Fault, plan: &Plan) -> Option<String> {
    let FaultPlace::Workload(pattern) = &fault.place else {
        return None;
    };
    let holds = |workload: &Workload| pattern.fits(workload.name()) && matches!(workload, Workload::Rates(_));
    let any = plan.workloads.iter().any(holds);
    (!any).then(|| "it acts on workloads that hold rates".to_owned())
}

/// Rules copy files that the catalogue knows.
fn by_transfers(fault: &Fault, plan: &Plan) -> Option<String> {
    let FaultPlace::Workload(pattern) = &fault.place else {
        return None;
    };
    let of_rules = |workload: &&Workload| {
        pattern.fits(workload.name())
            && matches!(workload, Workload::Rates(rates) if rates.inject == weir_plan::Inject::Rules)
    };
    let workload = plan.workloads.iter().find(of_rules)?;
    Some(format!(
        "{} copies by rules files that the catalogue knows",
        workload.name()
    ))
}

fn place(fault: &Fault, ground: &NetworkGround) -> Option<String> {
    match &fault.place {
        FaultPlace::Segment(name) if ground.shared(name).is_none() => {
            Some("segments are a part of the simulated network: run it shaped as that".to_owned())
        }
        _ if fault.kind == FaultKind::ForeignLoad && ground.is_empty() => {
            Some("traffic of others takes a part of a capacity: run it shaped as the simulated network".to_owned())
        }
        _ => None,
    }
}

fn window(fault: &Fault, plan: &Plan, ground: &NetworkGround) -> Option<String> {
    let delayed = plan
        .faults
        .iter()
        .any(|other| other.kind == FaultKind::RoundTrip && other.place == fault.place);
    let known = !ground.round_trips.is_empty();
    (!delayed && !known).then(|| {
        let or = if fault.kind == FaultKind::PacketLoss {
            ", or lose packets (--namespace)"
        } else {
            ""
        };
        format!("it bounds a transfer only over a round trip: add the fault round-trip at the same link{or}")
    })
}

/// Files of whole storages that fail on their disks.
fn disk_failures(fault: &Fault) -> Option<String> {
    let is_read = fault.place.way() == Some(Way::Out);
    let is_changed = disk_failure(fault) == Some(DiskFailure::Changed);
    (is_changed && !is_read).then(|| "disks change files as they are read: add way = \"out\"".to_owned())
}

fn failures(fault: &Fault, plan: &Plan) -> Option<String> {
    if damage(fault).is_none() {
        return Some(
            "relays make failures of network, timeout and tls; storages (rse, without mode and above) those of permission, not-found, \
             no-space, protocol, overload and checksum"
                .to_owned(),
        );
    }
    if fault.details.mode == Some(Mode::Streamed) {
        return Some("a relay cannot tell streamed copies from what else the transfer service asks".to_owned());
    }
    let above = fault.details.above.map_or(0, |size| size.0);
    let is_met = file_sizes(plan).iter().any(|(_, size)| *size > above);
    (!is_met).then(|| "no file of the challenge is larger than `above`".to_owned())
}
