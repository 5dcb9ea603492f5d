//! A door's estimate of free queue slots at the scheduler: the scheduler's last report minus the jobs taken here since.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use crate::driver::Holdings;

/// Greatest age of the scheduler's report, and longest time until the scheduler knows a job.
const LATE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Ledger {
    told: Holdings,
    /// Jobs taken since then, and in the period before.
    since: Instant,
    recent: [Recent; 2],
}

/// Jobs taken during a period.
#[derive(Debug, Default)]
struct Recent {
    transfers: u64,
    storages: HashSet<String>,
    links: HashSet<(String, String)>,
}

impl Ledger {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            told: Holdings::default(),
            since: now,
            recent: Default::default(),
        }
    }

    /// Takes a report of the scheduler: it does not include the jobs taken here last. Without reports, no job is
    /// dropped from the count.
    pub(super) fn hear(&mut self, told: Holdings, now: Instant) {
        self.told = told;
        if now.duration_since(self.since) >= LATE {
            let [last, _] = std::mem::take(&mut self.recent);
            (self.recent, self.since) = ([Recent::default(), last], now);
        }
    }

    /// Counts a job, if there is room for it whatever its names. Otherwise only the scheduler can decide.
    pub(super) fn takes(
        &mut self,
        transfers: usize,
        storages: &[String],
        links: &[(String, String)],
        most: Holdings,
    ) -> bool {
        let [now, before] = &mut self.recent;
        let new_storages = storages
            .iter()
            .filter(|se| !now.storages.contains(*se) && !before.storages.contains(*se));
        let new_links = links
            .iter()
            .filter(|link| !now.links.contains(*link) && !before.links.contains(*link));
        let counted = |told: u64, recent: [usize; 2], new: usize| told + (recent[0] + recent[1] + new) as u64;
        let n_storages = [now.storages.len(), before.storages.len()];
        let n_links = [now.links.len(), before.links.len()];
        let (new_storages, new_links) = (new_storages.collect::<Vec<_>>(), new_links.collect::<Vec<_>>());
        let all = self.told.transfers + now.transfers + before.transfers + transfers as u64;
        let fits = all <= most.transfers
            && (new_storages.is_empty()
                || counted(self.told.storages, n_storages, new_storages.len()) <= most.storages)
            && (new_links.is_empty() || counted(self.told.links, n_links, new_links.len()) <= most.links);
        if fits {
            now.transfers += transfers as u64;
            now.storages.extend(new_storages.into_iter().cloned());
            now.links.extend(new_links.into_iter().cloned());
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(ledger: &mut Ledger, transfers: usize, hosts: &[&str], most: [u64; 3]) -> bool {
        let storages = hosts.iter().map(|host| format!("https://{host}")).collect::<Vec<_>>();
        let links = storages
            .iter()
            .map(|se| (storages[0].clone(), se.clone()))
            .collect::<Vec<_>>();
        ledger.takes(transfers, &storages, &links, holdings(most))
    }

    fn holdings([transfers, storages, links]: [u64; 3]) -> Holdings {
        Holdings {
            transfers,
            storages,
            links,
        }
    }

    #[test]
    fn a_door_asks_only_where_room_is_short() {
        // Each submission would wait for the scheduler, and none be taken while there is no scheduler.
        let begin = Instant::now();
        let mut ledger = Ledger::new(begin);
        let many = [100, 100, 100];
        for _ in 0..20 {
            assert!(takes(&mut ledger, 5, &["a", "b"], many));
        }
        assert!(
            !takes(&mut ledger, 1, &["a", "b"], many),
            "100 came in, nobody knows more"
        );
        for seconds in [1, 2, 3, 5, 7, 9] {
            ledger.hear(holdings([50, 2, 2]), begin + Duration::from_secs(seconds));
            assert!(!takes(&mut ledger, 1, &["a"], many), "it may not know of the others");
        }
        ledger.hear(holdings([50, 2, 2]), begin + Duration::from_secs(10));
        assert!(takes(&mut ledger, 50, &["a", "b"], many));
        assert!(!takes(&mut ledger, 1, &["a", "b"], many));
    }

    #[test]
    fn invented_names_are_taken_within_bounds_and_known_ones_always() {
        let begin = Instant::now();
        let mut ledger = Ledger::new(begin);
        let few = [1000, 5, 4];
        ledger.hear(holdings([0, 2, 2]), begin);
        assert!(takes(&mut ledger, 1, &["a", "b"], few));
        assert!(takes(&mut ledger, 1, &["a", "b"], few), "they are counted once");
        assert!(!takes(&mut ledger, 1, &["c", "d"], few), "6 storage elements");
        assert!(!takes(&mut ledger, 1, &["a", "c"], few), "5 links");
        assert!(takes(&mut ledger, 1, &["a", "c"], [1000, 5, 5]));
        assert!(!takes(&mut ledger, 1, &["a", "d"], [1000, 5, 9]));
        for seconds in [5, 10] {
            ledger.hear(holdings([0, 3, 3]), begin + Duration::from_secs(seconds));
        }
        assert!(takes(&mut ledger, 1, &["a", "d"], [1000, 5, 9]));
    }
}
