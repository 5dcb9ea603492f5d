//! The links that held the slots that others waited for.
//!
//! A transfer waits for a slot at a full place. The time that a link waited there in a bin is divided among the links that held slots
//! at this place in the same bin, by their time. So each second of waiting has holders that add up to it, or none.

use std::collections::BTreeMap;

use weir_world::WaitPhase;

use super::link_rows::{LinkRows, PlaceId, Row};
use crate::spread::Bins;

/// Holders that are named of one wait.
const NAMED: usize = 3;

/// The slots at each place, by link.
#[derive(Debug)]
pub(super) struct Holders<'s>(BTreeMap<PlaceId, Vec<(usize, &'s Bins)>>);

impl<'s> Holders<'s> {
    pub(super) fn of(links: &'s [LinkRows]) -> Self {
        let mut places: BTreeMap<PlaceId, Vec<(usize, &Bins)>> = BTreeMap::new();
        for (link, rows) in links.iter().enumerate() {
            for (place, bins) in rows.held.iter().filter(|(_, bins)| bins.sum() > 0) {
                places.entry(*place).or_default().push((link, bins));
            }
        }
        Self(places)
    }

    /// The links with the largest parts of a wait, and these parts in nanoseconds; empty for a wait that is not for slots.
    pub(super) fn waited_for(&self, row: &Row) -> Vec<(usize, u64)> {
        let held = row.place.and_then(|place| self.0.get(&place));
        let Some(held) = held.filter(|_| row.wait.phase() == WaitPhase::Queue) else {
            return Vec::new();
        };
        let mut parts = vec![0_u64; held.len()];
        for bin in row.bins.filled() {
            let waited = u128::from(row.bins.get(bin));
            let all: u128 = held.iter().map(|(_, bins)| u128::from(bins.get(bin))).sum();
            if waited == 0 || all == 0 {
                continue;
            }
            for (part, (_, bins)) in parts.iter_mut().zip(held) {
                let share = waited * u128::from(bins.get(bin)) / all;
                *part += u64::try_from(share).unwrap_or(u64::MAX);
            }
        }
        let links = held.iter().map(|(link, _)| *link);
        let mut parts: Vec<(usize, u64)> = links.zip(parts).filter(|(_, part)| *part > 0).collect();
        parts.sort_by_key(|(link, part)| (std::cmp::Reverse(*part), *link));
        parts.truncate(NAMED);
        parts
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_world::{Place, PlaceKind, Wait};

    use crate::signals::Signals;
    use crate::spec::LinkSpec;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_is_divided_among_those_who_held_slots_meanwhile() {
        // Wrong: a link is blamed that held slots at another time, or at another place.
        let mut signals = Signals::new(SECOND);
        let link = |source: &str| LinkSpec {
            source: source.to_owned(),
            destination: "QMUL".to_owned(),
            source_site: 0,
            destination_site: 1,
            asked: None,
            curves: Vec::new(),
            file_bytes: None,
        };
        let [full, other] = ["QMUL", "RAL"].map(|name| signals.place(&Place::new(PlaceKind::RseIn, name)));
        let first = (Duration::ZERO, SECOND);
        signals.add(0, (Wait::Slots, Some(full)), 8 * SECOND, first);
        signals.add(0, (Wait::Disk, Some(full)), 8 * SECOND, first);
        signals.hold(0, full, SECOND, first);
        signals.hold(1, full, 3 * SECOND, first);
        signals.hold(2, other, 50 * SECOND, first);
        // When nobody waited any more.
        signals.hold(2, full, 50 * SECOND, (SECOND, 2 * SECOND));
        let report = signals.report(&[link("RAL"), link("CNAF"), link("LANCS")]);
        let wait = &report[0].waits[0];
        let holders: Vec<_> = wait
            .holders
            .iter()
            .map(|holder| (holder.link.as_str(), holder.waited_s))
            .collect();
        assert_eq!(holders, [("CNAF→QMUL", 6.0), ("RAL→QMUL", 2.0)]);
        assert_eq!(report[0].waits[1].holders, [], "a disk has no slots");
        let slots = report[0].slots.as_ref().map(|slots| (slots.way.len(), slots.total_s));
        assert_eq!(slots, Some((1, 1.0)));
    }
}
