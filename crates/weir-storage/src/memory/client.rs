//! The memory that all transfers of one client hold together: no client may have all of it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use super::FLOOR;

/// All transfers of a client hold at most so many times the free memory: one client alone three quarters of all, two
/// three sevenths each. The rule is that of single transfers (Choudhury and Hahne 1998), with a factor above 1, because
/// a grid's busiest client is its transfer service.
const TIMES: usize = 3;

/// Unused accounts are dropped when there are so many, and twice as many as remained the last time.
const KEPT: usize = 1024;

/// A client's account.
#[derive(Debug, Default)]
pub(crate) struct Client {
    held: AtomicUsize,
    /// One of its own waits for a floor of its share.
    wanted: AtomicBool,
}

impl Client {
    /// Whether it may have one floor more, of `total` bytes of which `taken` are.
    pub(super) fn may_begin(&self, total: usize, taken: usize) -> bool {
        let held = self.held.load(Ordering::SeqCst);
        // With a small budget a floor may be more than any share.
        held == 0 || held + FLOOR <= TIMES * total.saturating_sub(taken + FLOOR)
    }

    /// Largest memory of one of its transfers, which holds `own`, where all others, including the client's, hold
    /// `others`.
    ///
    /// Beside the `rest` of the client it has `x` such that `rest + x` is three times the memory that is free then.
    pub(super) fn most(&self, total: usize, others: usize, own: usize) -> usize {
        let rest = self.held.load(Ordering::Relaxed).saturating_sub(own);
        (TIMES * total.saturating_sub(others)).saturating_sub(rest) / (TIMES + 1)
    }

    pub(super) fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::SeqCst);
    }

    /// One of its transfers holds so much now.
    pub(super) fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.held.fetch_add(now - before, Ordering::SeqCst);
        } else {
            self.held.fetch_sub(before - now, Ordering::SeqCst);
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }
}

/// The accounts of all clients that move something.
#[derive(Debug, Default)]
pub(super) struct ClientAccounts {
    accounts: Mutex<Accounts>,
    /// Whether any client waits for memory of its own share.
    wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct Accounts {
    by_name: HashMap<String, Weak<Client>>,
    /// How many were left the last time that unused ones were dropped.
    left: usize,
}

impl ClientAccounts {
    pub(super) fn of(&self, name: &str) -> Arc<Client> {
        let mut accounts = self.accounts.lock();
        if let Some(client) = accounts.by_name.get(name).and_then(Weak::upgrade) {
            return client;
        }
        if accounts.by_name.len() >= KEPT.max(2 * accounts.left) {
            accounts.by_name.retain(|_, client| client.strong_count() > 0);
            accounts.left = accounts.by_name.len();
        }
        let client = Arc::new(Client::default());
        accounts.by_name.insert(name.to_owned(), Arc::downgrade(&client));
        client
    }

    /// One of this client's waits for memory of its share.
    pub(super) fn want(&self, client: &Client) {
        client.wanted.store(true, Ordering::SeqCst);
        self.wanted.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Clears the mark: all waiting requests are about to be checked.
    pub(super) fn forget_wanted(&self) {
        if self.wanted.swap(false, Ordering::SeqCst) {
            for client in self.accounts.lock().by_name.values().filter_map(Weak::upgrade) {
                client.wanted.store(false, Ordering::SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::sync::Arc;

    use super::{super::Budget, super::Scarce, *};

    fn all_of(budget: &Budget, name: &str) -> Vec<Arc<super::super::Lease>> {
        let client = budget.client(name);
        std::iter::from_fn(|| budget.floor(Some(&client)).ok()).collect()
    }

    #[test]
    fn one_client_leaves_some_for_the_next() {
        // 150 readers that read nothing, or 815 slow uploads, of one client would keep all others out.
        let budget = Budget::new(80 * FLOOR);
        let greedy = all_of(&budget, "greedy");
        assert_eq!(greedy.len(), 60);
        let next = all_of(&budget, "next");
        assert_eq!(next.len(), 15);
        assert!(!all_of(&budget, "third").is_empty());
        assert_eq!(budget.floor(Some(&budget.client("greedy"))).err(), Some(Scarce::Share));
        assert!(
            !budget.is_wanted(),
            "a client that waits for its own share presses nobody else"
        );
        drop(greedy);
        assert!(all_of(&budget, "next").len() > 20);
    }

    #[test]
    fn memory_of_a_client_beyond_its_floors_counts() {
        let budget = Budget::new(80 * FLOOR);
        let client = budget.client("reader");
        let sizes = [6 * FLOOR, 3 * FLOOR, FLOOR];
        let mut held = Vec::new();
        while let Ok(lease) = budget.floor(Some(&client)) {
            lease.fit(&sizes.into_iter());
            held.push(lease);
        }
        assert!(budget.figures().1 <= 60 * FLOOR, "{:?}", budget.figures());
        assert!(budget.floor(Some(&budget.client("other"))).is_ok());
        // Its own wait presses its own.
        assert!(held[0].is_pressed());
        budget.forget_wanted();
        assert!(!held[0].is_pressed());
        held.clear();
        assert_eq!((budget.figures().1, client.held.load(Ordering::SeqCst)), (0, 0));
    }

    #[test]
    fn a_client_that_holds_nothing_may_begin() {
        // An endpoint with memory for one transfer would carry none.
        let budget = Budget::new(FLOOR);
        let client = budget.client("only");
        let lease = budget.floor(Some(&client)).unwrap();
        assert_eq!(budget.floor(Some(&client)).err(), Some(Scarce::All));
        drop(lease);
        assert!(budget.floor(Some(&client)).is_ok());
    }

    #[test]
    fn accounts_of_those_who_left_go() {
        let budget = Budget::new(FLOOR);
        for name in 0..10 * KEPT {
            budget.client(&name.to_string());
        }
        assert!(budget.0.clients.accounts.lock().by_name.len() <= KEPT);
    }
}
