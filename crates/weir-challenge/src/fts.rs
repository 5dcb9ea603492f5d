//! The FTS3 REST API as an injection door.

mod delegation;

pub(crate) use self::delegation::Renewal;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;
use weir_auth::Secret;
use weir_units::Algorithm;
use weir_world::{ErrorClass, Party};

use crate::injection::{Batch, HeldBack, InjectionDoor, InjectionError, JobId, JobState, Observed, Phase, RuleCopy};
use crate::rest::{Credential, Service};
use crate::storage::StorageDoor;

/// File fields asked for when polling; `weir` is ours and absent elsewhere.
const FIELDS: &str = "file_state,file_metadata,dest_surl,reason,start_time,finish_time,retry,weir";

/// A transfer service that speaks the FTS3 REST API.
#[derive(Debug, Clone)]
pub(crate) struct FtsDoor {
    service: Service,
    doors: Arc<Vec<StorageDoor>>,
    /// Name of the run, which no other has.
    run: String,
}

/// The service's answer about the caller.
#[derive(Debug, Deserialize)]
struct Whoami {
    /// Namespaces of deterministic job ids, one per VO.
    #[serde(default)]
    vos_id: Vec<Uuid>,
    #[serde(default)]
    user_dn: Option<String>,
    #[serde(default)]
    vos: Vec<String>,
    #[serde(default)]
    delegation_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Submitted {
    job_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    Many(Vec<Job>),
    One(Box<Job>),
}

#[derive(Debug, Deserialize)]
struct Job {
    #[serde(rename = "job_id")]
    id: String,
    #[serde(default)]
    http_status: Option<String>,
    #[serde(default)]
    files: Vec<FileState>,
}

#[derive(Debug, Deserialize)]
struct FileState {
    #[serde(rename = "file_state")]
    state: String,
    #[serde(rename = "file_metadata", default)]
    metadata: Option<Metadata>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    start_time: Option<String>,
    #[serde(default)]
    finish_time: Option<String>,
    /// Attempts after the first.
    #[serde(default)]
    retry: Option<u32>,
    #[serde(default)]
    weir: Option<Extension>,
}

/// The answer of Weir's transfer service about a link.
#[derive(Debug, Deserialize)]
struct Link {
    #[serde(default)]
    reasons: Vec<Reason>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    text: String,
    #[serde(default)]
    faults: bool,
    #[serde(default)]
    party: Option<String>,
}

/// Metadata of a file, which answers repeat: the number of a transfer of the run, or the id of a request of the catalogue.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Metadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weir_transfer: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

/// Additional data of Weir's transfer service about a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Extension {
    mode: Option<String>,
    bytes_moved: Option<u64>,
    bytes_moved_total: Option<u64>,
    counted_bytes: Option<u64>,
    first_byte_ms: Option<u64>,
    started_ms: Option<u64>,
    finished_ms: Option<u64>,
    error_class: Option<String>,
    party: Option<String>,
    phase: Option<String>,
    remedy: Option<String>,
    attempts: Option<u32>,
}

impl FtsDoor {
    /// Makes a door to the service, which moves files between `doors` for the run of this name.
    pub(crate) fn new(service: Service, doors: Arc<Vec<StorageDoor>>, run: &str) -> Self {
        Self {
            service,
            doors,
            run: run.to_owned(),
        }
    }

    /// Where the service answers.
    pub(crate) fn url(&self) -> &str {
        &self.service.url
    }

    /// Asks for the transfers of jobs that the catalogue submitted; gives their states by the ids of the requests.
    pub(crate) async fn requests(&self, jobs: &[&str]) -> Result<HashMap<String, Observed>, InjectionError> {
        let known = match (self.jobs(jobs).await, jobs) {
            (Err(InjectionError::Refused { status, .. }), [_]) if status == StatusCode::NOT_FOUND => Vec::new(),
            (known, _) => known?,
        };
        let files = known.into_iter().flat_map(|job| job.files);
        Ok(files.filter_map(FileState::of_catalog).collect())
    }

    async fn jobs(&self, ids: &[&str]) -> Result<Vec<Job>, InjectionError> {
        let path = format!("/jobs/{}?files={FIELDS}", ids.join(","));
        let answer = self.service.ask(Method::GET, &path, None).await?;
        let answer: Answer = serde_json::from_slice(&answer).map_err(|error| self.service.unreachable(error))?;
        Ok(match answer {
            Answer::Many(jobs) => jobs,
            Answer::One(job) => vec![*job],
        })
    }

    /// Names a batch for the service, the same at each try.
    fn sid_of(&self, batch: &Batch) -> String {
        let first = batch.orders.first().map_or(0, |order| order.id);
        format!("{}-{first}", self.run)
    }

    async fn whoami(&self) -> Result<Whoami, InjectionError> {
        let answer = self.service.ask(Method::GET, "/whoami", None).await?;
        serde_json::from_slice(&answer).map_err(|error| self.service.unreachable(error))
    }

