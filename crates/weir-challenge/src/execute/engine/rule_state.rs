//! The state of the rules of a run: their files, and the copies that the catalogue is to delete after them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::JoinSet;
use weir_measure::chain::{Deletions, RuleRow};

use crate::inject::injection::{InjectionError, JobId, RuleCopy};

/// A source file whose copy is not at a destination any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) workload: usize,
    pub(crate) link: usize,
    /// Index of the source file.
    pub(crate) source: usize,
}

/// A rule with files that have not ended.
#[derive(Debug)]
pub(super) struct OpenRule {
    pub(super) row: RuleRow,
    pub(super) n_left: usize,
    /// The transfers of its files, if the rule is deleted when they have ended.
    pub(super) ends: Option<Vec<u64>>,
}

/// A copy that is, or may be, at its destination.
#[derive(Debug, Clone)]
pub(super) struct Leaving {
    pub(super) copy: RuleCopy,
    pub(super) freed: Freed,
    pub(super) path: String,
    pub(super) size: u64,
    /// Whether it was delivered: then the catalogue must delete it.
    pub(super) is_delivered: bool,
    /// Whether the time for its deletion has come.
    pub(super) is_due: bool,
    /// Whether it is a source file, which takes no part in anything again.
    pub(super) is_source: bool,
}

/// A rule that has not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alive {
    pub(super) end: Duration,
    /// Index of the storage of the copies that it asks for.
    pub(super) door: usize,
}

pub(super) type Looked = (Vec<(Duration, u64)>, Result<BTreeSet<RuleCopy>, InjectionError>);

/// The rules of a run.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) open: BTreeMap<JobId, OpenRule>,
    /// Rules that have not ended.
    pub(super) alive: BTreeMap<JobId, Alive>,
    /// Rows that have not been taken yet.
    pub(super) ended: Vec<RuleRow>,
    /// Copies by the end of their rules and the number of the transfer.
    pub(super) leaving: BTreeMap<(Duration, u64), Leaving>,
    pub(super) freed: Vec<Freed>,
    pub(super) looks: JoinSet<Looked>,
    pub(super) next_look: Duration,
    /// The last copy of a round that did not reach all.
    pub(super) looked_to: Option<(Duration, u64)>,
    pub(super) deletions: Deletions,
    /// Whether the catalogue outlives the run.
    pub(super) is_elsewhere: bool,
    /// Source files whose copies wait for the audit, by workload and link.
    pub(super) kept: BTreeMap<(usize, usize), usize>,
    /// Rules that the run ended while files of theirs had not come. The catalogue deletes their other copies too.
    pub(super) withdrawn: BTreeSet<JobId>,
    /// Rules that are being deleted.
    pub(super) ends: JoinSet<Result<(), InjectionError>>,
}

impl Rules {
    /// Notes that these are ended by the run, as far as they are rules.
    pub(super) fn are_withdrawn(&mut self, jobs: &[JobId]) {
        let rules = jobs.iter().filter(|job| matches!(job, JobId::Rule(_)));
        self.withdrawn.extend(rules.cloned());
    }
}
