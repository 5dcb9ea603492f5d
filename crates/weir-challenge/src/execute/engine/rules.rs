//! Rules of a run: the account of each rule and its files, and the deletion of copies by the catalogue.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use weir_measure::chain::{Deletions, RuleEnd, RuleRow};
use weir_measure::{Stages, State};

use super::rule_state::{Alive, Freed, Leaving, Looked, OpenRule};
use super::{Engine, JOBS_PER_POLL};
use crate::execute::record::{Record, Wanted};
use crate::inject::injection::{InjectionDoor, InjectionError, JobId, Observed, RuleCopy, RuleTerms};

/// How often the catalogue is asked which copies are still there.
const LOOK: Duration = Duration::from_secs(1);

/// Limit of copies in one round of questions. The next round goes on behind the last copy of this one.
const COPIES_PER_ROUND: usize = 5_000;

/// Attempts to delete rules at the end of a run.
const ATTEMPTS: u32 = 4;

impl<D: InjectionDoor> Engine<D> {
    /// The terms of the rule for some files. If one of them is to be audited, all stay until then, unless too many of the link's source files
    /// were kept from taking part again.
    pub(super) fn terms(&mut self, wanted: &Wanted, destination: usize) -> RuleTerms {
        let ids: Vec<u64> = wanted.files.iter().map(|file| file.id).collect();
        let size = ids
            .iter()
            .filter_map(|id| Some(self.pending.get(id)?.record.size))
            .sum();
        let link = (wanted.workload, wanted.link);
        let n_kept = self.rules.kept.get(&link).copied().unwrap_or_default() + ids.len();
        let has_spare = n_kept <= wanted.may_keep;
        let is_kept = has_spare && ids.iter().any(|id| self.keep.keeps(*id)) && self.may_keep(destination, size);
        if is_kept {
            self.rules.kept.insert(link, n_kept);
            self.kept[destination] += size;
            for id in ids {
                if let Some(pending) = self.pending.get_mut(&id) {
                    pending.record.kept = true;
                }
            }
        }
        RuleTerms {
            lifetime: (!is_kept).then_some(wanted.lifetime),
            is_loop: wanted.is_loop,
        }
    }

    /// The catalogue made a rule.
    pub(super) fn rule_made(&mut self, rule: &JobId, terms: RuleTerms, (ids, at): (&[u64], Duration)) {
        let Some(mut row) = self.rule_row(ids, at) else {
            return;
        };
        rule.as_str().clone_into(&mut row.id);
        row.answered = Some(at);
        let end = terms.lifetime.map_or(Duration::MAX, |lifetime| at + lifetime);
        let door = self.links[row.link].destination;
        self.rules.alive.insert(rule.clone(), Alive { end, door });
        let n_left = ids.len();
        let ends = terms.is_loop.then(|| ids.to_vec());
        self.rules.open.insert(rule.clone(), OpenRule { row, n_left, ends });
    }

    /// The catalogue did not make a rule, or did not say that it did before the run stopped.
    pub(super) fn rule_not_made(&mut self, (ids, at): (&[u64], Duration), end: RuleEnd, reason: &str) {
        let Some(row) = self.rule_row(ids, at) else { return };
        self.rules.ended.push(RuleRow {
            end,
            reason: reason.to_owned(),
            ..row
        });
    }

    /// The row of a rule that was asked for.
    fn rule_row(&self, ids: &[u64], at: Duration) -> Option<RuleRow> {
        let records = ids.iter().filter_map(|id| Some(&self.pending.get(id)?.record));
        let records: Vec<&Record> = records.collect();
        let first = records.first()?;
        Some(RuleRow {
            id: String::new(),
            workload: first.workload,
            link: first.link,
            files: records.len() as u64,
            bytes: records.iter().map(|record| record.size).sum(),
            asked: first.injected,
            answered: None,
            ended: at,
            end: RuleEnd::Ok,
            reason: String::new(),
        })
    }

    /// When a file passed from one service to the next; the moment of the question is not told here.
    pub(super) fn stages_of(&self, observed: &Observed) -> Stages {
        let passages = observed.passages.unwrap_or_default();
        let at = |moment| self.clock.at(moment);
        Stages {
            asked: Duration::ZERO,
            requested: passages.requested.map(at),
            submitted: passages.submitted.map(at),
            locked: passages.locked.map(at),
        }
    }