    /// The job that the service made of a batch: FTS3 derives ids from VO and `sid`.
    async fn known_job(&self, batch: &Batch) -> Result<JobId, InjectionError> {
        let whoami = self.whoami().await?;
        let space = whoami
            .vos_id
            .first()
            .ok_or_else(|| self.service.unreachable("whoami names no VO"))?;
        Ok(JobId::Job(
            Uuid::new_v5(space, self.sid_of(batch).as_bytes()).to_string(),
        ))
    }

    /// Tokens for the storages of a batch: one pair for all of it, since it is one link. None where the service acts by a delegated certificate.
    async fn tokens(&self, batch: &Batch) -> Result<Option<(Secret, Secret)>, InjectionError> {
        if matches!(self.service.credential, Credential::Certificate) {
            return Ok(None);
        }
        let no_token = |error: crate::storage::StorageError| InjectionError::Token {
            door: self.service.url.clone(),
            source: error.into(),
        };
        let read = self.doors[batch.source].token_to_read().await.map_err(no_token)?;
        let write = self.doors[batch.destination].token_to_write().await.map_err(no_token)?;
        Ok(Some((read, write)))
    }

    /// Writes the job that FTS is sent.
    async fn job(&self, batch: &Batch) -> Result<serde_json::Value, InjectionError> {
        let (source, destination) = (&self.doors[batch.source], &self.doors[batch.destination]);
        let tokens = self.tokens(batch).await?;
        let file = |order: &crate::injection::Order| {
            let checksum = order.checksum.as_ref().map(|checksum| {
                let name = match checksum.algorithm {
                    Algorithm::Adler32 => "ADLER32",
                    Algorithm::Crc32c => "CRC32C",
                    Algorithm::Md5 => "MD5",
                    Algorithm::Sha256 => "SHA-256",
                };
                format!("{name}:{}", checksum.hex())
            });
            let mut file = json!({
                "sources": [order.source],
                "destinations": [order.destination],
                "filesize": order.size.0,
                "checksum": checksum,
                "activity": batch.activity,
                "metadata": Metadata { weir_transfer: Some(order.id), request_id: None },
            });
            if let Some((read, write)) = &tokens {
                file["source_tokens"] = json!([read.expose()]);
                file["destination_tokens"] = json!([write.expose()]);
            }
            file
        };
        let mut parameters = json!({
            "verify_checksum": verification(source.is_without_checksums(), destination.is_without_checksums()),
            "overwrite": false,
            "unmanaged_tokens": tokens.is_some(),
            "id_generator": "deterministic",
            "sid": self.sid_of(batch),
            "job_metadata": { "issuer": "weir-challenge", "run": self.run },
        });
        if let Some(mode) = batch.mode {
            parameters["copy_mode"] = mode.into();
        }
        if batch.single_attempt {
            parameters["retry"] = (-1).into();
        }
        Ok(json!({ "params": parameters, "files": batch.orders.iter().map(file).collect::<Vec<_>>() }))
    }
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
        let whoami = self.whoami().await?;
        let user = whoami.user_dn.unwrap_or_else(|| "a user without a name".to_owned());
        Ok(format!("{user}, VO {}", whoami.vos.join(", ")))
    }

    async fn submit(&self, batch: &Batch) -> Result<JobId, InjectionError> {
        let job = self.job(batch).await?;
        let answer = match self.service.ask(Method::POST, "/jobs", Some(job)).await {
            // Accepted at an earlier try whose answer was lost: a second job would collide with the first one's files.
            Err(InjectionError::Refused { status, .. }) if status == StatusCode::CONFLICT => {
                return self.known_job(batch).await;
            }
            answer => answer?,
        };
        let submitted: Submitted = serde_json::from_slice(&answer).map_err(|error| self.service.unreachable(error))?;
        Ok(JobId::Job(submitted.job_id))
    }

    async fn observe(&self, jobs: &[JobId]) -> Result<Vec<(JobId, JobState)>, InjectionError> {
        let ids: Vec<&str> = jobs.iter().map(JobId::as_str).collect();
        let known = match (self.jobs(&ids).await, jobs) {
            // Of several jobs each has a status of its own.
            (Err(InjectionError::Refused { status, .. }), [job]) if status == StatusCode::NOT_FOUND => {
                return Ok(vec![(job.clone(), JobState::Unknown)]);
            }
            (known, _) => known?,
        };
        Ok(known.into_iter().filter_map(Job::state).collect())
    }

    async fn held_back(&self, source: usize, destination: usize) -> Option<HeldBack> {
        let (source, destination) = (self.doors[source].origin(), self.doors[destination].origin());
        let path = format!("/why/link?source_se={source}&dest_se={destination}");
        // An FTS3 has no such path.
        let answer = self.service.ask(Method::GET, &path, None).await.ok()?;
        serde_json::from_slice::<Link>(&answer).ok()?.held_back()
    }

    async fn cancel(&self, jobs: &[JobId]) -> Result<(), InjectionError> {
        let ids: Vec<&str> = jobs.iter().map(JobId::as_str).collect();
        self.service
            .ask(Method::DELETE, &format!("/jobs/{}", ids.join(",")), None)
            .await
            .map(|_| ())
    }

    async fn remaining(&self, _: &[RuleCopy]) -> Result<BTreeSet<RuleCopy>, InjectionError> {
        Ok(BTreeSet::new()) // no rule was made here
    }
}

