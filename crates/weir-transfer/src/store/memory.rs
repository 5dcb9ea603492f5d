//! The store in memory: for tests, and for grids that live as long as a process.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;
use weir_auth::Secret;
use weir_sched::Work;
use weir_world::ErrorClass;

mod destinations;
mod history;
mod renewals;
mod secrets;
mod tape;

use super::{
    Change, Due, FollowUp, JobFilter, Kept, Live, LiveJob, Order, Overdue, Pin, Renewal, Restored, Sealer, Store,
    StoreError, Submission, proxy_name,
};
use crate::{
    model::{Counts, File, FileResult, FileState, Job, Retry, SEVERAL_SOURCES, TapeTimes, TokenHash},
    time::Millis,
};
use history::History;
use secrets::{Secrets, Urls};

/// See the module. Tokens are sealed here too, so that a core dump shows as little as a database.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    tables: Mutex<Tables>,
    sealer: Sealer,
}

#[derive(Debug, Default, Clone)]
struct Tables {
    epoch: u64,
    next_file: u64,
    /// By number, which is the id of the first file: in the order in which jobs came.
    jobs: BTreeMap<u64, Job>,
    numbers: BTreeMap<Uuid, u64>,
    files: BTreeMap<u64, Row>,
    retries: BTreeMap<(u64, u32), Retry>,
    /// Sealed, and how many files of the present name it.
    tokens: BTreeMap<TokenHash, (Vec<u8>, usize)>,
    settings: BTreeMap<String, String>,
    secrets: Secrets,
    renewals: BTreeMap<TokenHash, renewals::Row>,
    urls: Urls,
    /// The transfer that a destination was last promised to.
    writers: BTreeMap<TokenHash, u64>,
    history: History,
}

#[derive(Debug, Clone)]
struct Row {
    file: File,
    job: u64,
    running: bool,
    pinned: bool,
    follow_up: FollowUp,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self {
            tables: Mutex::new(Tables {
                next_file: 1,
                ..Tables::default()
            }),
            sealer: Sealer::ephemeral(),
        }
    }
}

