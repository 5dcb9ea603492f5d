//! The FTS3 REST API as an injection door.

mod delegation;
mod token_sums;

pub(crate) use self::delegation::Renewal;
pub(crate) use self::token_sums::TokenSums;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;
use weir_auth::Secret;
use weir_fts_api::{File, FtsClient, FtsCredential, FtsError, FtsTime, Job, NewTransfer, Params, Reason, Submission};
use weir_units::{Algorithm, Checksum};
use weir_world::{ErrorClass, Party};

use crate::inject::injection::{
    Batch, HeldBack, InjectionDoor, InjectionError, JobId, JobState, Observed, Order, Phase, RuleCopy,
};
use crate::services::storage::StorageDoor;

/// Time for one request.
const PATIENCE: Duration = Duration::from_secs(20);

/// Files of a batch whose tokens are asked for at once.
const TOKENS_AT_ONCE: usize = 8;

/// Wait when the service says "later" without saying when.
const LATER: Duration = Duration::from_secs(2);

/// Longest wait that the service may ask for.
const LATER_MAX: Duration = Duration::from_secs(60);

/// File fields asked for when polling; `weir` is ours and absent elsewhere.
const FIELDS: &str = "file_state,file_metadata,dest_surl,reason,start_time,finish_time,retry,weir";

/// A transfer service that speaks the FTS3 REST API.
#[derive(Debug, Clone)]
pub(crate) struct FtsDoor {
    client: FtsClient,
    doors: Arc<Vec<StorageDoor>>,
    /// Name of the run, which no other has.
    run: String,
    /// Whether each file has tokens of its own, which the service renews.
    per_file: bool,
}

/// Metadata of a file, which answers repeat: the number of a transfer of the run, or the id of a request of the catalogue.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    weir_transfer: Option<u64>,
    request_id: Option<String>,
}

impl From<FtsError> for InjectionError {
    fn from(error: FtsError) -> Self {
        let is_busy = error.is_busy();
        match error {
            FtsError::Refused { url, retry_after, .. } if is_busy => Self::Busy {
                door: url,
                after: retry_after.map_or(LATER, |after| after.clamp(Duration::from_secs(1), LATER_MAX)),
            },
            FtsError::Refused {
                url, status, message, ..
            } => Self::Refused {
                door: url,
                status,
                message,
            },
            FtsError::Token { url, source } => Self::Token {
                door: url,
                source: source.into(),
            },
            FtsError::Unreachable { url, source } | FtsError::Senseless { url, source } => {
                Self::Unreachable { door: url, source }
            }
        }
    }
}

impl FtsDoor {
    /// Makes a door to the service, which moves files between `doors` for the run of this name.
    pub(crate) fn new(client: FtsClient, doors: Arc<Vec<StorageDoor>>, run: &str) -> Self {
        Self {
            client: client.patient(PATIENCE),
            doors,
            run: run.to_owned(),
            per_file: false,
        }
    }

    /// Has each file have tokens of its own, which the service renews.
    pub(crate) fn with_tokens_per_file(mut self, per_file: bool) -> Self {
        self.per_file = per_file;
        self
    }

    /// Where the service answers.
    pub(crate) fn url(&self) -> &str {
        self.client.url()
    }