    /// Records the rules that protect the source files at these doors: they end with those of the run. If the catalogue
    /// outlives the run, all its remaining deletions are awaited.
    pub(crate) fn protected_by(&mut self, rules: Vec<(usize, JobId)>, is_elsewhere: bool) {
        self.rules.is_elsewhere = is_elsewhere;
        let end = Duration::MAX;
        let alive = rules.into_iter().map(|(door, rule)| (rule, Alive { end, door }));
        self.rules.alive.extend(alive);
    }

    /// A file that a rule asked for has ended.
    pub(super) fn rule_file_ended(&mut self, record: &mut Record) {
        let is_delivered = record.state == Some(State::Finished);
        record.kept &= is_delivered;
        let now = self.clock.now();
        let due = record.job.as_ref().and_then(|rule| self.rules.alive.get(rule));
        let due = due.map(|alive| alive.end).filter(|_| is_delivered).unwrap_or(now);
        let did = self.sources.file(record.source).did.clone().unwrap_or_default();
        let leaving = Leaving {
            copy: RuleCopy {
                destination: self.links[record.link].destination,
                did,
            },
            freed: Freed {
                workload: record.workload,
                link: record.link,
                source: record.source,
            },
            path: record.path.clone(),
            size: record.size,
            is_delivered,
            is_due: false,
            is_source: false,
        };
        self.rules.leaving.insert((due, record.id), leaving);
        let Some(rule) = &record.job else { return };
        let Some(open) = self.rules.open.get_mut(rule) else {
            return;
        };
        let locked = record.stages.and_then(|stages| stages.locked);
        open.row.ended = open.row.ended.max(locked.unwrap_or(record.ended));
        open.n_left -= 1;
        let end = match record.state {
            Some(State::Finished) => RuleEnd::Ok,
            Some(State::Failed) => RuleEnd::Incomplete,
            Some(State::Cancelled | State::Unanswered) | None => RuleEnd::Cancelled,
        };
        if open.row.end == RuleEnd::Ok && end != RuleEnd::Ok {
            open.row.end = end;
            let message = record.failure.as_ref().map(|failure| failure.message.clone());
            open.row.reason = message.unwrap_or_default();
        }
        if open.n_left == 0
            && let Some(open) = self.rules.open.remove(rule)
        {
            self.rules.ended.push(open.row);
            if let Some(ids) = open.ends {
                self.end_rule(rule, &ids);
            }
        }
    }

    /// Ends a rule before its time; its copies are to be deleted from now on.
    fn end_rule(&mut self, rule: &JobId, ids: &[u64]) {
        let Some(alive) = self.rules.alive.remove(rule) else {
            return;
        };
        let now = self.clock.now();
        for id in ids {
            if let Some(leaving) = self.rules.leaving.remove(&(alive.end, *id)) {
                self.rules.leaving.insert((alive.end.min(now), *id), leaving);
            }
        }
        let (door, rule) = (self.door.clone(), rule.clone());
        self.rules
            .ends
            .spawn(async move { cancel_patiently(&*door, &[rule]).await });
    }

    /// Takes the list of deleted copies, and asks for those whose rules have ended.
    pub(super) fn look_after_rules(&mut self) {
        while let Some(looked) = self.rules.looks.try_join_next() {
            self.take_looked(looked.expect("a look does not panic"));
        }
        while let Some(ended) = self.rules.ends.try_join_next() {
            if let Err(error) = ended.expect("a deletion does not panic") {
                self.folder.log(&format!(
                    "rules could not be deleted: {}",
                    weir_auth::error_chain(&error)
                ));
            }
        }
        let now = self.clock.now();
        if now < self.rules.next_look || !self.rules.looks.is_empty() {
            return;
        }
        self.rules.next_look = now + LOOK;
        self.rules.alive.retain(|_, alive| alive.end > now);
        let rules = &mut self.rules;
        // Copies that an RSE never deletes must not keep the others from being asked for.
        let from = rules.looked_to.take().map_or(Bound::Unbounded, Bound::Excluded);
        let to = Bound::Included((now, u64::MAX));
        let due = rules.leaving.range_mut((from, to)).take(COPIES_PER_ROUND);
        let mut asked: Vec<((Duration, u64), RuleCopy)> = Vec::new();
        for (key, leaving) in due {
            if leaving.is_delivered && !leaving.is_due {
                leaving.is_due = true;
                rules.deletions.due();
            }
            asked.push((*key, leaving.copy.clone()));
        }
        if asked.len() == COPIES_PER_ROUND {
            rules.looked_to = asked.last().map(|(key, _)| *key);
        }
        if asked.is_empty() {
            return;
        }
        asked.sort_by(|one, other| one.1.cmp(&other.1));
        let (keys, copies): (Vec<_>, Vec<RuleCopy>) = asked.into_iter().unzip();
        let door = self.door.clone();
        self.rules
            .looks
            .spawn(async move { (keys, door.remaining(&copies).await) });
    }