impl MemoryStore {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        let mut tables = self.lock();
        // The only ways to fail are found first, so that nothing has to be taken back.
        let (mut fresh, mut written) = (std::collections::BTreeSet::new(), tables.destinations());
        for change in changes {
            if let Change::Submit(submission) = change {
                let id = submission.job.id;
                if tables.numbers.contains_key(&id) || !fresh.insert(id) {
                    return Err(StoreError::Duplicate(id));
                }
                for (file, name) in submission.destinations() {
                    if !written.insert(name) {
                        return Err(StoreError::Taken(file.destination.clone()));
                    }
                }
            }
        }
        for change in changes {
            tables.apply(change, &self.sealer);
        }
        Ok(())
    }

    fn next_epoch(&self) -> Result<u64, StoreError> {
        let mut tables = self.lock();
        tables.epoch += 1;
        Ok(tables.epoch)
    }

    fn next_file_id(&self) -> Result<u64, StoreError> {
        Ok(self.lock().next_file)
    }

    fn restore(&self, below: u64, each: &mut dyn FnMut(Restored)) -> Result<(), StoreError> {
        let tables = self.lock();
        for (number, job) in tables.jobs.iter().filter(|(_, job)| job.finished.is_none()) {
            let files = tables.files.range(*number..below.min(number + job.counts.files as u64));
            let live = files
                .map(|(_, row)| row)
                .filter(|row| row.file.finished.is_none())
                .map(Row::live);
            let files = live.collect::<Vec<_>>();
            if !files.is_empty() {
                each(Restored::Job(Box::new(LiveJob {
                    job: job.spec.clone(),
                    first: *number,
                    files,
                })));
            }
        }
        Ok(())
    }

    fn job(&self, id: Uuid) -> Result<Option<Job>, StoreError> {
        let tables = self.lock();
        let job = |number| tables.jobs.get(number).or_else(|| tables.history.jobs.get(number));
        Ok(tables.numbers.get(&id).and_then(job).cloned())
    }

    fn files(&self, job: Uuid) -> Result<Vec<File>, StoreError> {
        let tables = self.lock();
        let Some(number) = tables.numbers.get(&job) else {
            return Ok(Vec::new());
        };
        let job = tables.jobs.get(number).or_else(|| tables.history.jobs.get(number));
        let range = *number..number + job.map_or(0, |job| job.counts.files as u64);
        let old = tables
            .history
            .files
            .range(range.clone())
            .map(|(id, file)| (*id, file.clone()));
        let mut files = old.collect::<BTreeMap<_, _>>();
        files.extend(tables.files.range(range).map(|(id, row)| (*id, row.file.clone())));
        Ok(files.into_values().collect())
    }

    fn file(&self, id: u64) -> Result<Option<File>, StoreError> {
        let tables = self.lock();
        let present = tables.files.get(&id).map(|row| &row.file);
        Ok(present.or_else(|| tables.history.files.get(&id)).cloned())
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Vec<Job>, StoreError> {
        let tables = self.lock();
        let admitted = |(_, job): &(&u64, &Job)| filter.admits(job);
        let all = tables.jobs.iter().chain(&tables.history.jobs).filter(admitted);
        let admitted = all
            .map(|(number, job)| (*number, job.clone()))
            .collect::<BTreeMap<_, _>>();
        let jobs = admitted.into_values();
        Ok(match filter.limit {
            None => jobs.collect(),
            Some(limit) => jobs.rev().take(limit).collect(),
        })
    }

    fn overdue(&self, now: i64) -> Result<Vec<Overdue>, StoreError> {
        let tables = self.lock();
        let late = |job: &&Job| {
            job.finished.is_none() && job.spec.params.max_time_in_queue.is_some_and(|expires| expires <= now)
        };
        let waits = |row: &&Row| {
            matches!(
                row.file.state,
                FileState::Submitted | FileState::Staging | FileState::ForceStart
            ) && !row.file.stopping
        };
        let overdue = tables.jobs.iter().filter(|(_, job)| late(job)).map(|(number, job)| {
            let files = tables.files.range(*number..number + job.counts.files as u64);
            let files = files.map(|(_, row)| row).filter(waits);
            Overdue {
                job: job.spec.id,
                kind: job.spec.kind,
                files: files.map(|row| row.file.spec.id).collect(),
            }
        });
        Ok(overdue.filter(|overdue| !overdue.files.is_empty()).collect())
    }

    fn retries(&self, file: u64) -> Result<Vec<Retry>, StoreError> {
        Ok(self
            .lock()
            .retries
            .range((file, 0)..=(file, u32::MAX))
            .map(|(_, retry)| retry.clone())
            .collect())
    }

    fn reveal(&self, files: &mut [File]) -> Result<(), StoreError> {
        let tables = self.lock();
        for file in files {
            tables.urls.put_back(&mut file.spec, &self.sealer);
        }
        Ok(())
    }

    fn order(&self, file: u64) -> Result<Option<Order>, StoreError> {
        let tables = self.lock();
        let Some(row) = tables.files.get(&file) else {
            return Ok(None);
        };
        let Some(job) = tables.jobs.get(&row.job) else {
            return Ok(None);
        };
        let open = |hash: Option<TokenHash>| -> Option<Secret> {
            hash.and_then(|hash| self.sealer.open(hash, &tables.tokens.get(&hash)?.0))
        };
        let kept = || tables.secrets.kept(&proxy_name(&job.spec.owner()), &self.sealer);
        let mut file = row.file.clone();
        tables.urls.put_back(&mut file.spec, &self.sealer);
        Ok(Some(Order {
            proxy: job.spec.moves_by_proxy(&row.file).then(kept).flatten(),
            source_token: open(row.file.spec.source_token),
            destination_token: open(row.file.spec.destination_token),
            file,
            job: job.spec.clone(),
        }))
    }

    fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        Ok(self.lock().pins())
    }

    fn settings(&self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        let tables = self.lock();
        let matching = tables.settings.iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(matching.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn archive(&self, before: Millis, files_max: usize) -> Result<usize, StoreError> {
        Ok(self.lock().archive(before, files_max))
    }

    fn keep(&self, kept: &Kept, now: Millis) -> Result<(), StoreError> {
        self.lock().secrets.keep(kept, &self.sealer, now);
        Ok(())
    }

    fn replace(&self, old: &Kept, kept: &Kept) -> Result<bool, StoreError> {
        Ok(self.lock().secrets.replace(old, kept, &self.sealer))
    }

    fn kept(&self, name: &str) -> Result<Option<Kept>, StoreError> {
        Ok(self.lock().secrets.kept(name, &self.sealer))
    }

    fn discard(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.lock().secrets.discard(name))
    }

    fn renewal(&self, token: TokenHash) -> Result<Option<Renewal>, StoreError> {
        self.lock().renewal(token, &self.sealer)
    }

    fn renewed(&self, outcomes: &[(TokenHash, Option<Renewal>)]) -> Result<(), StoreError> {
        self.lock().renewed(outcomes, &self.sealer);
        Ok(())
    }

    fn due_renewals(&self, now: Millis, skip: usize, limit: usize) -> Result<Vec<Due>, StoreError> {
        Ok(self.lock().due_renewals(now, (skip, limit), &self.sealer))
    }

    fn forget(&self, before: Millis, files_max: usize) -> Result<usize, StoreError> {
        Ok(self.lock().forget(before, files_max))
    }
}

