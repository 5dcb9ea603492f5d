//! The ends of attempts, and the steps that follow them.

use std::time::Duration;

use weir_units::Bytes;
use weir_world::{OpId, Outcome, Party, TransferId};

use super::outbox::Then;
use super::table::State;
use super::{Effect, Scheduler};
use crate::policy::{Join, Sample};
use crate::retry::History;
use crate::{End, Next, Record, Settled, Staging, Work};

/// Markers that follow each other more closely tell nothing about a rate.
const MARK_MIN: Duration = Duration::from_secs(1);

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done {
                bytes,
                mode,
                counted,
                first_byte,
            } => Self::Done {
                bytes,
                mode,
                counted,
                first_byte,
            },
            Outcome::Ready => Self::Ready,
            Outcome::Failed(failure) => Self::Failed(failure),
            Outcome::Stopped { bytes_moved } => Self::Stopped { bytes_moved },
        }
    }
}

impl Scheduler {
    /// Ends a running operation: its slot is free at once, the next step is recorded.
    pub(super) fn end(&mut self, op: OpId, end: End, effects: &mut Vec<Effect>) {
        let Some(row) = self.running(op) else { return };
        let next = self.decide_next(row, &end);
        if let (End::Failed(_), Next::Cleanup { .. }) = (&end, next) {
            self.table[row].free_retries += 1;
        }
        if !self.table[row].is_apart() {
            self.learn(row, &end);
        }
        let reported = self.operations.get(self.table[row].operation()).rate;
        self.operations.remove(self.table[row].operation());
        self.free(row, reported);
        self.table[row].state = State::Loose;
        let awaits = matches!(&end, End::Failed(failure) if failure.party == Party::Issuer);
        self.table[row].set_awaits_issuer(awaits);
        if let (End::Done { bytes, .. } | End::Adopted { bytes }, Next::Finished | Next::Queued { .. }) = (&end, next) {
            self.totals.finished_bytes += *bytes;
            self.policy.counts(self.table[row].lane).finished_bytes += *bytes;
        }
        let released = next.settled().and_then(|settled| self.successor(row, settled));
        let then = next
            .settled()
            .map_or(Then::Nothing, |state| Then::Settle(op.transfer, state));
        let record = Record::Ended {
            op,
            end,
            next,
            released,
        };
        self.persist(record, then, effects);
        self.follow(row, next, released);
    }

    /// An operation tells how many bytes it has moved.
    pub(super) fn progress(&mut self, row: u32, moved: Bytes) {
        let operation = self.table[row].operation();
        if let Some((bytes, seconds)) = self.operations.mark(operation, moved, self.now, MARK_MIN) {
            let sample = self.sample(row, bytes, seconds, false);
            let rate = self.policy.moved(self.table[row].lane, sample, self.now);
            self.operations.report(operation, rate);
        }
    }

    /// The measured throughput of an operation's last `seconds`. With `last`, its total is known.
    fn sample(&self, row: u32, bytes: Bytes, seconds: f64, last: bool) -> Sample {
        let operation = self.operations.get(self.table[row].operation());
        Sample {
            bytes: bytes.as_f64(),
            seconds,
            former: operation.rate,
            begins: !operation.reported,
            ends: last,
            weight: 1.0,
        }
    }

    /// Reports the result of an attempt to the policy. A file found at the destination and a lost operation moved
    /// nothing.
    fn learn(&mut self, row: u32, end: &End) {
        let (moved, failure) = match end {
            End::Done { bytes, .. } => (Some(*bytes), None),
            End::Failed(failure) => (Some(failure.bytes_moved), Some((failure.class, failure.party))),
            End::Stopped { bytes_moved } => (Some(*bytes_moved), None),
            End::Adopted { .. } | End::Ready | End::Lost => (None, None),
        };
        let (lane, size, operation) = (self.table[row].lane, self.table[row].size, self.table[row].operation());
        let sample = moved.and_then(|moved| self.operations.mark(operation, moved, self.now, Duration::ZERO));
        if let Some((bytes, seconds)) = sample {
            let sample = self.sample(row, bytes, seconds, true);
            self.policy.moved(lane, sample, self.now);
        }
        if !matches!(end, End::Stopped { .. } | End::Ready | End::Lost) {
            self.policy
                .ended(lane, size, moved.unwrap_or_default(), failure, self.now);
        }
    }