    fn take_looked(&mut self, (keys, outcome): Looked) {
        let left = match outcome {
            Ok(left) => left,
            Err(error) => {
                let error = weir_auth::error_chain(&error);
                self.folder
                    .log(&format!("the catalogue did not say which copies are gone: {error}"));
                return;
            }
        };
        let now = self.clock.now();
        for key in keys {
            let is_gone = |leaving: &Leaving| !left.contains(&leaving.copy);
            if !self.rules.leaving.get(&key).is_some_and(is_gone) {
                continue;
            }
            let Some(leaving) = self.rules.leaving.remove(&key) else {
                continue;
            };
            let door = leaving.copy.destination;
            if leaving.is_delivered {
                self.made.deleted(&self.doors[door].name, &leaving.path);
                self.held[door] -= leaving.size;
                self.deleted_files += 1;
                self.rules.deletions.done(now.saturating_sub(key.0));
            }
            if leaving.is_source {
                self.made.deleted(&self.doors[door].name, &leaving.path);
            } else {
                self.rules.freed.push(leaving.freed);
            }
        }
    }

    /// Deletes all rules of the run that have not ended, except those whose copies stay.
    pub(super) fn end_rules(&mut self, stays: &dyn Fn(usize) -> bool) {
        let now = self.clock.now();
        let leaving = std::mem::take(&mut self.rules.leaving);
        let leaving = leaving
            .into_iter()
            .filter(|(_, leaving)| !stays(leaving.copy.destination));
        self.rules.leaving = leaving
            .map(|((due, id), leaving)| ((due.min(now), id), leaving))
            .collect();
        (self.rules.next_look, self.rules.looked_to) = (now, None);
        let alive = std::mem::take(&mut self.rules.alive);
        let ending = alive.into_iter().filter(|(_, alive)| !stays(alive.door));
        let rules: Vec<JobId> = ending.map(|(rule, _)| rule).collect();
        self.sources_leave(stays);
        for rules in rules.chunks(JOBS_PER_POLL) {
            let (door, rules) = (self.door.clone(), rules.to_vec());
            self.rules
                .ends
                .spawn(async move { cancel_patiently(&*door, &rules).await });
        }
    }

    /// Whether leftovers of the catalogue at a door outlive the run.
    fn outlives(&self, door: usize) -> bool {
        self.rules.is_elsewhere || !self.doors[door].embedded
    }

    /// Source files are waited for, too, where storage or catalogue outlive the run.
    fn sources_leave(&mut self, stays: &dyn Fn(usize) -> bool) {
        let now = self.clock.now();
        let sources = self.sources.clone();
        for (source, file) in sources.files().iter().enumerate() {
            let Some(did) = &file.did else { continue };
            let is_there = sources.refused(file.door).is_none() && self.outlives(file.door);
            if !is_there || stays(file.door) {
                continue;
            }
            let leaving = Leaving {
                copy: RuleCopy {
                    destination: file.door,
                    did: did.clone(),
                },
                freed: Freed {
                    workload: 0,
                    link: 0,
                    source,
                },
                path: file.path.clone(),
                size: file.size,
                is_delivered: false,
                is_due: false,
                is_source: true,
            };
            // Behind the numbers of all transfers.
            self.rules.leaving.insert((now, u64::MAX - source as u64), leaving);
        }
    }

