//! The simulated world passes the suite that every world passes: with a store that commits at once, and with one that takes
//! its time in a world that goes in ticks.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_plan::{Challenge, Overrides};
use weir_sched::{Command, Effect, Event, Input, Link, Op, Priority, Record, SeId, Ticket};
use weir_sim::SimPlan;
use weir_sim::policies::PolicyCore;
use weir_sim::scene::Scene;
use weir_sim::world::{NoDemand, Want, World};
use weir_units::Timestamp;
use weir_world::suite::{Harness, Probe};
use weir_world::{Core, OpId};

const GRID: &str = r#"
name = "suite"
[grid]
name = "g"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[workload]]
kind = "rates"
rates = [{ source = "A", destination = "B", rate = "1 Gb/s" }]
"#;

/// Commits take longer than a tick, and freeze for ten seconds.
const SLOW: &str = r#"
[sim]
tick = "1 s"
[sim.store]
latency = "1500 ms"
freezes = [{ at = "2 s", length = "10 s" }]
"#;

type SuiteProbe = Probe<Command, Record, Op, Event>;

/// The suite's core, which keeps no account of waits.
struct Probed(SuiteProbe);

impl Core for Probed {
    type Command = Command;
    type Record = Record;
    type Op = Op;
    type Event = Event;

    fn step(&mut self, now: Timestamp, inputs: &[Input], effects: &mut Vec<Effect>) {
        self.0.step(now, inputs, effects);
    }
}

impl PolicyCore for Probed {}

struct Simulated<const IS_SLOW: bool> {
    world: World,
}

impl<const IS_SLOW: bool> Simulated<IS_SLOW> {
    fn op(&mut self, size: u64) -> (OpId, Op) {
        let want = Want {
            mode: weir_world::CopyMode::Pull,
            size,
            wanted: Timestamp(0),
        };
        let id = OpId {
            transfer: self.world.register(0, 0, want),
            attempt: 1,
            epoch: 1,
        };
        let link = Link {
            source: SeId(0),
            destination: SeId(1),
        };
        let order = Op::Copy {
            link,
            resume: false,
            failures: 0,
        };
        (id, order)
    }
}

impl<const IS_SLOW: bool> Harness for Simulated<IS_SLOW> {
    type Command = Command;
    type Record = Record;
    type Op = Op;
    type Event = Event;

    fn start(core: SuiteProbe) -> Self {
        let text = if IS_SLOW {
            format!("{GRID}{SLOW}")
        } else {
            GRID.to_owned()
        };
        let challenge = Challenge::parse(&text, "suite.toml".as_ref()).unwrap();
        let plan = SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap();
        let world = World::new(Scene::new(&plan), 1, vec![Box::new(Probed(core))]);
        Self { world }
    }

    fn command(&mut self) {
        self.world.command(0, Command::Begin);
    }

    fn record(&mut self, n: u64) -> Record {
        Record::PrioritySet {
            ticket: Ticket(n),
            transfers: Vec::new(),
            priority: Priority::default(),
        }
    }

    fn short_op(&mut self, n: u64) -> (OpId, Op) {
        self.op(1_000_000 * n)
    }

    fn long_op(&mut self, _n: u64) -> (OpId, Op) {
        self.op(1 << 60)
    }

    fn run_until(&mut self, done: &mut dyn FnMut() -> bool) -> bool {
        // A long operation would take decades: an event that has not happened by then never will.
        let patience = Timestamp::from_secs(1_000_000_000);
        while !done() {
            match self.world.next_moment().filter(|next| *next < patience) {
                Some(next) => self.world.go_to(next, &mut NoDemand),
                None => return false,
            }
        }
        true
    }
}

mod at_once {
    use super::*;
    weir_world::world_suite!(Simulated<false>);
}

mod slow_store {
    use super::*;
    weir_world::world_suite!(Simulated<true>);
}
