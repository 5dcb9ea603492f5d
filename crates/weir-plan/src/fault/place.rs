//! Where a fault acts.

use std::fmt;

use weir_model::{LinkPattern, Pattern};

/// The direction of traffic, as seen from a storage element or a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Into it.
    In,
    /// Out of it.
    Out,
    /// Either.
    Both,
}

impl Way {
    /// Every direction with its word.
    pub const WORDS: [(&'static str, Way); 3] = [("in", Way::In), ("out", Way::Out), ("both", Way::Both)];

    /// The word of the challenge file.
    pub fn as_str(self) -> &'static str {
        match self {
            Way::In => "in",
            Way::Out => "out",
            Way::Both => "both",
        }
    }

    /// Whether traffic into the place is meant.
    pub fn is_in(self) -> bool {
        self != Way::Out
    }

    /// Whether traffic out of the place is meant.
    pub fn is_out(self) -> bool {
        self != Way::In
    }

    fn meets(self, other: Way) -> bool {
        self == other || self == Way::Both || other == Way::Both
    }
}

/// A service of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// The transfer service.
    Transfer,
    /// The token issuer.
    Issuer,
    /// The catalogue.
    Catalog,
}

impl Service {
    /// Every service with its word.
    pub const WORDS: [(&'static str, Service); 3] = [
        ("transfer", Service::Transfer),
        ("issuer", Service::Issuer),
        ("catalog", Service::Catalog),
    ];

    /// The word of the challenge file.
    pub fn as_str(self) -> &'static str {
        match self {
            Service::Transfer => "transfer",
            Service::Issuer => "issuer",
            Service::Catalog => "catalog",
        }
    }
}

/// The thing that a fault acts on, or a pattern of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultPlace {
    /// Storage elements, in one direction or both.
    Rse(Pattern, Way),
    /// The connections of sites, in one direction or both.
    Site(Pattern, Way),
    /// Links.
    Link(LinkPattern),
    /// A segment or group of the simulated network.
    Segment(String),
    /// A service.
    Service(Service),
    /// Workloads of the challenge.
    Workload(Pattern),
}

/// The names of a grid and of its plan, by which patterns are told apart.
#[derive(Debug, Default)]
pub(super) struct Names<'n> {
    pub(super) rses: Vec<&'n str>,
    pub(super) sites: Vec<&'n str>,
    pub(super) workloads: Vec<&'n str>,
}

impl FaultPlace {
    /// The key of the challenge file that names it.
    pub fn key(&self) -> &'static str {
        match self {
            FaultPlace::Rse(..) => "rse",
            FaultPlace::Site(..) => "site",
            FaultPlace::Link(_) => "link",
            FaultPlace::Segment(_) => "segment",
            FaultPlace::Service(_) => "service",
            FaultPlace::Workload(_) => "workload",
        }
    }

    /// Its direction; `None` where it has none.
    pub fn way(&self) -> Option<Way> {
        match self {
            FaultPlace::Rse(_, way) | FaultPlace::Site(_, way) => Some(*way),
            _ => None,
        }
    }

    /// The name or pattern under that key.
    pub fn name(&self) -> String {
        match self {
            FaultPlace::Rse(pattern, _) | FaultPlace::Site(pattern, _) | FaultPlace::Workload(pattern) => {
                pattern.to_string()
            }
            FaultPlace::Link(pattern) => pattern.to_string(),
            FaultPlace::Segment(name) => name.clone(),
            FaultPlace::Service(service) => service.as_str().to_owned(),
        }
    }

    /// Whether two places have anything in common, among these names.
    pub(super) fn meets(&self, other: &FaultPlace, names: &Names<'_>) -> bool {
        let both = |one: &Pattern, other: &Pattern, names: &[&str]| {
            names.iter().any(|name| one.fits(name) && other.fits(name))
        };
        match (self, other) {
            (FaultPlace::Rse(one, way), FaultPlace::Rse(other, back)) => {
                way.meets(*back) && both(one, other, &names.rses)
            }
            (FaultPlace::Site(one, way), FaultPlace::Site(other, back)) => {
                way.meets(*back) && both(one, other, &names.sites)
            }
            (FaultPlace::Link(one), FaultPlace::Link(other)) => {
                both(&one.source, &other.source, &names.rses) && both(&one.destination, &other.destination, &names.rses)
            }
            (FaultPlace::Segment(one), FaultPlace::Segment(other)) => one == other,
            (FaultPlace::Service(one), FaultPlace::Service(other)) => one == other,
            (FaultPlace::Workload(one), FaultPlace::Workload(other)) => both(one, other, &names.workloads),
            _ => false,
        }
    }
}

impl fmt::Display for FaultPlace {
    /// Writes `rse RAL in`, `link A→*`, `service issuer`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key(), self.name())?;
        match self.way() {
            Some(way) if way != Way::Both => write!(f, " {}", way.as_str()),
            _ => Ok(()),
        }
    }
}