    /// How many copies the catalogue has to delete where storage or catalogue outlive the run.
    pub(crate) fn leaving_behind(&self) -> usize {
        let outlives = |leaving: &&Leaving| self.outlives(leaving.copy.destination);
        self.rules.leaving.values().filter(outlives).count()
    }

    /// Whether the run ended this rule before all its files had come, so that its copies are deleted at any time from then on.
    pub(crate) fn is_withdrawn(&self, rule: &JobId) -> bool {
        self.rules.withdrawn.contains(rule)
    }

    /// Whether copies are waited for that the catalogue deletes.
    pub(super) fn is_ending_rules(&self) -> bool {
        !self.rules.leaving.is_empty() || !self.rules.ends.is_empty()
    }

    /// Takes the rules whose last file has ended since the last call.
    pub(crate) fn take_rules(&mut self) -> Vec<RuleRow> {
        std::mem::take(&mut self.rules.ended)
    }

    /// Takes the source files whose copies are gone since the last call.
    pub(crate) fn take_freed(&mut self) -> Vec<Freed> {
        std::mem::take(&mut self.rules.freed)
    }

    /// Bytes at each door that may be gone from the storage or from the catalogue: copies whose rules have ended, and
    /// files that did not arrive.
    pub(crate) fn leaving(&self) -> Vec<u64> {
        let mut bytes = vec![0; self.doors.len()];
        let now = self.clock.now();
        for ((due, _), leaving) in &self.rules.leaving {
            if *due <= now || !leaving.is_delivered {
                bytes[leaving.copy.destination] += leaving.size;
            }
        }
        bytes
    }

    /// By destination, the delivered copies whose rules have ended and that are there as far as is known, and the time since the end of the
    /// oldest of these rules.
    pub(crate) fn overdue(&self, now: Duration) -> BTreeMap<usize, (u64, Duration)> {
        let mut doors: BTreeMap<usize, (u64, Duration)> = BTreeMap::new();
        let due = self.rules.leaving.range(..=(now, u64::MAX));
        for ((end, _), leaving) in due.filter(|(_, leaving)| leaving.is_delivered) {
            let (count, age) = doors.entry(leaving.copy.destination).or_default();
            *count += 1;
            *age = (*age).max(now.saturating_sub(*end));
        }
        doors
    }

    /// Whether a rule was made whose copies the catalogue deletes.
    pub(crate) fn makes_rules(&self) -> bool {
        !self.rules.leaving.is_empty() || !self.rules.alive.is_empty() || self.rules.deletions.report().is_some()
    }

    /// Due deletions of the catalogue, and completed ones.
    pub(crate) fn deletions(&self) -> &Deletions {
        &self.rules.deletions
    }
}

/// Deletes rules, again where it helps.
async fn cancel_patiently<D: InjectionDoor>(door: &D, rules: &[JobId]) -> Result<(), InjectionError> {
    let mut attempt = 1;
    loop {
        match door.cancel(rules).await {
            Err(error) if error.is_temporary() && attempt < ATTEMPTS => {
                tokio::time::sleep(Duration::from_millis(250) * 2_u32.pow(attempt)).await;
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use crate::execute::engine::tests::{Setting, setting, until};

    #[tokio::test]
    async fn copies_that_stay_keep_no_other_from_being_asked_for() {
        // Wrong: an RSE that deletes nothing fills every round, and files elsewhere never take part again.
        let Setting {
            mut engine, service, ..
        } = setting();
        for number in 0..=COPIES_PER_ROUND {
            let copy = RuleCopy {
                destination: 1,
                did: format!("d{number}"),
            };
            if number < COPIES_PER_ROUND {
                service.there.lock().insert(copy.clone());
            }
            let freed = Freed {
                workload: 0,
                link: 0,
                source: number,
            };
            let leaving = Leaving {
                copy,
                freed,
                path: String::new(),
                size: 1,
                is_delivered: false,
                is_due: false,
                is_source: false,
            };
            engine.rules.leaving.insert((Duration::ZERO, number as u64), leaving);
        }
        let wait = until(&mut engine, |engine| !engine.rules.freed.is_empty());
        tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
        assert_eq!(engine.take_freed()[0].source, COPIES_PER_ROUND);
    }
}
