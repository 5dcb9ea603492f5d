//! The Rucio REST API as an injection door: a batch becomes a dataset of its files and a replication rule over it.
//!
//! The door keeps each rule that it made until the last file of the rule has ended. The state of a file is put together
//! from three answers. These are the state of its lock, its request (the catalogue keeps a history), and the run's own
//! transfer service.

mod answers;
mod ending;
pub(crate) mod open_requests;
mod places;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_world::{ErrorClass, Party};

use self::answers::{Lock, Request, lines};
use crate::inject::fts::FtsDoor;
use crate::inject::injection::{
    Batch, InjectionError, JobId, JobState, Observed, Passages, Phase, RuleCopy, RuleTerms,
};
use crate::services::rest::Service;
use crate::services::storage::StorageDoor;

/// Requests to the catalogue under way at once, for one batch of rules.
const AT_ONCE: usize = 8;

/// Jobs asked for in one request to the transfer service.
const JOBS_PER_LOOK: usize = 50;

/// Copies asked for in one request.
const COPIES_PER_LOOK: usize = 200;

/// After this time the catalogue takes the datasets of a run away, if it does so at all: a week.
const DATASET_LIFETIME: u64 = 604_800;

/// The clocks of the catalogue and of the run may differ by this, and the catalogue's times may be whole seconds.
const CLOCKS: Duration = Duration::from_secs(2);

/// A catalogue, with the login of the run.
#[derive(Debug, Clone)]
pub(crate) struct CatalogService {
    pub(crate) service: Service,
    /// The account.
    pub(crate) account: String,
    /// The scope of everything that the run adds.
    pub(crate) scope: String,
    /// Whether it starts with the grid.
    pub(crate) is_own: bool,
}

/// A catalogue that speaks the Rucio REST API.
#[derive(Debug)]
pub(crate) struct RulesDoor {
    catalog: CatalogService,
    transfer: FtsDoor,
    doors: Arc<Vec<StorageDoor>>,
    /// Name of the run, which no other has.
    run: String,
    made: Mutex<HashMap<String, Made>>,
}

/// A rule of which something has not ended.
#[derive(Debug, Clone)]
struct Made {
    destination: usize,
    asked: SystemTime,
    lifetime: Option<Duration>,
    /// The files that have not ended, with the numbers of their transfers.
    open: BTreeMap<String, u64>,
    /// Why files do not come, as the catalogue said last.
    reasons: BTreeMap<String, String>,
    /// When the catalogue submitted files first. A rule that ends takes its requests with it, and a later attempt has a later time.
    submitted: BTreeMap<String, SystemTime>,
    is_withdrawn: bool,
}

/// A request that went to the run's transfer service.
type CarriedJob<'r> = (&'r str, &'r str);

impl RulesDoor {
    /// Makes a door to the catalogue, which submits to the transfer service.
    pub(crate) fn new(catalog: CatalogService, transfer: FtsDoor, doors: Arc<Vec<StorageDoor>>, run: &str) -> Self {
        Self {
            catalog,
            transfer,
            doors,
            run: run.to_owned(),
            made: Mutex::default(),
        }
    }

    /// A name as the catalogue takes it.
    fn did(&self, name: &str) -> Value {
        json!({ "scope": self.catalog.scope, "name": name })
    }

    /// Makes a dataset of the files of a batch and a rule over it; gives the id of the rule. A batch that is handed over again has the same
    /// dataset and the same rule.
    ///
    /// # Errors
    /// [`InjectionError`]. Whether the rule was made is not known if the catalogue could not be reached.
    pub(crate) async fn make(&self, batch: &Batch, terms: RuleTerms) -> Result<String, InjectionError> {
        let asked = SystemTime::now();
        let first = batch.orders.first().map_or(0, |order| order.id);
        let dataset = format!("{}.{first}", self.run);
        let dids = batch.orders.iter().filter_map(|order| order.did.as_deref());
        self.add_dataset(&dataset, dids).await?;
        let (source, destination) = (&self.doors[batch.source].name, &self.doors[batch.destination].name);
        let rule = self.add_rule(&dataset, json!({
            "copies": 1, "rse_expression": destination, "source_replica_expression": source, "activity": batch.activity,
            "lifetime": terms.lifetime.map(|lifetime| lifetime.as_secs()), "purge_replicas": true,
            "comment": format!("run {}", self.run),
        }));
        let rule = rule.await?;
        let open = batch
            .orders
            .iter()
            .filter_map(|order| Some((order.did.clone()?, order.id)));
        let made = Made {
            destination: batch.destination,
            asked,
            lifetime: terms.lifetime,
            open: open.collect(),
            reasons: BTreeMap::new(),
            submitted: BTreeMap::new(),
            is_withdrawn: false,
        };
        self.made.lock().insert(rule.clone(), made);
        Ok(rule)
    }

