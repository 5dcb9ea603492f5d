//! A small world in which transfers share pipes: max-min fair, in steps of a quarter of a second.
//!
//! It knows just enough to close the loop: a pipe has a capacity that may depend on time and on how many transfers use it, a
//! transfer has a start-up time and a rate of its own that it never exceeds. The store is quick.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weir_sched::{
    ActivityId, Command, Config, Effect, Input, JobId, JobSpec, Link, Op, Priority, Record, Scheduler, SeId, Setting,
    Settings, Terms, Ticket, TransferSpec, VoId,
};
use weir_units::{Bytes, Timestamp};
use weir_world::{CopyMode, Core, ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, TransferId, WorldEvent};

const STEP: Duration = Duration::from_millis(250);
const MARKER_SECONDS: f64 = 5.0;

/// Bytes per second, given the time in seconds and how many transfers use it.
pub(crate) type Capacity = Box<dyn Fn(f64, usize) -> f64>;

/// The properties of files of one kind, and their number.
#[derive(Clone)]
pub(crate) struct Demand {
    pub(crate) link: usize,
    pub(crate) vo: VoId,
    pub(crate) activity: ActivityId,
    pub(crate) priority: i64,
    pub(crate) deadline: f64,
    /// Bytes; a little different from file to file, so that they do not march in step.
    pub(crate) size: f64,
    /// So many are always queued; or, if `rate` is set, so many bytes come per second.
    pub(crate) backlog: u64,
    pub(crate) rate: f64,
    pub(crate) from: f64,
}

impl Demand {
    pub(crate) fn backlog(link: usize, size: f64) -> Self {
        Self {
            link,
            vo: VoId(0),
            activity: ActivityId(0),
            priority: 3,
            deadline: 0.0,
            size,
            backlog: 2_000,
            rate: 0.0,
            from: 0.0,
        }
    }

    pub(crate) fn rate(link: usize, size: f64, rate: f64) -> Self {
        Self {
            rate,
            backlog: 0,
            ..Self::backlog(link, size)
        }
    }
}

pub(crate) struct Path {
    pub(crate) link: Link,
    pub(crate) pipes: Vec<usize>,
    /// The best rate of one transfer, bytes per second.
    pub(crate) each: f64,
    /// Seconds before its first byte.
    pub(crate) startup: f64,
    /// Every attempt ends so, after so many seconds.
    pub(crate) fault: Option<(f64, ErrorClass, Party)>,
    pub(crate) markers: Markers,
    watched: Option<OpId>,
    pub(crate) delivered: f64,
}

/// The transfers of a path that report their progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Markers {
    All,
    /// One at a time, as long as it runs.
    One,
    None,
}

struct Flow {
    op: OpId,
    path: usize,
    demand: usize,
    begins: f64,
    size: f64,
    moved: f64,
    marked: f64,
    started: f64,
}

pub(crate) struct Fluid {
    pub(crate) core: Scheduler,
    pub(crate) now: Timestamp,
    pub(crate) paths: Vec<Path>,
    pipes: Vec<Capacity>,
    demands: Vec<Demand>,
    owed: Vec<f64>,
    queued: Vec<u64>,
    /// Bytes that came of each demand.
    pub(crate) of_demand: Vec<f64>,
    flows: Vec<Flow>,
    of: BTreeMap<TransferId, (usize, f64)>,
    next: u64,
    wake: Option<Timestamp>,
    pub(crate) records: Vec<Record>,
}

impl Path {
    fn reports(&mut self, op: OpId) -> bool {
        match self.markers {
            Markers::All => true,
            Markers::One => *self.watched.get_or_insert(op) == op,
            Markers::None => false,
        }
    }
}

impl Fluid {
    pub(crate) fn new(settings: Settings) -> Self {
        let config = Config {
            settings,
            ..Config::default()
        };
        let mut fluid = Self {
            core: Scheduler::new(config),
            now: Timestamp(0),
            paths: Vec::new(),
            pipes: Vec::new(),
            demands: Vec::new(),
            owed: Vec::new(),
            queued: Vec::new(),
            of_demand: Vec::new(),
            flows: Vec::new(),
            of: BTreeMap::new(),
            next: 1,
            wake: None,
            records: Vec::new(),
        };
        fluid.step(vec![Input::Command(Command::Begin)]);
        fluid
    }

    pub(crate) fn pipe(&mut self, capacity: impl Fn(f64, usize) -> f64 + 'static) -> usize {
        self.pipes.push(Box::new(capacity));
        self.pipes.len() - 1
    }

