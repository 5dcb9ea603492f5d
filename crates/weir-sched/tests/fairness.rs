//! Fairness between clients of equal standing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use weir_sched::{
    ActivityId, Command, Config, Effect, Event, Input, JobId, JobSpec, Link, Op, Priority, Scheduler, SeId, Setting,
    Settings, Settled, Terms, TransferSpec, VoId,
};
use weir_units::{Bytes, Timestamp};
use weir_world::{CopyMode, Core, ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, TransferId, WorldEvent};

/// A world without faults: the store is quick, operations end when the test says so.
struct Fair {
    core: Scheduler,
    now: Timestamp,
    running: VecDeque<(OpId, Link)>,
    settled: BTreeMap<TransferId, (Settled, u32)>,
    attempts: BTreeMap<TransferId, u32>,
    wake: Option<Timestamp>,
}

impl Fair {
    fn new(settings: Settings) -> Self {
        let mut fair = Self {
            core: Scheduler::new(Config {
                settings,
                ..Config::default()
            }),
            now: Timestamp(0),
            running: VecDeque::new(),
            settled: BTreeMap::new(),
            attempts: BTreeMap::new(),
            wake: None,
        };
        fair.step(vec![Input::Command(Command::Begin)]);
        fair
    }

    fn step(&mut self, mut inputs: Vec<Input>) {
        while !inputs.is_empty() {
            let mut effects = Vec::new();
            self.core.step(self.now, &inputs, &mut effects);
            inputs.clear();
            for effect in effects {
                match effect {
                    Effect::Persist(seq, _) => inputs = vec![Input::Persisted(seq)],
                    Effect::Start(op, Op::Copy { link, .. }) => {
                        self.running.push_back((op, link));
                        self.attempts.insert(op.transfer, op.attempt);
                    }
                    Effect::Emit(Event::Settled { transfer, state }) => {
                        self.settled.insert(transfer, (state, self.attempts[&transfer]));
                    }
                    Effect::WakeAt(at) => self.wake = Some(at),
                    _ => {}
                }
            }
        }
    }
}

fn submit(id: u64, link: Link, files: u64, priority: i64) -> Input {
    submit_for(id, link, files, priority, VoId(0))
}

fn submit_for(id: u64, link: Link, files: u64, priority: i64, vo: VoId) -> Input {
    let transfers = (0..files).map(|n| TransferSpec {
        id: TransferId(id + n),
        source: link.source,
        destination: link.destination,
        size: Bytes(1),
        activity: ActivityId(0),
        ..TransferSpec::default()
    });
    let terms = Terms {
        priority: Priority::new(priority),
        vo,
        ..Terms::default()
    };
    Input::Command(Command::Submit(Arc::new(JobSpec {
        job: JobId(id.into()),
        terms,
        transfers: transfers.collect(),
        routes: Vec::new(),
    })))
}

fn done(op: OpId) -> Input {
    Input::World(
        op,
        WorldEvent::Ended(Outcome::Done {
            bytes: Bytes(1),
            mode: CopyMode::Pull,
            counted: None,
            first_byte: None,
        }),
    )
}

/// A fate that depends on the attempt alone, not on when it comes.
fn fated(op: OpId, seed: u64) -> Input {
    let drawn = (op.transfer.0 * 31 + u64::from(op.attempt) * 7 + seed) % 5;
    let retry = match drawn {
        0 => Retry::Now,
        1 => Retry::Later,
        2 if seed.is_multiple_of(3) => Retry::Never,
        _ => return done(op),
    };
    let failure = Failure {
        class: ErrorClass::Timeout,
        party: Party::Source,
        phase: Phase::Transfer,
        message: String::new(),
        remedy: String::new(),
        bytes_moved: Bytes(0),
        retry,
    };
    Input::World(op, WorldEvent::Ended(Outcome::Failed(failure)))
}

/// Runs jobs to their end; `turn` rotates, and `reversed` reverses, whatever comes in together.
fn outcome(
    jobs: &[(u32, u32, u64, i64)],
    seed: u64,
    turn: usize,
    reversed: bool,
) -> BTreeMap<TransferId, (Settled, u32)> {
    let mut fair = Fair::new(Settings {
        link: 2,
        inbound: 3,
        outbound: 3,
        ..Settings::default()
    });
    let submissions = jobs
        .iter()
        .enumerate()
        .map(|(n, (source, destination, files, priority))| {
            let link = Link {
                source: SeId(*source),
                destination: SeId(*destination),
            };
            submit(1 + 100 * n as u64, link, *files, *priority)
        });
    let mut inputs: Vec<Input> = submissions.collect();
    while !inputs.is_empty() {
        let by = turn % inputs.len();
        inputs.rotate_left(by);
        if reversed {
            inputs.reverse();
        }
        fair.step(inputs);
        inputs = fair.running.drain(..).map(|(op, _)| fated(op, seed)).collect();
        if inputs.is_empty() && !fair.core.is_empty() {
            fair.now = fair.wake.take().map_or(fair.now, |at| at.max(fair.now));
            inputs.push(Input::Timer);
        }
    }
    assert!(fair.core.is_empty());
    fair.settled
}

