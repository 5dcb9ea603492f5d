//! The context of an attempt, and the notes of its steps.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use http::Request;
use parking_lot::MutexGuard;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use weir_http::{Body, Client, Handed};
use weir_units::Bytes;
use weir_world::{ErrorClass, Failure, OpId, Phase};

use crate::{
    ExecutorSettings, Modes,
    clock::AttemptClock,
    requests::wire::Side,
    steps::{
        stat::{Patience, Stat, stat},
        trace::{State, Trace},
        verify::Expected,
    },
    tape::Tapes,
};
use weir_service::time;

use crate::{
    job::{File, NewJob, Overwrite, SIZE_MAX},
    orders::Journal,
    timeline::{Span, Timeline},
};

/// A longer time to the first byte is not believed.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Everything an attempt needs.
pub(crate) struct Attempt<'a> {
    pub(crate) client: &'a Client,
    pub(crate) settings: &'a ExecutorSettings,
    pub(crate) modes: &'a Modes,
    /// The right to hold a second connection.
    pub(crate) relays: &'a Semaphore,
    pub(crate) tapes: &'a Tapes,
    pub(crate) source: &'a Side,
    pub(crate) destination: &'a Side,
    pub(crate) job: &'a NewJob,
    pub(crate) file: &'a File,
    pub(crate) expected: Expected,
    pub(crate) op: OpId,
    /// An earlier attempt may have left something.
    pub(crate) resume: bool,
    /// Earlier failures that counted.
    pub(crate) failures: u8,
    /// Limit for the copy itself.
    pub(crate) wall: Duration,
    pub(crate) stop: &'a CancellationToken,
    /// Where claims are made durable.
    pub(crate) journal: &'a dyn Journal,
    pub(crate) progress: &'a (dyn Fn(u64) + Send + Sync),
    /// Tells in which state it is.
    pub(crate) clock: &'a AttemptClock,
    pub(crate) state: State,
}

impl Attempt<'_> {
    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.state.trace.lock()
    }

    /// An order to write is about to be sent.
    pub(crate) fn order_goes_out(&self, request: &mut Request<Body>) {
        let order = Handed::watch(request);
        let mut trace = self.trace();
        (trace.order, trace.verdict, trace.first_byte) = (Some(order), None, None);
    }

    /// An order was answered, or will not be. `taken`: it may have had an effect.
    pub(crate) fn order_came_back(&self, taken: bool) {
        let mut trace = self.trace();
        trace.order = None;
        trace.begun |= taken;
    }

    /// A storage has said how an order ended.
    pub(crate) fn order_is_over(&self, success: bool) {
        self.trace().verdict = Some(success);
    }

    /// A mode failed.
    pub(crate) fn note_failure(&self, failure: &Failure) {
        self.trace().exists |= failure.class == ErrorClass::Exists;
    }

    /// The timeline of the attempt; a phase still under way ends now.
    pub(crate) fn timeline(&self) -> Timeline {
        let (times, now) = (self.trace().times, time::now());
        let close = |span: Option<Span>| {
            span.map(|span| Span {
                to: if span.to == 0 { now } else { span.to },
                ..span
            })
        };
        Timeline {
            source_checksum: close(times.source_checksum),
            copy: close(times.copy),
            destination_checksum: close(times.destination_checksum),
            ended: now,
            ..times
        }
    }

    /// Times a step.
    pub(crate) async fn timed<T>(
        &self,
        step: fn(&mut Timeline) -> &mut Option<Span>,
        work: impl Future<Output = T>,
    ) -> T {
        let from = time::now();
        *step(&mut self.trace().times) = Some(Span { from, to: 0 });
        let done = work.await;
        *step(&mut self.trace().times) = Some(Span { from, to: time::now() });
        done
    }

    /// Reports the bytes moved so far, in all, capped at the file's size. Bytes that were not reported come with the
    /// end.
    pub(crate) fn moved(&self, bytes: u64) {
        let bytes = bytes.min(self.trace().source_size.unwrap_or(SIZE_MAX)).min(SIZE_MAX);
        if self.state.moved.fetch_max(bytes, Ordering::Relaxed) < bytes && self.state.is_due(Instant::now()) {
            (self.progress)(bytes);
        }
    }

    /// A copy has succeeded, and so many bytes were seen moving: not bounded by the source's size, with which it is compared.
    pub(crate) fn counted(&self, bytes: Option<u64>) {
        self.trace().counted = bytes.map(|bytes| bytes.min(SIZE_MAX));
    }

    /// The first byte of data took so long from the order on.
    pub(crate) fn first_byte(&self, after: Duration) {
        // Senseless beyond the life of a transfer, and no store could keep all that a storage may write.
        self.trace().first_byte = Some(after).filter(|after| *after <= FIRST_BYTE_MAX);
    }

    pub(crate) fn bytes_moved(&self) -> Bytes {
        Bytes(self.state.moved.load(Ordering::Relaxed))
    }

    /// Whether an existing destination is replaced unless it is on tape already.
    pub(crate) fn replaces_on_disk(&self) -> bool {
        let params = &self.job.params;
        let asked = matches!(params.overwrite, Overwrite::OnDisk | Overwrite::HopOnDisk);
        asked && !params.is_on_the_way(self.file.spec.index)
    }

    pub(crate) async fn look(&self, side: &Side, phase: Phase, digest: bool) -> Result<Option<Stat>, Failure> {
        let patience = Patience {
            plain: self.settings.response_timeout,
            digest: self.settings.checksum_timeout,
        };
        Box::pin(stat(
            self.client,
            side,
            phase,
            digest.then_some(self.expected.algorithm),
            patience,
        ))
        .await
    }

    fn is_only_on_disk(&self) -> bool {
        self.trace().locality.as_deref() == Some("DISK")
    }

    /// Whether a file at the destination may be replaced.
    pub(crate) fn may_overwrite(&self) -> bool {
        let params = &self.job.params;
        match params.overwrite {
            Overwrite::Yes => true,
            Overwrite::No => false,
            // An attempt that staged the file, or was cut off by a restart, has tried nothing.
            Overwrite::OnRetry => self.failures > 0,
            Overwrite::Hop => params.is_on_the_way(self.file.spec.index),
            Overwrite::OnDisk => self.is_only_on_disk(),
            Overwrite::HopOnDisk => params.is_on_the_way(self.file.spec.index) || self.is_only_on_disk(),
        }
    }
}
