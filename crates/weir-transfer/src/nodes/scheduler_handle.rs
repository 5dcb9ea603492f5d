//! The driver, while this process leads; and how submissions get in while it does not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use weir_sched::{Names, Scheduler};
use weir_world::Seq;

use weir_store::blocking;

use super::Membership;
use crate::{
    driver::{Answer, Driver, Meter, NotTaken, Request},
    store::{Change, Durable, StoreError, Submission, Writer},
};

/// Longest wait of a request for a store that does not write. Reads before it may have taken some seconds too.
const PATIENCE: Duration = Duration::from_secs(7);

/// How often it is looked whether the store writes.
const LOOK: Duration = Duration::from_millis(250);

/// The door's handle on the current receiver of its requests. Clones share it.
#[derive(Clone)]
pub struct SchedulerHandle {
    driver: watch::Sender<Option<Driver>>,
    /// With a database that other nodes may use.
    entry: Option<Arc<SubmissionEntry>>,
}

impl SchedulerHandle {
    /// A handle without a receiver.
    pub fn new(entry: Option<Arc<SubmissionEntry>>) -> Self {
        Self {
            driver: watch::channel(None).0,
            entry,
        }
    }

    /// This node schedules from now on.
    pub fn take(&self, driver: Driver) {
        self.driver.send_replace(Some(driver));
    }

    /// Takes the driver off; it goes on until it is shut down.
    pub fn vacate(&self) -> Option<Driver> {
        self.driver.send_replace(None)
    }

    /// The driver, if this process leads.
    pub fn driver(&self) -> Option<Driver> {
        self.driver.borrow().clone()
    }

    /// Whether this process leads.
    pub fn is_taken(&self) -> bool {
        self.driver.borrow().is_some()
    }

