//! The loop: gather inputs, step the core, carry out the effects.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use weir_sched::{Command, Event, Link, Names, Op, Priority, Record, Ticket};
use weir_units::Timestamp;
use weir_world::{Effect, Input, OpId, Seq, TransferId, Waits, WorldEvent};

use super::{
    Beginning, Driver, DriverState, Meter, REQUESTS_MAX, Request, TransferCore, clock,
    inbox::{Feed, FeedSender, Inbox, Item, Round},
    learned,
    meter::bytes_of,
    other_nodes::OtherNodes,
    pending_answers::{NotTaken, Pending, PendingAnswers},
    records,
    restore::Restoration,
};
use weir_executor::{Executor, clock::AttemptClock};
use weir_service::time::{self, Millis};

use crate::{
    events::Events,
    events::Notice,
    settings::NamedSetting,
    store::journal::Notes,
    store::{Change, Durable, Store, StoreError, Writer, start_writer},
};

/// Requests that wait for the store, at most: further ones stay in the channel, and then at the door.
const WAITING_MAX: usize = 16_384;

/// Jobs on their way from the store at a restart.
const RESTORES_MAX: usize = 1024;

struct RunningOperation {
    stop: CancellationToken,
    link: Link,
    moved: u64,
}

/// The link of an operation, and how it went, until its end is recorded.
struct OperationEnd {
    link: Link,
    /// The host of the node that did it, once its last event was heard, if there are several nodes.
    by: Option<Arc<str>>,
    /// The time that it spent in each state, once it is over.
    waits: Option<Box<Waits>>,
}

struct Loop<C> {
    core: C,
    now: Timestamp,
    names: Names,
    meter: Meter,
    pending: PendingAnswers,
    writer: Arc<Writer>,
    executor: Executor,
    events: Events,
    ready: Option<Command>,
    running: HashMap<OpId, RunningOperation>,
    /// Operations whose end is not recorded yet.
    ends: HashMap<OpId, OperationEnd>,
    /// First files of jobs that are on their way to the store.
    submitted: HashMap<Seq, u64>,
    wakes: BTreeSet<Timestamp>,
    /// Notices to send once their record is durable, in order.
    notices: VecDeque<(Seq, Notice)>,
    feeds: mpsc::UnboundedSender<Feed>,
    /// Other nodes, if there may be any.
    others: Option<Arc<dyn OtherNodes>>,
    settled: watch::Sender<u64>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl<C: TransferCore> Driver<C> {
    /// Starts the driver on the current runtime: takes requests, and restores the contents of the store; then gives the
    /// core `ready`. `others`: other nodes, if there may be any.
    pub(crate) fn start(
        core: C,
        (store, Beginning { below, learned }): (Arc<dyn Store>, Beginning),
        (executor, events): (Executor, Events),
        settings: &[NamedSetting],
        ready: Option<Command>,
        others: Option<Arc<dyn OtherNodes>>,
    ) -> Result<Self, StoreError> {
        let (requests, incoming) = mpsc::channel(REQUESTS_MAX);
        // Unbounded, because no sender may wait for this loop. Its length is bounded by its senders: an operation that
        // holds a slot (copy.concurrency, limits.staging) reports its progress at most once a second, and its end. The
        // writer reports each batch once. The loop never waits.
        let (feeds, fed) = mpsc::unbounded_channel();
        let (settled, watch_settled) = watch::channel(0);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let tell = feeds.clone();
        let writer = start_writer(store.clone(), move |durable| drop(tell.send(Feed::Durable(durable))));
        let writer = Arc::new(writer.map_err(|error| StoreError::Unavailable(error.into()))?);
        let mut names = Names::default();
        let settings = settings.iter().map(|one| one.resolve(&mut names)).collect::<Vec<_>>();
        let learned = Record::Learned(learned::restore(&learned, &mut names).into());
        let pins = executor.clone().keep_pins(Arc::new(Notes(writer.clone())));
        let mut meter = Meter::default();
        meter.depth.await_queue();
        let this = Loop {
            core,
            now: clock::now(),
            names,
            meter,
            pending: PendingAnswers::default(),
            writer: writer.clone(),
            executor,
            events,
            ready,
            running: HashMap::new(),
            ends: HashMap::new(),
            submitted: HashMap::new(),
            wakes: BTreeSet::new(),
            notices: VecDeque::new(),
            feeds: feeds.clone(),
            others: others.clone(),
            settled,
            stop: stop.clone(),
            tasks: tasks.clone(),
        };
        let settings = Record::SettingsChanged {
            ticket: Ticket(0),
            changes: settings.into(),
        };
        let (restores, restored) = mpsc::channel(RESTORES_MAX);
        let inbox = Inbox::new(fed, incoming, restored);
        tasks.spawn(this.run(inbox, [settings, learned]));
        let leave = stop.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = pins => {}
                () = leave.cancelled() => {}
            }
        });
        let restoration = Arc::new(Restoration::default());
        let (shared, leave) = (restoration.clone(), stop.clone());
        tasks.spawn_blocking(move || {
            let mut hand_over = |job| drop(restores.blocking_send(Feed::Restored(job)));
            let gate = others.map(|others| others.gate());
            if shared.run(store.as_ref(), below, &leave, &mut hand_over)
                && gate.is_none_or(|open| open(&leave, &mut hand_over))
            {
                let _ = restores.blocking_send(Feed::RestoreEnded);
            }
        });
        Ok(Driver {
            requests,
            shared: Arc::new(DriverState {
                settled: watch_settled,
                writer,
                restoration,
                feeds_sender: FeedSender(feeds),
                stop,
                tasks,
            }),
        })
    }
}

