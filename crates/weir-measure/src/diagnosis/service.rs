//! The time of a link's transfers by cause, as a transfer service can tell it that knows neither asked rates nor usual waits.

use std::collections::BTreeMap;

use weir_world::{CauseClass, Place, Wait, WaitPhase};

use super::shares::CauseShare;

/// The times of a link's transfers.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkTimes {
    /// Seconds in each state, at its place where that is known.
    pub waits: Vec<(Wait, Option<Place>, f64)>,
    /// Seconds for which transfers held slots.
    pub slots_s: f64,
    /// The places at which they held them.
    pub way: Vec<Place>,
}

/// The time of a link's transfers by cause, the largest first.
///
/// Waits for slots of a place belong to what the holders of these slots waited for at the same time, in proportion to their time in them.
/// It is no diagnosis: the time of a link that is well goes somewhere, too.
pub fn time_by_cause(link: &LinkTimes, all: &[LinkTimes]) -> Vec<CauseShare> {
    let mut seconds: BTreeMap<(CauseClass, Option<&Place>), f64> = BTreeMap::new();
    for (wait, place, time) in &link.waits {
        let is_slots = matches!(wait, Wait::Slots | Wait::Optimiser);
        let held = place.as_ref().filter(|_| is_slots).map(|place| inside(place, all));
        let held = held.unwrap_or_default();
        let whole: f64 = held.values().sum();
        if whole <= 0.0 {
            *seconds.entry((wait.class(), place.as_ref())).or_default() += time;
            continue;
        }
        for (cause, part) in held {
            *seconds.entry(cause).or_default() += time * part / whole;
        }
    }
    let whole: f64 = seconds.values().sum();
    let of = |((class, place), seconds): ((CauseClass, Option<&Place>), f64)| CauseShare {
        class: Some(class),
        place: place.cloned(),
        share: seconds / whole,
    };
    let mut shares: Vec<CauseShare> = seconds
        .into_iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(of)
        .collect();
    shares.sort_by(|one, other| other.share.total_cmp(&one.share));
    shares
}

/// The causes for which the holders of slots of a place wait.
fn inside<'l>(place: &Place, all: &'l [LinkTimes]) -> BTreeMap<(CauseClass, Option<&'l Place>), f64> {
    let mut causes = BTreeMap::new();
    for holder in all.iter().filter(|link| link.way.contains(place)) {
        let inside = holder
            .waits
            .iter()
            .filter(|(wait, ..)| !matches!(wait.phase(), WaitPhase::Queue | WaitPhase::Catalogue));
        let told: f64 = inside.clone().map(|(.., time)| time).sum();
        for (wait, place, time) in inside {
            let part = holder.slots_s * time / told.max(f64::MIN_POSITIVE);
            *causes.entry((wait.class(), place.as_ref())).or_insert(0.0) += part;
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use weir_world::PlaceKind;

    use super::*;

    #[test]
    fn slots_belong_to_what_their_holders_wait_for() {
        let place = |kind, name: &str| Place::new(kind, name);
        let (into, disk) = (place(PlaceKind::RseIn, "B"), place(PlaceKind::RseOut, "C"));
        let waits = LinkTimes {
            waits: vec![
                (Wait::Slots, Some(into.clone()), 90.0),
                (Wait::Network, Some(place(PlaceKind::SiteIn, "B")), 10.0),
            ],
            slots_s: 10.0,
            way: vec![into.clone()],
        };
        let holder = LinkTimes {
            waits: vec![
                (Wait::Slots, Some(into.clone()), 1_000.0),
                (Wait::Disk, Some(disk.clone()), 30.0),
            ],
            slots_s: 30.0,
            way: vec![into.clone()],
        };
        let found = time_by_cause(&waits, &[waits.clone(), holder]);
        let part = |class, place: &Place, share: f64| (Some(class), Some(place.clone()), share);
        let found: Vec<_> = found.into_iter().map(|one| (one.class, one.place, one.share)).collect();
        // Three quarters of the slots are held by the other link's disk, a quarter by the link's own network.
        assert_eq!(found[0], part(CauseClass::StorageDataPath, &disk, 0.675));
        assert_eq!(
            found[1],
            part(CauseClass::SharedCapacity, &place(PlaceKind::SiteIn, "B"), 0.325)
        );

        // Slots whose holders nobody knows are the service's own.
        let alone = time_by_cause(&waits, &[]);
        assert_eq!(alone[0].class, Some(CauseClass::SchedulerPolicy));
        assert!(
            time_by_cause(
                &LinkTimes {
                    waits: Vec::new(),
                    ..waits
                },
                &[]
            )
            .is_empty()
        );
    }
}
