//! The only way from a plan and the observations of its run to current figures and to the report.
//!
//! Real and simulated runs feed a [`Measurement`] with the same rows: a [`Transfer`] when it has ended, the numbers of
//! active and queued transfers from time to time, events. Its memory does not grow with the number of transfers.

mod now;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_plan::fault::{Course, Fault};
use weir_plan::{Plan, Threshold, Variation, Workload};
use weir_units::duration::format as time;

use crate::accounting::{Accounting, Figures};
use crate::advice;
use crate::chain::{Chain, RuleRow};
use crate::chain_report::{ChainReport, DeletionReport};
use crate::deficit::DeficitBook;
use crate::diagnosis::diagnose;
use crate::evenness::Evenness;
use crate::faults::Courses;
use crate::gauges::Gauges;
use crate::report::{
    Audit, Build, CrossCheck, Event, Host, LinkDeficit, Report, SCHEMA, Series, Verdict, Window, Windows, WorkloadKind,
    WorkloadReport, ratio,
};
use crate::signals::{LinkSignals, Signals};
use crate::snapshot::{self, Ended, RATE_WINDOW, Snapshot, Standing};
use crate::spec::Spec;
use crate::stability::variation;
use crate::threshold::{self, Evaluated};
use crate::transfer::{State, Transfer};
use crate::verdict::{Evidence, decide};

/// See the module.
#[derive(Debug, Clone)]
pub struct Measurement {
    head: Head,
    accounting: Accounting,
    chain: Chain,
    events: Vec<Event>,
    signals: Signals,
    /// The signals as services would tell them, where the world knows more.
    told: Option<Signals>,
    gauges: Gauges,
    deficits: Option<DeficitBook>,
    standing: Standing,
    /// The transfers that ended last.
    ended: VecDeque<Ended>,
    /// Longest drain, as planned.
    drain: Duration,
    /// When injection ended or will, once that is known.
    closed: Option<Duration>,
}

/// The head of a report, taken from the plan.
#[derive(Debug, Clone)]
struct Head {
    challenge: String,
    description: String,
    seed: u64,
    scale: f64,
    thresholds: Vec<Threshold>,
    planned: Variation,
    faults: Courses,
    parameters: BTreeMap<String, String>,
}

/// Data about a run that are known only at its end.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// Command line that runs the same challenge again.
    pub command: String,
    /// See [`Report::started_at`].
    pub started_at: String,
    /// See [`Report::ended_at`].
    pub ended_at: String,
    /// The build that ran.
    pub weir: Build,
    /// Where it ran.
    pub host: Host,
    /// The phase that was cut short and the time, if the run was interrupted.
    pub interrupted: Option<String>,
    /// How far the rows of the run reach, if the report was built from them alone because the run did not come to its end.
    pub incomplete: Option<String>,
    /// Comparisons of independent counters.
    pub crosschecks: Vec<CrossCheck>,
    /// Files that were read back.
    pub audit: Option<Audit>,
    /// Delivered files that were deleted.
    pub deleted_files: u64,
    /// Deletions of the rules' copies by the catalogue.
    pub deletions: Option<DeletionReport>,
    /// Drawn and derived parameters that the plan does not contain.
    pub parameters: BTreeMap<String, String>,
    /// The state of whatever made each fault of a real run, by its name.
    pub acted: BTreeMap<String, String>,
    /// Rules that the world broke, and that make its figures worthless.
    pub violations: Vec<String>,
}

impl Ending {
    /// The phase that was cut short and the time, if the run did not go to its end.
    fn cut_short(&self) -> Option<&str> {
        self.interrupted.as_deref().or(self.incomplete.as_deref())
    }
}

/// A run that is over, measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The figures.
    pub figures: Figures,
    /// Names, asks and windows as they were in the end.
    pub spec: Spec,
    chain: Chain,
    head: Head,
    events: Vec<Event>,
    /// The waits of transfers.
    pub signals: Signals,
    told: Option<Signals>,
    gauges: Gauges,
    deficits: Option<DeficitBook>,
}

