//! Rows of a comparison, and their sides.

use std::{fs, path::Path};

use crate::{
    contender::Contender,
    lab::Lab,
    limits::Limit,
    load::{Job, Work},
    outcome::{Outcome, Round, Unit},
};
use anyhow::{Context, Result};
use weir_tests::Draw;

/// One line of the table: the same work for several sides, in turn.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The aim, in words.
    pub(crate) mark: &'static str,
    pub(super) unit: Unit,
    pub(super) limit: Option<Limit>,
    /// At most so many rounds, where one takes minutes.
    pub(super) most: Option<usize>,
    pub(super) sides: Vec<Side>,
}

/// The contender, and its way of doing it.
pub(super) struct Side {
    name: &'static str,
    who: Contender,
    job: Job,
    /// How many of the row's units one round moves.
    units: f64,
    before: Chore,
    after: Chore,
}

type Chore = Box<dyn Fn() -> Result<()>>;

impl Side {
    pub(super) fn new(lab: &Lab, who: &Contender, work: Work, units: f64) -> Self {
        let job = Job {
            ca: lab.ca.clone(),
            token: Some(lab.token.clone()),
            work,
        };
        Self {
            name: who.name,
            who: who.clone(),
            job,
            units,
            before: Box::new(|| Ok(())),
            after: Box::new(|| Ok(())),
        }
    }

    pub(super) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    pub(super) fn before(mut self, chore: impl Fn() -> Result<()> + 'static) -> Self {
        self.before = Box::new(chore);
        self
    }

    pub(super) fn after(mut self, chore: impl Fn() -> Result<()> + 'static) -> Self {
        self.after = Box::new(chore);
        self
    }

    fn round(&self) -> Result<Round> {
        (self.before)()?;
        self.who.reset_peak()?;
        let before = self.who.usage()?;
        let report = self.job.run()?;
        let after = self.who.usage()?;
        (self.after)()?;
        let units = if self.units > 0.0 {
            self.units
        } else {
            report.done as f64
        };
        Ok(Round {
            rate: units / report.seconds,
            cpu: (after.cpu_seconds - before.cpu_seconds) / units,
            peak: after.peak_bytes,
            p50: report.p50,
            p99: report.p99,
            max: report.max,
        })
    }
}

impl Row {
    /// Runs all rounds; in each of them the sides take turns in an order that is drawn anew.
    pub(crate) fn run(&self, rounds: usize, order: &mut Draw) -> Result<Outcome> {
        let rounds = self.most.map_or(rounds, |most| rounds.min(most));
        let mut results: Vec<Vec<Round>> = self.sides.iter().map(|_| Vec::new()).collect();
        // Round 0 warms caches and connections and is not counted; where there is but one round, nothing is to be warmed.
        let warm = usize::from(rounds > 1);
        for round in 0..rounds + warm {
            for at in shuffled(self.sides.len(), order) {
                let side = &self.sides[at];
                let measured = side.round();
                let measured = measured.with_context(|| format!("{} of {}", self.name, side.name))?;
                if round >= warm {
                    results[at].push(measured);
                }
            }
        }
        Ok(Outcome {
            name: self.name,
            mark: self.mark,
            unit: self.unit,
            limit: self.limit,
            contenders: self.sides.iter().map(|side| side.name).zip(results).collect(),
        })
    }
}

/// Empties a directory. The counts that the service keeps of it are not checked.
pub(super) fn empty(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("{}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The numbers below `count` in an order that is drawn (Fisher and Yates).
pub(crate) fn shuffled(count: usize, order: &mut Draw) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        all.swap(last, order.below(last as u64 + 1) as usize);
    }
    all
}