impl Link {
    fn held_back(self) -> Option<HeldBack> {
        let texts: Vec<String> = self.reasons.iter().map(|reason| reason.text.clone()).collect();
        let failures = self.reasons.iter().find(|reason| reason.faults);
        (!texts.is_empty()).then(|| HeldBack {
            text: weir_auth::redact(&texts.join("; ")),
            by_failures: failures.is_some(),
            party: failures.and_then(|reason| Party::parse(reason.party.as_deref()?)),
        })
    }
}

impl Job {
    /// Returns the state of the job; `None` where the service could not look.
    fn state(self) -> Option<(JobId, JobState)> {
        let status = self.http_status.as_deref().unwrap_or("200");
        let state = match status.split(' ').next() {
            Some("200") => JobState::Known(self.files.into_iter().filter_map(FileState::own).collect()),
            Some("404") => JobState::Unknown,
            _ => return None,
        };
        Some((JobId::Job(self.id), state))
    }
}

impl FileState {
    /// Returns the observation of a transfer of ours; `None` for others.
    fn own(self) -> Option<Observed> {
        let id = self.metadata.as_ref()?.weir_transfer?;
        Some(self.observed(id))
    }

    /// Returns the observation of a transfer of the catalogue, with the id of its request; `None` for others.
    fn of_catalog(mut self) -> Option<(String, Observed)> {
        let request = self.metadata.as_mut()?.request_id.take()?;
        Some((request, self.observed(0)))
    }

    fn observed(self, id: u64) -> Observed {
        let weir = self.weir.unwrap_or_default();
        let phase = match self.state.as_str() {
            "FINISHED" | "ARCHIVING" => Phase::Finished,
            "FAILED" => Phase::Failed,
            "CANCELED" => Phase::Cancelled,
            "ACTIVE" => Phase::Active,
            _ => Phase::Queued,
        };
        Observed {
            id,
            phase,
            started: moment(weir.started_ms, self.start_time.as_deref()),
            ended: moment(weir.finished_ms, self.finish_time.as_deref()),
            bytes_moved: match phase {
                Phase::Finished => weir.bytes_moved,
                _ => weir.bytes_moved_total.or(weir.bytes_moved),
            },
            counted: weir.counted_bytes,
            first_byte: weir.first_byte_ms.map(Duration::from_millis),
            mode: weir.mode,
            retries: weir
                .attempts
                .map(|attempts| attempts.saturating_sub(1))
                .or(self.retry)
                .unwrap_or(0),
            class: weir.error_class.as_deref().and_then(ErrorClass::parse),
            party: weir.party.as_deref().and_then(Party::parse),
            failed_in: weir.phase.as_deref().and_then(weir_world::Phase::parse),
            reason: weir_auth::redact(self.reason.as_deref().unwrap_or_default()),
            remedy: weir.remedy,
            passages: None,
        }
    }
}

/// Takes the exact moment where there is one, else FTS's own: UTC without zone, whole seconds.
fn moment(millis: Option<u64>, text: Option<&str>) -> Option<SystemTime> {
    if let Some(millis) = millis {
        return Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
    }
    let civil: jiff::civil::DateTime = text?.parse().ok()?;
    let moment = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(moment.as_millisecond()).ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    fn observed(json: &str) -> Option<Observed> {
        serde_json::from_str::<FileState>(json).unwrap().own()
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

    /// A submission whose answer was lost is repeated, and must not become a second job: its files would fail because
    /// those of the first exist.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_that_is_submitted_again_is_the_same_job() {
        let dir = tempfile::tempdir().unwrap();
        let text = "name = \"g\"\n[[rse]]\nname = \"A\"\n[[rse]]\nname = \"B\"\n";
        let grid = weir_model::Grid::parse(text, "g.toml".as_ref()).unwrap();
        let running = weir_grid::EmbeddedGrid::start(&grid, dir.path(), weir_grid::GridOptions::default());
        let running = running.await.unwrap();
        let opened = crate::doors::open(&grid, &running, "run-1").unwrap();
        let doors = Arc::new(opened.storage);
        let door = FtsDoor::new(opened.transfer, doors.clone(), "run-1");
        let batch = |id: u64| Batch {
            source: 0,
            destination: 1,
            activity: "test".to_owned(),
            mode: None,
            single_attempt: true,
            rule: None,
            orders: vec![crate::injection::Order {
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
        running.shutdown().await.unwrap();
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
