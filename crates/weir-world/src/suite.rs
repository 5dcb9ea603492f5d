//! The suite that every world passes: [`world_suite!`](crate::world_suite).
//!
//! It puts a scripted core ([`Probe`]) into the world, has it order things, and looks at what the world reports. A world joins
//! by implementing [`Harness`], a page of code that lives in its tests:
//!
//! ```text
//! impl weir_world::suite::Harness for MyWorld { … }
//! weir_world::world_suite!(MyWorld);
//! ```

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_units::Timestamp;

use crate::{Core, Effect, Input, OpId, Outcome, Seq, WorldEvent};

/// A world under test: how the suite starts it, talks to it, and lets it go on.
pub trait Harness: Sized {
    /// Commands of the cores that this world drives.
    type Command: Send + 'static;
    /// Records of the cores that this world drives.
    type Record: Clone + Send + 'static;
    /// Operations of the cores that this world drives.
    type Op: Send + 'static;
    /// Events of the cores that this world drives.
    type Event: Send + 'static;

    /// Starts a fresh world, with an empty store, around this core.
    fn start(core: Probe<Self::Command, Self::Record, Self::Op, Self::Event>) -> Self;

    /// Hands the core any command. The world steps the core soon after.
    fn command(&mut self);

    /// A record that the store accepts, the `n`th of this test.
    fn record(&mut self, n: u64) -> Self::Record;

    /// An operation that ends by itself soon, the `n`th of this test. Ids differ.
    fn short_op(&mut self, n: u64) -> (OpId, Self::Op);

    /// An operation that goes on until it is stopped, the `n`th of this test. Ids differ, from those of short ones too.
    fn long_op(&mut self, n: u64) -> (OpId, Self::Op);

    /// Lets the world go on until `done` is true, and says whether it became true before patience ran out.
    fn run_until(&mut self, done: &mut dyn FnMut() -> bool) -> bool;
}

/// An input as a probe records it.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A command.
    Command,
    /// A restored record.
    Restored,
    /// Records are durable up to here.
    Persisted(Seq),
    /// A record was refused.
    Refused(Seq),
    /// Something happened to an operation.
    World(OpId, WorldEvent),
    /// Time passed.
    Timer,
}

/// A core without opinions: it gives the effects it was told to give, at the next step, and notes every input.
///
/// Clones share one script and one notebook: the world gets one, the suite keeps one.
pub struct Probe<C, R, O, E> {
    shared: Arc<Mutex<Shared<R, O, E>>>,
    commands: std::marker::PhantomData<fn(C)>,
}

struct Shared<R, O, E> {
    script: Vec<Effect<R, O, E>>,
    seen: Vec<(Timestamp, Seen)>,
    steps: Vec<Timestamp>,
}

impl<C, R, O, E> Clone for Probe<C, R, O, E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            commands: self.commands,
        }
    }
}

impl<C, R, O, E> Default for Probe<C, R, O, E> {
    fn default() -> Self {
        let shared = Shared {
            script: Vec::new(),
            seen: Vec::new(),
            steps: Vec::new(),
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
            commands: std::marker::PhantomData,
        }
    }
}

impl<C, R, O, E> Probe<C, R, O, E> {
    /// Has these effects given at the next step.
    pub fn tell(&self, effects: impl IntoIterator<Item = Effect<R, O, E>>) {
        self.shared.lock().script.extend(effects);
    }

    /// Everything seen so far, in order, with the time of the step.
    pub fn seen(&self) -> Vec<(Timestamp, Seen)> {
        self.shared.lock().seen.clone()
    }

    /// The times of all steps so far.
    pub fn steps(&self) -> Vec<Timestamp> {
        self.shared.lock().steps.clone()
    }

    /// The greatest sequence number said to be durable.
    pub fn persisted(&self) -> Option<Seq> {
        let highest = |(_, seen): &(Timestamp, Seen)| match seen {
            Seen::Persisted(seq) => Some(*seq),
            _ => None,
        };
        self.shared.lock().seen.iter().filter_map(highest).max()
    }

    /// The final events of one operation, in order.
    pub fn finals(&self, op: OpId) -> Vec<WorldEvent> {
        let of_op = |(_, seen): &(Timestamp, Seen)| match seen {
            Seen::World(id, event) if *id == op && event.is_final() => Some(event.clone()),
            _ => None,
        };
        self.shared.lock().seen.iter().filter_map(of_op).collect()
    }
}

impl<C, R: Clone, O, E> Core for Probe<C, R, O, E> {
    type Command = C;
    type Record = R;
    type Op = O;
    type Event = E;

