//! The part `chain` of `report.json`.

use serde::{Deserialize, Serialize};

use crate::quantiles::Percentiles;

/// The part `chain` of a report: rules, files and deletions of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChainReport {
    /// Rules that the catalogue made.
    pub rules: u64,
    /// Rules whose files all came.
    pub ok: u64,
    /// Rules with a file that had not come when the rule ended, was deleted, or the drain was over.
    pub incomplete: u64,
    /// Rules that the catalogue did not make.
    pub refused: u64,
    /// From the question to the last lock that was OK, in seconds, of the rules whose files all came.
    pub rule_to_ok_s: Option<Percentiles>,
    /// The same time, file by file, divided by the room in which it passed.
    pub rooms: Rooms,
    /// Rules that were refused or are incomplete, with the reason: the first twenty.
    pub stuck: Vec<StuckRule>,
    /// Deletions of copies after the end of their rules; `null` if they were not watched.
    pub deletions: Option<DeletionReport>,
}

/// Where the time of a file went, in seconds; `null` where no service told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rooms {
    /// From the question for the rule to the file's request: the catalogue's door and its evaluation.
    pub evaluation_s: Option<Percentiles>,
    /// From the request to its submission.
    pub submission_s: Option<Percentiles>,
    /// From the submission to the start of the copy: the transfer service's queue.
    pub queue_s: Option<Percentiles>,
    /// From the start to the end of the copy, checksums included.
    pub copy_s: Option<Percentiles>,
    /// From the end of the copy to the lock that is OK: until the catalogue heard of it and wrote it down.
    pub completion_s: Option<Percentiles>,
}

/// A rule of which not all files came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckRule {
    /// The catalogue's id; empty if it made none.
    pub rule: String,
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Its files.
    pub files: u64,
    /// Why.
    pub reason: String,
}

impl DeletionReport {
    /// The time that 95 % of the deletions did not exceed, in seconds; `None` if more than a twentieth of the copies was not deleted.
    pub(crate) fn p95(&self) -> Option<f64> {
        let are_enough = self.done * 20 >= self.due * 19;
        self.delay_s.as_ref().filter(|_| are_enough).map(|delay| delay.p95)
    }
}

/// Deletions that the catalogue owed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeletionReport {
    /// Delivered copies whose rules had ended.
    pub due: u64,
    /// Copies that were gone before the run ended.
    pub done: u64,
    /// Copies that still existed 10 s after the end of their rule, or when the run ended.
    pub late: u64,
    /// Deletions of copies that were gone, because two daemons had been given them; `null` where there was none, and
    /// where the catalogue does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
    /// From the end of the rule until the copy was seen to be gone, in seconds; it is looked for once a second.
    pub delay_s: Option<Percentiles>,
}