    /// Adds a dataset with files, or finds it made by an earlier try.
    async fn add_dataset(&self, name: &str, dids: impl Iterator<Item = &str>) -> Result<(), InjectionError> {
        let files: Vec<Value> = dids.map(|did| self.did(did)).collect();
        let path = format!("/dids/{}/{name}", self.catalog.scope);
        let content = json!({ "type": "DATASET", "dids": files, "lifetime": DATASET_LIFETIME });
        self.add(&path, content).await
    }

    /// Adds a rule over a dataset, or finds the one of an earlier try; gives its id.
    async fn add_rule(&self, dataset: &str, mut terms: Value) -> Result<String, InjectionError> {
        terms["dids"] = json!([self.did(dataset)]);
        terms["account"] = json!(self.catalog.account);
        let answer = match self.catalog.service.ask(Method::POST, "/rules/", Some(terms)).await {
            // Made at an earlier try whose answer was lost; a lack of quota is a conflict too.
            Err(refused @ InjectionError::Refused { status, .. }) if status == StatusCode::CONFLICT => {
                return self.rule_of(dataset).await?.ok_or(refused);
            }
            answer => answer?,
        };
        let ids: Vec<String> =
            serde_json::from_slice(&answer).map_err(|error| self.catalog.service.unreachable(error))?;
        let first = ids.into_iter().next();
        first.ok_or_else(|| self.catalog.service.unreachable("the answer to a rule has no id"))
    }

    /// The rule over a dataset, if there is one.
    async fn rule_of(&self, dataset: &str) -> Result<Option<String>, InjectionError> {
        let path = format!("/dids/{}/{dataset}/rules", self.catalog.scope);
        let rules: Vec<Value> = self.rows(&self.catalog.service.ask(Method::GET, &path, None).await?)?;
        Ok(rules.first().and_then(|rule| rule["id"].as_str()).map(str::to_owned))
    }

    /// The rows of a listing.
    fn rows<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<Vec<T>, InjectionError> {
        lines(answer).map_err(|error| self.catalog.service.unreachable(error))
    }

