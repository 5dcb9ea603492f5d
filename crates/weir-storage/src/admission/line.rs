//! The waiting queue: groups take turns (round robin), each group is first in, first out.

use std::collections::VecDeque;

/// Entries of a group that are checked for one that can go on; the entries before it have used up a share of their own.
const LOOK: usize = 64;

/// A queue of waiting requests.
pub(crate) struct WaitQueue<T> {
    /// The groups, the next one first.
    groups: VecDeque<(String, VecDeque<(u64, T)>)>,
    tickets: u64,
    waiting: usize,
}

impl<T> Default for WaitQueue<T> {
    fn default() -> Self {
        Self {
            groups: VecDeque::new(),
            tickets: 0,
            waiting: 0,
        }
    }
}

impl<T> WaitQueue<T> {
    /// Joins the line; gives the ticket by which one leaves it.
    pub(crate) fn join(&mut self, group: &str, waiter: T) -> u64 {
        self.tickets += 1;
        self.waiting += 1;
        let waiting = (self.tickets, waiter);
        match self.groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, line)) => line.push_back(waiting),
            None => self.groups.push_back((group.to_owned(), VecDeque::from([waiting]))),
        }
        self.tickets
    }

    /// Leaves the line. Whether the ticket was still in it.
    pub(crate) fn leave(&mut self, ticket: u64) -> bool {
        for at in 0..self.groups.len() {
            let line = &mut self.groups[at].1;
            // Tickets rise within a group.
            let Ok(place) = line.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else {
                continue;
            };
            line.remove(place);
            self.waiting -= 1;
            if line.is_empty() {
                self.groups.remove(at);
            }
            return true;
        }
        false
    }

    /// Removes the next entry for which `goes` is true; it is called for each candidate. Its group goes to the end.
    pub(crate) fn next(&mut self, mut goes: impl FnMut(&T) -> bool) -> Option<T> {
        for at in 0..self.groups.len() {
            let line = &mut self.groups[at].1;
            let Some(place) = line.iter().take(LOOK).position(|(_, waiter)| goes(waiter)) else {
                continue;
            };
            let (_, waiter) = line.remove(place)?;
            self.waiting -= 1;
            let (name, line) = self.groups.remove(at)?;
            if !line.is_empty() {
                self.groups.push_back((name, line));
            }
            return Some(waiter);
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Number of waiting entries that match.
    pub(crate) fn count(&self, fits: impl Fn(&T) -> bool) -> usize {
        let waiters = self.groups.iter().flat_map(|(_, line)| line);
        waiters.filter(|(_, waiter)| fits(waiter)).count()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use proptest::prelude::*;

    use super::*;

    /// A VO that asks for ten thousand copies would keep all others waiting behind them.
    #[test]
    fn groups_take_turns() {
        let mut line = WaitQueue::default();
        for number in 0..5 {
            line.join("many", format!("many {number}"));
        }
        line.join("few", "few 0".to_owned());
        let order: Vec<String> = std::iter::from_fn(|| line.next(|_| true)).collect();
        assert_eq!(order, ["many 0", "few 0", "many 1", "many 2", "many 3", "many 4"]);
        assert_eq!(line.len(), 0);
        assert!(line.groups.is_empty());
    }

    /// One client at its limit would hold up its whole VO.
    #[test]
    fn a_blocked_waiter_lets_others_pass() {
        let mut line = WaitQueue::default();
        for client in ["x", "x", "y"] {
            line.join("vo", client);
        }
        assert_eq!(line.next(|client| *client == "y"), Some("y"));
        assert_eq!(line.next(|client| *client == "y"), None);
        assert_eq!(line.count(|client| *client == "x"), 2);
    }

    proptest! {
        /// Every waiting entry either leaves or has its turn, exactly once.
        #[test]
        fn each_waiter_is_served_exactly_once(steps in prop::collection::vec((0..3_u8, 0..4_usize), 1..300)) {
            let mut line = WaitQueue::default();
            let mut inside: Vec<u64> = Vec::new();
            let mut next = 0_u64;
            for (step, group) in steps {
                match step {
                    0 => {
                        let ticket = line.join(["a", "b", "c", "d"][group], next + 1);
                        next += 1;
                        prop_assert_eq!(ticket, next);
                        inside.push(ticket);
                    }
                    1 if !inside.is_empty() => {
                        let ticket = inside.swap_remove(group % inside.len());
                        prop_assert!(line.leave(ticket));
                        prop_assert!(!line.leave(ticket));
                    }
                    _ => {
                        let served = line.next(|_| true);
                        prop_assert_eq!(served.is_some(), !inside.is_empty());
                        inside.retain(|ticket| Some(*ticket) != served);
                    }
                }
                prop_assert_eq!(line.len(), inside.len());
            }
        }
    }
}