    fn step(&mut self, now: Timestamp, inputs: &[Input<C, R>], effects: &mut Vec<Effect<R, O, E>>) {
        let mut shared = self.shared.lock();
        shared.steps.push(now);
        for input in inputs {
            let seen = match input {
                Input::Command(_) => Seen::Command,
                Input::Restored(_) => Seen::Restored,
                Input::Persisted(seq) => Seen::Persisted(*seq),
                Input::Refused(seq) => Seen::Refused(*seq),
                Input::World(op, event) => Seen::World(*op, event.clone()),
                Input::Timer => Seen::Timer,
            };
            shared.seen.push((now, seen));
        }
        effects.append(&mut shared.script);
    }
}

/// A world with a probe in it, as each test of the suite uses it.
struct Bench<H: Harness> {
    world: H,
    probe: Probe<H::Command, H::Record, H::Op, H::Event>,
}

impl<H: Harness> Bench<H> {
    fn new() -> Self {
        let probe = Probe::default();
        Self {
            world: H::start(probe.clone()),
            probe,
        }
    }

    /// Has the core give these effects, by way of a command.
    fn order(&mut self, effects: Vec<Effect<H::Record, H::Op, H::Event>>) {
        self.probe.tell(effects);
        self.world.command();
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&Probe<H::Command, H::Record, H::Op, H::Event>) -> bool) {
        let probe = self.probe.clone();
        let came = self.world.run_until(&mut || done(&probe));
        assert!(came, "waited in vain: {what}; seen so far: {:?}", self.probe.seen());
    }

    /// Checks the invariants of every test.
    fn finish(self) {
        let steps = self.probe.steps();
        assert!(steps.is_sorted(), "time went back between two steps: {steps:?}");
    }
}

fn check_single_final(op: OpId, finals: &[WorldEvent]) {
    assert!(!finals.is_empty(), "{op} had no final event");
    assert!(
        finals.iter().all(|event| *event == finals[0]),
        "{op} ended in two ways: {finals:?}"
    );
}

/// Records become durable, in order, and none is said to be durable that was not yet issued.
pub fn persist_is_acknowledged_in_order<H: Harness>() {
    let mut bench = Bench::<H>::new();
    let mut issued = 0;
    for batch in [1, 20, 3] {
        let mut effects = Vec::new();
        for _ in 0..batch {
            issued += 1;
            effects.push(Effect::Persist(Seq(issued), bench.world.record(issued)));
        }
        bench.order(effects);
        bench.until("all records durable", |probe| probe.persisted() == Some(Seq(issued)));
    }
    let told = bench.probe.seen().into_iter().filter_map(|(_, seen)| match seen {
        Seen::Persisted(seq) => Some(seq),
        _ => None,
    });
    let told: Vec<Seq> = told.collect();
    assert!(told.is_sorted(), "durability was told out of order: {told:?}");
    bench.finish();
}

/// Every operation has one end, also when many run at once.
pub fn every_start_ends_once<H: Harness>() {
    let mut bench = Bench::<H>::new();
    let (mut ops, mut effects) = (Vec::new(), Vec::new());
    for n in 1..=30 {
        let (id, op) = bench.world.short_op(n);
        ops.push(id);
        effects.push(Effect::Start(id, op));
    }
    bench.order(effects);
    bench.until("every operation ends", |probe| {
        ops.iter().all(|op| !probe.finals(*op).is_empty())
    });

    // One more round trip, so that a second end that was on its way has arrived too.
    let (last, op) = bench.world.short_op(31);
    bench.order(vec![Effect::Start(last, op)]);
    bench.until("the last operation ends", |probe| !probe.finals(last).is_empty());
    for op in ops {
        check_single_final(op, &bench.probe.finals(op));
    }
    bench.finish();
}

/// Nothing follows an operation's end but a repetition of it.
pub fn nothing_follows_the_end<H: Harness>() {
    let mut bench = Bench::<H>::new();
    let (op, order) = bench.world.short_op(1);
    bench.order(vec![Effect::Start(op, order)]);
    bench.until("the operation ends", |probe| !probe.finals(op).is_empty());
    let (last, order) = bench.world.short_op(2);
    bench.order(vec![Effect::Start(last, order)]);
    bench.until("the last operation ends", |probe| !probe.finals(last).is_empty());

    let seen = bench.probe.seen();
    let of_op = seen.iter().filter_map(|(_, seen)| match seen {
        Seen::World(id, event) if *id == op => Some(event),
        _ => None,
    });
    let after: Vec<_> = of_op.skip_while(|event| !event.is_final()).collect();
    assert!(
        after.iter().all(|event| event.is_final()),
        "events after the end of {op}: {after:?}"
    );
    bench.finish();
}

