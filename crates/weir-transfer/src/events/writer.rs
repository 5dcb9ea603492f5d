//! The event writer: a thread that takes notices of durable changes, reads their rows, and appends messages to the
//! spool.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;
use weir_events::{Lines, MessageKind, Meters, Position, SinkError, Sinks, Spool};
use weir_executor::{orders::Told, timeline::Timeline};
use weir_http::Client;
use weir_sched::Work;
use weir_world::OpId;

use super::{
    Notice,
    message::{self, StateChange, Subject, Verdict},
};
use weir_executor::{
    job::{CANCELED_REASON, FileResult, FileState, NewFile, NewJob},
    orders::Order,
};
use weir_service::time::Millis;

use crate::{
    config::EventsConfig,
    store::{Change, Store, StoreError},
};

/// Notices that may wait for the event writer; with more, the driver takes no further requests.
const WAITING_MAX: usize = 100_000;

/// How often appended lines are made to survive a loss of power.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// Interval of the search for segments that every sink has read.
const PRUNE_EVERY: Duration = Duration::from_secs(5);

/// How long the event writer waits before it tries a spool again that refused.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// An attempt under way: data for its messages.
#[derive(Clone)]
struct Attempt {
    job: NewJob,
    file: NewFile,
    times: Timeline,
}

/// The service's handle on the event writer. Clones share it; without a configuration it does nothing.
#[derive(Clone, Default)]
pub struct Events {
    shared: Option<Arc<WriterState>>,
    /// Keeps how the time of attempts went, for the scheduler, which tells of them.
    times: Option<Arc<Mutex<HashMap<OpId, Timeline>>>>,
}

struct WriterState {
    endpoint: String,
    retries: u8,
    notices: Mutex<Option<Sender<Notice>>>,
    waiting: AtomicUsize,
    attempts: Mutex<HashMap<OpId, Attempt>>,
    meters: Arc<Meters>,
    sinks: Arc<Sinks>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Events {
    /// Opens the spool, and starts the event writer and the sinks. `endpoint`: this service's name in messages.
    /// `retries`: the default number for jobs that do not set it.
    pub(crate) fn start(
        config: &EventsConfig,
        (endpoint, retries): (String, u8),
        store: Arc<dyn Store>,
        client: &Client,
        roots: &weir_http::TrustRoots,
    ) -> Result<Self, SinkError> {
        let spool = Spool::open(&config.spool, config.keep.0)?;
        let meters = Arc::new(Meters::default());
        let (head, watched) = watch::channel(spool.end());
        let sinks = Arc::new(weir_events::start(config, &watched, client, roots, &meters)?);
        // Not bounded: with `WAITING_MAX` notices the driver takes no further requests.
        let (notices, heard) = channel();
        let shared = Arc::new(WriterState {
            endpoint,
            retries,
            notices: Mutex::new(Some(notices)),
            waiting: AtomicUsize::new(0),
            attempts: Mutex::default(),
            meters,
            sinks: sinks.clone(),
            thread: Mutex::default(),
        });
        let writer = EventWriter {
            shared: shared.clone(),
            store,
            spool,
            head,
            synced: Instant::now(),
            pruned: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("weir-events".into())
            .spawn(move || writer.run(&heard))
            .map_err(|source| SinkError::Thread { source })?;
        *shared.thread.lock() = Some(thread);
        Ok(Self {
            shared: Some(shared),
            times: None,
        })
    }

    /// Sends no message, but keeps the scheduler's notices.
    pub(crate) fn for_a_remote_executor() -> Self {
        Self {
            shared: None,
            times: Some(Arc::default()),
        }
    }

    /// How the time of an attempt went that is over.
    pub(crate) fn take_times(&self, op: OpId) -> Option<Timeline> {
        self.times.as_ref()?.lock().remove(&op)
    }

    /// Whether anybody listens.
    pub(crate) fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether the event writer has so much to write that nothing new should be taken.
    pub(crate) fn is_behind(&self) -> bool {
        let waiting = |shared: &Arc<WriterState>| shared.waiting.load(Ordering::Relaxed);
        self.shared.as_ref().map_or(0, waiting) > WAITING_MAX
    }

    /// Something has become durable.
    pub(crate) fn tell(&self, notice: Notice) {
        if let Some(shared) = &self.shared {
            shared.tell(notice);
        }
    }

    /// The figures, if there are any.
    pub fn meters(&self) -> Option<&Meters> {
        self.shared.as_ref().map(|shared| shared.meters.as_ref())
    }

    /// Writes the pending notices, and ends. Sinks continue at the next start where they were.
    pub(crate) async fn close(&self) {
        let Some(shared) = self.shared.clone() else { return };
        shared.notices.lock().take();
        let thread = shared.thread.lock().take();
        let join = move || thread.map(JoinHandle::join);
        let _ = tokio::task::spawn_blocking(join).await;
        shared.sinks.stop().await;
    }
}

impl Told for Events {
    fn began(&self, op: OpId, order: &Order, timeline: Timeline) {
        let Some(shared) = &self.shared else { return };
        let attempt = Attempt {
            job: order.job.clone(),
            file: order.file.spec.clone(),
            times: timeline,
        };
        for (kind, line) in shared.beginning(&attempt, op.attempt, Some(&order.file.tape)) {
            shared.tell(Notice::Lines(kind, attempt.job.vo.clone(), line));
        }
        shared.attempts.lock().insert(op, attempt);
    }

    // Its result comes with [`Notice::Ended`].
    fn over(&self, op: OpId, timeline: Timeline) {
        if let Some(times) = &self.times {
            times.lock().insert(op, timeline);
        }
        if let Some(shared) = &self.shared
            && let Some(attempt) = shared.attempts.lock().get_mut(&op)
        {
            attempt.times = timeline;
        }
    }
}

impl WriterState {
    fn tell(&self, notice: Notice) {
        if let Some(notices) = self.notices.lock().as_ref() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let _ = notices.send(notice);
        }
    }

    /// The messages of an attempt that begins.
    fn beginning(
        &self,
        attempt: &Attempt,
        number: u32,
        tape: Option<&weir_executor::job::TapeTimes>,
    ) -> [(MessageKind, Vec<u8>); 2] {
        let subject = self.subject(&attempt.job, &attempt.file, number);
        let active = StateChange {
            job: "ACTIVE",
            file: FileState::Active.as_str(),
            at: attempt.times.began,
            reason: None,
            tape,
        };
        [
            (MessageKind::State, message::state(&subject, &active)),
            (MessageKind::Start, message::start(&subject, attempt.times.began)),
        ]
    }

    fn subject<'a>(&'a self, job: &'a NewJob, file: &'a NewFile, attempt: u32) -> Subject<'a> {
        Subject {
            job,
            file,
            endpoint: &self.endpoint,
            attempt,
            retries: self.retries,
            final_destination: None,
        }
    }
}

