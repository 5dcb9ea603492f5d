//! Scenarios in text, with the decisions that are expected of them.
//!
//! A scenario is a list of lines; the transcript repeats each line, followed by what the core did, indented. The store is
//! quick unless the scenario says `store stops`; then records pile up until `store goes on`.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod common;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use common::ModelStore;
use weir_sched::{
    Command, Config, Effect, End, Event, Input, JobId, JobSpec, LimitChange, Limits, Link, Names, Next, Op, Priority,
    Record, RetryPolicy, Scheduler, Terms, Ticket, TransferSpec,
};
use weir_units::{Bytes, Timestamp};
use weir_world::{
    CopyMode, Core, ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, Seq, TransferId, WorldEvent,
};

/// A core, its store, and a transcript.
struct Stage {
    core: Scheduler,
    names: Names,
    store: ModelStore,
    /// Records that the core issued and the store has not taken.
    pending: Vec<(Seq, Record)>,
    store_stopped: bool,
    now: Timestamp,
    epoch: u64,
    jobs: u128,
    config: Config,
    transcript: String,
}

impl Stage {
    fn new() -> Self {
        let retry = RetryPolicy {
            jitter_percent: 0,
            ..RetryPolicy::default()
        };
        let limits = Limits {
            link: 2,
            inbound: 100,
            outbound: 100,
            ..Limits::default()
        };
        let config = Config {
            limits,
            retry,
            ..Config::default()
        };
        let mut stage = Self {
            core: Scheduler::new(config.clone()),
            names: Names::default(),
            store: ModelStore::default(),
            pending: Vec::new(),
            store_stopped: false,
            now: Timestamp(0),
            epoch: 1,
            jobs: 0,
            config,
            transcript: String::new(),
        };
        stage.step(&[Input::Command(Command::Begin)]);
        stage
    }

    fn link(&mut self, text: &str) -> Link {
        let (source, destination) = text.split_once('→').unwrap();
        Link {
            source: self.names.se(source),
            destination: self.names.se(destination),
        }
    }

