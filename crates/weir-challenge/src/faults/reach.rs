//! The places that relays of a run can break: the doors of the grid's own services, and those of other programs on this machine.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use weir_grid::{CATALOG_DOOR, ISSUER_DOOR, TRANSFER_DOOR};
use weir_model::{GridIssuer, Link, Rse, RseName};
use weir_plan::fault::{Fault, FaultKind, FaultPlace, Service};
use weir_plan::{Plan, Workload};

use super::ground::NetworkGround;
use super::rules::{End, Ground};

/// Why no relay can make this fault, if none can. `near` has the doors of other programs on this machine.
pub(super) fn out_of_reach(
    fault: &Fault,
    plan: &Plan,
    network: &NetworkGround,
    near: &BTreeSet<String>,
) -> Option<String> {
    let far = |rse: &&Rse| !rse.kind.is_embedded() && !near.contains(rse.name.as_str());
    let away = |rse: &Rse| no_relay(rse.name.as_str(), goes_past(plan));
    let named = |rse: &&Rse| matches!(&fault.place, FaultPlace::Rse(pattern, _) if pattern.fits(rse.name.as_str()));
    if let Some(rse) = plan.grid.rses.iter().filter(named).find(far) {
        return Some(away(rse));
    }
    match &fault.place {
        FaultPlace::Service(service) => return service_out_of_reach(*service, plan, near),
        FaultPlace::Workload(_) => return None,
        // The door of a storage that is down takes part in every one of its transfers.
        FaultPlace::Rse(..) if fault.kind == FaultKind::Outage => return None,
        _ => {}
    }
    let anywhere = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let ground = seen(plan, network, |_| Some(anywhere));
    let pairs = ground.pairs(fault);
    let touched: BTreeSet<&RseName> = pairs
        .iter()
        .flat_map(|(from, to)| [&ground.ends[*from].name, &ground.ends[*to].name])
        .collect();
    if let Some(rse) = plan
        .grid
        .rses
        .iter()
        .filter(|rse| touched.contains(&rse.name))
        .find(far)
    {
        return Some(away(rse));
    }
    mistaken(fault, &ground, &pairs)
}

/// Relays know the storages of other programs by no address of their own: why a fault would strike more than its place.
fn mistaken(fault: &Fault, ground: &Ground, pairs: &[(usize, usize)]) -> Option<String> {
    let foreign = |end: usize| Some(&ground.ends[end]).filter(|end| end.is_foreign);
    if fault.kind == FaultKind::Outage {
        let end = pairs
            .iter()
            .find_map(|(from, to)| foreign(*from).or_else(|| foreign(*to)))?;
        return Some(format!(
            "{} connects from an address that others have, too: break the storage itself (rse)",
            end.name
        ));
    }
    // Some of the storages of other programs to which a storage sends, and not all of them.
    let is_other = |from: usize, to: usize| to != from && foreign(to).is_some() && !pairs.contains(&(from, to));
    let (from, to) = pairs
        .iter()
        .filter(|(_, to)| foreign(*to).is_some())
        .find(|(from, _)| (0..ground.ends.len()).any(|to| is_other(*from, to)))?;
    Some(format!(
        "{} cannot be told from other storages to which {} sends, since they connect from one address",
        ground.ends[*to].name, ground.ends[*from].name
    ))
}

fn service_out_of_reach(service: Service, plan: &Plan, near: &BTreeSet<String>) -> Option<String> {
    let catalog = plan.grid.catalog.as_ref();
    let (name, door, is_own) = match service {
        Service::Issuer => (
            "issuer",
            ISSUER_DOOR,
            matches!(plan.grid.issuer, GridIssuer::Embedded(_)),
        ),
        Service::Transfer => ("transfer service", TRANSFER_DOOR, plan.grid.transfer_service.is_none()),
        Service::Catalog if !plan.makes_rules() => return Some("no workload of the challenge makes rules".to_owned()),
        Service::Catalog => {
            let is_own = catalog.is_none_or(|catalog| catalog.service.is_none());
            ("catalogue", CATALOG_DOOR, is_own)
        }
    };
    let is_far = !is_own && !near.contains(door);
    let past = goes_past(plan).filter(|_| service == Service::Transfer);
    is_far.then(|| no_relay(&format!("the {name}"), past))
}

/// The catalogue of another program, which goes by the addresses that it knows.
fn goes_past(plan: &Plan) -> Option<&str> {
    let catalog = plan.grid.catalog.as_ref()?.service.as_ref()?;
    Some(&catalog.url)
}

/// Why no relay stands in front of another program's door.
fn no_relay(door: &str, goes_past: Option<&str>) -> String {
    match goes_past {
        Some(catalog) => format!("the catalogue {catalog} knows {door} by its own address, and goes past a relay"),
        None => format!("{door} is not on this machine: no relay can stand in front of it"),
    }
}

/// The storages of a plan as relays tell them apart, with the address of each; without those that have none.
pub(super) fn seen(plan: &Plan, network: &NetworkGround, address: impl Fn(&Rse) -> Option<SocketAddr>) -> Ground {
    let end = |rse: &Rse| {
        Some(End {
            name: rse.name.clone(),
            site: rse.site.to_string(),
            door: address(rse)?,
            is_foreign: !rse.kind.is_embedded(),
        })
    };
    Ground {
        ends: plan.grid.rses.iter().filter_map(end).collect(),
        network: network.clone(),
        has_packets: false,
        file_sizes: file_sizes(plan),
    }
}

/// Sizes of the files that each link is asked for.
pub(super) fn file_sizes(plan: &Plan) -> BTreeSet<(Link, u64)> {
    let of = |workload: &Workload| -> Vec<(Link, u64)> {
        match workload {
            Workload::Rates(rates) => {
                let links = rates.links.iter();
                links.map(|rated| (rated.link.clone(), rated.file_size.0)).collect()
            }
            Workload::Matrix(steps) | Workload::Ramp(steps) => {
                let cells = steps.steps.iter().flat_map(|step| &step.cells);
                cells.map(|cell| (cell.link.clone(), cell.size.0)).collect()
            }
        }
    };
    plan.workloads.iter().flat_map(of).collect()
}