/// The thread.
struct EventWriter {
    shared: Arc<WriterState>,
    store: Arc<dyn Store>,
    spool: Spool,
    head: watch::Sender<Position>,
    synced: Instant,
    pruned: Instant,
}

/// A file that is looked up by itself costs as much as so many of a range.
const FEW: i64 = 100;

/// A page is appended when it is so long, or when nothing more waits.
const PAGE: usize = 256 << 10;

impl EventWriter {
    fn run(mut self, heard: &Receiver<Notice>) {
        let mut page = Lines::default();
        loop {
            let mut ended = false;
            let mut next = match heard.recv_timeout(SYNC_EVERY) {
                Ok(notice) => Some(notice),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    ended = true;
                    None
                }
            };
            while let Some(notice) = next {
                self.write(&notice, &mut page);
                self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
                if page.as_bytes().len() >= PAGE {
                    self.append(&mut page);
                }
                next = heard.try_recv().ok();
            }
            self.append(&mut page);
            self.keep_house(ended);
            if ended {
                return;
            }
        }
    }

    /// Writes the message of a notice. The event writer waits while the store cannot be read: otherwise the message
    /// would be lost.
    fn write(&self, notice: &Notice, page: &mut Lines) {
        let before = page.mark();
        while let Err(error) = self.tell(notice, page) {
            page.take_back(before);
            let text = weir_auth::error_chain(&error);
            if !error.is_passing() || self.shared.notices.lock().is_none() {
                self.shared.meters.unwritten.fetch_add(1, Ordering::Relaxed);
                tracing::error!(error = text, "a message could not be written: its rows cannot be read");
                if let Notice::Ended(op, _) = notice {
                    self.shared.attempts.lock().remove(op);
                }
                return;
            }
            tracing::warn!(error = text, "a message waits for the store");
            std::thread::sleep(TROUBLE_PAUSE);
        }
    }

    fn tell(&self, notice: &Notice, page: &mut Lines) -> Result<(), StoreError> {
        match notice {
            Notice::Lines(kind, vo, line) => {
                page.write(*kind, vo, line);
                Ok(())
            }
            Notice::BegunElsewhere(op, at) => self.begun(*op, *at, page),
            Notice::OverElsewhere(op, times) => {
                if let Some(attempt) = self.shared.attempts.lock().get_mut(op) {
                    attempt.times = *times;
                }
                Ok(())
            }
            Notice::Submitted { job, live } => self.submitted(*job, *live, page),
            Notice::Released(file) => self.released(*file, page),
            Notice::Ended(op, change) => self.ended(*op, change, page),
            Notice::Began { file, work, at } => self.began(*file, *work, *at, page),
            Notice::Cancelled { job, files, at, reason } => self.cancelled((*job, files), (*at, reason), page),
        }
    }

    fn begun(&self, op: OpId, at: Millis, page: &mut Lines) -> Result<(), StoreError> {
        let Some((job, file)) = self.rows(op.transfer.0)? else {
            return Ok(());
        };
        let times = Timeline {
            began: at,
            ..Timeline::default()
        };
        let attempt = Attempt { job, file, times };
        for (kind, line) in self.shared.beginning(&attempt, op.attempt, None) {
            page.write(kind, &attempt.job.vo, &line);
        }
        self.shared.attempts.lock().insert(op, attempt);
        Ok(())
    }

    /// Later states of its files have messages of their own.
    fn submitted(&self, job: Uuid, live: Option<u64>, page: &mut Lines) -> Result<(), StoreError> {
        let Some(row) = self.store.job(job)? else { return Ok(()) };
        for file in self.store.files(job)? {
            let first = row.spec.first_state(&file.spec, live);
            let change = StateChange {
                job: if row.spec.params.bring_online.is_some() {
                    "STAGING"
                } else {
                    "SUBMITTED"
                },
                file: first.as_str(),
                at: row.spec.submitted,
                reason: None,
                tape: None,
            };
            let subject = self.shared.subject(&row.spec, &file.spec, 1);
            page.write(MessageKind::State, &row.spec.vo, &message::state(&subject, &change));
        }
        Ok(())
    }

    /// Only the first start is reported: a file watched for tape was reported as archiving when it was copied.
    fn began(&self, file: u64, work: Work, at: Millis, page: &mut Lines) -> Result<(), StoreError> {
        let Some(file) = self.store.file(file)?.filter(|_| work == Work::Stage) else {
            return Ok(());
        };
        let Some(row) = self.store.job(file.job)? else {
            return Ok(());
        };
        let change = StateChange {
            job: row.state.as_str(),
            file: FileState::doing(work).as_str(),
            at,
            reason: None,
            tape: Some(&file.tape),
        };
        let subject = self.shared.subject(&row.spec, &file.spec, 1);
        page.write(MessageKind::State, &row.spec.vo, &message::state(&subject, &change));
        Ok(())
    }

    /// Later states of the file have messages of their own.
    fn released(&self, file: u64, page: &mut Lines) -> Result<(), StoreError> {
        let Some((job, file)) = self.rows(file)? else {
            return Ok(());
        };
        let change = StateChange {
            job: self.job_state(job.id)?,
            file: job.params.first_state(&file).as_str(),
            at: weir_service::time::now(),
            reason: None,
            tape: None,
        };
        let subject = self.shared.subject(&job, &file, 1);
        page.write(MessageKind::State, &job.vo, &message::state(&subject, &change));
        Ok(())
    }

    /// Where the hops of a job lead in the end.
    fn final_destination(&self, job: &NewJob, file: &NewFile) -> Result<Option<String>, StoreError> {
        let Some(hops) = job.params.hops else { return Ok(None) };
        let last = (file.id + u64::from(hops)).saturating_sub(u64::from(file.index) + 1);
        Ok(self.store.file(last)?.map(|file| file.spec.destination.to_string()))
    }

    fn ended(&self, op: OpId, change: &Change, page: &mut Lines) -> Result<(), StoreError> {
        let nothing = FileResult::default();
        let (state, file_state, result, at) = match change {
            Change::End { state, result, at, .. } => (Some(*state), *state, result, *at),
            Change::Again { work, result, at, .. } => (None, FileState::waiting(*work), result, *at),
            Change::Advance { next, result, at, .. } => {
                // A copied file has arrived, whatever the result on tape.
                let state = FileState::Finished;
                (
                    Some(state),
                    FileState::waiting(*next),
                    result.as_ref().unwrap_or(&nothing),
                    *at,
                )
            }
            _ => return Ok(()),
        };
        let verdict = verdict(state, result);
        let attempt = self.shared.attempts.lock().get(&op).cloned();
        let known = match attempt {
            Some(attempt) => Some((Some(attempt.times), attempt.job, attempt.file)),
            None => self.rows(op.transfer.0)?.map(|(job, file)| (None, job, file)),
        };
        let Some((times, job, file)) = known else { return Ok(()) };
        let job_state = self.job_state(job.id)?;
        let mut subject = self.shared.subject(&job, &file, op.attempt);
        if let Some(times) = times {
            subject.final_destination = self.final_destination(&job, &file)?;
            let ended = if times.ended == 0 { at } else { times.ended };
            let times = Timeline { ended, ..times };
            let line = message::complete(&subject, &times, verdict, result, job_state);
            page.write(MessageKind::Complete, &job.vo, &line);
        }
        let taped = job.params.bring_online.is_some() || job.params.archive_timeout.is_some();
        let tape = if taped {
            self.store.file(op.transfer.0)?.map(|file| file.tape)
        } else {
            None
        };
        let change = StateChange {
            job: job_state,
            file: file_state.as_str(),
            at,
            reason: result.reason.as_deref(),
            tape: tape.as_ref(),
        };
        page.write(MessageKind::State, &job.vo, &message::state(&subject, &change));
        self.shared.attempts.lock().remove(&op);
        Ok(())
    }

    fn job_state(&self, job: Uuid) -> Result<&'static str, StoreError> {
        Ok(self.store.job(job)?.map_or("ACTIVE", |job| job.state.as_str()))
    }

    fn rows(&self, file: u64) -> Result<Option<(NewJob, NewFile)>, StoreError> {
        let Some(file) = self.store.file(file)? else {
            return Ok(None);
        };
        let job = self.store.job(file.job)?;
        Ok(job.map(|job| (job.spec, file.spec)))
    }

    fn cancelled(
        &self,
        (job, files): (Uuid, &[u64]),
        (at, reason): (Millis, &str),
        page: &mut Lines,
    ) -> Result<(), StoreError> {
        let Some(row) = self.store.job(job)? else { return Ok(()) };
        // All in one statement, unless they are few of many.
        let rows = if files.len() as i64 * FEW > row.counts.files {
            let (cancelled, all) = (files.iter().collect::<HashSet<_>>(), self.store.files(job)?);
            all.into_iter()
                .filter(|file| cancelled.contains(&file.spec.id))
                .collect()
        } else {
            let rows = files.iter().filter_map(|file| self.store.file(*file).transpose());
            rows.collect::<Result<Vec<_>, _>>()?
        };
        for file in rows {
            let change = StateChange {
                job: row.state.as_str(),
                file: FileState::Canceled.as_str(),
                at,
                reason: Some(reason),
                tape: Some(&file.tape),
            };
            let subject = self.shared.subject(&row.spec, &file.spec, file.attempts.max(1));
            page.write(MessageKind::State, &row.spec.vo, &message::state(&subject, &change));
        }
        Ok(())
    }

    /// Tries until the spool takes the page: nothing that was told is to be lost while the disk is full.
    fn append(&mut self, page: &mut Lines) {
        if page.as_bytes().is_empty() {
            return;
        }
        while let Err(error) = self.spool.append(page.as_bytes()) {
            tracing::error!(%error, "could not write to the spool of events; trying again");
            self.shared.meters.troubles.fetch_add(1, Ordering::Relaxed);
            if self.shared.notices.lock().is_none() {
                return;
            }
            std::thread::sleep(TROUBLE_PAUSE);
        }
        for (kind, count) in page.counts() {
            self.shared.meters.written[kind as usize].fetch_add(count, Ordering::Relaxed);
        }
        *page = Lines::default();
        self.head.send_replace(self.spool.end());
    }

    fn keep_house(&mut self, now: bool) {
        let trouble = |error| tracing::error!(%error, "could not keep the spool of events in order");
        if now || self.synced.elapsed() >= SYNC_EVERY {
            self.synced = Instant::now();
            self.spool.sync().unwrap_or_else(trouble);
        }
        if now || self.pruned.elapsed() >= PRUNE_EVERY {
            self.pruned = Instant::now();
            self.spool.prune(self.shared.sinks.needed()).unwrap_or_else(trouble);
        }
    }
}

fn verdict(state: Option<FileState>, result: &FileResult) -> Verdict {
    let stopped = result.reason.as_deref() == Some(CANCELED_REASON) || (result.class.is_none() && state.is_none());
    match state {
        Some(FileState::Finished) => Verdict::Ok,
        Some(FileState::Canceled) => Verdict::Abort,
        _ if stopped => Verdict::Abort,
        _ => Verdict::Error,
    }
}