    fn play(&mut self, line: &str) {
        writeln!(self.transcript, "{line}").unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["submit", link, ref rest @ ..] => self.submit(link, rest),
            ["done", ref ids @ ..] => self.end(ids, |_| {
                WorldEvent::Ended(Outcome::Done {
                    bytes: Bytes(1_000_000_000),
                    mode: CopyMode::Pull,
                })
            }),
            ["adopted", ref ids @ ..] => self.end(ids, |_| WorldEvent::Adopted(Bytes(1_000_000_000))),
            ["lost", ref ids @ ..] => self.end(ids, |_| WorldEvent::Lost),
            ["stopped", ref ids @ ..] => {
                self.end(ids, |_| WorldEvent::Ended(Outcome::Stopped { bytes_moved: Bytes(0) }));
            }
            ["fails", class, retry, ref ids @ ..] => self.end(ids, |_| WorldEvent::Ended(failure(class, retry))),
            ["cancel", ref ids @ ..] => {
                let transfers = ids.iter().map(|id| transfer(id)).collect();
                self.step(&[Input::Command(Command::Cancel {
                    ticket: Ticket(1),
                    transfers,
                })]);
            }
            ["priority", priority, ref ids @ ..] => {
                let priority = Priority::new(priority.parse().unwrap());
                let transfers = ids.iter().map(|id| transfer(id)).collect();
                self.step(&[Input::Command(Command::SetPriority {
                    ticket: Ticket(2),
                    transfers,
                    priority,
                })]);
            }
            ["limit", ref rest @ ..] => {
                let change = self.limit_change(rest);
                let changes = Arc::new([change]);
                self.step(&[Input::Command(Command::SetLimits {
                    ticket: Ticket(3),
                    changes,
                })]);
            }
            ["wait", seconds] => {
                self.now += Duration::from_secs(seconds.parse().unwrap());
                self.step(&[Input::Timer]);
            }
            ["store", "stops"] => self.store_stopped = true,
            ["store", "goes", "on"] => {
                self.store_stopped = false;
                self.commit();
            }
            ["crash"] => self.crash(),
            ["why", what] if what.contains('→') => {
                let link = self.link(what);
                let reasons = self.core.why_link(link);
                for reason in reasons {
                    writeln!(self.transcript, "    {}", reason.with(&self.names)).unwrap();
                }
            }
            ["why", id] => {
                let why = self
                    .core
                    .why(transfer(id))
                    .map_or("not known".into(), |why| why.with(&self.names));
                writeln!(self.transcript, "    {why}").unwrap();
            }
            _ => panic!("what does {line:?} mean?"),
        }
    }

    fn submit(&mut self, link: &str, rest: &[&str]) {
        let link = self.link(link);
        let mut terms = Terms::default();
        let mut transfers = Vec::new();
        for word in rest {
            match word.split_once('=') {
                Some(("priority", value)) => terms.priority = Priority::new(value.parse().unwrap()),
                Some(("retries", value)) => terms.retries = value.parse().unwrap(),
                Some(("delay", value)) => terms.retry_delay = Duration::from_secs(value.parse().unwrap()),
                _ => {
                    let (first, last) = word.split_once("..").unwrap_or((word, word));
                    for id in transfer(first).0..=transfer(last).0 {
                        let Link { source, destination } = link;
                        let activity = self.names.activity("default");
                        let id = TransferId(id);
                        transfers.push(TransferSpec {
                            id,
                            source,
                            destination,
                            size: Bytes(1_000_000_000),
                            activity,
                        });
                    }
                }
            }
        }
        self.jobs += 1;
        let spec = JobSpec {
            job: JobId(self.jobs),
            terms,
            transfers,
        };
        self.step(&[Input::Command(Command::Submit(Arc::new(spec)))]);
    }

    fn limit_change(&mut self, words: &[&str]) -> LimitChange {
        let limit = words[words.len() - 1].parse().unwrap();
        match words[..words.len() - 1] {
            ["links"] => LimitChange::EveryLink(limit),
            ["link", link] => LimitChange::Link(self.link(link), Some(limit)),
            ["in", se] => LimitChange::Inbound(self.names.se(se), Some(limit)),
            ["out", se] => LimitChange::Outbound(self.names.se(se), Some(limit)),
            _ => panic!("which limit is {words:?}?"),
        }
    }

    /// Ends the running operations of these transfers, all in one step. `7@1` speaks of an operation of epoch 1.
    fn end(&mut self, ids: &[&str], event: impl Fn(OpId) -> WorldEvent) {
        let running: Vec<OpId> = self.core.operations().collect();
        let inputs = ids.iter().map(|id| {
            let op = match id.split_once('@') {
                Some((id, epoch)) => OpId {
                    transfer: transfer(id),
                    attempt: 1,
                    epoch: epoch.parse().unwrap(),
                },
                None => *running.iter().find(|op| op.transfer == transfer(id)).expect("it runs"),
            };
            Input::World(op, event(op))
        });
        let inputs: Vec<Input> = inputs.collect();
        self.step(&inputs);
    }

    fn step(&mut self, inputs: &[Input]) {
        let mut effects = Vec::new();
        self.core.step(self.now, inputs, &mut effects);
        for effect in effects {
            self.tell(&effect);
            if let Effect::Persist(seq, record) = effect {
                self.pending.push((seq, record));
            }
        }
        if !self.store_stopped {
            self.commit();
        }
    }

    fn commit(&mut self) {
        let Some((last, _)) = self.pending.last() else { return };
        let last = *last;
        for (_, record) in self.pending.drain(..) {
            self.store.commit(&record);
        }
        self.step(&[Input::Persisted(last)]);
    }

    fn crash(&mut self) {
        self.pending.clear();
        self.epoch += 1;
        self.core = Scheduler::new(Config {
            epoch: self.epoch,
            ..self.config.clone()
        });
        let mut inputs: Vec<Input> = self.store.restore().into_iter().map(Input::Restored).collect();
        inputs.push(Input::Command(Command::Begin));
        self.step(&inputs);
    }

    fn tell(&mut self, effect: &Effect) {
        let text = match effect {
            Effect::Persist(_, Record::Ended { op, end, next }) => self.tell_end(*op, end, *next),
            Effect::Persist(..) => return,
            Effect::Ack(_) => "answer".into(),
            Effect::Start(op, Op::Copy { link, resume, failures }) => {
                let resume = if *resume {
                    ", looking at the destination first"
                } else {
                    ""
                };
                let failures = if *failures > 0 {
                    format!(", failed {failures} times")
                } else {
                    String::new()
                };
                format!("start {op} {}{failures}{resume}", self.names.link_name(*link))
            }
            Effect::Start(op, Op::Cleanup { link }) => format!("clean up {op} {}", self.names.link_name(*link)),
            Effect::Start(op, other) => format!("start {op} {other:?}"),
            Effect::Stop(op) => format!("stop {op}"),
            Effect::Emit(Event::Settled { transfer, state }) => format!("{transfer} settled {state:?}"),
            Effect::Emit(Event::Refused { refusal, .. }) => format!("refused: {refusal}"),
            Effect::WakeAt(at) if *at <= self.now => "wake at once".into(),
            Effect::WakeAt(at) => format!("wake in {} s", at.since(self.now).as_secs()),
        };
        writeln!(self.transcript, "    {text}").unwrap();
    }

    fn tell_end(&self, op: OpId, end: &End, next: Next) -> String {
        let end = match end {
            End::Done { .. } => "done".into(),
            End::Adopted { .. } => "adopted".into(),
            End::Failed(failure) => format!("failed ({})", failure.class),
            End::Stopped { .. } => "stopped".into(),
            End::Lost => "lost".into(),
        };
        let next = match next {
            Next::Queued { not_before, .. } => format!(", next attempt in {} s", not_before.since(self.now).as_secs()),
            Next::Cleanup { not_before } => format!(", clean-up in {} s", not_before.since(self.now).as_secs()),
            Next::Finished | Next::Failed | Next::Cancelled => String::new(),
        };
        format!("{op} {end}{next}")
    }
}

