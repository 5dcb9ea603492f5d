//! Rules, their files, and the copies that are to be deleted: the books of both catalogues.

use std::time::Duration;

use weir_measure::Stages;
use weir_measure::chain::{Deletions, RuleEnd, RuleRow};
use weir_model::catalog::{LockState, RuleState};
use weir_rules::lifetime::Lifetime;
use weir_rules::state::{self, LockCounts};
use weir_sched::Settled;
use weir_units::{Bytes, Timestamp};
use weir_world::{CopyMode, ErrorClass, Failure, Party, Phase, Retry, TransferId};

use crate::hash::NumberMap;
use crate::row::Row;
use crate::scene::Scene;
use crate::slab::{Key, Slab};
use crate::want::Want;

/// Ends of files and rules since the last look.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Files that came through, or did not.
    pub(crate) rows: Vec<Row>,
    /// Rules whose last file has ended.
    pub(crate) rules: Vec<RuleRow>,
}

/// A file of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileKey {
    pub(super) rule: Key,
    pub(super) at: u32,
}

/// How far a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileState {
    /// Its request waits for the submitter, or for a pause to end.
    Queued,
    /// The submitter has it.
    Submitting,
    /// The transfer service has it.
    Submitted(TransferId),
    /// The transfer service has ended it; how is in [`RuleFile::last`].
    Ended,
    /// Its lock is OK.
    Ok,
    /// Nothing brings it any more, unless the rule is repaired.
    Stuck,
}

/// A file of a rule.
#[derive(Debug)]
pub(super) struct RuleFile {
    pub(super) want: Want,
    pub(super) state: FileState,
    pub(super) requested: Timestamp,
    submitted: Option<Timestamp>,
    /// Requests that failed.
    pub(super) n_failures: u32,
    /// Attempts of transfers that have ended.
    attempts: u32,
    /// The last transfer.
    pub(super) last: Option<Box<Row>>,
}

impl RuleFile {
    /// Whether its copy is at the destination.
    pub(super) fn has_come(&self) -> bool {
        let finished = |row: &Row| row.state == Settled::Finished;
        matches!(self.state, FileState::Ok | FileState::Ended) && self.last.as_deref().is_some_and(finished)
            || self.state == FileState::Ok
    }
}

/// A rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) number: u64,
    pub(super) ask: usize,
    /// Number of its first file.
    first: u64,
    asked: Timestamp,
    pub(super) answered: Option<Timestamp>,
    pub(super) life: Lifetime,
    pub(super) files: Vec<RuleFile>,
    locks: LockCounts,
    /// When its newest lock became OK.
    newest: Timestamp,
    /// Whether it ends when its files have come.
    is_loop: bool,
    /// Whether its row has been given.
    is_told: bool,
    /// Until when a transaction holds its rows.
    pub(super) held_until: Timestamp,
    /// Until when the finisher's transaction holds some.
    pub(super) finishing_until: Timestamp,
    /// Since when it is stuck.
    pub(super) stuck_since: Option<Timestamp>,
}

impl Rule {
    pub(super) fn state(&self) -> RuleState {
        state::of_rule(RuleState::Replicating, self.locks)
    }

    pub(super) fn ends(&self) -> Timestamp {
        self.life.expires.unwrap_or_default()
    }

    /// The time at which a task that waits for its rows can go on.
    pub(super) fn free_at(&self, at: Timestamp) -> Timestamp {
        self.held_until.max(at)
    }
}

/// A copy whose rule has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copy {
    pub(super) ask: usize,
    pub(super) size: u64,
    /// When its rule ended.
    pub(super) due: Timestamp,
}

/// Copies and transfers of a rule that is gone.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) copies: Vec<Copy>,
    /// Transfers that no rule needs any more.
    pub(super) transfers: Vec<TransferId>,
}

