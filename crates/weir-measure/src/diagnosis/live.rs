//! Diagnosis while a run goes on: the statements that it has made and withdrawn.

use serde::{Deserialize, Serialize};

use super::statement::Statement;

/// Bins that a statement covers at least before it is made during a run.
const LEAST_BINS: f64 = 3.0;

/// Withdrawn statements that are kept: a run of days may withdraw many.
const KEPT: usize = 100;

/// A statement must follow from every look for so long before it is made, and from none before it is withdrawn, seconds.
///
/// A figure close to a limit comes and goes, and short bins hold few transfers. The time is a little less than a bin of ten seconds.
const STEADY_S: f64 = 9.0;

/// A statement that was made during a run, or taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The moment, seconds from the start of the run.
    pub at_s: f64,
    /// Whether the statement no longer follows from the figures.
    pub is_withdrawn: bool,
    /// The statement, with the figures that it had last.
    pub statement: Statement,
}

impl Change {
    /// The change in one sentence.
    pub fn sentence(&self) -> String {
        let text = &self.statement.text;
        if self.is_withdrawn {
            format!("withdrawn: {text}")
        } else {
            format!("why: {text}")
        }
    }
}

/// The statements made during a run.
#[derive(Debug, Clone, Default)]
pub struct Told {
    standing: Vec<Standing>,
    /// The last [`KEPT`].
    withdrawn: Vec<Change>,
    n_withdrawn: u64,
}

#[derive(Debug, Clone)]
struct Standing {
    statement: Statement,
    /// When it was found first, without a look since then that did not find it, unless it was made before.
    first_s: f64,
    last_s: f64,
}

impl Standing {
    fn is_said(&self) -> bool {
        self.statement.said_s.is_some()
    }
}

impl Told {
    /// Takes in what a look at the run finds. Returns what is new and what is withdrawn by it.
    ///
    /// Two statements of the same class and place with a link in common are one whose figures have changed. `bin_s` is the width of a bin.
    pub fn look(&mut self, at_s: f64, bin_s: f64, found: Vec<Statement>) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut found: Vec<Option<Statement>> = found.into_iter().map(Some).collect();
        for standing in &mut self.standing {
            let again = found.iter_mut().find(|found| {
                let found = found.as_ref();
                found.is_some_and(|found| is_same(found, &standing.statement))
            });
            if let Some(statement) = again.and_then(Option::take) {
                standing.last_s = at_s;
                standing.statement = Statement {
                    said_s: standing.statement.said_s,
                    ..statement
                };
            }
        }
        let is_gone = |standing: &mut Standing| {
            let steady_s = if standing.is_said() { STEADY_S } else { 0.0 };
            let missing_s = at_s - standing.last_s;
            missing_s > 0.0 && missing_s >= steady_s
        };
        let gone = self.standing.extract_if(.., is_gone).filter(Standing::is_said);
        let withdrawn = gone.map(|standing| Change {
            at_s,
            is_withdrawn: true,
            statement: standing.statement,
        });
        changes.extend(withdrawn);
        let new = found.into_iter().flatten().map(|statement| Standing {
            statement,
            first_s: at_s,
            last_s: at_s,
        });
        self.standing.extend(new);
        for standing in self.standing.iter_mut().filter(|standing| !standing.is_said()) {
            let first_s = standing.first_s;
            let statement = &mut standing.statement;
            // Some findings cost no rate, and are about the whole of the run.
            let is_long = statement.links.is_empty() || statement.until_s - statement.from_s >= LEAST_BINS * bin_s;
            if is_long && at_s - first_s >= STEADY_S {
                statement.said_s = Some(at_s);
                changes.push(Change {
                    at_s,
                    is_withdrawn: false,
                    statement: statement.clone(),
                });
            }
        }
        let withdrawn = changes.iter().filter(|change| change.is_withdrawn);
        self.withdrawn.extend(withdrawn.clone().cloned());
        self.n_withdrawn += withdrawn.count() as u64;
        let too_many = self.withdrawn.len().saturating_sub(KEPT);
        self.withdrawn.drain(..too_many);
        changes
    }

    /// Notes in the statements of the whole run when each was first made.
    pub fn stamp(&self, statements: &mut [Statement]) {
        for statement in statements {
            let said = self.standing.iter().filter(|said| is_same(&said.statement, statement));
            statement.said_s = said.filter_map(|said| said.statement.said_s).min_by(f64::total_cmp);
        }
    }

    /// The statements that were withdrawn last, at most a hundred, in order.
    pub fn withdrawn(&self) -> &[Change] {
        &self.withdrawn
    }

    /// The number of statements that were ever withdrawn.
    pub fn n_withdrawn(&self) -> u64 {
        self.n_withdrawn
    }

    /// The statements that hold, the surest first.
    pub fn standing(&self) -> Vec<&Statement> {
        let said = self.standing.iter().filter(|standing| standing.is_said());
        let mut all: Vec<&Statement> = said.map(|standing| &standing.statement).collect();
        all.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        all
    }
}