fn transfer(text: &str) -> TransferId {
    TransferId(text.parse().unwrap())
}

fn failure(class: &str, retry: &str) -> Outcome {
    let retry = match retry {
        "now" => Retry::Now,
        "later" => Retry::Later,
        _ => Retry::Never,
    };
    Outcome::Failed(Failure {
        class: ErrorClass::parse(class).unwrap(),
        party: Party::Network,
        phase: Phase::Preparation,
        message: "it failed".into(),
        remedy: String::new(),
        bytes_moved: Bytes(0),
        retry,
    })
}

/// Plays the lines of `expected` that are not indented, and compares.
fn check(expected: &str) {
    let lines: Vec<&str> = expected
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line))
        .collect();
    let expected = format!("{}\n", lines.join("\n").trim());
    let mut stage = Stage::new();
    for line in expected.lines().filter(|line| !line.starts_with(' ')) {
        stage.play(line);
    }
    assert_eq!(
        stage.transcript, expected,
        "\n--- is:\n{}\n--- expected:\n{expected}",
        stage.transcript
    );
}

#[test]
fn first_come_first_served_up_to_the_limit() {
    // A link that passes its limit breaks the storage behind it; one that stays below wastes it.
    check(
        "
        submit A→B 1..4
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        done 2
            2.1@1 done
            2 settled Finished
            start 3.1@1 A→B
        why 4
            link A→B at its limit 2
        why A→B
            link A→B at its limit 2
        done 1 3
            1.1@1 done
            3.1@1 done
            1 settled Finished
            3 settled Finished
            start 4.1@1 A→B
        ",
    );
}

#[test]
fn urgent_jobs_go_first() {
    check(
        "
        limit links 1
            answer
        submit A→B 1..2
            answer
            start 1.1@1 A→B
        submit A→B 3 priority=1
            answer
        submit A→B 4 priority=5
            answer
        why 3
            behind 2 more urgent transfers of its link; link A→B at its limit 1
        done 1
            1.1@1 done
            1 settled Finished
            start 4.1@1 A→B
        priority 5 3
            answer
        done 4
            4.1@1 done
            4 settled Finished
            start 3.1@1 A→B
        done 3
            3.1@1 done
            3 settled Finished
            start 2.1@1 A→B
        ",
    );
}

#[test]
fn a_blocked_link_holds_nobody_back() {
    // Thousands of files to a full destination wait in front of one that could start.
    check(
        "
        limit in B 1
            answer
        submit A→B 1..1000
            answer
            start 1.1@1 A→B
        submit A→C 1001
            answer
            start 1001.1@1 A→C
        why A→B
            destination B at its inbound limit 1, 1 of them held by A→B
        why 1000
            one of 999 equally urgent transfers of its link; destination B at its inbound limit 1, 1 of them held by A→B
        ",
    );
}

