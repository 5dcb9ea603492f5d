//! The source writes to the destination.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use http::{HeaderName, HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use weir_auth::StoragePath;
use weir_http::{Body, CarriedBy, body};
use weir_units::{Algorithm, Checksum, Checksums};
use weir_world::{ErrorClass, Party, Phase};

use super::{
    CopyFailure, Remote,
    job::{Done, Progress},
};
use crate::{
    admission::Slot,
    area::Area,
    backend::{BackendError, Reader},
    config::Verify,
    data::{FileBody, Outflow, OutgoingConnection, Watch, blocking},
    digest,
    service::Endpoint,
};

/// A permitted push.
pub(crate) struct Push {
    pub(crate) destination: Remote,
    pub(crate) area: Arc<Area>,
    /// The file's path at this endpoint.
    pub(crate) path: StoragePath,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) stored: Checksums,
    /// Whether the destination may replace an existing file.
    pub(crate) overwrite: bool,
    pub(crate) expected: Vec<Checksum>,
    pub(crate) require_checksum: Option<bool>,
}

impl Push {
    pub(super) async fn run(
        self: Box<Self>,
        endpoint: &Endpoint,
        progress: &Arc<Progress>,
        turn: Slot,
    ) -> Result<Done, CopyFailure> {
        for expected in &self.expected {
            if self
                .stored
                .get(expected.algorithm)
                .is_some_and(|stored| stored != expected)
            {
                let text = format!(
                    "{}: its checksum is not {expected}, which the client expects",
                    self.path
                );
                return Err(CopyFailure::new(
                    ErrorClass::Checksum,
                    Party::Source,
                    Phase::Preparation,
                    text,
                ));
            }
        }
        if !self.overwrite && self.destination.exists().await? {
            let text = format!("{} exists, and Overwrite is F", self.destination.shown());
            return Err(CopyFailure::new(
                ErrorClass::Exists,
                Party::Destination,
                Phase::Preparation,
                text,
            ));
        }
        let sent = Arc::new(Sent::default());
        let answer = self.send(endpoint, progress, &sent, turn).await;
        progress.set_moving(false);
        // Trouble of our own explains the other side's complaint about it.
        let outcome = sent.outcome()?;
        let sent_whole = outcome.is_some() || self.reader.meta().size == 0;
        let taken = outcome.unwrap_or_default();
        self.check_own(&taken)?;
        let answer = answer?;
        progress.reached_by(answer.connection.as_ref());
        if !sent_whole {
            return Err(self.answered_too_early(answer.response.status(), progress));
        }
        let known = merged(&self.stored, &taken);
        let offered = self
            .destination
            .announced(answer.response.headers(), Phase::Finalization)?;
        let verified = self.compare(&known, offered).await?;
        if taken
            .iter()
            .any(|checksum| self.stored.get(checksum.algorithm).is_none())
        {
            let (reader, taken) = (self.reader.clone(), taken.clone());
            blocking(move || reader.keep_checksums(&taken)).await;
        }
        Ok(Done {
            checksums: known,
            verified,
        })
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        progress: &Arc<Progress>,
        sent: &Arc<Sent>,
        turn: Slot,
    ) -> Result<super::remote::Answer, CopyFailure> {
        let size = self.reader.meta().size;
        let algorithms = self.algorithms();
        let answer_timeout = self.destination.tpc.answer_timeout;
        // A copy that only waits for its answer keeps no memory from others.
        let (memory, throttle) = (Arc::downgrade(&turn.memory()), turn.throttle());
        let client = turn.client();
        progress.set_throttle(&throttle);
        let upload = self.destination.put(|request| {
            self.describe(request, size);
            // A redirect may come after bytes, even after all of them: each place begins anew.
            sent.begin();
            progress.moved.store(0, Ordering::Relaxed);
            if size == 0 {
                return Some(body::empty());
            }
            let memory = memory.upgrade().or_else(|| endpoint.memory.floor(Some(&client)).ok())?;
            let carried = CarriedBy::default();
            request.extensions_mut().insert(carried.clone());
            progress.set_moving(true);
            let watch = PushedBody {
                path: self.path.clone(),
                sent: sent.clone(),
                progress: progress.clone(),
                carried: carried.clone(),
            };
            let body = FileBody::new(
                self.reader.clone(),
                endpoint.blocks.clone(),
                Outflow::new(memory, OutgoingConnection::Request(carried), throttle.another())
                    .accounts_to(progress.times.clone()),
                0..size,
                None,
                &algorithms,
                progress.moved.clone(),
                watch,
            );
            Some(body.boxed_unsync())
        });
        tokio::select! {
            outcome = upload => outcome,
            () = sent.silent_for(answer_timeout, turn) => {
                let text = format!("PUT {}: no answer for {answer_timeout:?} after the last byte", self.destination.shown());
                Err(CopyFailure::new(ErrorClass::Timeout, Party::Destination, Phase::Finalization, text))
            }
        }
    }

    fn describe(&self, request: &mut Request<Body>, size: u64) {
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        );
        digest::ask(&self.area.algorithms, headers);
        let announced: Vec<String> = self.stored.iter().map(Checksum::digest_header).collect();
        if !announced.is_empty()
            && let Ok(value) = HeaderValue::from_str(&announced.join(","))
        {
            headers.insert(HeaderName::from_static("digest"), value);
        }
        if !self.overwrite {
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
    }