fn is_same(one: &Statement, other: &Statement) -> bool {
    let share = |one: &Statement, other: &Statement| one.links.iter().any(|link| other.links.contains(link));
    let without = one.links.is_empty() && other.links.is_empty();
    (one.class, &one.place) == (other.class, &other.place) && (without || share(one, other))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]

    use weir_world::{CauseClass, Place, PlaceKind};

    use super::*;

    fn statement(class: CauseClass, link: &str, until_s: f64) -> Statement {
        Statement {
            links: vec![link.to_owned()],
            ..Statement::bare(class, Some(Place::new(PlaceKind::RseIn, "B")), (100.0, until_s))
        }
    }

    fn told(changes: &[Change]) -> Vec<(bool, CauseClass)> {
        let of = |change: &Change| (change.is_withdrawn, change.statement.class);
        changes.iter().map(of).collect()
    }

    #[test]
    fn a_statement_is_made_once_and_withdrawn_once() {
        use CauseClass::{Admission, StorageDataPath};
        let mut all = Told::default();
        let slow = |until_s| vec![statement(StorageDataPath, "A→B", until_s)];
        let other = || vec![statement(Admission, "A→B", 150.0)];
        assert!(all.look(120.0, 10.0, slow(120.0)).is_empty(), "two bins are too few");
        assert_eq!(told(&all.look(130.0, 10.0, slow(130.0))), [(false, StorageDataPath)]);
        assert!(all.look(140.0, 10.0, slow(140.0)).is_empty());
        assert_eq!(
            all.standing()[0].until_s.to_bits(),
            140.0_f64.to_bits(),
            "it has the newest figures"
        );

        // Another cause for the same links, seen once, and then the first again.
        assert!(all.look(145.0, 10.0, other()).is_empty());
        assert!(all.look(148.0, 10.0, slow(140.0)).is_empty());
        // The other for good.
        assert!(all.look(150.0, 10.0, other()).is_empty());
        assert_eq!(
            told(&all.look(160.0, 10.0, other())),
            [(true, StorageDataPath), (false, Admission)]
        );
        assert!(all.look(170.0, 10.0, other()).is_empty());
        assert_eq!(all.standing().len(), 1);
        assert!(all.look(175.0, 10.0, Vec::new()).is_empty());
        assert_eq!(told(&all.look(180.0, 10.0, Vec::new())), [(true, Admission)]);
        assert!(all.look(200.0, 10.0, Vec::new()).is_empty() && all.standing().is_empty());
        assert_eq!(told(all.withdrawn()), [(true, StorageDataPath), (true, Admission)]);
    }

    #[test]
    fn a_run_of_days_keeps_the_last_withdrawn_statements() {
        let mut all = Told::default();
        for round in 0..150 {
            let at_s = f64::from(round) * 100.0;
            for (after, found) in [(0.0, true), (10.0, true), (30.0, false)] {
                let found = found.then(|| statement(CauseClass::Outage, "A→B", 400.0));
                all.look(at_s + after, 10.0, found.into_iter().collect());
            }
        }
        assert_eq!((all.withdrawn().len(), all.n_withdrawn()), (KEPT, 150));
        assert_eq!(all.withdrawn()[0].at_s.to_bits(), 5_030.0_f64.to_bits());
    }

    #[test]
    fn links_without_one_in_common_are_two_statements() {
        use CauseClass::SharedCapacity;
        let mut all = Told::default();
        let (one, other) = (
            statement(SharedCapacity, "A→B", 200.0),
            statement(SharedCapacity, "C→B", 200.0),
        );
        assert!(all.look(190.0, 10.0, vec![one.clone()]).is_empty());
        assert_eq!(all.look(200.0, 10.0, vec![one.clone(), other.clone()]).len(), 1);
        assert_eq!(all.look(210.0, 10.0, vec![one, other]).len(), 1);
        assert_eq!(all.standing().len(), 2);

        let mut whole = [
            statement(SharedCapacity, "A→B", 300.0),
            statement(SharedCapacity, "C→B", 300.0),
            statement(SharedCapacity, "D→B", 300.0),
        ];
        all.stamp(&mut whole);
        assert_eq!(
            whole.map(|statement| statement.said_s),
            [Some(200.0), Some(210.0), None]
        );
    }
}
