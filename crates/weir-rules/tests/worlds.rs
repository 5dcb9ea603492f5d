//! The decisions put together, in thousands of worlds: a catalogue of maps, a transfer service and storages, whose workers die between any
//! two steps, and whose messages are lost, repeated and reordered.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;
use weir_model::catalog::{LockState, ReplicaState, RequestState, RuleState};
use weir_rules::{
    deletion::{self, Goal},
    evaluation,
    ids::{DidId, RseId, RuleId},
    lifetime::{self, Lifetime},
    place::{End, Place, ReleaseTerms},
    placement::{Candidate, Placement, Unit, Weight},
    state::{self, LockCounts},
};
use weir_units::{Bytes, Timestamp};

const RSES: u32 = 4;
const FILES: u64 = 6;
/// Locks that one transaction makes or releases, at most.
const PART: usize = 2;
const SIZE: u64 = 10;

type At = (DidId, RseId);

/// An attempt: the place, and the number of the attempt there. The transfer service's job id is derived from it.
type Attempt = (At, u64);

#[derive(Debug, Clone)]
struct Rule {
    state: RuleState,
    counts: LockCounts,
    rses: Vec<RseId>,
    lifetime: Lifetime,
}

/// The durable state.
#[derive(Debug, Clone, Default)]
struct Database {
    rules: BTreeMap<RuleId, Rule>,
    locks: BTreeSet<(RuleId, DidId, RseId)>,
    places: BTreeMap<At, Place>,
    /// The newest attempt of each place.
    attempts: BTreeMap<At, u64>,
    content: BTreeSet<DidId>,
    usage: BTreeMap<RseId, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Running,
    Over(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Failed,
    Cancelled,
}

/// The catalogue and everything around it.
#[derive(Debug, Default)]
struct World {
    now: u64,
    database: Database,
    /// The transfer service.
    jobs: BTreeMap<Attempt, Job>,
    /// The files at the storages.
    disks: BTreeSet<At>,
    /// Messages on their way.
    messages: Vec<(Attempt, Outcome)>,
    n_rules: u64,
}

impl Database {
    /// One place changes: the counts of every rule with a lock on it change in the same transaction.
    fn set(&mut self, at: At, place: Option<Place>) {
        let before = self.places.get(&at).copied();
        let was_waiting = |place: Option<Place>| place.and_then(|place| place.request).map(|request| request.state);
        if let Some(place) = place {
            self.places.insert(at, place);
            let is_queued = was_waiting(Some(place)) == Some(RequestState::Queued);
            if is_queued && was_waiting(before) != Some(RequestState::Queued) {
                *self.attempts.entry(at).or_default() += 1;
            }
        } else {
            self.places.remove(&at);
        }
        let (before, after) = (
            before.map(|place| place.lock_state()),
            place.map(|place| place.lock_state()),
        );
        let holders = self
            .locks
            .iter()
            .filter(|(_, file, rse)| (*file, *rse) == at)
            .map(|lock| lock.0);
        for rule in holders.collect::<Vec<_>>() {
            let rule = self.rules.get_mut(&rule).unwrap();
            *rule.counts.of(before.unwrap()) -= 1;
            *rule.counts.of(after.unwrap()) += 1;
            rule.state = state::of_rule(rule.state, rule.counts);
        }
    }

    fn lock(&mut self, rule: RuleId, at: At) {
        let place = Place::locked(self.places.get(&at).copied());
        self.set(at, Some(place));
        assert!(self.locks.insert((rule, at.0, at.1)));
        *self.usage.entry(at.1).or_default() += SIZE;
        *self.rules.get_mut(&rule).unwrap().counts.of(place.lock_state()) += 1;
    }

    fn release(&mut self, rule: RuleId, at: At, now: u64) {
        let place = self.places[&at];
        *self.rules.get_mut(&rule).unwrap().counts.of(place.lock_state()) -= 1;
        assert!(self.locks.remove(&(rule, at.0, at.1)));
        *self.usage.get_mut(&at.1).unwrap() -= SIZE;
        let terms = ReleaseTerms {
            now: Timestamp(now),
            purge: now.is_multiple_of(2),
            delay: Duration::from_nanos(5),
        };
        self.set(at, Some(place.released(terms)));
    }

