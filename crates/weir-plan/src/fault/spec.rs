//! One fault of a challenge.

use std::path::PathBuf;
use std::time::Duration;

use weir_units::{BitRate, Bytes, duration};

use super::kind::FaultKind;
use super::place::FaultPlace;
use super::shape::Shape;
use crate::mode::Mode;

/// How hard a fault is, in the unit of its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// It has no degrees.
    Whole,
    /// A rate that is left, or that foreign traffic takes; above zero.
    Rate(BitRate),
    /// A time that is added; above zero.
    Delay(Duration),
    /// A share of cases; above 0, at most 1.
    Share(f64),
    /// A number that is allowed; above zero.
    Limit(u32),
    /// A size; above zero.
    Size(Bytes),
    /// A factor on what there was.
    Factor(f64),
}

/// One fault of a challenge; see the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Its name; no two faults of a challenge share one.
    pub name: String,
    /// Its kind.
    pub kind: FaultKind,
    /// Where.
    pub place: FaultPlace,
    /// How hard, at its worst.
    pub amount: Amount,
    /// When it begins, from the start of the run.
    pub at: Duration,
    /// How long it lasts; to the end of the run if absent. Above zero.
    pub length: Option<Duration>,
    /// How it comes and goes in that time.
    pub shape: Shape,
    /// Other keys of its kind.
    pub details: Details,
    /// Its place in a file, for problems that are found later.
    pub origin: Origin,
}

/// The file and the line of a table. Equal to any other: two tables that say the same are the same fault.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: Option<usize>,
}

impl PartialEq for Origin {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// Keys that a few kinds take beside their amount.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// The class of errors.
    pub error: Option<String>,
    /// Only copies in this mode.
    pub mode: Option<Mode>,
    /// Only files larger than this.
    pub above: Option<Bytes>,
    /// The number of the server, from 1.
    pub server: Option<u32>,
    /// The segment that traffic takes instead.
    pub to: Option<String>,
    /// The rate of those within the limit.
    pub rate: Option<BitRate>,
    /// How long it takes to come back.
    pub delay: Option<Duration>,
}

impl Fault {
    /// When it ends, if not with the run.
    pub fn until(&self) -> Option<Duration> {
        self.length.map(|length| self.at + length)
    }

    /// Its amount as it is written in a challenge file; `None` if it has no degrees.
    pub fn amount_text(&self) -> Option<String> {
        match self.amount {
            Amount::Whole => None,
            Amount::Rate(rate) => Some(rate.to_string()),
            Amount::Delay(delay) => Some(duration::format(delay)),
            Amount::Share(share) => Some(share.to_string()),
            Amount::Limit(limit) => Some(limit.to_string()),
            Amount::Size(size) => Some(size.to_string()),
            Amount::Factor(factor) => Some(factor.to_string()),
        }
    }
}
