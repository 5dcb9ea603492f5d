//! Where a file comes from: the sources of a request, the best first.

mod routes;

use std::{cmp::Reverse, fmt};

use weir_model::catalog::RequestState;

pub use routes::{Links, Route, Ways};

use crate::ids::RseId;

/// An RSE that has the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each excludes by itself")]
pub struct Source {
    /// The RSE.
    pub rse: RseId,
    /// Whether it may be read now.
    pub readable: bool,
    /// Whether the rule's source expression means it; `true` where the rule has none.
    pub wanted: bool,
    /// Whether it shares a scheme for third-party copies with the destination.
    pub shares_scheme: bool,
    /// Whether the file has to be recalled from tape.
    pub tape: bool,
    /// Begins at 0; less by one for each attempt of this request that failed with this source.
    pub ranking: i32,
    /// Of a thousand recent transfers on its link, those that failed.
    pub failing: u32,
}

/// Why an RSE that has the file cannot be a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Excluded {
    /// It is the destination.
    Destination,
    /// It may not be read now.
    Unreadable,
    /// The rule's source expression does not mean it.
    Unwanted,
    /// There is no common scheme.
    Scheme,
    /// There is no link to the destination, with hops or without.
    Distance,
    /// The rule does not read from tape.
    Tape,
}

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Destination => "it is the destination",
            Self::Unreadable => "it may not be read now",
            Self::Unwanted => "the source expression does not name it",
            Self::Scheme => "it shares no scheme for third-party copies with the destination",
            Self::Distance => "no distance leads from it to the destination",
            Self::Tape => "its copy is on tape, and tape is not read for this rule",
        })
    }
}

/// A source with the way of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// The RSE.
    pub rse: RseId,
    /// The way from there.
    pub route: Route,
}

/// The sources of a request, the best first, and the RSEs that cannot be one, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// May be empty.
    pub sources: Vec<Ranked>,
    /// With the reasons.
    pub excluded: Vec<(RseId, Excluded)>,
}

impl Ranking {
    /// The state of a request that has no source; `None` if there is one.
    pub fn refusal(&self) -> Option<RequestState> {
        if !self.sources.is_empty() {
            return None;
        }
        let all_but_these = |reason| {
            let mut others = self
                .excluded
                .iter()
                .filter(|(_, why)| *why != Excluded::Destination)
                .peekable();
            others.peek().is_some() && others.all(|(_, why)| *why == reason)
        };
        Some(match () {
            () if all_but_these(Excluded::Tape) => RequestState::OnlyTapeSources,
            () if all_but_these(Excluded::Scheme) => RequestState::MismatchScheme,
            () => RequestState::NoSources,
        })
    }
}

/// Ranks sources for the destination of these ways. The order is the highest ranking, disk before tape, the shortest
/// distance, the fewest hops, the fewest failures on the link, then the order of RSEs. `reads_tape` is whether files
/// may be recalled for this request.
pub fn rank(sources: &[Source], ways: &Ways<'_>, reads_tape: bool) -> Ranking {
    let mut ranking = Ranking::default();
    let mut found = Vec::new();
    for source in sources {
        let route = ways.from(source.rse);
        let excluded = match route {
            _ if source.rse == ways.destination() => Some(Excluded::Destination),
            _ if !source.wanted => Some(Excluded::Unwanted),
            _ if !source.readable => Some(Excluded::Unreadable),
            _ if source.tape && !reads_tape => Some(Excluded::Tape),
            _ if !source.shares_scheme => Some(Excluded::Scheme),
            None => Some(Excluded::Distance),
            Some(_) => None,
        };
        match (excluded, route) {
            (None, Some(route)) => found.push((source, route)),
            (Some(why), _) => ranking.excluded.push((source.rse, why)),
            (None, None) => ranking.excluded.push((source.rse, Excluded::Distance)),
        }
    }
    found.sort_by_key(|(source, route)| {
        let (distance, n_hops) = (route.distance, route.hops.len());
        (
            Reverse(source.ranking),
            source.tape,
            distance,
            n_hops,
            source.failing,
            source.rse,
        )
    });
    let ranked = found
        .into_iter()
        .map(|(source, route)| Ranked { rse: source.rse, route });
    ranking.sources = ranked.collect();
    ranking
}

#[cfg(test)]
mod tests;