impl Measurement {
    /// Begins to measure a plan.
    pub fn of(plan: &Plan) -> Self {
        let spec = Spec::of(plan);
        Self {
            signals: Signals::new(spec.signal_bin()),
            told: None,
            gauges: Gauges::new(spec.bin),
            deficits: None,
            head: Head {
                challenge: plan.name.clone(),
                description: plan.description.clone(),
                seed: plan.seed,
                scale: plan.scale,
                thresholds: plan.thresholds.clone(),
                planned: plan.variation(),
                faults: Courses::of(plan),
                parameters: parameters(plan),
            },
            accounting: Accounting::new(spec),
            chain: Chain::default(),
            events: Vec::new(),
            standing: Standing::default(),
            ended: VecDeque::new(),
            drain: plan.phases.drain,
            closed: None,
        }
    }

    /// The description of the run, as far as it is known.
    pub fn spec(&self) -> &Spec {
        self.accounting.spec()
    }

    /// Accounts for a rule whose last file has ended.
    pub fn add_rule(&mut self, row: &RuleRow) {
        self.chain.add_rule(row, self.accounting.spec());
    }

    /// Accounts for a transfer that has ended.
    pub fn add(&mut self, row: &Transfer) {
        self.accounting.add(row);
        self.chain.add(row);
        let old = |other: &Ended| other.at + RATE_WINDOW < row.ended;
        while self.ended.front().is_some_and(old) {
            self.ended.pop_front();
        }
        self.ended.push_back(Ended {
            at: row.ended,
            started: row.span().0,
            link: row.link,
            bytes: if row.state == State::Finished { row.size } else { 0 },
        });
    }

    /// Accounts for files of one size that were injected on a link between two moments, before their transfers have ended.
    pub fn announce(&mut self, link: usize, files: (u64, u64), span: (Duration, Duration)) {
        if files.0 > 0 {
            self.accounting.announce(link, files, span);
        }
    }

    /// Records how many transfers are active and queued at a moment, for the series.
    pub fn gauge(&mut self, at: Duration, active: u64, queued: u64) {
        self.accounting.gauge(at, active, queued);
    }

    /// Records the current number of transfers that have not ended.
    pub fn standing(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// The waits of transfers, to be added to.
    pub fn signals(&mut self) -> &mut Signals {
        &mut self.signals
    }

    /// The gauges of hosts and storages, to be added to.
    pub fn gauges(&mut self) -> &mut Gauges {
        &mut self.gauges
    }

    /// Takes the waits of transfers from a world that has kept them itself.
    pub fn set_signals(&mut self, signals: Signals) {
        self.signals = signals;
    }

    /// Takes the signals that the report shows in place of what the world knows.
    pub fn set_told(&mut self, told: Signals) {
        self.told = Some(told);
    }

    /// Takes the book of deficits from a world that knows every wait.
    pub fn set_deficits(&mut self, deficits: DeficitBook) {
        self.deficits = Some(deficits);
    }

    /// Records an event.
    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Adds a fault that was made by hand, with its course.
    pub fn add_fault(&mut self, fault: Fault, course: Course) {
        self.head.faults.add(fault, course);
    }

    /// A fault was taken away before its time.
    pub fn end_fault(&mut self, name: &str, at: Duration) {
        self.head.faults.end(name, at);
    }

    /// The events so far, in the order in which they were recorded.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Records how many files were never injected, because they were wanted too long before.
    pub fn given_up(&mut self, at: Duration, files: u64) {
        if files > 0 {
            let text =
                format!("{files} files were wanted so long before they could be injected that they were given up");
            let t_s = at.as_secs_f64();
            self.event(Event { t_s, text });
        }
    }

    /// Injection ended at this moment, or is known to end then. Where no rate is asked, the hold ends with it.
    pub fn close(&mut self, at: Duration) {
        self.accounting.close(at);
        self.closed = Some(at);
    }

    /// The last transfer ended at this moment, or was given up.
    pub fn drained(&mut self, at: Duration) {
        self.accounting.drained(at);
    }

    /// The figures of a moment.
    pub fn snapshot(&self, now: Duration) -> Snapshot {
        let (totals, errors) = self.accounting.so_far();
        snapshot::of(
            &snapshot::Moment {
                now,
                spec: self.spec(),
                closed: self.closed,
                drain: self.drain,
                standing: self.standing,
                ended: &self.ended,
            },
            totals,
            errors,
        )
    }

    /// The series of the hour before a moment, in bins of ten seconds; `bin_s × n_bins` reaches up to the moment.
    pub fn last_hour(&self, now: Duration) -> Series {
        self.accounting.last_hour(now)
    }

    /// Ends the measurement.
    pub fn finish(self) -> Measured {
        let (figures, spec) = self.accounting.finish();
        Measured {
            figures,
            spec,
            chain: self.chain,
            head: self.head,
            events: self.events,
            signals: self.signals,
            told: self.told,
            gauges: self.gauges,
            deficits: self.deficits,
        }
    }
}

impl Measured {
    /// Evaluates a threshold, without the counters that are compared at the end of a run.
    pub fn evaluate(&self, asked: &Threshold, deletions: Option<&DeletionReport>) -> Evaluated {
        let evenness = self.evenness();
        let beside = threshold::Beside {
            crosschecks: &[],
            chain: &self.chain,
            deletions,
            evenness: evenness.as_ref(),
        };
        threshold::evaluate(asked, &self.figures, &self.spec, &beside)
    }