    /// A transfer that has the file is finished, even if it was cancelled meanwhile: the truth is at the destination.
    fn decide_next(&self, row: u32, end: &End) -> Next {
        let history = self.history(row);
        let stopping = self.table[row].stopping();
        let mut terms = self.terms.get(self.table[row].terms).terms;
        // Where the job leaves it to the server, another source is better than another try.
        if terms.retries == 0 && self.has_alternative(row) {
            terms.retries = -1;
        }
        let (terms, entry) = (&terms, &self.table[row]);
        match end {
            End::Done { .. } | End::Adopted { .. } if entry.work() == Work::Copy => {
                match (entry.tape().archive, stopping) {
                    (false, _) => Next::Finished,
                    (true, false) => self.queued_for(Work::Archive, history),
                    // No client waits for the tape operation any more, and only it has finished.
                    (true, true) => Next::Cancelled,
                }
            }
            End::Ready if entry.work() == Work::Archive => Next::Finished,
            End::Ready if entry.work() == Work::Stage && !stopping => match entry.tape().stage {
                Staging::Only => Next::Finished,
                Staging::First | Staging::No => self.queued_for(Work::Copy, history),
            },
            // A tape operation leaves nothing at the destination.
            _ if stopping && entry.work() != Work::Copy => Next::Cancelled,
            End::Lost if stopping => Next::Cleanup {
                not_before: self.retry.cleanup_at(history, self.now),
            },
            // It may not have looked at anything yet.
            End::Failed(failure) if entry.cleaning() => {
                match self.retry.failed_cleanup_at(history, failure, self.now) {
                    Some(not_before) => Next::Cleanup { not_before },
                    None => Next::Cancelled,
                }
            }
            End::Failed(_) | End::Stopped { .. } if stopping => Next::Cancelled,
            End::Failed(failure) => self.retry.after_failure(terms, history, failure, self.now),
            // The stop was not ordered here: the executor shut down in good order.
            End::Lost | End::Stopped { .. } | End::Ready | End::Done { .. } | End::Adopted { .. } => {
                self.retry.after_loss(terms, history, self.now)
            }
        }
    }

    /// One thing is done, and another follows at once.
    fn queued_for(&self, work: Work, history: History) -> Next {
        Next::Queued {
            work,
            not_before: self.now,
            failures: history.failures,
            free_retries: history.free_retries,
            resume: history.resume,
        }
    }

    /// Takes a transfer that holds no slot and is in no queue to its next state, and then the released transfer of its
    /// route.
    pub(super) fn follow(&mut self, row: u32, next: Next, released: Option<TransferId>) {
        match next {
            Next::Finished | Next::Failed | Next::Cancelled => {
                let settled = next.settled().expect("these are the final states");
                self.count_end(row, settled);
                self.hand_over(row, released);
                self.forget(row);
            }
            Next::Queued {
                work,
                not_before,
                failures,
                free_retries,
                resume,
            } => {
                let entry = &mut self.table[row];
                entry.failures = failures;
                entry.free_retries = free_retries;
                entry.set_resume(resume);
                let again = entry.work() == work;
                entry.set_work(work);
                if again {
                    self.count_retry(row);
                }
                let join = if again { Join::Front } else { Join::Back };
                self.enqueue(row, self.level(row), join, not_before);
            }
            Next::Cleanup { not_before } => {
                let entry = &mut self.table[row];
                entry.set_stopping();
                entry.set_resume(true);
                self.count_retry(row);
                self.enqueue(row, self.level(row), Join::Front, not_before);
            }
        }
    }

    pub(super) fn count_end(&mut self, row: u32, settled: Settled) {
        for counts in [self.policy.counts(self.table[row].lane), &mut self.totals] {
            match settled {
                Settled::Finished => counts.finished += 1,
                Settled::Failed => counts.failed += 1,
                Settled::Cancelled => counts.cancelled += 1,
            }
        }
    }

    fn count_retry(&mut self, row: u32) {
        self.policy.counts(self.table[row].lane).retried += 1;
        self.totals.retried += 1;
    }

    fn history(&self, row: u32) -> History {
        let row = &self.table[row];
        History {
            transfer: row.id,
            work: row.work(),
            attempt: row.attempt,
            failures: row.failures,
            free_retries: row.free_retries,
            resume: row.resume(),
        }
    }
}