impl Row {
    fn live(&self) -> Live {
        Live {
            file: self.file.spec.id,
            source: self.file.spec.source.clone(),
            destination: self.file.spec.destination.clone(),
            activity: self.file.spec.activity.clone(),
            size: self.file.spec.user_filesize,
            attempts: self.file.attempts,
            running: self.running,
            stopping: self.file.stopping,
            state: self.file.state,
            follow_up: self.follow_up,
        }
    }
}

impl Tables {
    fn apply(&mut self, change: &Change, sealer: &Sealer) {
        match change {
            Change::Submit(submission) => self.submit(submission, sealer),
            Change::Begin {
                file,
                work: Work::Copy,
                attempt,
                epoch: _,
                at,
            } => {
                let Some(row) = self.live_row(*file) else { return };
                (row.file.state, row.file.attempts, row.file.started) = (FileState::Active, *attempt, Some(*at));
                row.file.first_started.get_or_insert(*at);
                row.running = true;
                row.follow_up.not_before = 0;
                let job = row.job;
                self.count(job, *at, |counts| counts.started += i64::from(*attempt == 1));
            }
            Change::Begin { .. } | Change::Advance { .. } | Change::Requested { .. } | Change::Unpinned { .. } => {
                self.tape(change);
            }
            Change::Again {
                file,
                work,
                attempt,
                at,
                result,
                follow_up,
            } => {
                let Some(row) = self.live_row(*file) else { return };
                row.take(*work, result);
                row.follow_up = *follow_up;
                if !row.file.stopping {
                    row.file.state = FileState::waiting(*work);
                }
                if result.waited_for_issuer() {
                    return;
                }
                let reason = result.reason.clone().unwrap_or_default();
                self.retries.insert(
                    (*file, *attempt),
                    Retry {
                        file: *file,
                        attempt: *attempt,
                        at: *at,
                        reason,
                    },
                );
            }
            Change::End {
                file,
                work,
                at,
                state,
                result,
            } => self.end(*file, *work, *at, *state, result),
            Change::Cancel {
                job,
                whole,
                settled,
                stopping,
                at,
                reason,
            } => {
                self.cancel(*job, *whole, settled, stopping, (*at, reason));
            }
            Change::Release { file } => self.use_now(*file),
            Change::Metadata { file, metadata } => {
                if let Some(row) = self.live_row(*file) {
                    row.file.spec.metadata = Some(metadata.clone());
                }
            }
            Change::Claim { file, claim } => {
                if let Some(row) = self.live_row(*file) {
                    row.file.claim = *claim;
                }
            }
            Change::Force { files } => {
                for file in files {
                    if let Some(row) = self
                        .live_row(*file)
                        .filter(|row| row.file.state == FileState::Submitted)
                    {
                        row.file.state = FileState::ForceStart;
                        row.follow_up.not_before = 0;
                    }
                }
            }
            Change::Priority { job, priority } => {
                let number = self.numbers.get(job).copied().unwrap_or_default();
                if let Some(job) = self.jobs.get_mut(&number).filter(|job| job.finished.is_none()) {
                    job.spec.priority = *priority;
                }
            }
            Change::Setting { key, value } => {
                match value {
                    Some(value) => self.settings.insert(key.clone(), value.clone()),
                    None => self.settings.remove(key),
                };
            }
        }
    }

    fn live_row(&mut self, file: u64) -> Option<&mut Row> {
        self.files.get_mut(&file).filter(|row| row.file.finished.is_none())
    }

