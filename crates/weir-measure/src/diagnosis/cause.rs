//! A cause, and the first answer that each signal gives.

use weir_world::{CauseClass, ErrorClass, Party, Place, PlaceKind, Wait};

use super::view::Link;

/// A class with its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    pub(super) class: CauseClass,
    pub(super) place: Option<Place>,
}

impl Cause {
    pub(super) fn at(class: CauseClass, kind: PlaceKind, name: &str) -> Self {
        Self {
            class,
            place: Some(Place::new(kind, name)),
        }
    }

    /// The cause that a state of a link's transfers speaks for, where nothing contradicts it.
    pub(super) fn of_wait(wait: Wait, place: Option<&Place>, link: &Link<'_>) -> Self {
        let kind = place.map(|place| place.kind);
        let class = match (wait, kind) {
            (Wait::Disk | Wait::Processor, Some(PlaceKind::Server)) => CauseClass::UnevenServers,
            _ => wait.class(),
        };
        let place = match (wait, place) {
            (_, Some(place)) => Some(place.clone()),
            (Wait::Store | Wait::Turn | Wait::Restoring | Wait::Executor | Wait::Slots | Wait::Optimiser, None) => {
                Some(Place::new(PlaceKind::Service, "transfer"))
            }
            (Wait::Catalogue, None) => Some(Place::new(PlaceKind::Service, "catalog")),
            (Wait::Token, None) => Some(Place::new(PlaceKind::Issuer, "tokens")),
            (Wait::Look | Wait::FirstByte | Wait::Close | Wait::Delete, None) => {
                Some(Place::new(PlaceKind::RseIn, link.destination))
            }
            (Wait::Data | Wait::Network | Wait::Window | Wait::Resolve | Wait::Connect | Wait::Tls, None) => {
                Some(Place::new(PlaceKind::Path, link.name))
            }
            _ => None,
        };
        Self { class, place }
    }

    /// The cause that failures of a class at a party speak for. `is_all`: no attempt succeeded.
    pub(super) fn of_failure(class: ErrorClass, party: Option<Party>, link: &Link<'_>, is_all: bool) -> Option<Self> {
        use ErrorClass as E;
        let cause = match class {
            E::Token | E::Permission => CauseClass::Authorisation,
            E::NoSpace => CauseClass::Space,
            E::Overload => CauseClass::Admission,
            E::NotFound => CauseClass::Workload,
            E::Network if is_all => CauseClass::Outage,
            E::Timeout | E::Stall if party == Some(Party::Network) => CauseClass::PathQuality,
            E::Tls | E::Protocol | E::Checksum | E::Network | E::Timeout | E::Stall => CauseClass::Software,
            _ => return None,
        };
        Some(match party {
            Some(Party::Source) => Self::at(cause, PlaceKind::RseOut, link.source),
            Some(Party::Destination) => Self::at(cause, PlaceKind::RseIn, link.destination),
            Some(Party::Issuer) => Self::at(cause, PlaceKind::Issuer, "tokens"),
            Some(Party::Catalogue) => Self::at(CauseClass::ControlPlane, PlaceKind::Service, "catalog"),
            _ => Self::at(cause, PlaceKind::Path, link.name),
        })
    }
}