impl<C: TransferCore> Loop<C> {
    async fn run(mut self, mut inbox: Inbox<C>, settings: [Record; 2]) {
        // Also where a defect ends it: then everything of it is let go, and the leader of the nodes hears of it.
        let _over = self.stop.clone().drop_guard();
        let mut inputs: Vec<_> = settings.into_iter().map(Input::Restored).collect();
        let mut effects = Vec::new();
        let mut beat = tokio::time::interval(BEAT);
        loop {
            self.step(&mut inputs, &mut effects);
            let wake = self.wakes.first().map(|at| clock::instant(*at));
            let takes = self.takes();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                item = inbox.wait(takes) => self.take(item, &mut inputs),
                () = sleep_until(wake) => {}
                _ = beat.tick(), if !self.running.is_empty() => self.writer.note(alive()),
            }
            let mut round = Round::default();
            while let Some(item) = inbox.next(&mut round, self.takes()) {
                self.take(item, &mut inputs);
            }
        }
        let Self {
            writer, mut pending, ..
        } = self;
        writer.note(alive());
        let _ = tokio::task::spawn_blocking(move || writer.close()).await;
        pending.leave();
    }

    /// Whether requests are taken. Otherwise they stay in the channel, and then at the door.
    fn takes(&self) -> bool {
        self.pending.len() < WAITING_MAX && !self.events.is_behind()
    }

    fn take(&mut self, item: Item<C>, inputs: &mut Vec<Input<Command, Record>>) {
        match item {
            Item::Feed(feed) => self.feed(feed, inputs),
            Item::Request(request @ Request::Look(_)) if self.is_wake_due() => {
                // Otherwise the request would see a state that a due alarm is about to change: a pause that is over.
                self.step(inputs, &mut Vec::new());
                self.request(request, inputs);
            }
            Item::Request(request) => self.request(request, inputs),
        }
    }

    fn is_wake_due(&self) -> bool {
        self.wakes.first().is_some_and(|at| *at <= clock::now())
    }

    fn step(&mut self, inputs: &mut Vec<Input<Command, Record>>, effects: &mut Vec<Effect<Record, Op, Event>>) {
        self.now = clock::now().max(self.now);
        if self.wakes.first().is_some_and(|at| *at <= self.now) {
            self.wakes = self.wakes.split_off(&Timestamp(self.now.0 + 1));
            inputs.push(Input::Timer);
        }
        if inputs.is_empty() {
            return;
        }
        self.core.step(self.now, inputs, effects);
        inputs.clear();
        let mut any_settled = false;
        for effect in effects.drain(..) {
            match effect {
                Effect::Persist(seq, record) => self.persist(seq, &record),
                Effect::Ack(seq) => {
                    self.submitted.remove(&seq);
                    self.pending.acknowledge(seq);
                }
                Effect::Start(id, op) => self.start(id, op),
                Effect::Stop(id) => {
                    if let Some(running) = self.running.get(&id) {
                        running.stop.cancel();
                    }
                    if let Some(others) = &self.others {
                        others.recall(id);
                    }
                }
                Effect::Emit(Event::Refused { job, refusal }) => {
                    if let Some(first) = self.pending.turned_away(job, refusal) {
                        self.meter.depth.refused(first);
                    }
                }
                Effect::Emit(Event::Settled { transfer, .. }) => {
                    self.executor.settled(transfer.0);
                    any_settled = true;
                }
                Effect::WakeAt(at) => drop(self.wakes.insert(at)),
            }
        }
        if any_settled {
            self.settled.send_modify(|rounds| *rounds += 1);
        }
    }

    fn persist(&mut self, seq: Seq, record: &Record) {
        self.meter.depth.follow(record, records::millis(self.now));
        if let Record::Submitted(spec) = record
            && let Some(first) = spec.transfers.first()
        {
            self.submitted.insert(seq, first.id.0);
        }
        let mut carried_out = None;
        if let Record::Ended { op, end, next, .. } = record
            && let Some(known) = self.ends.remove(op)
        {
            self.meter.ended(known.link, end, *next);
            carried_out = Some((known.by, known.waits));
        }
        let mut changes = match record {
            Record::Learned(learned) => learned::changes(learned, &self.names),
            _ => self.pending.changes(seq, record, self.now),
        };
        if let Some((host, waits)) = carried_out {
            changes
                .iter_mut()
                .for_each(|change| records::carried_out(change, host.as_deref(), waits.as_deref()));
        }
        if self.events.is_on() {
            let op = match record {
                Record::Ended { op, .. } => Some(*op),
                _ => None,
            };
            let notices = changes.iter().filter_map(|change| Notice::of(op, change));
            self.notices.extend(notices.map(|notice| (seq, notice)));
        }
        self.writer.push(seq, changes);
    }

    /// Everything up to this record is durable: now it may be told.
    fn announce(&mut self, up_to: Seq) {
        while self.notices.front().is_some_and(|(seq, _)| *seq <= up_to)
            && let Some((_, notice)) = self.notices.pop_front()
        {
            self.events.tell(notice);
        }
    }

    fn start(&mut self, id: OpId, op: Op) {
        let link = op.link();
        let stop = CancellationToken::new();
        self.running.insert(
            id,
            RunningOperation {
                stop: stop.clone(),
                link,
                moved: 0,
            },
        );
        let ended = OperationEnd {
            link,
            by: None,
            waits: None,
        };
        self.ends.insert(id, ended);
        // The scheduling node sends bulk requests to tape, and releases pins.
        if let Some(others) = &self.others
            && matches!(op, Op::Copy { .. } | Op::Cleanup { .. })
            && others.takes(id, op, self.running.len() - 1 - others.running())
        {
            if let Op::Copy { .. } = op {
                self.events.tell(Notice::BegunElsewhere(id, records::millis(self.now)));
            }
            return;
        }
        let term = self.others.as_ref().map(|others| others.term());
        let (executor, journal, leave) = (self.executor.clone(), Notes(self.writer.clone()), self.stop.clone());
        let clock = AttemptClock::start();
        self.meter.begun(id, link, clock.clone());
        let reporter = ProgressReporter {
            id,
            feeds: self.feeds.clone(),
            told: false.into(),
        };
        self.tasks.spawn(async move {
            let work = Box::pin(executor.run((id, op), stop, (&journal, &clock), |event| reporter.tell(event)));
            let work = async {
                match term {
                    Some(term) => drop(term.within(work).await),
                    None => work.await,
                }
            };
            tokio::select! {
                () = work => {}
                // The service stops; the receiver may be gone.
                () = leave.cancelled() => reporter.leave(),
            }
        });
    }

    fn feed(&mut self, feed: Feed, inputs: &mut Vec<Input<Command, Record>>) {
        match feed {
            Feed::Durable(Durable::UpTo(seq)) => {
                self.announce(seq);
                inputs.push(Input::Persisted(seq));
            }
            Feed::Durable(Durable::Refused(seq, error)) => {
                self.notices.retain(|(waiting, _)| *waiting != seq);
                self.pending.refuse(seq, &error);
                if let Some(first) = self.submitted.remove(&seq) {
                    self.meter.depth.refused(first);
                }
                inputs.push(Input::Refused(seq));
            }
            // For the core they are cancelled: the store has their end already, and takes no other.
            Feed::Durable(Durable::SetAside {
                seq,
                concerns: files,
                instead,
                error,
            }) => {
                if instead.is_empty() {
                    self.pending.refuse(seq, &error);
                }
                self.notices
                    .retain_mut(|(waiting, notice)| *waiting != seq || notice.holds_instead(&instead));
                inputs.push(Input::Command(Command::Cancel {
                    ticket: Ticket(0),
                    transfers: files.into_iter().map(TransferId).collect(),
                }));
            }
            // Operations that run here are abandoned: the other scheduler resumes them.
            Feed::Durable(Durable::LeadershipLost) => self.stop.cancel(),
            Feed::World(id, event) => {
                self.observe(id, &event);
                inputs.push(Input::World(id, event));
            }
            Feed::Waited(id, waits) => {
                if let Some(end) = self.ends.get_mut(&id) {
                    self.meter.waited(end.link, &waits);
                    end.waits = Some(Box::new(waits.all));
                }
            }
            Feed::Restored(job) => {
                let files = records::live(&job, &mut self.names);
                self.meter.restored(&job.job, &files);
                inputs.extend(files.into_iter().map(Input::Restored));
            }
            Feed::Arrived(job) => {
                self.events.tell(Notice::Submitted {
                    job: job.job.id,
                    live: records::begins(&job),
                });
                self.feed(Feed::Restored(job), inputs);
            }
            Feed::RestoreEnded => {
                self.meter.depth.queue_is_back();
                inputs.extend(self.ready.take().map(Input::Command));
            }
        }
    }

    /// Counts bytes as they are told, each once.
    fn observe(&mut self, id: OpId, event: &WorldEvent) {
        let Some(running) = self.running.get_mut(&id) else {
            return;
        };
        let moved = match event {
            WorldEvent::Progress(bytes) => bytes.0,
            WorldEvent::Ended(outcome) => bytes_of(&outcome.clone().into()).0,
            _ => 0,
        };
        if moved > running.moved {
            self.meter.moved(running.link, moved - running.moved);
            running.moved = moved;
        }
        if event.is_final() {
            self.running.remove(&id);
            let waits = self.meter.over(id).map(|waits| Box::new(waits.all));
            let by = self.others.as_ref().map(|others| others.over(id));
            if let Some(end) = self.ends.get_mut(&id) {
                end.by = by;
                end.waits = waits.or(end.waits.take());
            }
        }
    }

    fn request(&mut self, request: Request<C>, inputs: &mut Vec<Input<Command, Record>>) {
        let transfers = |files: Vec<u64>| files.into_iter().map(TransferId).collect();
        let command = match request {
            Request::Submit { submission, reply } => {
                let named = submission.storages.iter().map(String::as_str);
                if let Err(full) = self.meter.bounds.storages(named, &self.names) {
                    let _ = reply.send(Err(NotTaken::Full(full)));
                    return;
                }
                let spec = records::job_spec(&submission, &mut self.names);
                if let Err(full) = self.meter.submitted(&submission.job, &spec, &self.names) {
                    let _ = reply.send(Err(NotTaken::Full(full)));
                    return;
                }
                self.pending.submission(spec.job, submission, reply);
                Command::Submit(spec)
            }
            Request::Cancel {
                job,
                whole,
                files,
                reason,
                reply,
            } => {
                let ticket = self.pending.ticket(Pending::Cancel { job, whole, reason }, reply);
                Command::Cancel {
                    ticket,
                    transfers: transfers(files),
                }
            }
            Request::Priority {
                job,
                files,
                priority,
                reply,
            } => {
                let ticket = self.pending.ticket(Pending::Priority { job }, reply);
                let priority = Priority::new(i64::from(priority));
                Command::SetPriority {
                    ticket,
                    transfers: transfers(files),
                    priority,
                }
            }
            Request::Settings {
                settings,
                changes,
                reply,
            } => {
                let settings = settings.iter().map(|one| one.resolve(&mut self.names)).collect();
                let ticket = self.pending.ticket(Pending::Settings { changes }, reply);
                Command::Set {
                    ticket,
                    changes: settings,
                }
            }
            Request::Force { files, forcing, reply } => Command::Force {
                ticket: self.pending.ticket(Pending::Force(forcing), reply),
                transfers: transfers(files),
            },
            Request::Look(look) => return look(&self.core, &self.names, &self.meter),
            Request::Limits(queues, most) => {
                self.meter.depth.limit_to(queues);
                return self.meter.bounds.limit_to(most);
            }
            #[cfg(test)]
            Request::Raw(command) => command,
        };
        inputs.push(Input::Command(command));
    }
}

