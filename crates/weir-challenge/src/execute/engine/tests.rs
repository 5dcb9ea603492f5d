//! The engine against a scripted service.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::time::SystemTime;

use parking_lot::Mutex;
use weir_auth::Secret;
use weir_auth::client::TokenSource;
use weir_http::{Client, ClientConfig, TrustRoots};
use weir_world::{ErrorClass, Party};

use super::*;
use crate::execute::record::WantedFile;
use crate::inject::injection::{Observed, RuleCopy};
use crate::output::append::AppendFile;

/// A service that answers from a script.
#[derive(Default)]
pub(crate) struct Scripted {
    /// Answers to the next submissions; afterwards every one is taken.
    refusals: Mutex<VecDeque<InjectionError>>,
    /// The transfers of each job, and their phase.
    jobs: Mutex<BTreeMap<JobId, (Vec<u64>, Phase)>>,
    /// The fates of jobs, by the order in which they are taken.
    fates: Mutex<BTreeMap<usize, Fate>>,
    /// The phase of all others.
    usual: Phase,
    taken: std::sync::atomic::AtomicUsize,
    /// Copies that the catalogue still knows.
    pub(super) there: Mutex<BTreeSet<RuleCopy>>,
}

/// The fate of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its transfers are in this phase, until they are cancelled.
    Stays(Phase),
    /// The service loses it.
    Lost,
}

impl Scripted {
    /// A service to which this happens with the jobs of these numbers.
    pub(crate) fn with(fates: impl IntoIterator<Item = (usize, Fate)>) -> Self {
        Self {
            fates: Mutex::new(fates.into_iter().collect()),
            usual: Phase::Finished,
            ..Self::default()
        }
    }

    fn refuse(&self, error: InjectionError) {
        self.refusals.lock().push_back(error);
    }

    fn all(&self, phase: Phase) {
        self.jobs.lock().values_mut().for_each(|job| job.1 = phase);
    }
}

impl InjectionDoor for Scripted {
    async fn known_as(&self) -> Result<String, InjectionError> {
        Ok("a script".to_owned())
    }

    async fn held_back(&self, _: usize, _: usize) -> Option<HeldBack> {
        Some(HeldBack {
            text: "source A paused by network".to_owned(),
            by_failures: true,
            party: Some(Party::Source),
        })
    }

    async fn submit(&self, batch: &Batch) -> Result<JobId, InjectionError> {
        if let Some(error) = self.refusals.lock().pop_front() {
            return Err(error);
        }
        let mut jobs = self.jobs.lock();
        let number = self.taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let job = match batch.rule {
            Some(_) => JobId::Rule(format!("rule-{number}")),
            None => JobId::Job(format!("job-{number}")),
        };
        let ids = batch.orders.iter().map(|order| order.id).collect();
        match self.fates.lock().get(&number) {
            Some(Fate::Lost) => None,
            Some(Fate::Stays(phase)) => jobs.insert(job.clone(), (ids, *phase)),
            None => jobs.insert(job.clone(), (ids, self.usual)),
        };
        Ok(job)
    }

    async fn observe(&self, jobs: &[JobId]) -> Result<Vec<(JobId, JobState)>, InjectionError> {
        let known = self.jobs.lock();
        let observed = |id: &u64, phase: Phase| Observed {
            id: *id,
            phase,
            started: Some(SystemTime::now()),
            ended: phase.is_final().then(SystemTime::now),
            bytes_moved: Some(5),
            counted: Some(5),
            first_byte: Some(Duration::from_millis(3)),
            waits: None,
            mode: Some("pull".to_owned()),
            retries: 0,
            class: (phase == Phase::Failed).then_some(ErrorClass::Checksum),
            party: None,
            failed_in: None,
            reason: String::new(),
            remedy: None,
            passages: None, // of a rule that tells nothing of itself
        };
        let of = |job: &JobId| {
            let state = known.get(job).map_or(JobState::Unknown, |(ids, phase)| {
                JobState::Known(ids.iter().map(|id| observed(id, *phase)).collect())
            });
            (job.clone(), state)
        };
        Ok(jobs.iter().map(of).collect())
    }

