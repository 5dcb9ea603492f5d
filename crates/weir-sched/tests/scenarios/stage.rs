//! Plays a scenario: turns lines into inputs, and effects into lines.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::common::ModelStore;
use weir_sched::{
    Command, Config, Direction, Effect, End, Event, Input, JobId, JobSpec, Link, Mode, Names, Next, Op, Priority,
    Reason, Record, Resource, RetryPolicy, Route, RouteKind, Scheduler, Setting, Settings, Staging, Strategy, Tape,
    Terms, Ticket, TransferSpec, Verdict,
};
use weir_units::{Bytes, Timestamp};
use weir_world::{
    CopyMode, Core, ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, Seq, TransferId, WorldEvent,
};

/// A core, its store, and a transcript.
pub(crate) struct Stage {
    pub(crate) core: Scheduler,
    names: Names,
    store: ModelStore,
    /// Records that the core issued and the store has not taken.
    pending: Vec<(Seq, Record)>,
    store_stopped: bool,
    pub(crate) now: Timestamp,
    /// The wakes that the core asked for and that have not come.
    wakes: BTreeSet<Timestamp>,
    epoch: u64,
    jobs: u128,
    config: Config,
    pub(crate) transcript: String,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let retry = RetryPolicy {
            jitter_percent: 0,
            ..RetryPolicy::default()
        };
        let limits = Settings {
            link: 2,
            inbound: 100,
            outbound: 100,
            ageing: None,
            ..Settings::default()
        };
        let config = Config {
            settings: limits,
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
            wakes: BTreeSet::new(),
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

    #[expect(clippy::too_many_lines, reason = "one arm for each word of the scenario language")]
    pub(crate) fn play(&mut self, line: &str) {
        writeln!(self.transcript, "{line}").unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["submit", link, ref rest @ ..] => self.submit(link, rest),
            ["replicas", strategy, retries, first, ref links @ ..] => {
                let strategy = Strategy::named(strategy).unwrap();
                self.submit_route(RouteKind::Replicas(strategy), retries.parse().unwrap(), first, links);
            }
            ["hops", first, ref links @ ..] => self.submit_route(RouteKind::Hops, 0, first, links),
            ["done", ref ids @ ..] => self.end(ids, |_| {
                WorldEvent::Ended(Outcome::Done {
                    bytes: Bytes(1_000_000_000),
                    mode: CopyMode::Pull,
                    counted: None,
                    first_byte: None,
                })
            }),
            ["adopted", ref ids @ ..] => self.end(ids, |_| WorldEvent::Adopted(Bytes(1_000_000_000))),
            ["ready", ref ids @ ..] => self.end(ids, |_| WorldEvent::Ended(Outcome::Ready)),
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
            ["force", ref ids @ ..] => {
                let transfers = ids.iter().map(|id| transfer(id)).collect();
                self.step(&[Input::Command(Command::Force {
                    ticket: Ticket(4),
                    transfers,
                })]);
            }
            ["decisions", link] => {
                let link = self.link(link);
                for decision in self.core.decisions(link) {
                    let verdict = self.verdict(decision.verdict);
                    let at = decision.at.since(Timestamp(0)).as_secs();
                    writeln!(self.transcript, "    {at} s: {} {verdict}", decision.transfer).unwrap();
                }
            }
            [
                "limit" | "rate" | "group" | "target" | "weight" | "share" | "ageing" | "optimiser" | "hold",
                ..,
            ] => {
                let change = self.setting(&words);
                let changes = Arc::new([change]);
                self.step(&[Input::Command(Command::Set {
                    ticket: Ticket(3),
                    changes,
                })]);
            }
            ["wait", seconds] => {
                self.now += Duration::from_secs(seconds.parse().unwrap());
                self.step(&[Input::Timer]);
            }
            ["store", "stops"] => self.store_stopped = true,
            ["store", "refuses", seq] => {
                let seq = Seq(seq.parse().unwrap());
                let at = self.pending.iter().position(|(pending, _)| *pending == seq).unwrap();
                let (_, record) = self.pending.remove(at);
                if let Record::Submitted(spec) = record {
                    self.store
                        .refused
                        .extend(spec.transfers.iter().map(|transfer| transfer.id));
                }
                self.step(&[Input::Refused(seq)]);
            }
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

    /// Lets time pass until the core asked to be woken. Panics if it did not ask.
    pub(crate) fn wait_for_alarm(&mut self) {
        let alarm = self.wakes.iter().find(|at| **at > self.now).copied();
        self.now = alarm.unwrap_or_else(|| panic!("no alarm is set: {}", self.transcript));
        self.step(&[Input::Timer]);
    }

    fn submit(&mut self, link: &str, rest: &[&str]) {
        let link = self.link(link);
        let mut terms = Terms::default();
        let mut activity = "default";
        let mut tape = Tape::default();
        let mut transfers = Vec::new();
        for word in rest {
            match word.split_once('=') {
                Some(("priority", value)) => terms.priority = Priority::new(value.parse().unwrap()),
                Some(("stage", "only")) => tape.stage = Staging::Only,
                Some(("stage", _)) => tape.stage = Staging::First,
                Some(("archive", _)) => tape.archive = true,
                Some(("vo", value)) => terms.vo = self.names.vo(value),
                Some(("activity", value)) => activity = value,
                Some(("deadline", value)) => terms.deadline = Timestamp::from_secs(value.parse().unwrap()),
                Some(("retries", value)) => terms.retries = value.parse().unwrap(),
                Some(("delay", value)) => terms.retry_delay = Duration::from_secs(value.parse().unwrap()),
                _ => {
                    let (first, last) = word.split_once("..").unwrap_or((word, word));
                    for id in transfer(first).0..=transfer(last).0 {
                        let Link { source, destination } = link;
                        let activity = self.names.activity(activity);
                        let id = TransferId(id);
                        transfers.push(TransferSpec {
                            id,
                            source,
                            destination,
                            size: Bytes(1_000_000_000),
                            activity,
                            tape,
                        });
                    }
                }
            }
        }
        self.give(terms, transfers, Vec::new());
    }

    fn give(&mut self, terms: Terms, transfers: Vec<TransferSpec>, routes: Vec<Route>) {
        self.jobs += 1;
        let spec = JobSpec {
            job: JobId(self.jobs),
            terms,
            transfers,
            routes,
        };
        self.step(&[Input::Command(Command::Submit(Arc::new(spec)))]);
    }

    /// `replicas STRATEGY RETRIES 1 A→C B→C` or `hops 1 A→B B→C`: transfers numbered from 1, which belong together.
    fn submit_route(&mut self, kind: RouteKind, retries: i32, first: &str, links: &[&str]) {
        let first = transfer(first).0;
        let mut transfers = Vec::new();
        for (place, link) in links.iter().enumerate() {
            let Link { source, destination } = self.link(link);
            transfers.push(TransferSpec {
                id: TransferId(first + place as u64),
                source,
                destination,
                size: Bytes(1_000_000_000),
                activity: self.names.activity("default"),
                tape: Tape::default(),
            });
        }
        let route = Route {
            kind,
            places: 0..transfers.len(),
            live: 0,
        };
        let terms = Terms {
            retries,
            ..Terms::default()
        };
        self.give(terms, transfers, vec![route]);
    }

    fn setting(&mut self, words: &[&str]) -> Setting {
        let number = |text: &str| Some(text.parse().unwrap());
        match words {
            ["limit", "links", slots] => Setting::EveryLink(slots.parse().unwrap()),
            ["limit", resource @ .., slots] => Setting::Slots(self.resource(resource), number(slots)),
            ["rate", resource @ .., rate, unit] => {
                Setting::Rate(self.resource(resource), Some(format!("{rate} {unit}").parse().unwrap()))
            }
            ["group", group, direction, se] => {
                let direction = if *direction == "in" {
                    Direction::In
                } else {
                    Direction::Out
                };
                Setting::Member(self.names.group(group), self.names.se(se), direction, true)
            }
            ["target", link, rate, unit] => {
                Setting::Target(self.link(link), Some(format!("{rate} {unit}").parse().unwrap()))
            }
            ["weight", link, weight] => Setting::Weight(self.link(link), number(weight)),
            ["share", vo, share] => Setting::VoShare(self.names.vo(vo), number(share)),
            ["share", vo, activity, share] => {
                Setting::ActivityShare(self.names.vo(vo), self.names.activity(activity), number(share))
            }
            ["ageing", seconds] => {
                Setting::Ageing(number(seconds).map(|seconds: u32| Duration::from_secs(seconds.into())))
            }
            ["hold", yes] => Setting::Hold(yes.parse().unwrap()),
            ["optimiser", link, slots] => Setting::LinkOptimiser(self.link(link), number(slots).map(Mode::Fixed)),
            _ => panic!("which setting is {words:?}?"),
        }
    }

    fn resource(&mut self, words: &[&str]) -> Resource {
        match words {
            ["link", link] => Resource::Link(self.link(link)),
            ["in", se] => Resource::Inbound(self.names.se(se)),
            ["out", se] => Resource::Outbound(self.names.se(se)),
            ["vo", vo, "in", se] => Resource::VoInbound(self.names.se(se), self.names.vo(vo)),
            ["vo", vo, "out", se] => Resource::VoOutbound(self.names.se(se), self.names.vo(vo)),
            ["group", group] => Resource::Group(self.names.group(group)),
            ["tape", se] => Resource::Staging(self.names.se(se)),
            ["vo", vo, "tape", se] => Resource::VoStaging(self.names.se(se), self.names.vo(vo)),
            _ => panic!("which resource is {words:?}?"),
        }
    }

    fn verdict(&self, verdict: Verdict) -> String {
        match verdict {
            Verdict::Start { active, allowed, order } => format!("starts as {active} of {allowed}, by {order:?}"),
            Verdict::Wait { resource, cause } => {
                let (allowed, active, holders) = (0, 0, Vec::new());
                let reason = Reason::Full {
                    resource,
                    allowed,
                    active,
                    cause,
                    holders,
                };
                format!("waits: {}", reason.with(&self.names))
            }
        }
    }

    /// Ends the running operations of these transfers, all in one step. `7@1` says it of epoch 1.
    fn end(&mut self, ids: &[&str], event: impl Fn(OpId) -> WorldEvent) {
        let running: Vec<OpId> = self.core.operations().collect();
        let inputs = ids.iter().map(|id| {
            let (id, epoch) = id
                .split_once('@')
                .map_or((*id, self.epoch), |(id, epoch)| (id, epoch.parse().unwrap()));
            let op = *running.iter().find(|op| op.transfer == transfer(id)).expect("it runs");
            let op = OpId { epoch, ..op };
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
            match effect {
                Effect::Persist(seq, record) => self.pending.push((seq, record)),
                Effect::WakeAt(at) => drop(self.wakes.insert(at)),
                _ => {}
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
            Effect::Persist(
                _,
                Record::Ended {
                    op,
                    end,
                    next,
                    released,
                },
            ) => {
                let released = released.map_or(String::new(), |next| format!(", then {next}"));
                self.tell_end(*op, end, *next) + &released
            }
            Effect::Persist(_, Record::Cancelled { released, .. }) if !released.is_empty() => {
                let released: Vec<String> = released.iter().map(ToString::to_string).collect();
                format!("then {}", released.join(" "))
            }
            Effect::Persist(_, Record::Forced { transfers, .. }) => {
                let transfers: Vec<String> = transfers.iter().map(ToString::to_string).collect();
                format!("forced: {}", transfers.join(" ")).trim_end().into()
            }
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
            Effect::Start(op, Op::Stage { link }) => format!("stage {op} {}", self.names.link_name(*link)),
            Effect::Start(op, Op::Archive { link }) => format!("archive {op} {}", self.names.link_name(*link)),
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
        let how = match end {
            End::Done { .. } => "done".into(),
            End::Adopted { .. } => "adopted".into(),
            End::Ready => "ready".into(),
            End::Failed(failure) => format!("failed ({})", failure.class),
            End::Stopped { .. } => "stopped".into(),
            End::Lost => "lost".into(),
        };
        let next = match next {
            Next::Queued { .. } if matches!(end, End::Done { .. } | End::Adopted { .. } | End::Ready) => String::new(),
            Next::Queued { not_before, .. } => format!(", next attempt in {} s", not_before.since(self.now).as_secs()),
            Next::Cleanup { not_before } => format!(", clean-up in {} s", not_before.since(self.now).as_secs()),
            Next::Finished | Next::Failed | Next::Cancelled => String::new(),
        };
        format!("{op} {how}{next}")
    }
}

fn transfer(text: &str) -> TransferId {
    TransferId(text.parse().unwrap())
}

/// `network` is a failure of the network; `no-space@destination` is one of the destination.
fn failure(class: &str, retry: &str) -> Outcome {
    let (class, party) = match class.split_once('@') {
        Some((class, "source")) => (class, Party::Source),
        Some((class, _)) => (class, Party::Destination),
        None => (class, Party::Network),
    };
    let retry = match retry {
        "now" => Retry::Now,
        "later" => Retry::Later,
        _ => Retry::Never,
    };
    Outcome::Failed(Failure {
        class: ErrorClass::parse(class).unwrap(),
        party,
        phase: Phase::Preparation,
        message: "it failed".into(),
        remedy: String::new(),
        bytes_moved: Bytes(0),
        retry,
    })
}