/// The books; see the module.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) rules: Slab<Rule>,
    by_transfer: NumberMap<TransferId, FileKey>,
    /// Cancelled transfers that have not ended: the link of a workload of each.
    cancelled: NumberMap<TransferId, usize>,
    /// Of each link of a workload: workload, link, and storage element of the destination.
    pub(super) places: Vec<(usize, usize, usize)>,
    /// Of each workload, how long its rules last, and whether they end when their files have come.
    lifetimes: Vec<(Duration, bool)>,
    pub(super) in_use: Vec<u64>,
    pub(super) n_open: u64,
    n_rules: u64,
    n_files: u64,
    pub(super) told: Told,
    /// Copies that were deleted: the link of a workload that brought each, and its bytes.
    pub(super) freed: Vec<(usize, u64)>,
    pub(super) deletions: Deletions,
}

fn since(at: Timestamp) -> Duration {
    at.since(Timestamp(0))
}

impl Books {
    pub(super) fn new(scene: &Scene, lifetimes: Vec<(Duration, bool)>) -> Self {
        let place = |ask: &crate::scene::Ask| (ask.workload, ask.link, scene.links[ask.link].destination);
        Self {
            rules: Slab::default(),
            by_transfer: NumberMap::default(),
            cancelled: NumberMap::default(),
            places: scene.asks.iter().map(place).collect(),
            lifetimes,
            in_use: vec![0; scene.asks.len()],
            n_open: 0,
            n_rules: 0,
            n_files: 0,
            told: Told::default(),
            freed: Vec::new(),
            deletions: Deletions::default(),
        }
    }

    /// Writes a rule down.
    pub(super) fn add(&mut self, now: Timestamp, ask: usize, wants: &[Want]) -> Key {
        let file = |want: &Want| RuleFile {
            want: *want,
            state: FileState::Queued,
            requested: now,
            submitted: None,
            n_failures: 0,
            attempts: 0,
            last: None,
        };
        let n_files = wants.len() as u64;
        self.n_rules += 1;
        self.in_use[ask] += n_files;
        self.n_open += n_files;
        let workload = self.places[ask].0;
        // As in a real run: the workload in the upper bits, the file's number in it in the lower ones.
        let first = (workload as u64) << 48 | self.n_files;
        self.n_files += n_files;
        let (lifetime, is_loop) = self.lifetimes[workload];
        self.rules.insert(Rule {
            number: self.n_rules,
            ask,
            first,
            asked: now,
            answered: None,
            life: Lifetime {
                expires: Some(now + lifetime),
                ..Lifetime::default()
            },
            files: wants.iter().map(file).collect(),
            locks: LockCounts {
                replicating: n_files,
                ..LockCounts::default()
            },
            newest: now,
            is_loop,
            is_told: false,
            held_until: now,
            finishing_until: now,
            stuck_since: None,
        })
    }

    /// Files that have not come, and that the transfer service does not have.
    pub(super) fn n_held(&self) -> u64 {
        self.n_open.saturating_sub(self.by_transfer.len() as u64)
    }

    /// Whether one rule was asked for so far.
    pub(super) fn is_first(&self) -> bool {
        self.n_rules == 1
    }

    pub(super) fn file(&self, key: FileKey) -> Option<&RuleFile> {
        self.rules.get(key.rule)?.files.get(key.at as usize)
    }

    pub(super) fn file_mut(&mut self, key: FileKey) -> Option<&mut RuleFile> {
        self.rules.get_mut(key.rule)?.files.get_mut(key.at as usize)
    }

    /// The keys of a rule's files.
    pub(super) fn keys(&self, rule: Key) -> impl Iterator<Item = FileKey> + use<> {
        let n_files = self.rules.get(rule).map_or(0, |rule| rule.files.len() as u32);
        (0..n_files).map(move |at| FileKey { rule, at })
    }

    pub(super) fn submitted(&mut self, now: Timestamp, key: FileKey, transfer: TransferId) {
        let Some(file) = self.file_mut(key) else { return };
        file.state = FileState::Submitted(transfer);
        file.submitted = Some(now);
        self.by_transfer.insert(transfer, key);
    }

