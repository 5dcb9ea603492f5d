//! Why a link moves less than it is asked to: fifteen classes of causes, and the place that each of them names.
//!
//! The classes group 109 incidents of data challenges by what an operator would change. A cause is complete with the
//! [`Place`] that holds the traffic back.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::words::words;

words!(CauseClass {
    /// A storage reads, writes, computes or closes more slowly than data comes or is asked for.
    StorageDataPath = "storage-data-path",
    /// A storage admits no more at once, or gives way under the load that it admitted.
    Admission = "admission",
    /// Some servers of a storage carry less than the others.
    UnevenServers = "uneven-servers",
    /// A shared part of the network is full, by our own traffic or by other traffic.
    SharedCapacity = "shared-capacity",
    /// One path is slow for each connection: window, loss, packet size.
    PathQuality = "path-quality",
    /// Something is down, cut or rerouted.
    Outage = "outage",
    /// The transfer service may run no more: limits, shares, its optimiser.
    SchedulerPolicy = "scheduler-policy",
    /// A service decides or records too slowly: its database, its processes.
    ControlPlane = "control-plane",
    /// Tokens, certificates or rights come late or not at all.
    Authorisation = "authorisation",
    /// Space is short, or deletion is behind.
    Space = "space",
    /// Tape drives, or the disk buffer before them, are busy.
    Tape = "tape",
    /// The workload asks late, in bursts, or for files that are not there.
    Workload = "workload",
    /// Two programs do not work together, or one corrupts what it moves.
    Software = "software",
    /// A figure is wrong while traffic is well.
    Measurement = "measurement",
    /// Another controller changes load or capacity on purpose.
    OtherController = "other-controller",
    /// Nothing: the link moves what it is asked to.
    None = "none",
    /// A cause outside of this list.
    Other = "other",
});

words!(PlaceKind {
    /// A storage element, as destination.
    RseIn = "rse-in",
    /// A storage element, as source.
    RseOut = "rse-out",
    /// One server of a storage element, by its address.
    Server = "server",
    /// The connection of a site to the wide-area network, inwards.
    SiteIn = "site-in",
    /// The same, outwards.
    SiteOut = "site-out",
    /// A part of the network that several links cross, or a limit that several storage elements share.
    Segment = "segment",
    /// The path from one storage element to another: a link, `A→B`.
    Path = "path",
    /// A token issuer.
    Issuer = "issuer",
    /// A service of the grid: the transfer service, the catalogue.
    Service = "service",
    /// A workload of the challenge.
    Workload = "workload",
    /// A virtual organisation.
    Vo = "vo",
    /// An activity.
    Activity = "activity",
});

/// The place that holds traffic back. It is written `kind:name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Its kind.
    pub kind: PlaceKind,
    /// Its name within its kind.
    pub name: String,
}

impl Place {
    /// The place of this kind and name.
    pub fn new(kind: PlaceKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }

    /// Reads `kind:name`; `None` for an unknown kind or an empty name.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        (!name.is_empty()).then_some(())?;
        Some(Self::new(PlaceKind::parse(kind)?, name))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no place: write `kind:name`, e.g. `rse-in:QMUL`"))
    }
}

impl Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_causes_none_and_other() {
        // The score of a diagnosis counts over exactly these.
        assert_eq!(CauseClass::ALL.len(), 17);
        for class in CauseClass::ALL {
            assert_eq!(CauseClass::parse(class.as_str()), Some(*class));
        }
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        for kind in PlaceKind::ALL {
            // Names of links and IPv6 addresses have the separators of places in them.
            for name in ["QMUL", "RAL→QMUL", "[2001:db8::1]:443"] {
                let place = Place::new(*kind, name);
                assert_eq!(Place::parse(&place.to_string()), Some(place));
            }
        }
        for wrong in ["", "QMUL", "rse-in:", "rack:7"] {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
    }
}