    async fn remaining(&self, copies: &[RuleCopy]) -> Result<BTreeSet<RuleCopy>, InjectionError> {
        let there = self.there.lock();
        Ok(copies.iter().filter(|copy| there.contains(copy)).cloned().collect())
    }

    async fn cancel(&self, jobs: &[JobId]) -> Result<(), InjectionError> {
        let mut known = self.jobs.lock();
        for job in jobs {
            if let Some(state) = known.get_mut(job) {
                state.1 = Phase::Cancelled;
            }
        }
        Ok(())
    }
}

pub(crate) fn door(name: &str) -> StorageDoor {
    StorageDoor {
        without_checksums: std::sync::Arc::default(),
        name: name.to_owned(),
        url: format!("https://{name}.invalid:1"),
        audience: String::new(),
        scope_prefix: String::new(),
        embedded: true,
        quota: Some(1_000),
        directory: "/weir/test".to_owned(),
        tokens: TokenSource::fixed(Secret::new("none".to_owned())),
        client: Client::new(ClientConfig::new(TrustRoots::default())).unwrap(),
    }
}

pub(super) struct Setting {
    pub(super) engine: Engine<Scripted>,
    pub(super) service: Arc<Scripted>,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

/// One link from A to B, one source file of 100 bytes, a door of 1000 bytes.
pub(super) fn setting() -> Setting {
    let directory = tempfile::tempdir().unwrap();
    let doors = Arc::new(vec![door("a"), door("b")]);
    let mut sources = Sources::default();
    sources.need(&doors[0], 0, 100, 0);
    sources.need_did(0, 100, "run");
    let service = Arc::new(Scripted::default());
    let stop = CancellationToken::new();
    let ground = EngineParts {
        doors,
        links: vec![LinkEnds {
            source: 0,
            destination: 1,
        }],
        workloads: 2,
        sources: Arc::new(sources),
        folder: Arc::new(RunFolder::create(directory.path(), "test", jiff::Timestamp::UNIX_EPOCH).unwrap()),
        made: MadeFiles::new(AppendFile::create(&directory.path().join("files.csv")).unwrap()),
        clock: Clock::start(),
        stop: stop.clone(),
        keep: Keep::percent(1, None),
    };
    Setting {
        engine: Engine::new(service.clone(), ground),
        service,
        stop,
        _folder: directory,
    }
}

fn wanted(ids: std::ops::Range<u64>) -> Wanted {
    Wanted {
        workload: 0,
        link: 0,
        activity: "test".to_owned(),
        mode: None,
        measured: false,
        by_rule: false,
        may_keep: 0,
        is_loop: false,
        lifetime: Duration::from_secs(3600),
        files: ids
            .map(|id| WantedFile {
                id,
                source: 0,
                is_missing: false,
                wanted: Duration::ZERO,
            })
            .collect(),
    }
}

/// How many transfers ended so.
fn ended(engine: &Engine<Scripted>, state: State) -> usize {
    engine.ended.iter().filter(|record| record.state == Some(state)).count()
}

/// Turns the engine until the condition holds; the test's own time limit ends one that never does.
pub(super) async fn until(engine: &mut Engine<Scripted>, condition: impl Fn(&Engine<Scripted>) -> bool) {
    while !condition(engine) {
        engine.turn();
        engine.poll();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_transfer_is_counted_where_it_is() {
    // Wrong: bytes on their way are lost to the injector, or counted twice, so that it floods or starves a link.
    let Setting {
        mut engine, service, ..
    } = setting();
    engine.submit(wanted(0..3));
    assert_eq!(engine.link(0, 0).unfinished, 300);
    assert_eq!(engine.sums().queued, 3);
    assert_eq!(
        engine.space_left(0, 0),
        Some(1_000),
        "its own bytes on their way are the injector's to count"
    );
    assert_eq!(engine.space_left(1, 0), Some(700), "those of another workload are not");
    service.all(Phase::Active);
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(Phase::Active);
    until(&mut engine, |engine| engine.sums().active == 3).await;
    assert_eq!((engine.sums().queued, engine.link(0, 0).active), (0, 3));
    service.all(Phase::Finished);
    until(&mut engine, Engine::is_idle).await;
    assert_eq!((engine.link(0, 0).unfinished, engine.link(0, 0).delivered), (0, 300));
    assert_eq!((ended(&engine, State::Finished), engine.sums().active), (3, 0));
    assert_eq!(engine.space_left(0, 0), Some(700));
    // The service's count, not the asked size: otherwise the cross-check compares the plan with the storages.
    assert!(
        engine
            .ended
            .iter()
            .all(|record| record.bytes_moved == 5 && record.job.is_some())
    );
    assert!(engine.jobs.is_empty() && engine.poll_order.len() <= 1);
}

#[tokio::test]
async fn a_failure_gives_its_space_back() {
    // Wrong: failed transfers fill a destination on paper, so that injection into it ends.
    let Setting {
        mut engine, service, ..
    } = setting();
    engine.submit(wanted(0..2));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(Phase::Failed);
    until(&mut engine, Engine::is_idle).await;
    assert_eq!((ended(&engine, State::Failed), engine.link(0, 0).delivered), (2, 0));
    assert_eq!(engine.space_left(0, 0), Some(1_000));
    let transfer = engine.ended[0].transfer(None);
    assert_eq!((transfer.state, transfer.bytes_moved), (State::Failed, 5));
    assert_eq!(transfer.failure.unwrap().class, ErrorClass::Checksum);
}

#[tokio::test(start_paused = true)]
async fn a_busy_service_makes_transfers_late_not_lost() {
    // Wrong: back-pressure is answered with a failure, or its wait does not count as lateness.
    let Setting {
        mut engine, service, ..
    } = setting();
    for _ in 0..6 {
        service.refuse(InjectionError::Busy {
            door: "fts".to_owned(),
            after: Duration::from_secs(2),
        });
    }
    engine.submit(wanted(0..1));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(Phase::Finished);
    until(&mut engine, Engine::is_idle).await;
    assert_eq!((ended(&engine, State::Finished), engine.ended.len()), (1, 1));
    assert!(engine.ended[0].accepted.is_some());
    assert_eq!(engine.ended[0].late(), engine.ended[0].accepted.unwrap());
}

#[tokio::test]
async fn a_refused_rule_has_failed_with_its_class() {
    // Wrong: a refused submission disappears from the account.
    let Setting {
        mut engine, service, ..
    } = setting();
    let status = http::StatusCode::FORBIDDEN;
    service.refuse(InjectionError::Refused {
        door: "fts".to_owned(),
        status,
        message: "banned".to_owned(),
    });
    engine.submit(wanted(0..2));
    until(&mut engine, Engine::is_idle).await;
    let failures: Vec<_> = engine
        .ended
        .iter()
        .filter_map(|record| record.failure.clone())
        .collect();
    assert_eq!(failures.len(), 2);
    assert_eq!(failures[0].class, ErrorClass::Permission);
    assert!(failures[0].message.contains("banned"), "{}", failures[0].message);
}

#[tokio::test]
async fn a_stopped_run_withdraws_what_waits_to_be_submitted() {
    // Wrong: an interrupted run waits for a service that is busy.
    let Setting {
        mut engine,
        service,
        stop,
        ..
    } = setting();
    service.refuse(InjectionError::Busy {
        door: "fts".to_owned(),
        after: Duration::from_secs(3600),
    });
    engine.submit(wanted(0..1));
    stop.cancel();
    until(&mut engine, Engine::is_idle).await;
    assert_eq!(engine.ended[0].state, Some(State::Cancelled));
}

/// Transfers that hang when they are withdrawn for a reason.
async fn withdrawn(why: Withdrawal, phase: Phase, answers: bool) -> Vec<Record> {
    let Setting {
        mut engine, service, ..
    } = setting();
    engine.submit(wanted(0..2));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(phase);
    let active = if phase == Phase::Active { 2 } else { 0 };
    until(&mut engine, |engine| engine.sums().active == active).await;
    engine.withdraw(why).await;
    if answers {
        until(&mut engine, Engine::is_idle).await;
    } else {
        engine.give_up(why);
    }
    assert_eq!(engine.sums().active, 0);
    engine.take_ended()
}

#[tokio::test]
async fn a_hanging_transfer_has_failed_and_an_interrupted_one_has_not() {
    // Wrong: a service that never ends a tenth of all transfers passes, or Ctrl-C is a failure of the grid.
    for answers in [true, false] {
        for (phase, end, party) in [
            (Phase::Active, "its copy was under way", None),
            (Phase::Queued, "source A paused by network", Some(Party::Source)),
        ] {
            let overdue = withdrawn(Withdrawal::Overdue(Duration::from_secs(30)), phase, answers).await;
            assert_eq!(overdue.len(), 2);
            for record in overdue {
                let failure = record.transfer(None).failure.unwrap();
                assert_eq!(
                    (record.state, failure.class, failure.party),
                    (Some(State::Failed), ErrorClass::Unfinished, party)
                );
                assert!(failure.message.contains("drain of 30 s"), "{}", failure.message);
                assert!(failure.message.ends_with(end), "{}", failure.message);
            }
        }
        let interrupted = withdrawn(Withdrawal::Interrupted, Phase::Active, answers).await;
        let state = if answers { State::Cancelled } else { State::Unanswered };
        assert!(interrupted.iter().all(|record| record.state == Some(state)));
    }
}

#[tokio::test]
async fn a_withdrawn_rule_is_not_audited() {
    // Wrong: files that came are deleted with a rule whose other files did not come, and the audit calls them corrupt.
    let Setting {
        mut engine, service, ..
    } = setting();
    let by_rule = |ids| Wanted {
        by_rule: true,
        ..wanted(ids)
    };
    engine.submit(by_rule(0..2));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(Phase::Finished);
    until(&mut engine, Engine::is_idle).await;
    engine.submit(by_rule(2..4));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    engine.withdraw(Withdrawal::Overdue(Duration::from_secs(30))).await;
    until(&mut engine, Engine::is_idle).await;
    let ended = engine.take_ended();
    let withdrawn = ended
        .iter()
        .filter(|record| engine.is_withdrawn(record.job.as_ref().unwrap()));
    assert_eq!(withdrawn.map(|record| record.id).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn a_job_that_the_service_forgets_has_failed() {
    // Wrong: transfers of a lost job are waited for until the end, and count as withdrawn.
    let Setting {
        mut engine, service, ..
    } = setting();
    engine.submit(wanted(0..2));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    let kept = std::mem::take(&mut *service.jobs.lock());
    until(&mut engine, |engine| !engine.unknown.is_empty()).await;
    assert!(
        !engine.is_idle(),
        "one look at a store that has not caught up is no loss"
    );
    *service.jobs.lock() = kept;
    until(&mut engine, |engine| engine.unknown.is_empty()).await;
    service.jobs.lock().clear();
    until(&mut engine, Engine::is_idle).await;
    let ended = engine.take_ended();
    assert!(ended.iter().all(|record| record.state == Some(State::Failed)) && ended.len() == 2);
    assert_eq!(ended[0].failure.as_ref().unwrap().class, ErrorClass::Forgotten);
    assert!(engine.unknown.is_empty());
}

#[tokio::test]
async fn a_transfer_that_others_cancel_has_failed() {
    // Wrong: an operator who cancels jobs of a challenge improves its failure rate.
    let Setting {
        mut engine, service, ..
    } = setting();
    engine.submit(wanted(0..1));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(Phase::Cancelled);
    until(&mut engine, Engine::is_idle).await;
    let ended = engine.take_ended();
    assert_eq!(ended[0].state, Some(State::Failed));
    assert_eq!(ended[0].failure.as_ref().unwrap().class, ErrorClass::Cancelled);
}

#[tokio::test]
async fn a_step_that_takes_too_long_has_failed() {
    // Wrong: one stalled transfer holds a matrix up for ever.
    let Setting {
        mut engine, service, ..
    } = setting();
    engine.submit(wanted(0..2));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(Phase::Active);
    until(&mut engine, |engine| engine.sums().active == 2).await;
    engine.time_out(&[0, 1], Duration::from_secs(5));
    assert!(engine.is_idle());
    assert_eq!((ended(&engine, State::Failed), engine.sums().active), (2, 0));
    assert_eq!(engine.ended[0].failure.as_ref().unwrap().class, ErrorClass::Timeout);
}

fn by_rule(ids: std::ops::Range<u64>) -> Wanted {
    let mut wanted = Wanted {
        by_rule: true,
        lifetime: Duration::ZERO,
        ..wanted(ids)
    };
    wanted.files.iter_mut().for_each(|file| file.source = 1);
    wanted
}

#[tokio::test]
async fn a_file_takes_part_again_once_the_catalogue_has_deleted_its_copy() {
    // Wrong: a rule asks for a file that is still at its destination, and is OK without a transfer; or the run deletes by itself.
    let Setting {
        mut engine, service, ..
    } = setting();
    let copy = RuleCopy {
        destination: 1,
        did: "run.source.1".to_owned(),
    };
    service.there.lock().insert(copy);
    engine.submit(by_rule(0..1));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(Phase::Finished);
    until(&mut engine, Engine::is_idle).await;
    let rules = engine.take_rules();
    let row = rules.first().unwrap();
    assert_eq!((rules.len(), row.end, row.files, row.bytes), (1, RuleEnd::Ok, 1, 100));
    assert_eq!((row.id.as_str(), row.answered.is_some()), ("rule-0", true));
    until(&mut engine, |engine| !engine.rules.looks.is_empty()).await;
    until(&mut engine, |engine| engine.rules.looks.is_empty()).await;
    assert_eq!(engine.take_freed(), []);
    assert_eq!(
        engine.deletions().report().map(|report| (report.due, report.done)),
        Some((1, 0))
    );
    assert!(engine.deletions.is_empty(), "the catalogue deletes");
    // Wrong: a catalogue that is behind with its deletions looks like one that has none.
    let late = engine.overdue(engine.clock.now() + Duration::from_secs(60));
    assert!(engine.makes_rules() && late.len() == 1, "{late:?}");
    let (count, age) = late[&1];
    assert!(count == 1 && age >= Duration::from_secs(60), "{late:?}");
    service.there.lock().clear();
    engine.expire_all(&|_| false);
    until(&mut engine, |engine| !engine.is_deleting()).await;
    let freed = Freed {
        workload: 0,
        link: 0,
        source: 1,
    };
    assert_eq!(engine.take_freed(), [freed]);
    assert_eq!((engine.sums().deleted_files, engine.held[1]), (1, 0));
    assert!(engine.overdue(Duration::MAX).is_empty());
}

#[tokio::test]
async fn a_rule_that_is_refused_or_lost_says_why() {
    // Wrong: a rule that the catalogue does not take disappears from the account, or the transfer service is blamed for it.
    let Setting {
        mut engine, service, ..
    } = setting();
    service.refuse(InjectionError::Refused {
        door: "catalog".to_owned(),
        status: http::StatusCode::CONFLICT,
        message: "no quota".to_owned(),
    });
    engine.submit(by_rule(0..2));
    until(&mut engine, Engine::is_idle).await;
    let row = engine.take_rules().pop().unwrap();
    assert_eq!((row.end, row.files, row.answered), (RuleEnd::Refused, 2, None));
    assert!(row.reason.contains("no quota"), "{}", row.reason);
    let party = |engine: &Engine<Scripted>| engine.ended.last().unwrap().failure.as_ref().unwrap().party;
    assert_eq!(party(&engine), Some(Party::Catalogue));
    engine.submit(by_rule(2..4));
    until(&mut engine, |engine| !engine.jobs.is_empty()).await;
    service.all(Phase::Failed);
    until(&mut engine, Engine::is_idle).await;
    let row = engine.take_rules().pop().unwrap();
    assert_eq!((row.end, row.files), (RuleEnd::Incomplete, 2));
    until(&mut engine, |engine| engine.rules.freed.len() == 4).await;
    assert_eq!(engine.deletions().report(), None, "nothing was delivered");
}
