//! Measures what one decision costs, with few and with many transfers queued: `cargo run --release -p weir-sched --example decision_cost`.
//!
//! A *round* ends a number of running transfers in one step, and makes the records of that step durable in the next; so it
//! records the ends and starts as many others. If cost follows change, the cost per decision is the same whatever is queued,
//! but for the caches: ten thousand transfers fit into them, a million do not. Figures are medians; the tail is the machine's.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an instrument reads the clock and prints"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_sched::{
    ActivityId, Command, Config, Effect, Input, JobId, JobSpec, Limits, Link, Priority, Scheduler, SeId, Terms,
    TransferSpec,
};
use weir_units::{Bytes, Timestamp};
use weir_world::{CopyMode, Core, OpId, Outcome, Seq, TransferId, WorldEvent};

const FILES_PER_JOB: u64 = 200;

/// A scheduler under load, and the operations that it has running.
struct Load {
    core: Scheduler,
    now: Timestamp,
    running: Vec<OpId>,
    effects: Vec<Effect>,
}

impl Load {
    /// Queues `queued` transfers, spread over `links` links between `ses` storage elements, with `active` slots in all.
    fn new(queued: u64, links: u32, ses: u32, active: u32) -> Self {
        let per_link = (active / links).max(1);
        let limits = Limits {
            link: per_link * 2,
            inbound: active / ses,
            outbound: active / ses,
            ..Limits::default()
        };
        let config = Config {
            limits,
            transfers_max: u64::MAX,
            starts_per_step: usize::MAX,
            ..Config::default()
        };
        let mut load = Self {
            core: Scheduler::new(config),
            now: Timestamp(0),
            running: Vec::new(),
            effects: Vec::new(),
        };
        let mut id = 0;
        while id < queued {
            let job = id / FILES_PER_JOB;
            let link = (job % u64::from(links)) as u32;
            let (source, hop) = (link % ses, 1 + link / ses % (ses - 1));
            let link = Link {
                source: SeId(source),
                destination: SeId((source + hop) % ses),
            };
            let files = FILES_PER_JOB.min(queued - id);
            load.submit(id, link, files, 1 + job as i64 % 5);
            id += files;
        }
        load.step(&[Input::Command(Command::Begin)]);
        load.settle();
        load
    }

    fn submit(&mut self, first: u64, link: Link, files: u64, priority: i64) {
        let transfers = (first..first + files).map(|id| TransferSpec {
            id: TransferId(id),
            source: link.source,
            destination: link.destination,
            size: Bytes(1_000_000_000),
            activity: ActivityId(0),
        });
        let terms = Terms {
            priority: Priority::new(priority),
            ..Terms::default()
        };
        let spec = JobSpec {
            job: JobId(first.into()),
            terms,
            transfers: transfers.collect(),
        };
        self.step(&[Input::Command(Command::Submit(Arc::new(spec)))]);
    }

    fn step(&mut self, inputs: &[Input]) {
        self.effects.clear();
        self.core.step(self.now, inputs, &mut self.effects);
    }

    /// Makes all records of the last step durable, and notes what starts.
    fn settle(&mut self) {
        let last = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Persist(seq, _) => Some(*seq),
            _ => None,
        });
        self.persisted(last.unwrap_or_default());
        let started = self.effects.iter().filter_map(|effect| match effect {
            Effect::Start(op, _) => Some(*op),
            _ => None,
        });
        self.running.extend(started);
    }

    fn persisted(&mut self, seq: Seq) {
        self.step(&[Input::Persisted(seq)]);
    }

    /// Ends `completions` transfers, spread over all that run, and starts others. Gives the time that the core took.
    fn round(&mut self, completions: usize) -> Duration {
        let inputs: Vec<Input> = (0..completions).map(|n| self.completion(n)).collect();
        self.now += Duration::from_millis(1);
        let begin = Instant::now();
        self.step(&inputs);
        let decided = begin.elapsed();
        let begin = Instant::now();
        self.settle();
        decided + begin.elapsed()
    }

    fn completion(&mut self, n: usize) -> Input {
        let which = n.wrapping_mul(7919).wrapping_add(self.now.0 as usize) % self.running.len();
        let op = self.running.swap_remove(which);
        let outcome = Outcome::Done {
            bytes: Bytes(1_000_000_000),
            mode: CopyMode::Pull,
        };
        Input::World(op, WorldEvent::Ended(outcome))
    }
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    resident.unwrap_or(0) * 4096
}

/// Prints one line, and gives the median cost of a decision.
fn measure(queued: u64, links: u32, ses: u32, active: u32, completions: usize) -> f64 {
    let before = resident();
    let begin = Instant::now();
    let mut load = Load::new(queued, links, ses, active);
    let (loading, memory) = (begin.elapsed(), resident().saturating_sub(before));
    let rounds = (load.core.totals().queued as usize / completions / 2).clamp(10, 2_000);
    let mut times: Vec<Duration> = (0..rounds).map(|_| load.round(completions)).collect();
    times.sort();
    let (p50, p99) = (times[rounds / 2], times[rounds * 99 / 100]);
    let decision = p50.as_secs_f64() / completions as f64;
    println!(
        "{queued:>9} queued, {links:>5} links, {ses:>3} RSEs, {:>5} active, {completions:>3} completions a step: \
         {:>5.0} ns a decision, step p50 {p50:>9.1?}, p99 {p99:>9.1?}; loaded in {loading:.2?}, {} bytes a transfer",
        load.core.totals().active,
        decision * 1e9,
        memory / queued,
    );
    decision
}

fn main() {
    let few = measure(10_000, 30, 6, 600, 1);
    let many = measure(1_000_000, 30, 6, 600, 1);
    println!("1 million queued / 10 thousand queued: {:.2}", many / few);
    let few = measure(10_000, 30, 6, 600, 200);
    let many = measure(1_000_000, 30, 6, 600, 200);
    println!("1 million queued / 10 thousand queued: {:.2}", many / few);
    let few = measure(3_000_000, 2_000, 120, 20_000, 200);
    let many = measure(30_000_000, 2_000, 120, 20_000, 200);
    println!("30 million queued / 3 million queued: {:.2}", many / few);
}
