//! The cause that a fault stands for: its class, and the places at which a diagnosis may see it.

use std::collections::BTreeMap;

use crate::fault::{Fault, FaultKind, FaultPlace, Service, Way};
use crate::incident::Incident;

use super::names::renamed;

/// A cause, as the faults of a case make it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// Words of its class; two where the sources leave it open.
    pub classes: Vec<String>,
    /// The places that are right, `kind:name`; one of them is enough.
    pub places: Vec<String>,
    /// Names of the faults that make it.
    pub faults: Vec<String>,
    /// Whether one of two answers is all that can be told.
    pub is_open: bool,
}

impl Cause {
    /// The cause of an incident.
    pub fn of_incident(incident: &Incident) -> Self {
        let expect = &incident.expect;
        let faults = &incident.challenge.faults;
        // Pauses and retries name the link that makes them, not the cause.
        let is_told = !matches!(expect.wait.as_deref(), Some("pause" | "retry"));
        let mut places: Vec<String> = expect.place.iter().filter(|_| is_told).cloned().collect();
        if places.is_empty() {
            let is_meant = |fault: &&Fault| expect.classes.iter().any(|known| known == class_of(fault));
            let meant = faults.iter().filter(is_meant).flat_map(places_of);
            places.extend(meant);
        }
        if places.is_empty() {
            places.extend(faults.iter().flat_map(places_of));
        }
        places.sort();
        places.dedup();
        Self {
            classes: expect.classes.clone(),
            places,
            faults: faults.iter().map(|fault| fault.name.clone()).collect(),
            is_open: expect.classes.len() > 1,
        }
    }

    /// The cause of one fault.
    pub(super) fn of_fault(fault: &Fault) -> Self {
        Self {
            classes: vec![class_of(fault).to_owned()],
            places: places_of(fault),
            faults: vec![fault.name.clone()],
            is_open: false,
        }
    }

    /// Its places have other names.
    pub(super) fn rename(&mut self, names: &BTreeMap<String, String>) {
        for place in &mut self.places {
            if let Some((kind, name)) = place.split_once(':') {
                *place = format!("{kind}:{}", renamed(name, names));
            }
        }
    }
}

/// The word of the class that a fault stands for.
pub(super) fn class_of(fault: &Fault) -> &'static str {
    use FaultKind as K;
    match (fault.kind, &fault.place) {
        (K::SlowIssuer | K::FailingIssuer | K::TokenLifetime | K::SkewedClock, _)
        | (K::Outage, FaultPlace::Service(Service::Issuer)) => "authorisation",
        (K::LateDecisions | K::SlowStore | K::FrozenStore | K::LateSubmission | K::SlowSubmission, _)
        | (K::Outage, FaultPlace::Service(_)) => "control-plane",
        (K::SlowRead | K::SlowWrite | K::SlowDisk | K::SlowStream | K::SlowClose | K::ReadBack | K::Mixing, _) => {
            "storage-data-path"
        }
        (K::Connections | K::Overload | K::Crash, _) => "admission",
        (K::SlowServer | K::Uneven, _) => "uneven-servers",
        (K::Outage | K::Reroute | K::FrozenSite | K::KilledSite, _) => "outage",
        (K::SlowDelete | K::Overwrite | K::Quota | K::LateDeletion, _) => "space",
        (K::Failures, _) => class_of_error(fault.details.error.as_deref().unwrap_or_default()),
        (K::Capacity | K::ForeignLoad, _) => "shared-capacity",
        (K::RoundTrip | K::Window | K::PacketLoss | K::Mtu, _) => "path-quality",
        (K::Slots | K::Fifo, _) => "scheduler-policy",
        (K::Comb | K::SmallFiles | K::Pause | K::Volume | K::MissingSource, _) => "workload",
        (K::WrongCounters | K::MissingCounters | K::LateCounters, _) => "measurement",
        (K::Controller, _) => "other-controller",
        (K::Vanish | K::Corrupt, _) => "software",
    }
}

fn class_of_error(error: &str) -> &'static str {
    match error {
        "token" | "permission" => "authorisation",
        "no-space" => "space",
        "overload" => "admission",
        "not-found" => "workload",
        _ => "software",
    }
}

/// The places at which a fault acts.
fn places_of(fault: &Fault) -> Vec<String> {
    use FaultKind as K;
    let ways = |kinds: [&str; 2], name: &str, way: Way| {
        let [inwards, outwards] = kinds.map(|kind| format!("{kind}:{name}"));
        let both = [way.is_in().then_some(inwards), way.is_out().then_some(outwards)];
        both.into_iter().flatten().collect::<Vec<_>>()
    };
    match &fault.place {
        FaultPlace::Rse(rse, _) if matches!(fault.kind, K::SlowServer | K::Uneven) => {
            let number = fault.details.server.unwrap_or(1);
            vec![format!("server:{rse}#{number}")]
        }
        FaultPlace::Rse(rse, way) => {
            let way = match fault.kind {
                K::SlowRead => Way::Out,
                K::SlowWrite | K::SlowClose | K::ReadBack | K::Overwrite | K::SlowDelete | K::Quota => Way::In,
                _ => *way,
            };
            ways(["rse-in", "rse-out"], &rse.to_string(), way)
        }
        FaultPlace::Site(site, way) => ways(["site-in", "site-out"], &site.to_string(), *way),
        FaultPlace::Link(_) if fault.kind == K::Reroute => {
            let to = fault.details.to.as_deref().unwrap_or_default();
            vec![format!("segment:{to}")]
        }
        FaultPlace::Link(link) => vec![format!("path:{}→{}", link.source, link.destination)],
        FaultPlace::Segment(name) => vec![format!("segment:{name}")],
        FaultPlace::Service(Service::Issuer) => vec!["issuer:tokens".to_owned()],
        FaultPlace::Service(service) => vec![format!("service:{}", service.as_str())],
        FaultPlace::Workload(pattern) => vec![format!("workload:{pattern}")],
    }
}