/// A running operation that is stopped ends, and ends once.
pub fn stop_ends_a_running_operation<H: Harness>() {
    let mut bench = Bench::<H>::new();
    let (op, order) = bench.world.long_op(1);
    bench.order(vec![Effect::Start(op, order)]);
    bench.until("the operation runs", |probe| {
        probe
            .seen()
            .iter()
            .any(|(_, seen)| matches!(seen, Seen::World(id, _) if *id == op))
    });
    assert_eq!(bench.probe.finals(op), [], "a long operation ended by itself");
    bench.order(vec![Effect::Stop(op)]);
    bench.until("the stopped operation ends", |probe| !probe.finals(op).is_empty());
    let finals = bench.probe.finals(op);
    check_single_final(op, &finals);
    assert!(
        matches!(finals[0], WorldEvent::Ended(Outcome::Stopped { .. })),
        "a stopped operation ended with {:?}",
        finals[0]
    );
    bench.finish();
}

/// An operation that is stopped in the very step in which it was started still ends once.
pub fn stop_in_the_step_of_the_start<H: Harness>() {
    let mut bench = Bench::<H>::new();
    let (op, order) = bench.world.long_op(1);
    bench.order(vec![Effect::Start(op, order), Effect::Stop(op)]);
    bench.until("the operation ends", |probe| !probe.finals(op).is_empty());
    check_single_final(op, &bench.probe.finals(op));
    bench.finish();
}

/// Stopping an operation that has ended or never began, or stopping one twice, affects no other operation.
pub fn needless_stops_are_ignored<H: Harness>() {
    let mut bench = Bench::<H>::new();
    let (ended, order) = bench.world.short_op(1);
    let (never, _) = bench.world.short_op(2);
    let (running, running_order) = bench.world.long_op(3);
    bench.order(vec![Effect::Start(ended, order)]);
    bench.until("the first operation ends", |probe| !probe.finals(ended).is_empty());
    let before = bench.probe.finals(ended);

    bench.order(vec![
        Effect::Stop(ended),
        Effect::Stop(never),
        Effect::Start(running, running_order),
    ]);
    bench.order(vec![Effect::Stop(running), Effect::Stop(running)]);
    bench.until("the running operation ends", |probe| !probe.finals(running).is_empty());
    assert_eq!(
        bench.probe.finals(ended)[0],
        before[0],
        "the end of an operation was changed by a late stop"
    );
    check_single_final(ended, &bench.probe.finals(ended));
    check_single_final(running, &bench.probe.finals(running));
    bench.finish();
}

/// A wish to be woken is granted, and not early.
pub fn a_wake_comes_and_never_early<H: Harness>() {
    const PAUSE: Duration = Duration::from_millis(30);
    let mut bench = Bench::<H>::new();
    bench.order(Vec::new());
    bench.until("a first step", |probe| !probe.steps().is_empty());
    let asked = *bench.probe.steps().last().expect("there was a step") + PAUSE;
    bench.order(vec![Effect::WakeAt(asked)]);
    bench.until("a timer", |probe| {
        probe.seen().iter().any(|(_, seen)| *seen == Seen::Timer)
    });
    let first = bench.probe.seen().into_iter().find(|(_, seen)| *seen == Seen::Timer);
    let (at, _) = first.expect("a timer was seen");
    assert!(at >= asked, "woken at {at:?}, asked for {asked:?}");
    bench.finish();
}

/// Each command is given once.
pub fn commands_are_given_once<H: Harness>() {
    let mut bench = Bench::<H>::new();
    for _ in 0..10 {
        bench.order(Vec::new());
    }
    let commands = |probe: &Probe<_, _, _, _>| probe.seen().iter().filter(|(_, seen)| *seen == Seen::Command).count();
    bench.until("ten commands", |probe| commands(probe) >= 10);
    let (last, order) = bench.world.short_op(1);
    bench.order(vec![Effect::Start(last, order)]);
    bench.until("a round trip", |probe| !probe.finals(last).is_empty());
    assert_eq!(commands(&bench.probe), 11, "commands were lost or repeated");
    bench.finish();
}

/// Instantiates the suite for one [`Harness`]: one `#[test]` per property, in a module `world_suite`.
#[macro_export]
macro_rules! world_suite {
    ($harness:ty) => {
        mod world_suite {
            #[allow(unused_imports)]
            use super::*;
            $crate::world_suite!(@tests $harness:
                persist_is_acknowledged_in_order,
                every_start_ends_once,
                nothing_follows_the_end,
                stop_ends_a_running_operation,
                stop_in_the_step_of_the_start,
                needless_stops_are_ignored,
                a_wake_comes_and_never_early,
                commands_are_given_once,
            );
        }
    };
    (@tests $harness:ty: $($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                $crate::suite::$test::<$harness>();
            }
        )+
    };
}