#[test]
fn links_take_turns_at_a_destination() {
    check(
        "
        limit in M 2
            answer
        submit A→M 1..3
            answer
            start 1.1@1 A→M
            start 2.1@1 A→M
        submit B→M 11..13
            answer
        submit C→M 21..23
            answer
        done 1
            1.1@1 done
            1 settled Finished
            start 11.1@1 B→M
        done 2
            2.1@1 done
            2 settled Finished
            start 21.1@1 C→M
        done 11
            11.1@1 done
            11 settled Finished
            start 3.1@1 A→M
        done 21
            21.1@1 done
            21 settled Finished
            start 12.1@1 B→M
        why M→A
        why A→M
            destination M at its inbound limit 2, 1 of them held by A→M
        why 23
            one of 2 equally urgent transfers of its link; destination M at its inbound limit 2, 1 of them held by A→M
        ",
    );
}

#[test]
fn urgency_counts_across_links() {
    check(
        "
        limit in M 1
            answer
        submit A→M 1..2
            answer
            start 1.1@1 A→M
        submit B→M 11 priority=2
            answer
        submit C→M 21 priority=5
            answer
        done 1
            1.1@1 done
            1 settled Finished
            start 21.1@1 C→M
        done 21
            21.1@1 done
            21 settled Finished
            start 2.1@1 A→M
        done 2
            2.1@1 done
            2 settled Finished
            start 11.1@1 B→M
        ",
    );
}

#[test]
fn lowered_limits_let_go_slowly_and_raised_ones_start_at_once() {
    check(
        "
        submit A→B 1..9
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        limit link A→B 1
            answer
        done 1
            1.1@1 done
            1 settled Finished
        why A→B
            link A→B at its limit 1
        done 2
            2.1@1 done
            2 settled Finished
            start 3.1@1 A→B
        limit link A→B 0
            answer
        done 3
            3.1@1 done
            3 settled Finished
        why A→B
            link A→B at its limit 0
        limit links 1
            answer
        limit link A→B 4
            answer
            start 4.1@1 A→B
            start 5.1@1 A→B
            start 6.1@1 A→B
            start 7.1@1 A→B
        ",
    );
}

#[test]
fn nothing_starts_or_is_answered_before_the_store_has_it() {
    check(
        "
        store stops
        submit A→B 1
        why 1
            its start waits for the store
        cancel 1
        why 1
            cancelled, its operation is being stopped; its start waits for the store
        store goes on
            answer
            1.1@1 stopped
            answer
            1 settled Cancelled
        ",
    );
}

#[test]
fn failures_back_off_and_end() {
    check(
        "
        submit A→B 1 retries=2 delay=10
            answer
            start 1.1@1 A→B
        fails timeout later 1
            1.1@1 failed (timeout), next attempt in 10 s
            wake in 10 s
        why 1
            next attempt at 1970-01-01T00:00:10.000Z, after 1 failure
        wait 9
        wait 1
            start 1.2@1 A→B, failed 1 times
        fails timeout later 1
            1.2@1 failed (timeout), next attempt in 20 s
            wake in 20 s
        wait 20
            start 1.3@1 A→B, failed 2 times
        fails timeout later 1
            1.3@1 failed (timeout)
            1 settled Failed
        why 1
            not known
        ",
    );
}

#[test]
fn a_waiting_retry_holds_no_slot() {
    check(
        "
        limit links 1
            answer
        submit A→B 1..3 delay=10
            answer
            start 1.1@1 A→B
        fails overload later 1
            1.1@1 failed (overload), next attempt in 20 s
            wake in 20 s
            start 2.1@1 A→B
        wait 20
        done 2
            2.1@1 done
            2 settled Finished
            start 1.2@1 A→B, failed 1 times
        done 1
            1.2@1 done
            1 settled Finished
            start 3.1@1 A→B
        ",
    );
}

#[test]
fn hopeless_and_hasty_failures() {
    check(
        "
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        fails not-found never 1
            1.1@1 failed (not-found)
            1 settled Failed
        fails network now 2
            2.1@1 failed (network), next attempt in 0 s
            start 2.2@1 A→B
        fails network now 2
            2.2@1 failed (network), next attempt in 0 s
            start 2.3@1 A→B
        fails network now 2
            2.3@1 failed (network), next attempt in 120 s
            wake in 120 s
        ",
    );
}