    /// A transfer has ended: of which file; `None` if no rule waits for it.
    pub(super) fn ended(&mut self, row: &Row) -> Option<FileKey> {
        let id = TransferId(row.id);
        if let Some(ask) = self.cancelled.remove(&id) {
            self.in_use[ask] -= 1;
            return None;
        }
        let key = self.by_transfer.remove(&id)?;
        let file = self.file_mut(key)?;
        file.state = FileState::Ended;
        file.attempts += row.attempts;
        file.last = Some(Box::new(row.clone()));
        Some(key)
    }

    /// The lock of a file is OK. Gives the rule if it ends with that.
    pub(super) fn lock_ok(&mut self, at: Timestamp, key: FileKey) -> Option<Key> {
        let rule = self.rules.get_mut(key.rule)?;
        let file = &mut rule.files[key.at as usize];
        file.state = FileState::Ok;
        *rule.locks.of(LockState::Replicating) -= 1;
        *rule.locks.of(LockState::Ok) += 1;
        rule.newest = rule.newest.max(at);
        self.n_open -= 1;
        let stages = Stages {
            asked: since(rule.asked),
            requested: Some(since(file.requested)),
            submitted: file.submitted.map(since),
            locked: Some(since(at)),
        };
        if let Some(row) = &file.last {
            let mut row = Row::clone(row);
            row.id = rule.first + u64::from(key.at);
            row.wanted = file.want.wanted;
            row.injected = rule.asked;
            row.attempts = file.attempts;
            row.rule = Some(rule.number);
            row.stages = Some(stages);
            self.told.rows.push(row);
        }
        file.last = None;
        if rule.state() == RuleState::Ok {
            let row = rule_row(rule, &self.places, RuleEnd::Ok, String::new(), rule.newest);
            rule.is_told = true;
            self.told.rules.push(row);
            if rule.is_loop {
                rule.life.expires = Some(at.min(rule.ends()));
                return Some(key.rule);
            }
        }
        None
    }

    /// A file's request may be submitted again.
    pub(super) fn queue_again(&mut self, key: FileKey) {
        if let Some(file) = self.file_mut(key) {
            file.state = FileState::Queued;
        }
    }

    /// Nothing brings a file any more.
    pub(super) fn stuck(&mut self, at: Timestamp, key: FileKey) {
        let Some(rule) = self.rules.get_mut(key.rule) else {
            return;
        };
        rule.files[key.at as usize].state = FileState::Stuck;
        *rule.locks.of(LockState::Replicating) -= 1;
        *rule.locks.of(LockState::Stuck) += 1;
        rule.stuck_since = Some(at);
    }

    /// Files of a rule that are stuck are to be tried again.
    pub(super) fn repair(&mut self, key: Key) -> Vec<FileKey> {
        let Some(rule) = self.rules.get_mut(key) else {
            return Vec::new();
        };
        rule.stuck_since = None;
        let mut again = Vec::new();
        for (file, at) in rule.files.iter_mut().zip(0..) {
            if file.state == FileState::Stuck {
                file.state = FileState::Queued;
                file.n_failures = 0;
                again.push(FileKey { rule: key, at });
            }
        }
        rule.locks.replicating += again.len() as u64;
        rule.locks.stuck -= again.len() as u64;
        again
    }

    /// A rule that has ended is gone: its files that have not come will not come.
    pub(super) fn release(&mut self, at: Timestamp, key: Key) -> Left {
        let Some(rule) = self.rules.remove(key) else {
            return Left::default();
        };
        let (mut left, mut n_missing, ask) = (Left::default(), 0_u64, rule.ask);
        let lifetime = weir_units::duration::format(rule.ends().since(rule.asked));
        for (file, number) in rule.files.iter().zip(rule.first..) {
            if file.has_come() {
                left.copies.push(Copy {
                    ask,
                    size: file.want.size,
                    due: rule.ends(),
                });
                self.deletions.due();
            }
            if file.state == FileState::Ok {
                continue;
            }
            n_missing += 1;
            match file.state {
                FileState::Submitted(transfer) => {
                    self.by_transfer.remove(&transfer);
                    self.cancelled.insert(transfer, ask);
                    left.transfers.push(transfer);
                }
                _ if file.has_come() => {}
                _ => self.in_use[ask] -= 1,
            }
            let row = lost(&rule, (file, number), rule.ends(), &not_come(&lifetime, file));
            self.told.rows.push(row);
        }
        self.n_open -= n_missing;
        if n_missing > 0 && !rule.is_told {
            let reason = format!(
                "{n_missing} of {} files had not come when it ended after {lifetime}",
                rule.files.len()
            );
            let row = rule_row(&rule, &self.places, RuleEnd::Incomplete, reason, at.min(rule.ends()));
            self.told.rules.push(row);
        }
        left
    }