    /// The part `chain` of the report; `None` if no rule was made.
    pub fn chain(&self, deletions: Option<DeletionReport>) -> Option<ChainReport> {
        self.chain.report(deletions)
    }

    /// The parts of each link's deficit; empty where no world has kept them.
    pub fn deficits(&self) -> Vec<LinkDeficit> {
        let hold_end = self.spec.windows.hold_end;
        let report = |book: &DeficitBook| book.report(&self.spec.links, &self.signals, hold_end);
        self.deficits.as_ref().map(report).unwrap_or_default()
    }

    /// The signals of each link, as the report has them.
    pub fn told_signals(&self) -> Vec<LinkSignals> {
        self.told.as_ref().unwrap_or(&self.signals).report(&self.spec.links)
    }

    /// How even the run was; workloads with times of their own change the rate on purpose.
    fn evenness(&self) -> Option<Evenness> {
        if self.spec.workloads.iter().any(|workload| workload.hold.is_some()) {
            return None;
        }
        let (total, sites) = self.figures.seconds.as_ref()?;
        let sites = sites.iter().map(|(name, seconds)| (name.clone(), variation(seconds)));
        Some(Evenness::of(variation(total), sites.collect(), &self.head.planned))
    }

    /// The report.
    pub fn report(self, ending: Ending) -> Report {
        let mut report = self.assembled(ending);
        let diagnosis = diagnose(&report);
        (report.statements, report.ledger) = (diagnosis.statements, diagnosis.ledger);
        report
    }

