//! The smallest world that keeps the promises of the seam, and the suite that shows it; and worlds that break one promise
//! each, which the suite must notice.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_units::{Bytes, Timestamp};
use weir_world::suite::{Harness, Probe};
use weir_world::{CopyMode, Core, Effect, Input, OpId, Outcome, Seq, TransferId, WorldEvent};

type TestProbe = Probe<(), u64, Work, ()>;

/// How long an operation of this world takes.
#[derive(Clone, Copy)]
enum Work {
    Short,
    Endless,
}

/// Promises that a world may break.
const NONE: u8 = 0;
const TELLS_DURABILITY_BACKWARDS: u8 = 1;
const ENDS_TWICE: u8 = 2;
const IGNORES_STOPS: u8 = 3;
const WAKES_EARLY: u8 = 4;
const REPEATS_COMMANDS: u8 = 5;
const LOSES_STARTS: u8 = 6;
const SPEAKS_AFTER_THE_END: u8 = 7;
const TURNS_TIME_BACK: u8 = 8;

/// One event heap, virtual time, a store that takes a millisecond to commit. Breaks one promise, or none.
struct World<const BROKEN: u8> {
    core: TestProbe,
    now: Timestamp,
    /// Planned events: keyed by time and order of planning, so that the order is total.
    agenda: BTreeMap<(Timestamp, u64), Vec<Input<(), u64>>>,
    planned: u64,
    running: BTreeMap<OpId, Work>,
    stored: Vec<u64>,
    commands: VecDeque<()>,
}

impl<const BROKEN: u8> World<BROKEN> {
    fn plan(&mut self, after: Duration, inputs: Vec<Input<(), u64>>) {
        self.planned += 1;
        self.agenda.insert((self.now + after, self.planned), inputs);
    }

    fn step(&mut self, mut inputs: Vec<Input<(), u64>>) {
        inputs.extend(self.commands.drain(..).map(Input::Command));
        inputs.retain(|input| match input {
            Input::World(op, event) if event.is_final() => self.running.remove(op).is_some() || BROKEN == ENDS_TWICE,
            _ => true,
        });
        let mut effects = Vec::new();
        let now = if BROKEN == TURNS_TIME_BACK {
            Timestamp(u64::MAX - self.now.0)
        } else {
            self.now
        };
        self.core.step(now, &inputs, &mut effects);
        for effect in &effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: &Effect<u64, Work, ()>) {
        match *effect {
            Effect::Persist(seq, record) => {
                assert_eq!(seq, Seq(self.stored.len() as u64 + 1));
                self.stored.push(record);
                let pause = if BROKEN == TELLS_DURABILITY_BACKWARDS {
                    100 - seq.0
                } else {
                    1
                };
                self.plan(Duration::from_millis(pause), vec![Input::Persisted(seq)]);
            }
            Effect::Start(op, work) if BROKEN != LOSES_STARTS => self.start(op, work),
            Effect::Stop(op) if BROKEN != IGNORES_STOPS && self.running.contains_key(&op) => {
                let stopped = Outcome::Stopped { bytes_moved: Bytes(0) };
                self.happen(2, op, WorldEvent::Ended(stopped));
            }
            Effect::WakeAt(at) => {
                let pause = at.since(self.now);
                let pause = if BROKEN == WAKES_EARLY { pause / 2 } else { pause };
                self.plan(pause, vec![Input::Timer]);
            }
            Effect::Start(..) | Effect::Stop(_) | Effect::Ack(_) | Effect::Emit(()) => {}
        }
    }

    fn start(&mut self, op: OpId, work: Work) {
        self.running.insert(op, work);
        self.happen(1, op, WorldEvent::Started);
        if matches!(work, Work::Short) {
            let (bytes, mode) = (Bytes(1), CopyMode::Pull);
            self.happen(
                5,
                op,
                WorldEvent::Ended(Outcome::Done {
                    bytes,
                    mode,
                    counted: None,
                    first_byte: None,
                }),
            );
        }
        if BROKEN == ENDS_TWICE {
            self.happen(6, op, WorldEvent::Lost);
        }
        if BROKEN == SPEAKS_AFTER_THE_END {
            self.happen(6, op, WorldEvent::Progress(Bytes(1)));
        }
    }

    fn happen(&mut self, millis: u64, op: OpId, event: WorldEvent) {
        self.plan(Duration::from_millis(millis), vec![Input::World(op, event)]);
    }
}

impl<const BROKEN: u8> Harness for World<BROKEN> {
    type Command = ();
    type Record = u64;
    type Op = Work;
    type Event = ();

    fn start(core: TestProbe) -> Self {
        Self {
            core,
            now: Timestamp(0),
            agenda: BTreeMap::new(),
            planned: 0,
            running: BTreeMap::new(),
            stored: Vec::new(),
            commands: VecDeque::new(),
        }
    }

    fn command(&mut self) {
        self.commands.push_back(());
        if BROKEN == REPEATS_COMMANDS {
            self.commands.push_back(());
        }
        self.step(Vec::new());
    }

    fn record(&mut self, n: u64) -> u64 {
        n
    }

    fn short_op(&mut self, n: u64) -> (OpId, Work) {
        (
            OpId {
                transfer: TransferId(n),
                attempt: 1,
                epoch: 1,
            },
            Work::Short,
        )
    }

    fn long_op(&mut self, n: u64) -> (OpId, Work) {
        (
            OpId {
                transfer: TransferId(1000 + n),
                attempt: 1,
                epoch: 1,
            },
            Work::Endless,
        )
    }

    fn run_until(&mut self, done: &mut dyn FnMut() -> bool) -> bool {
        while !done() {
            let Some(((at, _), inputs)) = self.agenda.pop_first() else {
                return false;
            };
            self.now = at;
            self.step(inputs);
        }
        true
    }
}

type ReferenceWorld = World<NONE>;
weir_world::world_suite!(ReferenceWorld);

/// A suite that passes broken worlds proves nothing about the others.
mod broken_worlds_are_noticed {
    use weir_world::suite::*;

    use super::*;

    #[test]
    #[should_panic(expected = "told out of order")]
    fn durability_told_backwards() {
        persist_is_acknowledged_in_order::<World<TELLS_DURABILITY_BACKWARDS>>();
    }

    #[test]
    #[should_panic(expected = "ended in two ways")]
    fn two_ends() {
        every_start_ends_once::<World<ENDS_TWICE>>();
    }

    #[test]
    #[should_panic(expected = "waited in vain: every operation ends")]
    fn lost_starts() {
        every_start_ends_once::<World<LOSES_STARTS>>();
    }

    #[test]
    #[should_panic(expected = "events after the end")]
    fn words_after_the_end() {
        nothing_follows_the_end::<World<SPEAKS_AFTER_THE_END>>();
    }

    #[test]
    #[should_panic(expected = "waited in vain: the stopped operation ends")]
    fn ignored_stops() {
        stop_ends_a_running_operation::<World<IGNORES_STOPS>>();
    }

    #[test]
    #[should_panic(expected = "woken at")]
    fn early_wakes() {
        a_wake_comes_and_never_early::<World<WAKES_EARLY>>();
    }

    #[test]
    #[should_panic(expected = "commands were lost or repeated")]
    fn repeated_commands() {
        commands_are_given_once::<World<REPEATS_COMMANDS>>();
    }

    #[test]
    #[should_panic(expected = "time went back")]
    fn time_that_goes_back() {
        commands_are_given_once::<World<TURNS_TIME_BACK>>();
    }
}