    fn locks_of(&self, rule: RuleId) -> Vec<At> {
        let locks = self.locks.iter().filter(|lock| lock.0 == rule);
        locks.map(|lock| (lock.1, lock.2)).collect()
    }

    fn rules_at(&self, at: At) -> impl Iterator<Item = Lifetime> + '_ {
        let holders = self.locks.iter().filter(move |(_, file, rse)| (*file, *rse) == at);
        holders.map(|lock| self.rules[&lock.0].lifetime)
    }
}

impl World {
    /// A user adds a rule.
    fn add_rule(&mut self, copies: usize, lifetime: Option<u64>) {
        let held = (0..RSES).map(|rse| {
            let n = self
                .database
                .places
                .iter()
                .filter(|(at, place)| at.1.0 == rse && place.replica == ReplicaState::Available);
            (RseId(rse), Bytes(n.count() as u64 * SIZE))
        });
        let unit = Unit {
            bytes: Bytes(self.database.content.len() as u64 * SIZE),
            held: held.collect(),
        };
        // The last RSE is where the data were born.
        let candidates = (0..RSES - 1).map(|rse| Candidate {
            rse: RseId(rse),
            weight: Weight::ONE,
            quota_left: None,
            room: None,
        });
        let mut placement = Placement::new(candidates.collect(), copies, self.now).unwrap();
        let mut rses = placement.place(&unit).unwrap();
        rses.sort();
        self.n_rules += 1;
        let rule = Rule {
            state: RuleState::Inject,
            counts: LockCounts::default(),
            rses,
            lifetime: Lifetime {
                expires: lifetime.map(|lifetime| Timestamp(self.now + lifetime)),
                ..Lifetime::default()
            },
        };
        self.database.rules.insert(RuleId(self.n_rules), rule);
    }

    /// Brings the locks of each rule nearer to what they should be, by one part.
    fn evaluate(&mut self) {
        let database = &mut self.database;
        for id in database.rules.keys().copied().collect::<Vec<_>>() {
            let is_over = database.rules[&id].lifetime.is_over(Timestamp(self.now));
            let files = database
                .content
                .iter()
                .filter(|_| !is_over)
                .copied()
                .collect::<Vec<_>>();
            let locks = database.locks_of(id);
            let difference = evaluation::difference(&files, &database.rules[&id].rses, &locks);
            let n_missing = difference.missing.len();
            for at in difference.surplus.into_iter().take(PART) {
                database.release(id, at, self.now);
            }
            for at in difference.missing.into_iter().take(PART) {
                database.lock(id, at);
            }
            if is_over && database.locks_of(id).is_empty() {
                database.rules.remove(&id);
                continue;
            }
            let rule = database.rules.get_mut(&id).unwrap();
            if n_missing <= PART && rule.state == RuleState::Inject {
                rule.state = RuleState::Ok;
            }
            rule.state = state::of_rule(rule.state, rule.counts);
        }
    }

    /// Submits, in three steps; `steps` of them are done before the worker dies.
    fn submit(&mut self, steps: usize) {
        let now = Timestamp(self.now);
        let state_of = |place: &Place| place.request.map(|request| request.state);
        let due = self.database.places.iter().filter(|(at, place)| {
            let request = place.request;
            let is_due =
                request.is_some_and(|one| one.state == RequestState::Queued && one.not_before <= now && !one.cancel);
            (is_due && lifetime::is_wanted(self.database.rules_at(**at), now))
                || state_of(place) == Some(RequestState::Submitting)
        });
        let due = due.map(|(at, _)| *at).collect::<Vec<_>>();
        let mark = |database: &mut Database, state| {
            for at in &due {
                let mut place = database.places[at];
                place.request.as_mut().unwrap().state = state;
                database.set(*at, Some(place));
            }
        };
        if steps > 0 {
            mark(&mut self.database, RequestState::Submitting);
        }
        if steps > 1 {
            for at in &due {
                // The same job id is the same job.
                self.jobs
                    .entry((*at, self.database.attempts[at]))
                    .or_insert(Job::Running);
            }
        }
        if steps > 2 {
            mark(&mut self.database, RequestState::Submitted);
        }
    }

