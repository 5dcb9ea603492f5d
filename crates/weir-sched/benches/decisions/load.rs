//! A scheduler under load.

use std::sync::Arc;
use std::time::Duration;

use weir_sched::{
    ActivityId, Command, Config, Effect, Input, JobId, JobSpec, Learned, Link, Priority, Record, Resource, Scheduler,
    SeId, Settings, Terms, TransferSpec,
};
use weir_units::{BitRate, Bytes, Timestamp};
use weir_world::{CopyMode, Core, OpId, Outcome, Seq, TransferId, WorldEvent};

const FILES_PER_JOB: u64 = 200;
const SIZE: Bytes = Bytes(5_000_000_000);

/// How much there is of everything.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) queued: u64,
    pub(crate) links: u32,
    pub(crate) ses: u32,
    pub(crate) active: u32,
}

impl Scale {
    /// Links are spread over the storage elements, so that each is source and destination of as many.
    pub(crate) fn link(self, number: u32) -> Link {
        let (source, hop) = (number % self.ses, 1 + number / self.ses % (self.ses - 1));
        Link {
            source: SeId(source),
            destination: SeId((source + hop) % self.ses),
        }
    }
}

/// A scheduler under load, and the operations that it has running.
pub(crate) struct Load {
    pub(crate) core: Scheduler,
    pub(crate) scale: Scale,
    now: Timestamp,
    running: Vec<OpId>,
    inputs: Vec<Input>,
    effects: Vec<Effect>,
}

/// Time that this thread has computed: what else the machine does, and waits for, is left out.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Load {
    /// Queues transfers of all priorities on all links. The optimiser is at work, and knows its links and storage elements
    /// from an earlier life.
    pub(crate) fn new(scale: Scale) -> Self {
        let settings = Settings {
            link: (scale.active / scale.links).max(1) * 4,
            inbound: scale.active / scale.ses,
            outbound: scale.active / scale.ses,
            ..Settings::default()
        };
        let config = Config {
            settings,
            transfers_max: u64::MAX,
            starts_per_step: usize::MAX,
            ..Config::default()
        };
        let mut load = Self {
            core: Scheduler::new(config),
            scale,
            now: Timestamp::from_secs(1),
            running: Vec::new(),
            inputs: Vec::new(),
            effects: Vec::new(),
        };
        load.recall();
        let mut id = 0;
        while id < scale.queued {
            let job = id / FILES_PER_JOB;
            let files = FILES_PER_JOB.min(scale.queued - id);
            let link = scale.link((job % u64::from(scale.links)) as u32);
            load.submit(id, link, files, 1 + (job / u64::from(scale.links)) as i64 % 5);
            id += files;
        }
        load.step(&[Input::Command(Command::Begin)]);
        load.settle();
        load
    }

    fn recall(&mut self) {
        let scale = self.scale;
        let known = |resource, slots| Learned {
            resource,
            slots,
            each: BitRate(400_000_000),
            at: Timestamp(0),
        };
        let ends = (0..scale.ses)
            .map(SeId)
            .flat_map(|se| [Resource::Inbound(se), Resource::Outbound(se)]);
        let ends = ends.map(|resource| known(resource, scale.active / scale.ses));
        let links =
            (0..scale.links).map(|link| known(Resource::Link(scale.link(link)), 2 * scale.active / scale.links));
        let all: Vec<Learned> = ends.chain(links).collect();
        self.step(&[Input::Restored(Record::Learned(all.into()))]);
    }

    fn submit(&mut self, first: u64, link: Link, files: u64, priority: i64) {
        let transfers = (first..first + files).map(|id| TransferSpec {
            id: TransferId(id),
            source: link.source,
            destination: link.destination,
            size: SIZE,
            activity: ActivityId(0),
            ..TransferSpec::default()
        });
        let terms = Terms {
            priority: Priority::new(priority),
            ..Terms::default()
        };
        let spec = JobSpec {
            job: JobId(first.into()),
            terms,
            transfers: transfers.collect(),
            routes: Vec::new(),
        };
        self.step(&[Input::Command(Command::Submit(Arc::new(spec)))]);
        self.settle();
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
        self.step(&[Input::Persisted(last.unwrap_or(Seq(0)))]);
        let started = self.effects.iter().filter_map(|effect| match effect {
            Effect::Start(op, _) => Some(*op),
            _ => None,
        });
        self.running.extend(started);
    }

    /// A second passes, in which `completions` transfers end, spread over all that run, and others start. Gives the time
    /// that the core took.
    pub(crate) fn round(&mut self, completions: usize) -> Duration {
        self.inputs.clear();
        for n in 0..completions {
            let which = n.wrapping_mul(7919).wrapping_add(self.now.as_millis() as usize) % self.running.len();
            let op = self.running.swap_remove(which);
            let (bytes, mode) = (SIZE, CopyMode::Pull);
            let ended = WorldEvent::Ended(Outcome::Done {
                bytes,
                mode,
                counted: None,
                first_byte: None,
            });
            self.inputs.push(Input::World(op, ended));
        }
        self.timed()
    }

    /// Five seconds pass, and `reports` running transfers, spread over all, tell how far they are. Gives the time that the
    /// core took.
    pub(crate) fn markers(&mut self, reports: usize, moved: Bytes) -> Duration {
        self.inputs.clear();
        self.now += Duration::from_secs(4);
        let every = (self.running.len() / reports).max(1);
        let reporting = self.running.iter().step_by(every);
        let marker = |op: &OpId| Input::World(*op, WorldEvent::Progress(moved));
        self.inputs.extend(reporting.map(marker));
        self.timed()
    }

    fn timed(&mut self) -> Duration {
        self.now += Duration::from_secs(1);
        let inputs = std::mem::take(&mut self.inputs);
        let begin = cpu_time();
        self.step(&inputs);
        let decided = cpu_time().saturating_sub(begin);
        self.inputs = inputs;
        let begin = cpu_time();
        self.settle();
        decided + cpu_time().saturating_sub(begin)
    }
}
