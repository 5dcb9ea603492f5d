//! Pending answers: each is given when the core acknowledges its record.

use std::collections::HashMap;

use tokio::sync::oneshot;
use uuid::Uuid;
use weir_sched::{JobId, Record, Refusal, Ticket, Work};
use weir_units::Timestamp;
use weir_world::{Seq, TransferId};

use super::depth::Full;
use super::records::{ended, millis, started, uuid};
use crate::store::{Change, Conflict, StoreError, Submission};

/// The result of a request.
pub(crate) type Answer = Result<(), NotTaken>;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// The service has more than it can take, or cannot write; come again.
    #[error("{0}")]
    Busy(String),
    /// The job exists already.
    #[error("job {0} exists already")]
    Duplicate(Uuid),
    /// A transfer to this destination is under way, and its VO wants one writer.
    #[error("a transfer to {0} is under way")]
    Taken(String),
    /// More waits already than may wait.
    #[error("{}", .0.reason)]
    Full(Full),
    /// It is unknown at the moment whether the request was carried out.
    #[error("{0}")]
    Unknown(String),
    /// A defect.
    #[error("{0}")]
    Broken(String),
}

impl NotTaken {
    /// The refusal for changes that the store will never take.
    pub fn of(error: &StoreError) -> Self {
        match error.refusal() {
            Some(Conflict::Duplicate(job)) => Self::Duplicate(*job),
            Some(Conflict::Taken(destination)) => Self::Taken(destination.clone()),
            Some(Conflict::NoLease(_)) | None => Self::Broken(error.to_string()),
        }
    }
}

/// A request on its way to its record.
pub(super) enum Pending {
    Cancel { job: Uuid, whole: bool, reason: String },
    Priority { job: Uuid },
    Settings { changes: Vec<Change> },
    Force(Forcing),
}

/// Called with the ids that are forced, perhaps none, before this is durable: returns the changes to store with it.
pub type Forcing = Box<dyn FnOnce(&[u64]) -> Vec<Change> + Send>;

#[derive(Default)]
pub(super) struct PendingAnswers {
    jobs: HashMap<JobId, (Box<Submission>, oneshot::Sender<Answer>)>,
    tickets: HashMap<Ticket, (Pending, oneshot::Sender<Answer>)>,
    acks: HashMap<Seq, oneshot::Sender<Answer>>,
    /// Why files that are being stopped were cancelled; lost at a restart, which then says the usual.
    reasons: HashMap<TransferId, String>,
    /// Operations that are not copies.
    works: HashMap<TransferId, Work>,
    last_ticket: u64,
}

impl PendingAnswers {
    /// Takes a submission; its record will come under its job.
    pub(super) fn submission(&mut self, job: JobId, submission: Box<Submission>, reply: oneshot::Sender<Answer>) {
        self.jobs.insert(job, (submission, reply));
    }