    /// Asks what the transfers of all links waited for. A service of another kind answers 404.
    pub(crate) async fn waits(&self) -> Result<Vec<weir_fts_api::LinkWaits<'static>>, FtsError> {
        self.client.waits().await
    }

    /// Asks for the transfers of jobs that the catalogue submitted; gives their states by the ids of the requests.
    pub(crate) async fn requests(&self, jobs: &[&str]) -> Result<HashMap<String, Observed>, InjectionError> {
        let known = match (self.client.jobs(jobs, FIELDS).await, jobs) {
            (Err(error), [_]) if error.status() == Some(StatusCode::NOT_FOUND) => Vec::new(),
            (known, _) => known?,
        };
        let files = known.into_iter().flat_map(|job| job.files.unwrap_or_default());
        Ok(files.filter_map(|file| of_catalog(&file)).collect())
    }

    /// Names a batch for the service, the same at each try.
    fn sid_of(&self, batch: &Batch) -> String {
        let first = batch.orders.first().map_or(0, |order| order.id);
        format!("{}-{first}", self.run)
    }

    /// The job that the service made of a batch: FTS3 derives ids from VO and `sid`.
    async fn known_job(&self, batch: &Batch) -> Result<JobId, InjectionError> {
        let namespace = self.client.namespace().await?;
        let id = Uuid::new_v5(&namespace, self.sid_of(batch).as_bytes());
        Ok(JobId::Job(id.to_string()))
    }

    /// Tokens to read and to write, by the files of a batch. It is one link: without tokens for each file all have the same. None where the
    /// service acts by a delegated certificate.
    async fn tokens(&self, batch: &Batch) -> Result<Vec<(Secret, Secret)>, InjectionError> {
        if matches!(self.client.credential(), FtsCredential::Certificate) {
            return Ok(Vec::new());
        }
        let (source, destination) = (&self.doors[batch.source], &self.doors[batch.destination]);
        let tokens = if self.per_file {
            let of_file = |order: &Order| {
                let (from, to) = (order.source.clone(), order.destination.clone());
                async move {
                    let read = source.token_of_file(&from, false);
                    tokio::try_join!(read, destination.token_of_file(&to, true))
                }
            };
            let pairs = futures_util::stream::iter(batch.orders.iter().map(of_file));
            pairs.buffered(TOKENS_AT_ONCE).try_collect().await
        } else {
            let pair = async { Ok((source.token_to_read().await?, destination.token_to_write().await?)) };
            pair.await.map(|pair: (Secret, Secret)| vec![pair; batch.orders.len()])
        };
        tokens.map_err(|error: crate::services::storage::StorageError| InjectionError::Token {
            door: self.client.url().to_owned(),
            source: error.into(),
        })
    }

    /// Writes the job that FTS is sent.
    async fn job(&self, batch: &Batch) -> Result<Submission, InjectionError> {
        let (source, destination) = (&self.doors[batch.source], &self.doors[batch.destination]);
        let tokens = self.tokens(batch).await?;
        let file = |(number, order): (usize, &Order)| NewTransfer {
            sources: vec![order.source.clone()],
            destinations: vec![order.destination.clone()],
            source_tokens: tokens.get(number).map(|(read, _)| read.clone()).into_iter().collect(),
            destination_tokens: tokens.get(number).map(|(_, write)| write.clone()).into_iter().collect(),
            filesize: Some(order.size.0),
            checksum: order.checksum.as_ref().map(written),
            activity: Some(batch.activity.clone()),
            metadata: Some(json!({ "weir_transfer": order.id })),
            ..NewTransfer::default()
        };
        let params = Params {
            verify_checksum: Some(verification(
                source.is_without_checksums(),
                destination.is_without_checksums(),
            )),
            overwrite: Some(false),
            unmanaged_tokens: Some(!tokens.is_empty() && !self.per_file),
            id_generator: Some("deterministic"),
            sid: Some(self.sid_of(batch)),
            job_metadata: Some(json!({ "issuer": "weir-challenge", "run": self.run })),
            copy_mode: batch.mode,
            retry: batch.single_attempt.then_some(-1),
            ..Params::default()
        };
        Ok(Submission {
            files: batch.orders.iter().enumerate().map(file).collect(),
            params,
        })
    }
}

/// A checksum in FTS3's form.
fn written(checksum: &Checksum) -> String {
    let name = match checksum.algorithm {
        Algorithm::Adler32 => "ADLER32",
        Algorithm::Crc32c => "CRC32C",
        Algorithm::Md5 => "MD5",
        Algorithm::Sha256 => "SHA-256",
    };
    format!("{name}:{}", checksum.hex())
}