    /// A copy is gone.
    pub(super) fn deleted(&mut self, at: Timestamp, copy: &Copy) {
        self.deletions.done(at.since(copy.due));
        self.freed.push((copy.ask, copy.size));
        self.in_use[copy.ask] -= 1;
    }

    /// Ends the run: files that have not come failed of this.
    pub(super) fn withdraw(&mut self, now: Timestamp, failure: &Failure) {
        self.by_transfer.clear();
        let open: Vec<Key> = self.rules.iter().map(|(key, _)| key).collect();
        for key in open {
            let Some(rule) = self.rules.get_mut(key).filter(|rule| !rule.is_told) else {
                continue;
            };
            rule.is_told = true;
            let missing = rule
                .files
                .iter()
                .zip(rule.first..)
                .filter(|(file, _)| file.state != FileState::Ok);
            let rows: Vec<Row> = missing.map(|file| lost(rule, file, now, failure)).collect();
            self.n_open -= rows.len() as u64;
            let reason = format!(
                "{} of {} files had not come when the drain was over",
                rows.len(),
                rule.files.len()
            );
            let row = rule_row(rule, &self.places, RuleEnd::Incomplete, reason, now);
            self.told.rules.push(row);
            self.told.rows.extend(rows);
        }
    }
}

/// The failure of a file whose rule ended before it had come.
fn not_come(lifetime: &str, file: &RuleFile) -> Failure {
    let known = match file.state {
        FileState::Queued => "the catalogue had not submitted it",
        FileState::Submitting | FileState::Submitted(_) => "the transfer service had it",
        FileState::Ended if file.has_come() => "it was there, and the catalogue did not know",
        FileState::Ended | FileState::Ok => "its last transfer had failed",
        FileState::Stuck => "it was stuck",
    };
    Failure {
        class: ErrorClass::Timeout,
        party: Party::Catalogue,
        phase: Phase::Transfer,
        message: format!("its rule ended after {lifetime}, before the file had come: {known}"),
        remedy: "see what the transfers waited for, or give the workload a longer lifetime".to_owned(),
        bytes_moved: Bytes::ZERO,
        retry: Retry::Never,
    }
}

/// The row of a file that did not come.
fn lost(rule: &Rule, (file, number): (&RuleFile, u64), at: Timestamp, failure: &Failure) -> Row {
    Row {
        id: number,
        ask: rule.ask,
        size: file.want.size,
        mode: CopyMode::Pull,
        state: Settled::Failed,
        wanted: file.want.wanted,
        injected: rule.asked,
        started: None,
        ended: at,
        moved: 0,
        attempts: file.attempts,
        failure: Some(Box::new(failure.clone())),
        rule: Some(rule.number),
        stages: Some(Stages {
            asked: since(rule.asked),
            requested: rule.answered.map(|_| since(file.requested)),
            submitted: file.submitted.map(since),
            locked: None,
        }),
    }
}

fn rule_row(rule: &Rule, places: &[(usize, usize, usize)], end: RuleEnd, reason: String, ended: Timestamp) -> RuleRow {
    let (workload, link, _) = places[rule.ask];
    RuleRow {
        id: rule.number.to_string(),
        workload,
        link,
        files: rule.files.len() as u64,
        bytes: rule.files.iter().map(|file| file.want.size).sum(),
        asked: since(rule.asked),
        answered: rule.answered.map(since),
        ended: since(ended),
        end,
        reason,
    }
}