/// How often the store is told that this life goes on, while anything runs.
const BEAT: Duration = Duration::from_secs(5);

const ALIVE: &str = "alive";

fn alive() -> Change {
    Change::Setting {
        key: ALIVE.to_owned(),
        value: Some(time::now().to_string()),
    }
}

/// When the last life of the service ended, at the latest; `None` if nothing ever ran.
pub(crate) fn last_life_ended(store: &dyn Store) -> Result<Option<Millis>, StoreError> {
    let told = store.settings(ALIVE)?.pop().and_then(|(_, value)| value.parse().ok());
    Ok(told.map(|at: Millis| at.saturating_add(BEAT.as_millis() as Millis)))
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Tells an operation's events, and never ends silently: an executor that dies leaves a loss behind.
struct ProgressReporter {
    id: OpId,
    feeds: mpsc::UnboundedSender<Feed>,
    told: std::sync::atomic::AtomicBool,
}

impl ProgressReporter {
    fn tell(&self, event: WorldEvent) {
        use std::sync::atomic::Ordering::Relaxed;
        if event.is_final() && self.told.swap(true, Relaxed) {
            return;
        }
        let _ = self.feeds.send(Feed::World(self.id, event));
    }

    /// Ends without a word.
    fn leave(&self) {
        self.told.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        if !self.told.load(std::sync::atomic::Ordering::Relaxed) {
            self.tell(WorldEvent::Lost);
        }
    }
}