    /// Takes any other request; its record will come under this ticket.
    pub(super) fn ticket(&mut self, pending: Pending, reply: oneshot::Sender<Answer>) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.tickets.insert(ticket, (pending, reply));
        ticket
    }

    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.jobs.len() + self.tickets.len() + self.acks.len()
    }

    /// The changes of a record. Its waiting client is answered at its acknowledgement.
    pub(super) fn changes(&mut self, seq: Seq, record: &Record, now: Timestamp) -> Vec<Change> {
        match record {
            Record::Submitted(spec) => match self.jobs.remove(&spec.job) {
                Some((mut submission, reply)) => {
                    self.acks.insert(seq, reply);
                    submission.live = spec.routes.first().map(|route| spec.transfers[route.live].id.0);
                    vec![Change::Submit(submission)]
                }
                None => Vec::new(),
            },
            Record::Started { op, work } => {
                if *work != Work::Copy {
                    self.works.insert(op.transfer, *work);
                }
                vec![started(*op, *work, now)]
            }
            Record::Ended {
                op,
                end,
                next,
                released,
            } => {
                let reason = if next.settled().is_some() {
                    self.reasons.remove(&op.transfer)
                } else {
                    None
                };
                let work = self.works.remove(&op.transfer).unwrap_or_default();
                let mut changes = vec![ended(*op, work, end, *next, now, reason)];
                changes.extend(released.map(|next| Change::Release { file: next.0 }));
                changes
            }
            Record::Cancelled {
                ticket,
                settled,
                stopping,
                released,
            } => {
                let mut changes = self.cancelled(seq, *ticket, settled, stopping, now);
                changes.extend(released.iter().map(|next| Change::Release { file: next.0 }));
                changes
            }
            Record::PrioritySet { ticket, priority, .. } => match self.redeem(seq, *ticket) {
                Some(Pending::Priority { job }) => vec![Change::Priority {
                    job,
                    priority: priority.get(),
                }],
                _ => Vec::new(),
            },
            Record::SettingsChanged { ticket, .. } => match self.redeem(seq, *ticket) {
                Some(Pending::Settings { changes }) => changes,
                _ => Vec::new(),
            },
            Record::Forced { ticket, transfers } => match self.redeem(seq, *ticket) {
                Some(Pending::Force(forcing)) => forced(forcing, transfers),
                _ => Vec::new(),
            },
            // The driver writes learned values: it knows the names.
            Record::Learned(_) | Record::Live(_) => Vec::new(),
        }
    }

    fn cancelled(
        &mut self,
        seq: Seq,
        ticket: Ticket,
        settled: &[TransferId],
        stopping: &[TransferId],
        now: Timestamp,
    ) -> Vec<Change> {
        let Some(Pending::Cancel { job, whole, reason }) = self.redeem(seq, ticket) else {
            return Vec::new();
        };
        for transfer in stopping {
            self.reasons.insert(*transfer, reason.clone());
        }
        let ids = |transfers: &[TransferId]| transfers.iter().map(|transfer| transfer.0).collect();
        let (settled, stopping) = (ids(settled), ids(stopping));
        vec![Change::Cancel {
            job,
            whole,
            settled,
            stopping,
            at: millis(now),
            reason,
        }]
    }

    fn redeem(&mut self, seq: Seq, ticket: Ticket) -> Option<Pending> {
        let (pending, reply) = self.tickets.remove(&ticket)?;
        self.acks.insert(seq, reply);
        Some(pending)
    }

    /// The record is durable.
    pub(super) fn acknowledge(&mut self, seq: Seq) {
        if let Some(reply) = self.acks.remove(&seq) {
            // The client may have disconnected; the job stays accepted.
            let _ = reply.send(Ok(()));
        }
    }

    /// The store will never take this record.
    pub(super) fn refuse(&mut self, seq: Seq, error: &StoreError) {
        if let Some(reply) = self.acks.remove(&seq) {
            let _ = reply.send(Err(NotTaken::of(error)));
        }
    }

    /// Nothing is acknowledged any more. Records on their way to the store may have been written all the same.
    pub(super) fn leave(&mut self) {
        for (_, reply) in self.acks.drain() {
            let _ = reply.send(Err(NotTaken::Unknown("the service is stopping".into())));
        }
    }

    /// The core did not take a job.
    /// Gives the job's first file.
    pub(super) fn turned_away(&mut self, job: JobId, refusal: Refusal) -> Option<u64> {
        let mut first = None;
        if let Some((submission, reply)) = self.jobs.remove(&job) {
            first = submission.files.first().map(|file| file.id);
            let answer = match refusal {
                Refusal::QueueFull { .. } => NotTaken::Busy(refusal.to_string()),
                Refusal::Duplicate(_) => NotTaken::Duplicate(uuid(job)),
            };
            let _ = reply.send(Err(answer));
        }
        first
    }
}

fn forced(forcing: Forcing, transfers: &[TransferId]) -> Vec<Change> {
    let files = transfers.iter().map(|transfer| transfer.0).collect::<Vec<_>>();
    let mut changes = forcing(&files);
    if !files.is_empty() {
        changes.push(Change::Force { files });
    }
    changes
}