proptest! {
    /// If the order of equal inputs mattered, no run could be repeated, and no scenario compared.
    #[test]
    fn the_order_of_equal_inputs_does_not_matter(
        jobs in prop::collection::vec((0..4u32, 0..4u32, 1..20u64, 1..6i64), 1..12),
        seed in 0..1000u64,
        turn in 0..100usize,
    ) {
        let expected = outcome(&jobs, seed, 0, false);
        prop_assert_eq!(expected.len() as u64, jobs.iter().map(|(_, _, files, _)| files).sum::<u64>());
        prop_assert_eq!(&outcome(&jobs, seed, turn, false), &expected);
        prop_assert_eq!(&outcome(&jobs, seed, turn, true), &expected);
    }

    /// A link that gets more than its turn takes it from the others.
    #[test]
    fn links_share_a_destination_evenly(
        links in 2..8u32,
        inbound in 1..10u32,
        which in prop::collection::vec(any::<usize>(), 60),
    ) {
        let mut fair = Fair::new(Settings { link: 100, inbound, outbound: 100, ..Settings::default() });
        // The destination is closed while the jobs come in, so that nobody has a start over the others.
        let destination = SeId(99);
        let close = |limit| Input::Command(Command::Set {
            ticket: weir_sched::Ticket(0),
            changes: Arc::new([weir_sched::Setting::Slots(weir_sched::Resource::Inbound(destination), Some(limit))]),
        });
        fair.step(vec![close(0)]);
        for n in 0..links {
            fair.step(vec![submit(1 + 1000 * u64::from(n), Link { source: SeId(n), destination }, 200, 3)]);
        }
        fair.step(vec![close(inbound)]);
        let mut started = BTreeMap::new();
        let mut count = |fair: &Fair, from: usize| {
            for (_, link) in fair.running.iter().skip(from) {
                *started.entry(*link).or_insert(0) += 1;
            }
            let (most, least) = (started.values().max().copied(), started.values().min().copied());
            let all = started.len() == links as usize;
            let spread: i32 = most.unwrap_or(0) - least.filter(|_| all).unwrap_or(0);
            assert!(spread <= 1, "turns were unequal: {started:?}");
        };
        count(&fair, 0);
        for which in which {
            let (op, _) = fair.running.remove(which % fair.running.len()).expect("the destination is full");
            let before = fair.running.len();
            fair.step(vec![done(op)]);
            prop_assert_eq!(fair.running.len(), inbound as usize, "a free slot was not used");
            count(&fair, before);
        }
    }

    /// Shares that are not honoured make every agreement between experiments void.
    #[test]
    fn shares_are_honoured_on_a_link(
        shares in prop::collection::vec(1..20u32, 2..6),
        slots in 1..12u32,
        which in prop::collection::vec(any::<usize>(), 300),
        of_link in any::<bool>(),
    ) {
        let mut fair = Fair::new(Settings { link: slots, ..Settings::default() });
        let link = Link { source: SeId(1), destination: SeId(2) };
        let set = |setting| Input::Command(Command::Set { ticket: weir_sched::Ticket(0), changes: Arc::new([setting]) });
        fair.step(vec![set(Setting::EveryLink(0))]);
        for (vo, share) in (0..).zip(&shares) {
            // On the link itself, or on all: then the link has none of its own.
            let everywhere = if of_link { 7 * (vo + 1) } else { *share };
            fair.step(vec![set(Setting::VoShare(VoId(vo), Some(everywhere)))]);
            let own = of_link.then_some(*share);
            fair.step(vec![set(Setting::LinkVoShare(link, VoId(vo), own))]);
            fair.step(vec![submit_for(1 + 1000 * u64::from(vo), link, 400, 3, VoId(vo))]);
        }
        fair.step(vec![set(Setting::EveryLink(slots))]);
        let mut started: Vec<u32> = vec![0; shares.len()];
        let mut count = |fair: &Fair, from: usize| {
            for (op, _) in fair.running.iter().skip(from) {
                started[(op.transfer.0 / 1000) as usize] += 1;
            }
        };
        count(&fair, 0);
        for which in which {
            let (op, _) = fair.running.remove(which % fair.running.len()).expect("the link is full");
            let before = fair.running.len();
            fair.step(vec![done(op)]);
            prop_assert_eq!(fair.running.len(), slots as usize, "a free slot was not used");
            count(&fair, before);
        }
        let (all, total) = (started.iter().sum::<u32>(), shares.iter().sum::<u32>());
        for (started, share) in started.iter().zip(&shares) {
            let due = f64::from(all) * f64::from(*share) / f64::from(total);
            // Start-time fair queueing keeps any two within one transfer of each (Goyal, Vin, Cheng, theorem 1). Added up over
            // all others, that is one transfer, and the part of each but one of them.
            let most = 1.0 + (shares.len() - 2) as f64 * f64::from(*share) / f64::from(total);
            prop_assert!((f64::from(*started) - due).abs() <= most, "{started} started and {due} were due: {shares:?}");
        }
    }
}