    /// A call that must be done, or have been done before.
    async fn add(&self, path: &str, content: Value) -> Result<(), InjectionError> {
        match self.catalog.service.ask(Method::POST, path, Some(content)).await {
            Err(InjectionError::Refused { status, .. }) if status == StatusCode::CONFLICT => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Says how far the files of these rules are: of each file that has not ended, and once of each that has.
    ///
    /// # Errors
    /// [`InjectionError`] of the catalogue, or of the transfer service that carried files out.
    pub(crate) async fn observe(&self, rules: &[JobId]) -> Result<Vec<(JobId, JobState)>, InjectionError> {
        let known = |rule: &JobId| Some((rule.as_str().to_owned(), self.made.lock().get(rule.as_str())?.clone()));
        let mut looks = Vec::new();
        let mut asked = stream::iter(rules.iter().filter_map(known))
            .map(|(rule, made)| async move { self.look(rule, made).await })
            .buffer_unordered(AT_ONCE);
        while let Some(look) = asked.try_next().await? {
            looks.push(look);
        }
        drop(asked);
        let carried = looks.iter().flat_map(Look::jobs).filter(|(host, _)| self.is_ours(host));
        let jobs: BTreeSet<&str> = carried.map(|(_, job)| job).collect();
        let jobs: Vec<&str> = jobs.into_iter().collect();
        let mut told = HashMap::new();
        for jobs in jobs.chunks(JOBS_PER_LOOK) {
            told.extend(self.transfer.requests(jobs).await?);
        }
        Ok(looks.into_iter().map(|look| self.tell(look, &told)).collect())
    }

    /// Says whether a request went to the run's transfer service.
    fn is_ours(&self, host: &str) -> bool {
        host.trim_end_matches('/') == self.transfer.url()
    }

    /// Asks the catalogue about one rule.
    async fn look(&self, rule: String, mut made: Made) -> Result<Look, InjectionError> {
        let path = format!("/rules/{rule}/locks");
        let locks = match self.catalog.service.ask(Method::GET, &path, None).await {
            Err(InjectionError::Refused { status, .. }) if status == StatusCode::NOT_FOUND => None,
            answer => Some(self.rows::<Lock>(&answer?)?),
        };
        let is_there = locks.is_some();
        let locks = locks.unwrap_or_default().into_iter();
        let states: HashMap<String, String> = locks.map(|lock| (lock.name, lock.state)).collect();
        let mut files = Vec::new();
        for did in made.open.keys() {
            let state = states.get(did).map(String::as_str);
            let has_ended = !is_there || matches!(state, Some("OK" | "STUCK"));
            let request = self.request(did, made.destination, has_ended).await?;
            let request = request.filter(|request| request.is_after(made.asked, CLOCKS));
            let why = request.as_ref().and_then(Request::why);
            if let Some(why) = why {
                let why = match state {
                    Some("STUCK") => format!("its lock is STUCK: {why}"),
                    _ => why,
                };
                made.reasons.insert(did.clone(), why);
            }
            if let Some(submitted) = request.as_ref().and_then(Request::submitted) {
                made.submitted.entry(did.clone()).or_insert(submitted);
            }
            // Of a rule that is gone, files may have come before.
            let is_ok = state == Some("OK") || (!is_there && request.as_ref().is_some_and(Request::is_done));
            files.push((did.clone(), is_ok, request));
        }
        Ok(Look {
            rule,
            made,
            is_there,
            files,
        })
    }

    /// The request of a file, or its last attempt that ended.
    async fn request(&self, did: &str, destination: usize, ended: bool) -> Result<Option<Request>, InjectionError> {
        let history = if ended { "history/" } else { "" };
        let path = format!(
            "/requests/{history}{}/{did}/{}",
            self.catalog.scope, self.doors[destination].name
        );
        match self.catalog.service.ask(Method::GET, &path, None).await {
            Err(InjectionError::Refused { status, .. }) if status == StatusCode::NOT_FOUND => Ok(None),
            answer => {
                let request = serde_json::from_slice(&answer?);
                request
                    .map(Some)
                    .map_err(|error| self.catalog.service.unreachable(error))
            }
        }
    }

    /// Combines the states of the files of a rule, and remembers the unfinished ones.
    fn tell(&self, look: Look, told: &HashMap<String, Observed>) -> (JobId, JobState) {
        let mut observed = Vec::new();
        let mut open = look.made.open.clone();
        for (did, is_ok, request) in &look.files {
            let Some(id) = open.get(did).copied() else { continue };
            let carried = request.as_ref().and_then(|request| told.get(&request.id));
            let mut file = request
                .as_ref()
                .map_or_else(|| Observed::queued(id), |request| request.observed(id, carried));
            if *is_ok {
                file.phase = Phase::Finished;
                (file.reason, file.class, file.party) = (String::new(), None, None);
            } else if look.is_there {
                if file.phase.is_final() {
                    // The catalogue makes another attempt, or has not taken the end in.
                    file.phase = Phase::Queued;
                }
                file.reason = look.made.reasons.get(did).cloned().unwrap_or_default();
            } else {
                file = look.lost(did, file);
            }
            if let (Some(passages), Some(first)) = (&mut file.passages, look.made.submitted.get(did)) {
                passages.submitted = Some(*first);
            }
            if file.phase.is_final() {
                open.remove(did);
            }
            observed.push(file);
        }
        let mut made = self.made.lock();
        if open.is_empty() {
            made.remove(&look.rule);
        } else if let Some(made) = made.get_mut(&look.rule) {
            made.open = open;
            (made.reasons, made.submitted) = (look.made.reasons, look.made.submitted);
        }
        (JobId::Rule(look.rule), JobState::Known(observed))
    }

    /// Ends rules: the catalogue cancels their transfers and deletes their copies.
    ///
    /// # Errors
    /// [`InjectionError`] of the first that could not be deleted.
    pub(crate) async fn withdraw(&self, rules: &[JobId]) -> Result<(), InjectionError> {
        for rule in rules {
            if let Some(made) = self.made.lock().get_mut(rule.as_str()) {
                made.is_withdrawn = true;
            }
        }
        self.catalog.end(rules.iter().map(JobId::as_str)).await
    }

    /// Says how many bytes of the run's files the catalogue has at each door.
    ///
    /// # Errors
    /// [`InjectionError`].
    pub(crate) async fn catalogued(&self, dids: impl Iterator<Item = &str>) -> Result<Vec<u64>, InjectionError> {
        let dids: Vec<Value> = dids.map(|did| self.did(did)).collect();
        let mut bytes = vec![0; self.doors.len()];
        for dids in dids.chunks(COPIES_PER_LOOK) {
            let content = json!({ "dids": dids });
            let answer = self
                .catalog
                .service
                .ask(Method::POST, "/replicas/list", Some(content))
                .await?;
            for row in self.rows::<Value>(&answer)? {
                let size = row["bytes"].as_u64().unwrap_or_default();
                for (door, sum) in self.doors.iter().zip(&mut bytes) {
                    if !row["rses"][&door.name].is_null() {
                        *sum += size;
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// Returns the copies that the catalogue still has, including those that it is deleting.
    ///
    /// # Errors
    /// [`InjectionError`].
    pub(crate) async fn remaining(&self, copies: &[RuleCopy]) -> Result<BTreeSet<RuleCopy>, InjectionError> {
        let mut left = BTreeSet::new();
        for copies in copies.chunk_by(|one, other| one.destination == other.destination) {
            let (destination, rse) = (copies[0].destination, &self.doors[copies[0].destination].name);
            for copies in copies.chunks(COPIES_PER_LOOK) {
                let dids: Vec<Value> = copies.iter().map(|copy| self.did(&copy.did)).collect();
                let content = json!({ "dids": dids, "rse_expression": rse, "all_states": true });
                let answer = self
                    .catalog
                    .service
                    .ask(Method::POST, "/replicas/list", Some(content))
                    .await?;
                let rows: Vec<Value> = self.rows(&answer)?;
                let there = rows.iter().filter(|row| !row["rses"][rse].is_null());
                left.extend(there.filter_map(|row| {
                    let did = row["name"].as_str()?.to_owned();
                    Some(RuleCopy { destination, did })
                }));
            }
        }
        Ok(left)
    }
}

/// Reads every kind of answer.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    let _locks = lines::<Lock>(data);
    if let Ok(request) = serde_json::from_slice::<Request>(data) {
        let first = request.observed(7, None);
        let _again = request.observed(7, Some(&first));
        let _is_after = request.is_after(SystemTime::now(), CLOCKS);
        assert!(
            request.why().is_none_or(|why| !why.contains('\n')),
            "a reason has one line"
        );
    }
    places::fuzz(data);
}

/// The catalogue's answers about a rule.
struct Look {
    rule: String,
    made: Made,
    /// Whether the catalogue still has it.
    is_there: bool,
    /// Of each file that had not ended: its name, whether it has come, and its request.
    files: Vec<(String, bool, Option<Request>)>,
}

impl Look {
    fn jobs(&self) -> impl Iterator<Item = CarriedJob<'_>> {
        self.files.iter().filter_map(|(_, _, request)| request.as_ref()?.job())
    }

    /// The end of a file that had not arrived when its rule was gone; `last` is its last known state.
    fn lost(&self, did: &str, last: Observed) -> Observed {
        let made = &self.made;
        let is_over = made
            .lifetime
            .is_some_and(|lifetime| made.asked + lifetime <= SystemTime::now());
        let known = made.reasons.get(did);
        let known = known.map_or_else(String::new, |why| {
            format!("; the last that the catalogue said of it: {why}")
        });
        let lost = Observed {
            phase: Phase::Cancelled,
            reason: String::new(),
            class: None,
            party: None,
            ..last
        };
        if made.is_withdrawn {
            return lost;
        }
        if is_over {
            let lifetime = weir_units::duration::format(made.lifetime.unwrap_or_default());
            return Observed {
                phase: Phase::Failed,
                class: Some(ErrorClass::Timeout),
                reason: format!("its rule ended after {lifetime}, before the file had come{known}"),
                remedy: Some("see what the transfers waited for, or give the workload a longer lifetime".to_owned()),
                ..lost
            };
        }
        Observed {
            party: Some(Party::Catalogue),
            reason: format!("its rule was deleted, and not by this run{known}"),
            ..lost
        }
    }
}

impl Observed {
    /// A file of which nothing more is known than that it waits.
    fn queued(id: u64) -> Self {
        Self {
            id,
            phase: Phase::Queued,
            started: None,
            ended: None,
            bytes_moved: None,
            counted: None,
            first_byte: None,
            waits: None,
            mode: None,
            retries: 0,
            class: None,
            party: None,
            failed_in: None,
            reason: String::new(),
            remedy: None,
            passages: Some(Passages::default()),
        }
    }
}
