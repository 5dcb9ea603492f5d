//! The simulated world passes the suite that every world passes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_plan::{Challenge, Overrides};
use weir_sched::{Command, Event, Link, Op, Priority, Record, SeId, Ticket};
use weir_sim::scene::Scene;
use weir_sim::world::{NoDemand, Want, World};
use weir_units::Timestamp;
use weir_world::OpId;
use weir_world::suite::{Harness, Probe};

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

struct Simulated {
    world: World,
}

impl Simulated {
    fn op(&mut self, size: u64) -> (OpId, Op) {
        let want = Want {
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

impl Harness for Simulated {
    type Command = Command;
    type Record = Record;
    type Op = Op;
    type Event = Event;

    fn start(core: Probe<Command, Record, Op, Event>) -> Self {
        let challenge = Challenge::parse(GRID, "suite.toml".as_ref()).unwrap();
        let plan = challenge.resolve(&Overrides::default()).unwrap();
        let world = World::new(Scene::new(&plan), 1, vec![Box::new(core)]);
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
        // A long operation would take decades: what has not happened by then never will.
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

weir_world::world_suite!(Simulated);