    fn submit(&mut self, submission: &Submission, sealer: &Sealer) {
        let number = submission.files.first().map_or(0, |file| file.id);
        self.expect_renewals(submission);
        for (file, name) in submission.destinations() {
            self.writers.insert(name, file.id);
        }
        for spec in &submission.files {
            for hash in [spec.source_token, spec.destination_token].into_iter().flatten() {
                if let Some(token) = submission.tokens.get(&hash) {
                    let known = self.tokens.entry(hash);
                    known.or_insert_with(|| (sealer.seal(hash, token), 0)).1 += 1;
                }
            }
            self.next_file = self.next_file.max(spec.id + 1);
            let spec = self.urls.keep(spec, sealer);
            let file = File {
                job: submission.job.id,
                state: submission.first_state(&spec),
                attempts: 0,
                first_started: None,
                started: None,
                finished: None,
                stopping: false,
                claim: None,
                moved_total: 0,
                tape: TapeTimes::default(),
                result: FileResult::default(),
                spec,
            };
            let row = Row {
                file,
                job: number,
                running: false,
                pinned: false,
                follow_up: FollowUp::default(),
            };
            self.files.insert(row.file.spec.id, row);
        }
        self.numbers.insert(submission.job.id, number);
        let job = Job {
            spec: submission.job.clone(),
            state: submission.first_job_state(),
            finished: None,
            reason: None,
            cancelled: false,
            counts: Counts {
                files: submission.files.len() as i64,
                ..Counts::default()
            },
        };
        self.jobs.insert(number, job);
    }

    fn use_now(&mut self, file: u64) {
        let Some(number) = self.live_row(file).map(|row| row.job) else {
            return;
        };
        let sources = self
            .jobs
            .get(&number)
            .is_some_and(|job| job.spec.kind == SEVERAL_SOURCES);
        let staged = self
            .jobs
            .get(&number)
            .is_some_and(|job| job.spec.params.bring_online.is_some());
        let rows = self.files.range(number..).take_while(|(_, row)| row.job == number);
        let claim = rows.filter_map(|(_, row)| row.file.claim).last().filter(|_| sources);
        let Some(row) = self.live_row(file).filter(|row| row.file.state == FileState::NotUsed) else {
            return;
        };
        row.file.state = if staged && sources {
            FileState::Staging
        } else {
            FileState::Submitted
        };
        row.follow_up.resume = sources;
        row.file.claim = claim;
    }

    fn end(&mut self, file: u64, work: Work, at: Millis, state: FileState, result: &FileResult) {
        assert!(state.is_terminal(), "a file cannot end in {}", state.as_str());
        let Some(row) = self.live_row(file) else { return };
        row.take(work, result);
        if state == FileState::Finished {
            match work {
                Work::Copy => {}
                Work::Stage => row.file.tape.staging_finished = Some(at),
                Work::Archive => row.file.tape.archive_finished = Some(at),
            }
        }
        (row.file.state, row.file.finished, row.file.stopping) = (state, Some(at), false);
        let job = row.job;
        self.count(job, at, |counts| {
            counts.archiving -= i64::from(work == Work::Archive);
            match state {
                FileState::Finished => counts.finished += 1,
                FileState::Failed => counts.failed += 1,
                _ => counts.canceled += 1,
            }
        });
    }

    fn cancel(&mut self, job: Uuid, whole: bool, settled: &[u64], stopping: &[u64], (at, reason): (Millis, &str)) {
        let Some(number) = self.numbers.get(&job).copied() else {
            return;
        };
        if self.jobs.get(&number).is_none_or(|job| job.finished.is_some()) {
            return;
        }
        let (mut canceled, mut archiving) = (0, 0);
        for file in settled {
            let Some(row) = self.live_row(*file).filter(|row| row.job == number) else {
                continue;
            };
            archiving += i64::from(row.file.state == FileState::Archiving);
            (row.file.state, row.file.finished, row.running) = (FileState::Canceled, Some(at), false);
            row.file.result.reason = Some(reason.to_owned());
            row.file.result.class = Some(ErrorClass::Cancelled);
            canceled += 1;
        }
        for file in stopping {
            if let Some(row) = self.live_row(*file).filter(|row| row.job == number) {
                row.file.stopping = true;
            }
        }
        if let Some(job) = self.jobs.get_mut(&number) {
            job.cancelled |= whole;
        }
        self.count(number, at, |counts| {
            counts.canceled += canceled;
            counts.archiving -= archiving;
        });
    }

    fn count(&mut self, number: u64, at: Millis, change: impl FnOnce(&mut Counts)) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        change(&mut job.counts);
        let (state, reason) = job.counts.verdict_after(job.state, job.spec.kind, job.cancelled);
        job.state = state;
        job.finished = state.is_terminal().then_some(at);
        job.reason = reason.map(str::to_owned);
    }
}

#[cfg(test)]
mod tests;