    pub(crate) fn path(&mut self, source: u32, destination: u32, pipes: &[usize], each: f64) -> usize {
        self.paths.push(Path {
            link: Link {
                source: SeId(source),
                destination: SeId(destination),
            },
            pipes: pipes.to_vec(),
            each,
            startup: 1.0,
            fault: None,
            markers: Markers::All,
            watched: None,
            delivered: 0.0,
        });
        self.paths.len() - 1
    }

    pub(crate) fn demand(&mut self, demand: Demand) -> usize {
        self.demands.push(demand);
        self.owed.push(0.0);
        self.queued.push(0);
        self.of_demand.push(0.0);
        self.demands.len() - 1
    }

    /// So many files come at once.
    pub(crate) fn burst(&mut self, demand: usize, files: u64) {
        let job = self.job(demand, files);
        self.step(vec![job]);
    }

    pub(crate) fn set(&mut self, changes: &[Setting]) {
        let (ticket, changes) = (Ticket(1), changes.into());
        self.step(vec![Input::Command(Command::Set { ticket, changes })]);
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.now.as_secs_f64()
    }

    pub(crate) fn active(&self, path: usize) -> usize {
        self.flows.iter().filter(|flow| flow.path == path).count()
    }

    /// Lets time pass; gives the mean rate of each path, in bytes per second.
    pub(crate) fn run(&mut self, seconds: f64) -> Vec<f64> {
        let before: Vec<f64> = self.paths.iter().map(|path| path.delivered).collect();
        let until = self.seconds() + seconds;
        while self.seconds() < until - 1e-9 {
            self.advance();
        }
        let rates = self.paths.iter().zip(before);
        rates
            .map(|(path, before)| (path.delivered - before) / seconds)
            .collect()
    }

    fn advance(&mut self) {
        let mut inputs = self.submissions();
        let rates = self.share();
        self.now += STEP;
        let (now, step) = (self.seconds(), STEP.as_secs_f64());
        let mut ended = Vec::new();
        for (index, flow) in self.flows.iter_mut().enumerate() {
            let path = &mut self.paths[flow.path];
            if let Some((after, class, party)) = path.fault {
                if now - flow.started >= after {
                    ended.push(index);
                    inputs.push(Input::World(flow.op, failed(class, party)));
                }
                continue;
            }
            if now <= flow.begins {
                continue;
            }
            let news = (rates[flow.path] * step).min(flow.size - flow.moved);
            flow.moved += news;
            path.delivered += news;
            self.of_demand[flow.demand] += news;
            if flow.moved >= flow.size {
                ended.push(index);
                path.watched = path.watched.filter(|op| *op != flow.op);
                let bytes = Bytes(flow.size as u64);
                let mode = CopyMode::Pull;
                inputs.push(Input::World(
                    flow.op,
                    WorldEvent::Ended(Outcome::Done {
                        bytes,
                        mode,
                        counted: None,
                        first_byte: None,
                    }),
                ));
            } else if path.reports(flow.op) && now - flow.marked >= MARKER_SECONDS {
                flow.marked = now;
                inputs.push(Input::World(flow.op, WorldEvent::Progress(Bytes(flow.moved as u64))));
            }
        }
        for index in ended.into_iter().rev() {
            self.flows.swap_remove(index);
        }
        if self.wake.is_some_and(|at| at <= self.now) {
            self.wake = None;
            inputs.push(Input::Timer);
        }
        self.step(inputs);
    }

    fn submissions(&mut self) -> Vec<Input> {
        let (now, mut inputs) = (self.seconds(), Vec::new());
        for index in 0..self.demands.len() {
            let demand = self.demands[index].clone();
            if now < demand.from {
                continue;
            }
            self.owed[index] += demand.rate * STEP.as_secs_f64();
            let mut files = (self.owed[index] / demand.size) as u64;
            self.owed[index] -= files as f64 * demand.size;
            if demand.backlog > 0 && self.queued[index] < demand.backlog {
                files += 100.min(demand.backlog);
            }
            if files > 0 {
                inputs.push(self.job(index, files));
            }
        }
        inputs
    }

