//! The smallest world that keeps the promises of the seam, and the suite that shows it.

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

/// One event heap, virtual time, a store that takes a millisecond to commit.
struct ReferenceWorld {
    core: TestProbe,
    now: Timestamp,
    /// What happens when: keyed by time and order of planning, so that the order is total.
    agenda: BTreeMap<(Timestamp, u64), Vec<Input<(), u64>>>,
    planned: u64,
    running: BTreeMap<OpId, Work>,
    stored: Vec<u64>,
    commands: VecDeque<()>,
}

impl ReferenceWorld {
    fn plan(&mut self, after: Duration, inputs: Vec<Input<(), u64>>) {
        self.planned += 1;
        self.agenda.insert((self.now + after, self.planned), inputs);
    }

    fn step(&mut self, mut inputs: Vec<Input<(), u64>>) {
        inputs.extend(self.commands.drain(..).map(Input::Command));
        inputs.retain(|input| match input {
            Input::World(op, event) if event.is_final() => self.running.remove(op).is_some(),
            _ => true,
        });
        let mut effects = Vec::new();
        self.core.step(self.now, &inputs, &mut effects);
        for effect in &effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: &Effect<u64, Work, ()>) {
        match *effect {
            Effect::Persist(seq, record) => {
                assert_eq!(seq, Seq(self.stored.len() as u64 + 1));
                self.stored.push(record);
                self.plan(Duration::from_millis(1), vec![Input::Persisted(seq)]);
            }
            Effect::Start(op, work) => {
                self.running.insert(op, work);
                self.plan(Duration::from_millis(1), vec![Input::World(op, WorldEvent::Started)]);
                if matches!(work, Work::Short) {
                    let done = Outcome::Done {
                        bytes: Bytes(1),
                        mode: CopyMode::Pull,
                    };
                    self.plan(
                        Duration::from_millis(5),
                        vec![Input::World(op, WorldEvent::Ended(done))],
                    );
                }
            }
            Effect::Stop(op) => {
                if self.running.contains_key(&op) {
                    let stopped = Outcome::Stopped { bytes_moved: Bytes(0) };
                    self.plan(
                        Duration::from_millis(2),
                        vec![Input::World(op, WorldEvent::Ended(stopped))],
                    );
                }
            }
            Effect::WakeAt(at) => {
                let pause = at.since(self.now);
                self.plan(pause, vec![Input::Timer]);
            }
            Effect::Ack(_) | Effect::Emit(()) => {}
        }
    }
}

impl Harness for ReferenceWorld {
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

weir_world::world_suite!(ReferenceWorld);