    /// Hands a request over and waits for its answer: not for longer than 7 s while the store does not write.
    pub async fn ask(&self, make: impl FnOnce(oneshot::Sender<Answer>) -> Request<Scheduler>) -> Answer {
        let begun = Instant::now();
        let mut asked = std::pin::pin!(self.ask_and_wait(make));
        loop {
            match tokio::time::timeout(LOOK, asked.as_mut()).await {
                Ok(answer) => return answer,
                Err(_) if begun.elapsed() >= PATIENCE => {
                    if let Some(why) = self.does_not_write() {
                        // It may yet be written, as soon as the store works again.
                        return Err(NotTaken::Unknown(why));
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Why nothing is written, if that is so.
    fn does_not_write(&self) -> Option<String> {
        let busy = match (self.driver(), &self.entry) {
            (Some(driver), _) => driver.busy_for(),
            (None, Some(entry)) => entry.writer.busy_for(),
            (None, None) => Duration::ZERO,
        };
        let slow = || (busy >= PATIENCE / 2).then(|| format!("the store has not written for {} s", busy.as_secs()));
        self.trouble().or_else(slow)
    }

    async fn ask_and_wait(&self, make: impl FnOnce(oneshot::Sender<Answer>) -> Request<Scheduler>) -> Answer {
        let Some(driver) = self.driver() else {
            return match &self.entry {
                Some(entry) => entry.ask(make).await,
                None => Err(NotTaken::Busy("the service is stopping".into())),
            };
        };
        let Some(entry) = &self.entry else {
            return driver.ask(make).await;
        };
        if let Some(trouble) = entry.membership.trouble() {
            return Err(NotTaken::Busy(trouble));
        }
        let mut job = None;
        let answer = driver
            .ask(|reply| {
                let request = make(reply);
                if let Request::Submit { submission, .. } = &request {
                    job = Some((submission.job.id, submission.files.first().map(|file| file.id)));
                }
                request
            })
            .await;
        match (&answer, job) {
            (Err(NotTaken::Busy(_)), Some((job, first))) if driver.is_stopped() => entry.find_out(job, first).await,
            _ => answer,
        }
    }

    /// Looks at the core between two steps. `None`: it is not here.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Scheduler, &Names, &Meter) -> T + Send + 'static,
    ) -> Option<T> {
        self.driver()?.look(look).await
    }

    /// Changes whenever transfers have come to their end, durably.
    pub fn settled(&self) -> watch::Receiver<u64> {
        match self.driver() {
            Some(driver) => driver.settled(),
            None => watch::channel(0).1,
        }
    }

    /// The problem that keeps the service from working, if there is one.
    pub fn trouble(&self) -> Option<String> {
        match (self.driver(), &self.entry) {
            (Some(driver), None) => driver.trouble(),
            (Some(driver), Some(entry)) => driver.trouble().or_else(|| entry.membership.trouble()),
            (None, Some(entry)) => entry.trouble(),
            (None, None) => Some("the service is starting or stopping".into()),
        }
    }

    /// Rows of the store that were passed over when the service started, for people.
    pub fn unreadable(&self) -> Vec<String> {
        self.driver().map(|driver| driver.unreadable()).unwrap_or_default()
    }

    /// Changes that the store would not take, in this life.
    pub fn set_aside(&self) -> u64 {
        let driver = self.driver().map_or(0, |driver| driver.set_aside());
        driver + self.entry.as_ref().map_or(0, |entry| entry.writer.set_aside())
    }

    /// Ends the driver, if there is one.
    pub async fn shutdown(&self) {
        if let Some(driver) = self.vacate() {
            driver.shutdown().await;
        }
        if let Some(entry) = self.entry.clone() {
            let _ = tokio::task::spawn_blocking(move || entry.writer.close()).await;
        }
    }
}

/// Takes submissions at a node that does not lead, and the claims of its copies.
pub struct SubmissionEntry {
    membership: Arc<Membership>,
    writer: Arc<Writer>,
    waiting: Arc<Mutex<Waiting>>,
    numbers: AtomicU64,
}

type Waiting = std::collections::BTreeMap<Seq, oneshot::Sender<Answer>>;

/// Submissions that wait for the database, at most.
const WAITING_MAX: usize = 4096;

impl SubmissionEntry {
    /// Of this node.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn new(membership: Arc<Membership>) -> Result<Arc<Self>, StoreError> {
        let waiting = Arc::new(Mutex::new(Waiting::new()));
        let (answers, depositor) = (waiting.clone(), membership.clone());
        let deposit = move |changes: &[Change]| depositor.store.deposit(depositor.node().id, changes);
        let tell = move |durable| match durable {
            Durable::UpTo(seq) => {
                let mut waiting = answers.lock();
                let later = waiting.split_off(&seq.next());
                for (_, reply) in std::mem::replace(&mut *waiting, later) {
                    let _ = reply.send(Ok(()));
                }
            }
            Durable::Refused(seq, error) => {
                if let Some(reply) = answers.lock().remove(&seq) {
                    let _ = reply.send(Err(NotTaken::of(&error)));
                }
            }
            // Nothing but submissions and notes comes in here.
            Durable::SetAside { .. } | Durable::LeadershipLost => {}
        };
        let writer = Writer::start(deposit, tell).map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Arc::new(Self {
            membership,
            writer: Arc::new(writer),
            waiting,
            numbers: AtomicU64::new(0),
        }))
    }

    /// The writer for claims of copies.
    pub fn writer(&self) -> Arc<Writer> {
        self.writer.clone()
    }

    async fn ask(&self, make: impl FnOnce(oneshot::Sender<Answer>) -> Request<Scheduler>) -> Answer {
        if let Some(trouble) = self.trouble() {
            return Err(NotTaken::Busy(trouble));
        }
        let (reply, answer) = oneshot::channel();
        match make(reply) {
            Request::Submit { submission, reply } => self.submit(submission, reply)?,
            // Others come here only when the lead was just lost.
            _ => return Err(NotTaken::Busy("another node is becoming the scheduler".into())),
        }
        answer
            .await
            .unwrap_or_else(|_| Err(NotTaken::Unknown("the service is stopping".into())))
    }

    fn submit(&self, submission: Box<Submission>, reply: oneshot::Sender<Answer>) -> Answer {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            return Err(NotTaken::Busy("too many requests wait".into()));
        }
        // Numbers must reach the writer in their order.
        let seq = Seq(self.numbers.fetch_add(1, Ordering::Relaxed) + 1);
        waiting.insert(seq, reply);
        self.writer.push(seq, vec![Change::Submit(submission)]);
        Ok(())
    }

    /// Looks up a job whose scheduler lost its leadership while the job was on its way. That scheduler can no longer
    /// write it.
    async fn find_out(&self, job: uuid::Uuid, first: Option<u64>) -> Answer {
        let store = self.membership.store.clone();
        let found = blocking(move || {
            let store: &dyn crate::store::Store = store.as_ref();
            // Waits for the statements that the database still runs.
            store.renew().or_else(|error| match error {
                StoreError::LeadershipLost => Ok(()),
                other => Err(other),
            })?;
            store.files(job)
        });
        match found.await {
            Ok(files) if !files.is_empty() && files.first().map(|file| file.spec.id) == first => Ok(()),
            Ok(_) => Err(NotTaken::Busy("another node is becoming the scheduler".into())),
            Err(error) => Err(NotTaken::Unknown(error.to_string())),
        }
    }

    fn trouble(&self) -> Option<String> {
        self.writer.trouble().or_else(|| self.membership.trouble())
    }
}