    /// Carries cancellations out: a request that has not gone out is dropped, the rest is cancelled at the transfer service.
    fn cancel(&mut self) {
        let cancelled = self
            .database
            .places
            .iter()
            .filter(|(_, place)| place.request.is_some_and(|request| request.cancel));
        for (at, place) in cancelled.map(|(at, place)| (*at, *place)).collect::<Vec<_>>() {
            let request = place.request.unwrap();
            if request.state == RequestState::Queued {
                self.database
                    .set(at, Some(place.ended(End::Cancelled, Timestamp(self.now))));
            } else if let Some(job) = self.jobs.get_mut(&(at, self.database.attempts[&at]))
                && *job == Job::Running
            {
                *job = Job::Over(Outcome::Cancelled);
            }
        }
    }

    /// Jobs come to their ends, and say so.
    fn transfer(&mut self, failing: bool) {
        for (attempt, job) in &mut self.jobs {
            if *job == Job::Running {
                let outcome = if failing { Outcome::Failed } else { Outcome::Done };
                *job = Job::Over(outcome);
                if outcome == Outcome::Done {
                    self.disks.insert(attempt.0);
                }
                self.messages.push((*attempt, outcome));
            }
        }
    }

    fn hear(&mut self, (attempt, outcome): (Attempt, Outcome)) {
        let (at, number) = attempt;
        let is_newest = self.database.attempts.get(&at) == Some(&number);
        let Some(place) = self.database.places.get(&at).copied().filter(|_| is_newest) else {
            return;
        };
        // An end may be heard before the submitter has written that it submitted.
        let went_out = |state| matches!(state, RequestState::Submitting | RequestState::Submitted);
        if !place.request.is_some_and(|request| went_out(request.state)) {
            return;
        }
        let end = match outcome {
            Outcome::Done => End::Done,
            Outcome::Cancelled => End::Cancelled,
            Outcome::Failed => End::Failed {
                recoverable: true,
                has_other_source: false,
            },
        };
        self.database.set(at, Some(place.ended(end, Timestamp(self.now))));
    }

    /// Asks the transfer service about what was submitted.
    fn poll(&mut self) {
        let submitted = self.database.places.iter().filter(|(_, place)| {
            place
                .request
                .is_some_and(|request| request.state == RequestState::Submitted)
        });
        let attempts = submitted.map(|(at, _)| (*at, self.database.attempts[at]));
        for attempt in attempts.collect::<Vec<_>>() {
            if let Some(Job::Over(outcome)) = self.jobs.get(&attempt).copied() {
                self.hear((attempt, outcome));
            }
        }
    }

    /// Deletes, in three steps; `steps` of them are done before the worker dies.
    fn reap(&mut self, steps: usize) {
        let places = self.database.places.clone();
        let rows = places.iter().map(|(at, place)| deletion::Replica {
            file: at.0,
            bytes: Bytes(SIZE),
            tombstone: place.tombstone.filter(|_| place.replica == ReplicaState::Available),
            n_locks: place.n_locks,
            is_source: false,
        });
        let rows = rows.collect::<Vec<_>>();
        let chosen = deletion::choose(&rows, Goal::Greedy, Timestamp(self.now), PART);
        let all = places.keys().copied().collect::<Vec<_>>();
        if steps > 0 {
            for at in chosen {
                let place = self.database.places[&all[at]].being_deleted();
                self.database.set(all[at], Some(place));
            }
        }
        let being_deleted = self
            .database
            .places
            .iter()
            .filter(|(_, place)| place.replica == ReplicaState::BeingDeleted);
        for at in being_deleted.map(|(at, _)| *at).collect::<Vec<_>>() {
            if steps > 1 {
                self.disks.remove(&at);
            }
            if steps > 2 {
                let place = self.database.places[&at].deleted();
                self.database.set(at, place);
            }
        }
    }

    fn repair(&mut self) {
        for (at, place) in self.database.places.clone() {
            if place.lock_state() == LockState::Stuck {
                self.database.set(at, Some(place.repaired()));
            }
        }
    }