    /// The report without a diagnosis.
    fn assembled(self, ending: Ending) -> Report {
        let evenness = self.evenness();
        let (deficits, told_signals) = (self.deficits(), self.told_signals());
        let Self {
            mut figures,
            spec,
            chain,
            head,
            mut events,
            gauges,
            ..
        } = self;
        figures.totals.deleted_files = ending.deleted_files;
        let thresholds: Vec<Evaluated> = head
            .thresholds
            .iter()
            .map(|asked| {
                threshold::evaluate(
                    asked,
                    &figures,
                    &spec,
                    &threshold::Beside {
                        crosschecks: &ending.crosschecks,
                        chain: &chain,
                        deletions: ending.deletions.as_ref(),
                        evenness: evenness.as_ref(),
                    },
                )
            })
            .collect();
        let (verdict, verdict_reasons) = judge(&figures, &spec, &thresholds, &ending);
        let advice = advice_of(&figures, head.scale, &ending);
        let mut parameters = head.parameters;
        parameters.extend(ending.parameters);
        let hold_end = spec.windows.hold_end.as_secs_f64();
        events.extend(head.faults.events(&spec));
        let faults = head.faults.report(&spec, &figures.series, &ending.acted);
        events.extend(ending.violations.into_iter().map(|text| Event { t_s: hold_end, text }));
        events.sort_by(|one, other| one.t_s.total_cmp(&other.t_s));
        Report {
            schema: SCHEMA.to_owned(),
            verdict,
            verdict_reasons,
            advice,
            challenge: head.challenge,
            description: head.description,
            seed: head.seed,
            scale: head.scale,
            interrupted: ending.interrupted.is_some(),
            incomplete: ending.incomplete.is_some(),
            command: ending.command,
            started_at: ending.started_at,
            ended_at: ending.ended_at,
            weir: ending.weir,
            host: ending.host,
            windows: windows(&spec),
            stability: figures.parts.report(&spec.sites),
            evenness,
            totals: figures.totals,
            links: figures.links,
            sites: figures.sites,
            workloads: figures.workloads,
            thresholds: thresholds.into_iter().map(|evaluated| evaluated.report).collect(),
            crosschecks: ending.crosschecks,
            verified_by_size: Vec::new(),
            audit: ending.audit,
            chain: chain.report(ending.deletions),
            errors: figures.errors,
            series: figures.series,
            signals: told_signals,
            gauges: gauges.report(),
            deficits,
            statements: Vec::new(),
            withdrawn: Vec::new(),
            ledger: Vec::new(),
            faults,
            events,
            parameters,
        }
    }
}

fn judge(figures: &Figures, spec: &Spec, thresholds: &[Evaluated], ending: &Ending) -> (Verdict, Vec<String>) {
    // Workloads with times of their own change the total on purpose.
    let is_steady = figures.totals.asked_bps.is_some() && spec.workloads.iter().all(|workload| workload.hold.is_none());
    let (mut verdict, mut reasons) = decide(&Evidence {
        thresholds,
        crosschecks: &ending.crosschecks,
        audit: ending.audit.as_ref(),
        interrupted: ending.cut_short(),
        cells: cells(figures),
        finished: figures.totals.finished,
        parts: if is_steady { figures.parts.total() } else { &[] },
    });
    if let Some(first) = ending.violations.first() {
        verdict = Verdict::Fail;
        reasons.insert(0, format!("the simulated world broke its own rules: {first}"));
    }
    (verdict, reasons)
}

/// Cells of copy matrices that did not work, and all of them.
fn cells(figures: &Figures) -> (u64, u64) {
    let of = |workload: &WorkloadReport| match &workload.kind {
        WorkloadKind::Matrix { cells } => cells.clone(),
        WorkloadKind::Rates { .. } | WorkloadKind::Ramp { .. } => Vec::new(),
    };
    let cells: Vec<_> = figures.workloads.iter().flat_map(of).collect();
    let failed = cells.iter().filter(|cell| !cell.ok).count();
    (failed as u64, cells.len() as u64)
}

fn advice_of(figures: &Figures, scale: f64, ending: &Ending) -> Option<String> {
    let totals = &figures.totals;
    let whole = ending.cut_short().is_none();
    let (asked, achieved) = totals.asked_bps.zip(totals.achieved_bps).filter(|_| whole)?;
    let failed = ratio(totals.failed, totals.finished + totals.failed).unwrap_or(0.0);
    advice::weak_machine(scale, asked, achieved, failed, &ending.host)
}

fn windows(spec: &Spec) -> Windows {
    let window = |start: Duration, end: Duration| Window {
        start_s: start.as_secs_f64(),
        end_s: end.as_secs_f64(),
    };
    let ends = &spec.windows;
    Windows {
        ramp: window(Duration::ZERO, ends.ramp_end),
        hold: window(ends.ramp_end, ends.hold_end),
        drain: window(ends.hold_end, ends.drain_end),
    }
}

/// Every value that the plan derived or drew.
fn parameters(plan: &Plan) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    let mut put = |key: String, value: String| drop(parameters.insert(key, value));
    put("phases.ramp".to_owned(), time(plan.phases.ramp));
    put("phases.hold".to_owned(), time(plan.phases.hold));
    put("phases.drain".to_owned(), time(plan.phases.drain));
    let limits = &plan.grid.transfer;
    for (key, value) in [
        ("max_active_per_link", limits.max_active_per_link),
        ("max_active_per_rse_in", limits.max_active_per_rse_in),
        ("max_active_per_rse_out", limits.max_active_per_rse_out),
        ("retries", limits.retries),
    ] {
        put(format!("transfer.{key}"), value.to_string());
    }
    for workload in &plan.workloads {
        let name = workload.name();
        match workload {
            Workload::Rates(rates) => {
                put(format!("{name}.cycle"), time(rates.cycle));
                put(format!("{name}.lifetime"), time(rates.lifetime));
                put(format!("{name}.inject"), rates.inject.as_str().to_owned());
                for rated in &rates.links {
                    let (rate, size, files) = (rated.rate, rated.file_size, rated.source_files);
                    let value = format!("{rate} in files of {size}, {files} of them at the source");
                    put(format!("{name}.link.{}", rated.link), value);
                }
            }
            Workload::Matrix(steps) | Workload::Ramp(steps) => {
                put(format!("{name}.steps"), steps.steps.len().to_string());
                put(format!("{name}.timeout"), time(steps.timeout));
            }
        }
    }
    parameters
}