    /// Taken while sending: one stored checksum, to notice that the file has rotted; or all of the area's own, if it has none.
    fn algorithms(&self) -> Vec<Algorithm> {
        let own = &self.area.algorithms;
        if let Some(one) = self
            .stored
            .iter()
            .map(|checksum| checksum.algorithm)
            .find(|one| own.contains(one))
        {
            return vec![one];
        }
        if own.is_empty() && self.required() {
            return vec![Algorithm::Adler32];
        }
        own.clone()
    }

    fn required(&self) -> bool {
        self.require_checksum
            .unwrap_or(self.destination.tpc.verify == Verify::Required)
    }

    /// A yes to a file that was not sent whole is no yes.
    fn answered_too_early(&self, status: StatusCode, progress: &Progress) -> CopyFailure {
        let text = format!(
            "PUT {}: answered {status} after {} of {} bytes",
            self.destination.shown(),
            progress.moved.load(Ordering::Relaxed),
            self.reader.meta().size
        );
        CopyFailure::new(ErrorClass::Protocol, Party::Destination, Phase::Transfer, text)
    }

    /// The sent bytes must equal those that once came in.
    fn check_own(&self, taken: &Checksums) -> Result<(), CopyFailure> {
        for now in taken.iter() {
            let then = self
                .stored
                .get(now.algorithm)
                .or_else(|| self.expected.iter().find(|one| one.algorithm == now.algorithm));
            if let Some(then) = then.filter(|then| *then != now) {
                let text = format!(
                    "{}: it reads as {now}, it should be {then}: it is damaged, or it changed",
                    self.path
                );
                return Err(CopyFailure::new(
                    ErrorClass::Checksum,
                    Party::Source,
                    Phase::Finalization,
                    text,
                ));
            }
        }
        Ok(())
    }

    /// Compares with the destination's checksums; requests them if required. Returns whether any was compared.
    async fn compare(&self, known: &Checksums, offered: Vec<Checksum>) -> Result<bool, CopyFailure> {
        let comparable = |offered: &[Checksum]| {
            offered
                .iter()
                .filter(|theirs| known.get(theirs.algorithm).is_some())
                .cloned()
                .collect::<Vec<_>>()
        };
        let mut theirs = comparable(&offered);
        if theirs.is_empty() && self.required() {
            let algorithms: Vec<Algorithm> = known.iter().map(|checksum| checksum.algorithm).collect();
            theirs = comparable(&self.destination.look(&algorithms).await?.checksums);
            if theirs.is_empty() {
                let text = format!(
                    "{} gives no checksum to compare, and one is required",
                    self.destination.shown()
                );
                return Err(CopyFailure::new(
                    ErrorClass::Checksum,
                    Party::Destination,
                    Phase::Finalization,
                    text,
                ));
            }
        }
        for checksum in &theirs {
            if let Some(ours) = known.get(checksum.algorithm).filter(|ours| *ours != checksum) {
                let text = format!("{} has {checksum}, {ours} was sent", self.destination.shown());
                return Err(CopyFailure::new(
                    ErrorClass::Checksum,
                    Party::Destination,
                    Phase::Finalization,
                    text,
                ));
            }
        }
        Ok(!theirs.is_empty())
    }
}

fn merged(stored: &Checksums, taken: &Checksums) -> Checksums {
    stored.iter().chain(taken.iter()).cloned().collect()
}

/// How the sending went, on our side.
#[derive(Default)]
struct Sent {
    outcome: Mutex<Option<Result<Checksums, CopyFailure>>>,
    ended: tokio::sync::Notify,
}

impl Sent {
    /// Resets the progress after a redirect.
    fn begin(&self) {
        *self.outcome.lock() = None;
    }

    fn end(&self, outcome: Result<Checksums, CopyFailure>) {
        *self.outcome.lock() = Some(outcome);
        self.ended.notify_one();
    }

    /// None if not all was sent.
    fn outcome(&self) -> Result<Option<Checksums>, CopyFailure> {
        self.outcome.lock().take().transpose()
    }

    /// Ends that much later than the last byte, of the last place if there are several. A copy that only waits for its
    /// answer takes no place from others.
    async fn silent_for(&self, time: Duration, turn: Slot) {
        self.ended.notified().await;
        drop(turn);
        loop {
            let again = tokio::time::timeout(time, self.ended.notified()).await;
            if again.is_err() && self.has_ended() {
                return;
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.outcome.lock().is_some()
    }
}

/// The file on its way to the destination.
struct PushedBody {
    path: StoragePath,
    sent: Arc<Sent>,
    progress: Arc<Progress>,
    carried: CarriedBy,
}

impl Watch for PushedBody {
    fn begins(&mut self) {
        self.progress.first_byte.get_or_init(Instant::now);
        self.progress.reached_by(self.carried.connection().as_ref());
        self.progress.moves_there();
    }

    fn completed(&mut self, checksums: Option<Checksums>) {
        self.progress.set_moving(false);
        self.sent.end(Ok(checksums.unwrap_or_default()));
    }

    fn failed(&mut self, error: &BackendError) {
        self.sent.end(Err(CopyFailure::backend(
            Party::Source,
            Phase::Transfer,
            &self.path,
            error,
        )));
    }
}
