//! Routes: the alternative sources of one file, or its hops. One transfer of a route is live, the others are held until
//! their turn.
//!
//! The end of a live transfer decides its successor, and the record of that end contains the decision: after a crash,
//! either neither has happened or both have. A route costs twenty bytes, its held transfers are ordinary rows in a
//! list; independent files cost nothing.

use std::sync::Arc;

use weir_units::Bytes;
use weir_world::TransferId;

use super::Scheduler;
use super::table::{State, Table};
use crate::policy::Join;
use crate::policy::list::{List, NIL};
use crate::{Candidate, JobSpec, Link, Reason, Route, RouteKind, Settled, Strategy, Work, rank_by};

/// The rows of a list, in order.
fn rows<'a>(table: &'a Table, list: &List) -> impl Iterator<Item = u32> + 'a {
    std::iter::successors(list.head(), |row| table.behind(*row))
}

impl Scheduler {
    /// Puts the best source of each file with several of them first.
    pub(super) fn choose(&self, spec: &Arc<JobSpec>) -> Arc<JobSpec> {
        let mut chosen = Arc::clone(spec);
        for (number, route) in spec.routes.iter().enumerate() {
            let (RouteKind::Replicas(strategy), Some(transfers)) =
                (route.kind, spec.transfers.get(route.places.clone()))
            else {
                continue;
            };
            let size = transfers.iter().map(|transfer| transfer.size).max().unwrap_or_default();
            let links: Vec<Link> = transfers.iter().map(crate::TransferSpec::link).collect();
            let Some(best) = self.best(strategy, &links, size) else {
                continue;
            };
            Arc::make_mut(&mut chosen).routes[number].live = route.places.start + best;
        }
        chosen
    }

    /// The index of the best source for a file of this size, by current measurements. `None` without links.
    pub fn best(&self, strategy: Strategy, links: &[Link], size: Bytes) -> Option<usize> {
        let candidates: Vec<Candidate> = links.iter().map(|link| self.candidate(*link)).collect();
        rank_by(strategy, &candidates, size).first().copied()
    }

    /// Adds a route of a job whose transfers are in these rows, in no queue yet. All but one of them are held from now
    /// on.
    pub(super) fn join(&mut self, route: &Route, job: &[u32]) {
        let number = self.routes.insert(route.kind);
        for place in route.places.clone() {
            self.attach(job[place], number, place != route.live);
        }
    }

    /// Takes back one transfer of a route that is named by its first.
    pub(super) fn rejoin(&mut self, row: u32, kind: RouteKind, first: TransferId, held: bool) {
        if self.begun && !self.routes.named.contains_key(&first) {
            self.forget_names();
        }
        let known = self.routes.named.get(&first).copied();
        let number = known.unwrap_or_else(|| self.routes.insert(kind));
        self.routes.named.insert(first, number);
        self.attach(row, number, held);
    }

    /// Ends the restoring of routes: routes without transfers are freed.
    fn forget_names(&mut self) {
        for number in std::mem::take(&mut self.routes.named).into_values() {
            let group = &self.routes.groups[number as usize];
            if group.live == 0 && group.held.is_empty() {
                self.routes.vacant.push(number);
            }
        }
    }

    fn attach(&mut self, row: u32, number: u32, held: bool) {
        self.table[row].route = number;
        let group = &mut self.routes.groups[number as usize];
        if held {
            self.table[row].state = State::Held;
            group.held.push_back(&mut self.table, row);
        } else {
            group.live += 1;
        }
    }

    /// Takes a transfer that is forgotten out of its route.
    pub(super) fn leave(&mut self, row: u32) {
        let number = self.table[row].route;
        if number == NIL {
            return;
        }
        let group = &mut self.routes.groups[number as usize];
        if self.table[row].state == State::Held {
            group.held.remove(&mut self.table, row);
        } else {
            group.live -= 1;
        }
        // While a route is restored, more of it may come.
        let may_grow = match self.routes.named.len() {
            0 => false,
            1 => self.routes.named.values().any(|named| *named == number),
            _ => true,
        };
        if group.live == 0 && group.held.is_empty() && !may_grow {
            self.routes.vacant.push(number);
        }
    }

    /// Restoring is over: a route without a live transfer came to its end in an earlier life.
    pub(super) fn drop_unused(&mut self) {
        let over: Vec<u32> = (0..self.routes.groups.len() as u32)
            .filter(|number| self.routes.groups[*number as usize].live == 0)
            .collect();
        for number in &over {
            self.drop_held(*number);
        }
        self.routes.named.clear();
        self.routes.vacant = over;
    }

    /// Whether another source is left for the file of this transfer.
    pub(super) fn has_alternative(&self, row: u32) -> bool {
        let group = self.routes.get(self.table[row].route);
        group.is_some_and(|group| matches!(group.kind, RouteKind::Replicas(_)) && !group.held.is_empty())
    }