    fn job(&mut self, index: usize, files: u64) -> Input {
        let demand = &self.demands[index];
        let link = self.paths[demand.link].link;
        let transfers = (self.next..self.next + files).map(|id| {
            let size = demand.size * (0.9 + 0.2 * (id.wrapping_mul(2_654_435_761) % 1000) as f64 / 1000.0);
            self.of.insert(TransferId(id), (index, size));
            TransferSpec {
                id: TransferId(id),
                source: link.source,
                destination: link.destination,
                size: Bytes(size as u64),
                activity: demand.activity,
                ..TransferSpec::default()
            }
        });
        let terms = Terms {
            priority: Priority::new(demand.priority),
            vo: demand.vo,
            deadline: Timestamp((demand.deadline * 1e9) as u64),
            ..Terms::default()
        };
        let spec = JobSpec {
            job: JobId(self.next.into()),
            terms,
            transfers: transfers.collect(),
            routes: Vec::new(),
        };
        self.next += files;
        self.queued[index] += files;
        Input::Command(Command::Submit(Arc::new(spec)))
    }

    fn step(&mut self, inputs: Vec<Input>) {
        let mut turns = VecDeque::from([inputs]);
        while let Some(inputs) = turns.pop_front() {
            let mut effects = Vec::new();
            self.core.step(self.now, &inputs, &mut effects);
            let mut durable = None;
            for effect in effects {
                match effect {
                    Effect::Persist(seq, record) => {
                        durable = Some(seq);
                        if matches!(record, Record::Learned(_)) {
                            self.records.push(record);
                        }
                    }
                    Effect::Start(op, Op::Copy { link, .. }) => self.start(op, link),
                    Effect::WakeAt(at) => self.wake = Some(self.wake.map_or(at, |wake| wake.min(at))),
                    _ => {}
                }
            }
            turns.extend(durable.map(|seq| vec![Input::Persisted(seq)]));
        }
    }

    fn start(&mut self, op: OpId, link: Link) {
        let path = self.paths.iter().position(|path| path.link == link).unwrap();
        let (demand, size) = self.of[&op.transfer];
        self.queued[demand] -= 1;
        let now = self.seconds();
        self.flows.push(Flow {
            op,
            path,
            demand,
            begins: now + self.paths[path].startup,
            size,
            moved: 0.0,
            marked: now,
            started: now,
        });
    }

    /// The rate of each transfer of each path: all rates grow together until a pipe is full or a path is at its own best.
    fn share(&self) -> Vec<f64> {
        let now = self.seconds();
        let mut moving = vec![0_usize; self.paths.len()];
        for flow in &self.flows {
            moving[flow.path] += usize::from(now >= flow.begins && self.paths[flow.path].fault.is_none());
        }
        let users = |pipe: usize| -> usize {
            let here = self
                .paths
                .iter()
                .zip(&moving)
                .filter(|(path, _)| path.pipes.contains(&pipe));
            here.map(|(_, moving)| *moving).sum()
        };
        let mut left: Vec<f64> = self
            .pipes
            .iter()
            .enumerate()
            .map(|(pipe, capacity)| capacity(now, users(pipe)))
            .collect();
        let mut rates = vec![0.0; self.paths.len()];
        let mut open: Vec<bool> = moving.iter().map(|moving| *moving > 0).collect();
        while open.contains(&true) {
            let growing = |pipe: usize| -> f64 {
                let here = (0..self.paths.len()).filter(|path| open[*path] && self.paths[*path].pipes.contains(&pipe));
                here.map(|path| moving[path] as f64).sum()
            };
            let counts: Vec<f64> = (0..self.pipes.len()).map(growing).collect();
            let by_pipe = left
                .iter()
                .zip(&counts)
                .filter(|(_, count)| **count > 0.0)
                .map(|(left, count)| left / count);
            let by_path = (0..self.paths.len())
                .filter(|path| open[*path])
                .map(|path| self.paths[path].each - rates[path]);
            let more = by_pipe.chain(by_path).fold(f64::MAX, f64::min).max(0.0);
            for (left, count) in left.iter_mut().zip(&counts) {
                *left -= more * count;
            }
            for path in 0..self.paths.len() {
                if open[path] {
                    rates[path] += more;
                    let full = self.paths[path].pipes.iter().any(|pipe| left[*pipe] < 1.0);
                    open[path] = !full && rates[path] < self.paths[path].each - 1.0;
                }
            }
        }
        rates
    }
}

fn failed(class: ErrorClass, party: Party) -> WorldEvent {
    WorldEvent::Ended(Outcome::Failed(Failure {
        class,
        party,
        phase: Phase::Transfer,
        message: String::new(),
        remedy: String::new(),
        bytes_moved: Bytes(0),
        retry: Retry::Later,
    }))
}
