//! Cases: runs of which the truth is known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::truth::Truth;

/// The kind of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseKind {
    /// One cause.
    One,
    /// Two causes at once.
    Two,
    /// Nothing is wrong, or what is wrong does not matter.
    Healthy,
}

/// A run of which the truth is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Its name, and that of its file without the ending.
    pub id: String,
    /// Its kind.
    pub kind: CaseKind,
    /// The incident that it was drawn from.
    pub template: String,
    /// The drawn values, by the name of the axis.
    pub axes: BTreeMap<String, String>,
    /// The causes; none if it is healthy.
    pub truths: Vec<Truth>,
}

/// The cases of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cases {
    /// The seed that drew them.
    pub seed: u64,
    /// Drafts that came to nothing, by the reason.
    pub dropped: BTreeMap<String, u64>,
    /// The cases.
    pub cases: Vec<Case>,
}