    /// The successor of a transfer that ended so, if there is one.
    pub(super) fn successor(&self, row: u32, settled: Settled) -> Option<TransferId> {
        let group = self.routes.get(self.table[row].route)?;
        // The copy is there already: another source would not bring it to tape.
        let watched = self.table[row].work() == Work::Archive;
        let next = match (group.kind, settled) {
            (RouteKind::Replicas(_), _) if watched => return None,
            (RouteKind::Replicas(strategy), Settled::Failed | Settled::Cancelled) => {
                let held: Vec<u32> = rows(&self.table, &group.held).collect();
                let links: Vec<Link> = held.iter().map(|row| self.policy.key(self.table[*row].lane)).collect();
                held[self.best(strategy, &links, self.table[row].size)?]
            }
            (RouteKind::Hops, Settled::Finished) => group.held.head()?,
            (RouteKind::Replicas(_), Settled::Finished) | (RouteKind::Hops, Settled::Failed | Settled::Cancelled) => {
                return None;
            }
        };
        Some(self.table[next].id)
    }

    /// A live one of a route has ended: it is the turn of this one, or of none, and then the held ones are never used.
    pub(super) fn hand_over(&mut self, row: u32, released: Option<TransferId>) {
        let number = self.table[row].route;
        if number == NIL {
            return;
        }
        if let Some(next) = released.and_then(|transfer| self.table.find(transfer)) {
            self.release(next);
            return;
        }
        self.drop_held(number);
    }

    fn drop_held(&mut self, number: u32) {
        while let Some(held) = self.routes.groups[number as usize].held.head() {
            self.forget(held);
        }
    }

    /// It is the turn of a held one.
    pub(super) fn release(&mut self, row: u32) {
        if self.table[row].state != State::Held {
            return;
        }
        let group = &mut self.routes.groups[self.table[row].route as usize];
        group.held.remove(&mut self.table, row);
        group.live += 1;
        let replica = matches!(group.kind, RouteKind::Replicas(_));
        let entry = &mut self.table[row];
        entry.state = State::Loose;
        // All sources go to one destination: one before may have left something there.
        entry.set_resume(replica);
        self.enter(row, Join::Front);
    }

    /// Cancels a held transfer. The later hops of a cancelled hop are cancelled with it.
    pub(super) fn cancel_held(&mut self, row: u32, settled: &mut Vec<TransferId>) {
        let group = self.routes.get(self.table[row].route);
        let hops = group.is_some_and(|group| group.kind == RouteKind::Hops);
        let mut next = Some(row);
        while let Some(row) = next {
            next = self.table.behind(row).filter(|_| hops);
            settled.push(self.table[row].id);
            self.count_end(row, Settled::Cancelled);
            self.forget(row);
        }
    }

    /// Why a held one waits.
    pub(super) fn why_held(&self, row: u32) -> Option<Reason> {
        let group = self.routes.get(self.table[row].route)?;
        Some(match group.kind {
            RouteKind::Replicas(_) => Reason::Alternative,
            RouteKind::Hops => Reason::Hop,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::route_table::Group;
    use super::*;

    #[test]
    fn routes_that_come_from_elsewhere_are_given_back() {
        // Each job of hops that came in at another node would leave some bytes behind, for ever.
        let mut core = Scheduler::new(crate::Config::default());
        let mut step = |inputs: &[weir_world::Input<crate::Command, crate::Record>]| {
            let mut effects = Vec::new();
            weir_world::Core::step(&mut core, weir_units::Timestamp(1), inputs, &mut effects);
            let durable = effects.iter().filter_map(|effect| match effect {
                weir_world::Effect::Persist(seq, _) => Some(weir_world::Input::Persisted(*seq)),
                _ => None,
            });
            let durable = durable.collect::<Vec<_>>();
            weir_world::Core::step(&mut core, weir_units::Timestamp(1), &durable, &mut effects);
            core.routes.named.len()
        };
        step(&[weir_world::Input::Command(crate::Command::Begin)]);
        let live = |id: u64, first: u64| crate::Live {
            transfer: crate::TransferSpec {
                id: TransferId(id),
                ..crate::TransferSpec::default()
            },
            terms: crate::Terms::default(),
            route: Some((RouteKind::Hops, TransferId(first))),
            state: if id == first {
                crate::LiveState::Queued
            } else {
                crate::LiveState::Held
            },
            work: Work::Copy,
            attempt: 0,
            failures: 0,
            free_retries: 0,
            resume: false,
            // None of them is started.
            not_before: weir_units::Timestamp(1_000_000_000_000),
        };
        for first in [1, 11, 21] {
            let hops = [first, first + 1].map(|id| weir_world::Input::Restored(crate::Record::Live(live(id, first))));
            assert_eq!(step(&hops), 1, "only the newest may still grow");
            let cancel = crate::Command::Cancel {
                ticket: crate::Ticket(first),
                transfers: vec![TransferId(first), TransferId(first + 1)].into(),
            };
            step(&[weir_world::Input::Command(cancel)]);
        }
        assert_eq!(core.routes.groups.len(), 1, "numbers are used again");
    }

    #[test]
    fn a_route_of_two_stays_below_the_budget_of_its_transfers() {
        // A queued transfer takes 52 bytes, and may take 64: at least two transfers share the cost of a route.
        assert!(2 * 52 + size_of::<Group>() <= 2 * 64, "{}", size_of::<Group>());
    }
}