#[test]
fn cancelling_in_every_state() {
    check(
        "
        submit A→B 1..4 delay=10
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        fails timeout later 1
            1.1@1 failed (timeout), next attempt in 10 s
            wake in 10 s
            start 3.1@1 A→B
        cancel 1 2 4 99
            answer
            stop 2.1@1
            1 settled Cancelled
            4 settled Cancelled
        cancel 2
            answer
        why 2
            cancelled, its operation is being stopped; running since 1970-01-01T00:00:00.000Z, 0 B moved
        stopped 2
            2.1@1 stopped
            2 settled Cancelled
        done 3
            3.1@1 done
            3 settled Finished
        cancel 3
            answer
        ",
    );
}

#[test]
fn a_copy_that_was_faster_than_its_cancellation_is_finished() {
    check(
        "
        submit A→B 1
            answer
            start 1.1@1 A→B
        store stops
        cancel 1
        done 1
            1.1@1 done
        store goes on
            answer
            1 settled Finished
        ",
    );
}

#[test]
fn a_lost_operation_is_looked_after() {
    check(
        "
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        lost 1
            1.1@1 lost, next attempt in 1 s
            wake in 1 s
        cancel 2
            answer
            stop 2.1@1
        lost 2
            2.1@1 lost, clean-up in 10 s
        wait 1
            wake in 9 s
            start 1.2@1 A→B, looking at the destination first
        adopted 1
            1.2@1 adopted
            1 settled Finished
        wait 9
            clean up 2.2@1 A→B
        lost 2
            2.2@1 lost, clean-up in 10 s
            wake in 10 s
        wait 10
            clean up 2.3@1 A→B
        stopped 2
            2.3@1 stopped
            2 settled Cancelled
        ",
    );
}

#[test]
fn after_a_crash_active_transfers_come_first_and_look_before_they_copy() {
    check(
        "
        submit A→B 1..2
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        submit A→B 3..4 priority=5
            answer
        cancel 2
            answer
            stop 2.1@1
        crash
            start 1.2@2 A→B, looking at the destination first
            clean up 2.2@2 A→B
        done 1@1
        why 1
            running since 1970-01-01T00:00:00.000Z, 0 B moved
        adopted 1
            1.2@2 adopted
            1 settled Finished
            start 3.1@2 A→B
        stopped 2
            2.2@2 stopped
            2 settled Cancelled
            start 4.1@2 A→B
        ",
    );
}

#[test]
fn what_the_store_did_not_have_did_not_happen() {
    check(
        "
        submit A→B 1..3
            answer
            start 1.1@1 A→B
            start 2.1@1 A→B
        store stops
        done 1
            1.1@1 done
        submit A→B 4
        crash
        store goes on
            start 1.2@2 A→B, looking at the destination first
            start 2.2@2 A→B, looking at the destination first
        ",
    );
}

#[test]
fn a_retry_keeps_its_time_over_a_crash() {
    check(
        "
        submit A→B 1 delay=100
            answer
            start 1.1@1 A→B
        fails stall later 1
            1.1@1 failed (stall), next attempt in 100 s
            wake in 100 s
        wait 10
        crash
            wake in 90 s
        wait 90
            start 1.2@2 A→B, failed 1 times
        ",
    );
}

#[test]
fn a_link_between_two_busy_ends_gets_its_turn() {
    // Source S is busy with S→X and destination D with Y→D; S→D needs a slot of both in the same moment.
    let mut stage = Stage::new();
    for line in [
        "limit out S 1",
        "limit in D 1",
        "submit S→X 1..100",
        "submit Y→D 101..200",
        "submit S→D 900",
    ] {
        stage.play(line);
    }
    for round in 0..100 {
        let busy_end = |id: u64| {
            if round % 2 == 0 {
                id <= 100
            } else {
                (101..=200).contains(&id)
            }
        };
        let Some(op) = stage.core.operations().find(|op| busy_end(op.transfer.0)) else {
            continue;
        };
        stage.play(&format!("done {}", op.transfer));
        if stage.transcript.contains("start 900") {
            return;
        }
    }
    panic!("S→D starved:\n{}", stage.transcript);
}