/// The ends whose checksums are compared with the known one; the arguments are true for an end that reports none.
fn verification(source: bool, destination: bool) -> &'static str {
    match (source, destination) {
        (false, false) => "both",
        (true, false) => "target",
        (false, true) => "source",
        (true, true) => "none",
    }
}

impl InjectionDoor for FtsDoor {
    async fn known_as(&self) -> Result<String, InjectionError> {
        let whoami = self.client.whoami().await?;
        let user = match &*whoami.user_dn {
            "" => "a user without a name",
            user => user,
        };
        Ok(format!("{user}, VO {}", whoami.vos.join(", ")))
    }

    async fn submit(&self, batch: &Batch) -> Result<JobId, InjectionError> {
        let job = self.job(batch).await?;
        match self.client.submit(&job).await {
            // Accepted at an earlier try whose answer was lost: a second job would collide with the first one's files.
            Err(error) if error.status() == Some(StatusCode::CONFLICT) => self.known_job(batch).await,
            answer => Ok(JobId::Job(answer?.to_string())),
        }
    }

    async fn observe(&self, jobs: &[JobId]) -> Result<Vec<(JobId, JobState)>, InjectionError> {
        let ids: Vec<&str> = jobs.iter().map(JobId::as_str).collect();
        let known = match (self.client.jobs(&ids, FIELDS).await, jobs) {
            // Of several jobs each has a status of its own.
            (Err(error), [job]) if error.status() == Some(StatusCode::NOT_FOUND) => {
                return Ok(vec![(job.clone(), JobState::Unknown)]);
            }
            (known, _) => known?,
        };
        Ok(known.into_iter().filter_map(state).collect())
    }

    async fn held_back(&self, source: usize, destination: usize) -> Option<HeldBack> {
        let (source, destination) = (self.doors[source].origin(), self.doors[destination].origin());
        // An FTS3 has no such path.
        let link = self.client.why_link(source, destination).await.ok()?;
        held_back(&link.reasons)
    }

    async fn cancel(&self, jobs: &[JobId]) -> Result<(), InjectionError> {
        let ids: Vec<&str> = jobs.iter().map(JobId::as_str).collect();
        Ok(self.client.cancel(&ids).await?)
    }

    async fn remaining(&self, _: &[RuleCopy]) -> Result<BTreeSet<RuleCopy>, InjectionError> {
        Ok(BTreeSet::new()) // no rule was made here
    }
}