    /// The invariants of any moment.
    fn check(&self) {
        let database = &self.database;
        for (at, place) in &database.places {
            let n_locks = database
                .locks
                .iter()
                .filter(|(_, file, rse)| (*file, *rse) == *at)
                .count();
            assert_eq!(place.n_locks, n_locks as u64, "{at:?} {place:?}");
            assert!(place.n_locks == 0 || place.tombstone.is_none(), "{at:?} {place:?}");
            let is_there = place.replica == ReplicaState::Available;
            assert!(
                !is_there || self.disks.contains(at),
                "{at:?} is in the catalogue and not at the storage"
            );
        }
        for (id, rule) in &database.rules {
            let mut counts = LockCounts::default();
            for at in database.locks_of(*id) {
                *counts.of(database.places[&at].lock_state()) += 1;
            }
            assert_eq!(rule.counts, counts, "{id:?} {rule:?}");
        }
        for rse in (0..RSES).map(RseId) {
            let n_locks = database.locks.iter().filter(|lock| lock.2 == rse).count() as u64;
            assert_eq!(database.usage.get(&rse).copied().unwrap_or_default(), n_locks * SIZE);
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    AddRule(usize, Option<u64>),
    Evaluate,
    Attach(u64),
    Detach(u64),
    Submit(usize),
    Cancel,
    Transfer(bool),
    Hear(usize),
    Repeat(usize),
    Lose(usize),
    Poll,
    Reap(usize),
    Repair,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..3_usize, prop::option::of(0..40_u64)).prop_map(|(copies, lifetime)| Step::AddRule(copies, lifetime)),
        Just(Step::Evaluate),
        Just(Step::Evaluate),
        (0..FILES).prop_map(Step::Attach),
        (0..FILES).prop_map(Step::Detach),
        (0..4_usize).prop_map(Step::Submit),
        Just(Step::Cancel),
        any::<bool>().prop_map(Step::Transfer),
        any::<prop::sample::Index>().prop_map(|at| Step::Hear(at.index(100))),
        any::<prop::sample::Index>().prop_map(|at| Step::Repeat(at.index(100))),
        any::<prop::sample::Index>().prop_map(|at| Step::Lose(at.index(100))),
        Just(Step::Poll),
        (0..4_usize).prop_map(Step::Reap),
        Just(Step::Repair),
        (1..50_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..80)
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        world.database.content = (0..FILES / 2).map(DidId).collect();
        world
    }

    fn step(&mut self, step: &Step) {
        self.now += 1;
        let message = |at: usize, n: usize| (n > 0).then(|| at % n);
        match step {
            Step::AddRule(copies, lifetime) => self.add_rule(*copies, *lifetime),
            Step::Evaluate => self.evaluate(),
            Step::Attach(file) => drop(self.database.content.insert(DidId(*file))),
            Step::Detach(file) => drop(self.database.content.remove(&DidId(*file))),
            Step::Submit(steps) => self.submit(*steps),
            Step::Cancel => self.cancel(),
            Step::Transfer(failing) => self.transfer(*failing),
            Step::Hear(at) => {
                if let Some(at) = message(*at, self.messages.len()) {
                    let message = self.messages.swap_remove(at);
                    self.hear(message);
                }
            }
            Step::Repeat(at) => {
                if let Some(at) = message(*at, self.messages.len()) {
                    self.hear(self.messages[at]);
                }
            }
            Step::Lose(at) => {
                if let Some(at) = message(*at, self.messages.len()) {
                    self.messages.swap_remove(at);
                }
            }
            Step::Poll => self.poll(),
            Step::Reap(steps) => self.reap(*steps),
            Step::Repair => self.repair(),
            Step::Wait(nanoseconds) => self.now += nanoseconds,
        }
        self.check();
    }

    /// Once faults stop, every rule comes to its end, and nothing stays that nobody wants.
    fn settle(&mut self) {
        for _ in 0..60 {
            // Beyond every pause between attempts.
            self.now += 1_000_000_000_000;
            let all = [
                Step::Evaluate,
                Step::Cancel,
                Step::Submit(3),
                Step::Transfer(false),
                Step::Poll,
                Step::Repair,
                Step::Reap(3),
            ];
            all.iter().for_each(|step| self.step(step));
        }
        let database = &self.database;
        for (id, rule) in &database.rules {
            assert_eq!(rule.state, RuleState::Ok, "{id:?} {rule:?}");
            let wanted = database.content.len() * rule.rses.len();
            assert_eq!(database.locks_of(*id).len(), wanted, "{id:?} {rule:?}");
        }
        let unlocked = database.places.values().filter(|place| place.n_locks == 0).count();
        assert_eq!(unlocked, 0, "{:?}", database.places);
        assert_eq!(self.disks, database.places.keys().copied().collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn no_rule_is_forgotten_and_no_file_is_deleted_that_a_lock_holds(steps in steps()) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        world.settle();
    }
}