fn held_back(reasons: &[Reason<'_>]) -> Option<HeldBack> {
    let texts: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
    let failures = reasons.iter().find(|reason| reason.faults);
    (!texts.is_empty()).then(|| HeldBack {
        text: weir_auth::redact(&texts.join("; ")),
        by_failures: failures.is_some(),
        party: failures.and_then(|reason| Party::parse(reason.party.as_deref()?)),
    })
}

/// Returns the state of a job; `None` where the service could not look.
fn state(job: Job<'_>) -> Option<(JobId, JobState)> {
    let status = job.http_status.as_deref().unwrap_or("200");
    let state = match status.split(' ').next() {
        Some("200") => JobState::Known(job.files.unwrap_or_default().iter().filter_map(own).collect()),
        Some("404") => JobState::Unknown,
        _ => return None,
    };
    Some((JobId::Job(job.job_id?.to_string()), state))
}

fn metadata(file: &File<'_>) -> Option<Metadata> {
    serde_json::from_str(file.file_metadata.as_ref()?.get()).ok()
}

/// Returns the observation of a transfer of ours; `None` for others.
fn own(file: &File<'_>) -> Option<Observed> {
    Some(observed(file, metadata(file)?.weir_transfer?))
}

/// Returns the observation of a transfer of the catalogue, with the id of its request; `None` for others.
fn of_catalog(file: &File<'_>) -> Option<(String, Observed)> {
    Some((metadata(file)?.request_id?, observed(file, 0)))
}

fn observed(file: &File<'_>, id: u64) -> Observed {
    let weir = file.weir.clone().unwrap_or_default();
    let phase = match file.file_state.as_deref().unwrap_or_default() {
        "FINISHED" | "ARCHIVING" => Phase::Finished,
        "FAILED" => Phase::Failed,
        "CANCELED" => Phase::Cancelled,
        "ACTIVE" => Phase::Active,
        _ => Phase::Queued,
    };
    Observed {
        id,
        phase,
        started: moment(weir.started_ms, file.start_time),
        ended: moment(weir.finished_ms, file.finish_time),
        bytes_moved: match phase {
            Phase::Finished => weir.bytes_moved,
            _ => weir.bytes_moved_total.or(weir.bytes_moved),
        },
        counted: weir.counted_bytes,
        first_byte: weir.first_byte_ms.map(Duration::from_millis),
        waits: weir.waits,
        mode: weir.mode.map(Cow::into_owned),
        retries: weir
            .attempts
            .map(|attempts| attempts.saturating_sub(1))
            .or(file.retry)
            .unwrap_or(0),
        class: weir.error_class.as_deref().and_then(ErrorClass::parse),
        party: weir.party.as_deref().and_then(Party::parse),
        failed_in: weir.phase.as_deref().and_then(weir_world::Phase::parse),
        reason: weir_auth::redact(file.reason.as_deref().unwrap_or_default()),
        remedy: weir.remedy.map(Cow::into_owned),
        passages: None,
    }
}

/// Takes the exact moment where there is one, else FTS's own, to the second.
fn moment(millis: Option<i64>, time: Option<FtsTime>) -> Option<SystemTime> {
    millis.map(FtsTime).or(time).map(FtsTime::system)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    fn observed(json: &str) -> Option<Observed> {
        own(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn answers_of_another_fts_are_understood() {
        // Wrong: a grid whose transfer service is not ours cannot be measured.
        let finished = observed(
            r#"{"file_state":"FINISHED","file_metadata":{"weir_transfer":7},"reason":null,
                "start_time":"2026-11-21T11:03:03","finish_time":"2026-11-21T11:03:05","dest_surl":"https://b/x","retry":2}"#,
        )
        .unwrap();
        assert_eq!((finished.id, finished.phase), (7, Phase::Finished));
        assert_eq!((finished.retries, finished.mode, finished.counted), (2, None, None));
        let length = finished
            .ended
            .unwrap()
            .duration_since(finished.started.unwrap())
            .unwrap();
        assert_eq!(length, Duration::from_secs(2));
    }

    #[test]
    fn failures_keep_class_party_and_remedy() {
        // Wrong: the report can name neither the failed party nor the remedy.
        let failed = observed(
            r#"{"file_state":"FAILED","file_metadata":{"weir_transfer":7},"reason":"DESTINATION [28] no space left",
                "start_time":null,"finish_time":null,
                "weir":{"mode":"pull","bytes_moved":4,"bytes_moved_total":12,"started_ms":1,"finished_ms":2,"error_class":"no-space",
                        "party":"destination","phase":"transfer","remedy":"free space","attempts":3}}"#,
        )
        .unwrap();
        assert_eq!(failed.class, Some(ErrorClass::NoSpace));
        assert_eq!((failed.bytes_moved, failed.retries), (Some(12), 2));
    }

    /// A grid of two storages, and the door to its transfer service.
    struct TwoStorages {
        running: weir_grid::EmbeddedGrid,
        doors: Arc<Vec<StorageDoor>>,
        door: FtsDoor,
        _directory: tempfile::TempDir,
    }

    impl TwoStorages {
        async fn start() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let text = "name = \"g\"\n[[rse]]\nname = \"A\"\n[[rse]]\nname = \"B\"\n";
            let grid = weir_model::Grid::parse(text, "g.toml".as_ref()).unwrap();
            let running = weir_grid::EmbeddedGrid::start(&grid, directory.path(), weir_grid::GridOptions::default());
            let running = running.await.unwrap();
            let opened = crate::services::doors::open(&grid, &running, "run-1").unwrap();
            let doors = Arc::new(opened.storage);
            Self {
                door: FtsDoor::new(opened.transfer, doors.clone(), "run-1"),
                running,
                doors,
                _directory: directory,
            }
        }
    }

    /// A submission whose answer was lost is repeated, and must not become a second job: its files would fail because
    /// those of the first exist.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_that_is_submitted_again_is_the_same_job() {
        let grid = TwoStorages::start().await;
        let (doors, door) = (&grid.doors, &grid.door);
        let batch = |id: u64| Batch {
            source: 0,
            destination: 1,
            activity: "test".to_owned(),
            mode: None,
            single_attempt: true,
            rule: None,
            orders: vec![crate::inject::injection::Order {
                id,
                source: doors[0].url_of("/missing"),
                destination: doors[1].url_of(&format!("/{id}")),
                size: weir_units::Bytes(1),
                checksum: None,
                did: None,
            }],
        };
        let job = door.submit(&batch(1)).await.unwrap();
        assert_eq!(door.submit(&batch(1)).await.unwrap(), job);
        assert_ne!(door.submit(&batch(2)).await.unwrap(), job);
        grid.running.shutdown().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_with_tokens_of_its_own_has_them_for_its_path_alone() {
        // Wrong: a token for all files of the run goes with each job, or one that the service may not renew.
        let grid = TwoStorages::start().await;
        let (doors, door) = (&grid.doors, grid.door.clone().with_tokens_per_file(true));
        let order = |id: u64| Order {
            id,
            source: doors[0].url_of(&format!("/from/{id}")),
            destination: doors[1].url_of(&format!("/to/{id}")),
            size: weir_units::Bytes(1),
            checksum: None,
            did: None,
        };
        let batch = Batch {
            source: 0,
            destination: 1,
            activity: "test".to_owned(),
            mode: None,
            single_attempt: true,
            rule: None,
            orders: (0..20).map(order).collect(),
        };
        let tokens = door.tokens(&batch).await.unwrap();
        let scope = |token: &Secret| {
            let claims = token.expose().split('.').nth(1).unwrap().to_owned();
            let claims = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, claims).unwrap();
            let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
            claims["scope"].as_str().unwrap().to_owned()
        };
        for (id, (read, write)) in tokens.iter().enumerate() {
            assert_eq!(scope(read), format!("storage.read:/from/{id} offline_access"));
            assert_eq!(
                scope(write),
                format!("storage.modify:/to/{id} storage.read:/to/{id} offline_access")
            );
        }
        assert_eq!(tokens.len(), 20);
        assert_eq!(door.job(&batch).await.unwrap().params.unmanaged_tokens, Some(false));
        grid.running.shutdown().await.unwrap();
    }

    #[test]
    fn files_of_others_are_left_alone() {
        assert_eq!(observed(r#"{"file_state":"ACTIVE","file_metadata":null}"#), None);
    }

    #[test]
    fn every_state_of_fts_has_a_phase() {
        for (state, phase) in [
            ("SUBMITTED", Phase::Queued),
            ("READY", Phase::Queued),
            ("TOKEN_PREP", Phase::Queued),
            ("STAGING", Phase::Queued),
            ("ON_HOLD", Phase::Queued),
            ("NOT_USED", Phase::Queued),
            ("FORCE_START", Phase::Queued),
            ("ACTIVE", Phase::Active),
            ("FINISHED", Phase::Finished),
            ("FAILED", Phase::Failed),
            ("CANCELED", Phase::Cancelled),
        ] {
            let json = format!(r#"{{"file_state":"{state}","file_metadata":{{"weir_transfer":1}}}}"#);
            assert_eq!(observed(&json).unwrap().phase, phase, "{state}");
        }
    }
}
