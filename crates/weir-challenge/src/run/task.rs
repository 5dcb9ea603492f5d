//! The phases of a run against a grid that is up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_grid::EmbeddedGrid;
use weir_measure::crosscheck::CrossCheck;
use weir_measure::diagnosis::Told;
use weir_measure::report::{Audit, Event};
use weir_measure::samples::Stage;
use weir_measure::{Measurement, Spec};
use weir_model::TransferTokens;
use weir_plan::{Inject, Plan};

use super::{Done, Purpose, RunOutcome};
use crate::error::RunError;
use crate::execute::clock::Clock;
use crate::execute::diagnosing::{Diagnosing, Scene};
use crate::execute::drive::{Drive, Driven};
use crate::execute::engine::{Engine, EngineParts, LinkEnds};
use crate::execute::live::SharedMeasurement;
use crate::execute::progress::{Progress, Update};
use crate::execute::rates::{RatedPlaces, RatesDriver};
use crate::execute::signal_watch::{SignalSources, SignalWatch};
use crate::execute::steps::StepsDriver;
use crate::faults::{Acted, Acting, Broken};
use crate::inject::fts::{FtsDoor, Renewal};
use crate::inject::injection::JobId;
use crate::inject::rules::RulesDoor;
use crate::inject::run_door::RunDoor;
use crate::options::{Options, Stop};
use crate::output::assemble::write_report_somewhere;
use crate::output::books::{Books, Subject};
use crate::output::description::RunDescription;
use crate::output::folder::RunFolder;
use crate::prepare::layout::{Layout, lay_out};
use crate::prepare::seed::Sources;
use crate::services::storage::StorageDoor;
use crate::sites::{self, SitesReport};
use crate::verify::audit::{self, Keep, Sample};
use crate::verify::catalogued;
use crate::verify::counted::{self, Reading};
use crate::{output::assemble, prepare::leftovers, removal::cleanup, services::doors};

/// Source files of less than this are written while the run goes on; 256 MB: a disk takes them in a second or two.
const SETTLED_FROM: u64 = 256_000_000;

/// Longest wait for the disk before a run begins.
const SETTLE: Duration = Duration::from_secs(60);

/// How often the presenter gets figures.
const TELL: Duration = Duration::from_millis(500);

/// Signals are not read more often.
const SHORTEST_BIN: Duration = Duration::from_secs(1);

/// A run against a grid that is up.
pub(super) struct RunTask<'a> {
    pub(super) plan: &'a Plan,
    pub(super) options: &'a Options,
    pub(super) progress: &'a Arc<dyn Progress>,
    pub(super) stop: &'a Stop,
    pub(super) folder: &'a Arc<RunFolder>,
    pub(super) scratch: &'a Path,
    pub(super) host: weir_measure::report::Host,
}

/// The open parts of a run.
struct Open {
    description: RunDescription,
    doors: Arc<Vec<StorageDoor>>,
    /// The doors of each link, at the numbers of [`Spec::links`].
    ends: Vec<LinkEnds>,
    measurement: SharedMeasurement,
    books: Books,
    transfer: FtsDoor,
    catalog: Option<Arc<RulesDoor>>,
    /// Whether the catalogue runs elsewhere, and so outlives the run.
    is_elsewhere: bool,
    /// Renews the delegated proxy until the run has ended.
    _renewal: Option<Renewal>,
}

/// The source files of a run in their places.
struct Seeded {
    sources: Arc<Sources>,
    /// Rules that protect source files, with their doors.
    protecting: Vec<(usize, JobId)>,
}

/// A run after its loop.
struct DrivenRun {
    engine: Engine<RunDoor>,
    sources: Arc<Sources>,
    /// Counters of the storages before the first injection.
    before: Reading,
    clock: Clock,
    end: Driven,
    acted: Acted,
    /// The diagnosis while it went on.
    told: Told,
}

impl RunTask<'_> {
    fn step(&self, text: impl Into<String>) {
        let text = text.into();
        self.folder.log(&text);
        self.progress.show(&Update::Step { text });
    }

    /// Runs all phases: opens the doors, checks external storage, places the source files, drives the run, compares, cleans up
    /// and reports.
    pub(super) async fn with(self, grid: &EmbeddedGrid, purpose: Purpose) -> Result<Done, RunError> {
        let (mut open, mut layout) = self.open(grid).await?;
        let report = self.look_at_sites(&open).await?;
        if purpose == Purpose::Sites {
            let _lacks = open.books.close();
            return Ok(Done::Sites(report));
        }
        if let Some(report) = report.filter(|report| report.failures() > 0) {
            let (failures, first) = (report.failures(), report.first_failure().unwrap_or_default());
            let _lacks = open.books.close();
            return Err(RunError::Sites { failures, first });
        }
        let sources = std::mem::take(&mut layout.sources);
        let seeded = self.seed(&open, sources, &layout.rated).await?;
        let mut driven = self.drive(grid, &mut open, seeded, &layout).await?;
        let crosschecks = self.compare(&open, &driven).await;
        let samples = std::mem::take(&mut open.books.samples);
        let audit = self
            .audit(self.still_there(samples, &driven), &driven, &open.doors)
            .await;
        self.clean_up(&mut open, &mut driven).await;
        let found = assemble::Found {
            command: &self.options.command,
            host: self.host.clone(),
            clock: driven.clock,
            sums: driven.engine.sums(),
            deletions: driven.engine.deletions().report(),
            driven: driven.end,
            told: driven.told,
            acted: std::mem::take(&mut driven.acted.states),
            crosschecks,
            audit,
            verified_by_size: open.description.verified_by_size,
        };
        self.close(open.books, open.measurement, found)
    }

    /// Names the run, opens the doors of the grid, and opens the books.
    async fn open(&self, grid: &EmbeddedGrid) -> Result<(Open, Layout), RunError> {
        let name = self.folder.path().file_name();
        let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Two runs that begin in the same second against the same storage must not meet.
        let run = format!("{name}-{:08x}", uuid::Uuid::new_v4().as_fields().0);
        let build = assemble::build();
        let description = RunDescription::new(&self.options.command, build, self.host.clone(), &run, self.scratch);
        description.write(self.folder)?;
        let opened = doors::open(&self.plan.grid, grid, &run)?;
        let doors = Arc::new(opened.storage);
        for text in leftovers::of_others(&doors, &self.options.out).await {
            self.note(text);
        }
        let spec = Spec::of(self.plan);
        let layout = lay_out(self.plan, &spec, &doors, &run);
        let measurement = SharedMeasurement::new(Measurement::of(self.plan));
        let subject = Subject {
            spec,
            ends: &layout.ends,
            doors: &doors,
            measurement: &measurement,
        };
        let books = Books::open(self.folder, subject)?;
        let grid = &self.plan.grid;
        let per_file = grid.transfer_tokens == TransferTokens::PerFile;
        let transfer = FtsDoor::new(opened.transfer, doors.clone(), &run).with_tokens_per_file(per_file);
        let renewal = match opened.delegated {
            Some(identity) => {
                let kept = transfer.keep_delegated(identity, self.folder.clone()).await;
                Some(kept.map_err(RunError::Delegation)?)
            }
            None => None,
        };
        let catalog = opened.catalog.filter(|_| self.plan.makes_rules());
        let is_elsewhere = catalog.as_ref().is_some_and(|catalog| !catalog.is_own);
        let catalog = catalog.map(|catalog| RulesDoor::new(catalog, transfer.clone(), doors.clone(), &run));
        let open = Open {
            description,
            doors,
            ends: layout.ends.clone(),
            measurement,
            books,
            transfer,
            catalog: catalog.map(Arc::new),
            is_elsewhere,
            _renewal: renewal,
        };
        Ok((open, layout))
    }

    /// Uploads the source files, and registers them in the catalogue.
    async fn seed(
        &self,
        open: &Open,
        mut sources: Sources,
        rated: &BTreeMap<usize, Vec<RatedPlaces>>,
    ) -> Result<Seeded, RunError> {
        self.step(format!("{} source files go to their places", sources.files().len()));
        if let Some(catalog) = &open.catalog {
            let destinations = destinations_of_rules(self.plan, rated, &open.ends);
            catalog.place(&mut sources, &destinations).await?;
        }
        let made = open.books.made().clone();
        sources
            .upload(&open.doors, self.plan.seed, &made, self.progress, &self.stop.soft)
            .await;
        for (door, refused) in sources.all_refused() {
            let (name, reason) = (&open.doors[*door].name, &refused.reason);
            let text = format!("{name} has no source files, so its links out fail: {reason}");
            self.note(text.clone());
            let event = Event { t_s: 0.0, text };
            open.measurement.with(|measurement| measurement.event(event));
        }
        let mut protecting = Vec::new();
        if let Some(catalog) = &open.catalog {
            self.step("the catalogue learns of the source files");
            protecting = catalog
                .register(&sources)
                .await
                .inspect_err(|_| self.may_be_left("source files"))?;
        }
        if sources.files().iter().map(|file| file.size).sum::<u64>() > SETTLED_FROM {
            self.settle().await;
        }
        Ok(Seeded {
            sources: Arc::new(sources),
            protecting,
        })
    }

    /// Injects and observes until the drain is over or the run is interrupted.
    async fn drive(
        &self,
        grid: &EmbeddedGrid,
        open: &mut Open,
        Seeded { sources, protecting }: Seeded,
        layout: &Layout,
    ) -> Result<DrivenRun, RunError> {
        let before = counted::read(&open.doors).await;
        let clock = Clock::start();
        open.description.started_at = Some(assemble::moment(clock.started_at()));
        let without_checksums = open.doors.iter().filter(|door| door.is_without_checksums());
        open.description.verified_by_size = without_checksums.map(|door| door.name.clone()).collect();
        open.description.write(self.folder)?;
        let no_more = CancellationToken::new();
        let ground = EngineParts {
            doors: open.doors.clone(),
            links: open.ends.clone(),
            workloads: self.plan.workloads.len(),
            sources: sources.clone(),
            folder: self.folder.clone(),
            made: open.books.made().clone(),
            clock,
            stop: no_more.clone(),
            keep: Keep::percent(self.plan.seed, self.options.audit),
        };
        let door = RunDoor {
            transfer: open.transfer.clone(),
            catalog: open.catalog.clone(),
        };
        let mut engine = Engine::new(Arc::new(door), ground);
        engine.protected_by(protecting, open.is_elsewhere);
        let broken = Broken::of(self.plan);
        let rates = RatesDriver::new(self.plan, &layout.rated);
        let mut rates = rates.map(|rates| rates.with_faults(&broken));
        let mut steps = StepsDriver::all(self.plan, &layout.cells);
        let telling = tokio::spawn(tell(open.measurement.clone(), clock, self.progress.clone()));
        let diagnosing = Diagnosing::start(Scene {
            measurement: open.measurement.clone(),
            clock,
            folder: self.folder.clone(),
            progress: self.progress.clone(),
            challenge: self.plan.name.clone(),
            bin: weir_measure::diagnosis::bin_of(self.plan.phases.hold),
        });
        let signals = watch_signals(open, clock, &self.host.name);
        let of_run = (clock, &broken, &open.measurement.clone());
        let drive = Drive {
            engine: &mut engine,
            rates: rates.as_mut(),
            steps: &mut steps,
            phases: self.plan.phases,
            clock,
            measurement: &open.measurement,
            books: &mut open.books,
            folder: self.folder,
            stop: self.stop,
            no_more: &no_more,
            stage: Stage::Injecting,
            signals: Some(signals),
            sampled: Duration::ZERO,
        };
        let acting = Acting::start(self.plan, grid, (self.options, &open.doors), of_run, self.folder);
        let end = drive.run().await;
        let acted = acting.end().await;
        telling.abort();
        let _cancelled = telling.await;
        let told = diagnosing.end().await;
        let driven = DrivenRun {
            engine,
            sources,
            before,
            clock,
            end,
            acted,
            told,
        };
        Ok(driven)
    }

    /// Compares the counters of all parties.
    async fn compare(&self, open: &Open, driven: &DrivenRun) -> Vec<CrossCheck> {
        let mut after = counted::read(&open.doors).await;
        for (door, counters) in &mut after {
            if let Ok(counters) = counters {
                *counters = driven.acted.miscounted.of(*door, *counters);
            }
        }
        let mut checks = counted::compare(&open.doors, &open.books.moved, &driven.before, &after);
        // Where files come past the catalogue, too, it cannot know them all.
        let is_by_rules = |inject: Inject| inject == Inject::Rules;
        let by_rules = self.plan.rates().filter(|(_, rates)| is_by_rules(rates.inject)).count();
        if let Some(catalog) = open.catalog.as_ref().filter(|_| by_rules == self.plan.workloads.len()) {
            let dids = driven.sources.files().iter().filter_map(|file| file.did.as_deref());
            let known = catalog.catalogued(dids).await;
            let known = known.map_err(|error| weir_auth::error_chain(&error));
            let stored = counted::read(&open.doors).await;
            checks.extend(catalogued::compare(
                &open.doors,
                &known,
                &stored,
                &driven.engine.leaving(),
            ));
        }
        checks
    }

    /// Deletes the files of the run, except those that are kept for inspection.
    async fn clean_up(&self, open: &mut Open, driven: &mut DrivenRun) {
        // Files kept for inspection are at the embedded storages; nothing of a run stays at others.
        let (keep, all) = (self.options.keep, open.doors.clone());
        let stays = move |door: usize| keep && all[door].embedded;
        if keep {
            let scratch = self.scratch.display();
            self.step(format!("the data areas are kept as they are, below {scratch}/storage"));
        } else {
            self.step("delivered files and source files are deleted");
        }
        let tell = |text: String| self.step(text);
        let tell = open.is_elsewhere.then_some(&tell as &(dyn Fn(String) + Sync));
        cleanup::delivered(&mut driven.engine, &stays, (self.stop, tell), self.folder).await;
        if self.stop.hard.is_cancelled() {
            return;
        }
        open.books.write();
        let directories = std::mem::take(&mut open.books.directories);
        let made = open.books.made().clone();
        let left = cleanup::rest(
            (&open.doors, &stays),
            &driven.sources,
            directories,
            (self.folder, &made),
        )
        .await;
        let (undeleted, folder) = (driven.engine.leaving_behind(), self.folder.path().display());
        let show = |text: String| self.progress.show(&Update::Note { text });
        if undeleted > 0 {
            show(format!(
                "the catalogue has not deleted {undeleted} copies whose rules have ended: it may yet do so, and weir challenge clean {folder} removes them"
            ));
        }
        if left > 0 {
            show(format!(
                "{left} paths could not be deleted at external storage, and run.log says why: try weir challenge clean {folder}"
            ));
        }
    }

    /// Closes the books and writes the report.
    fn close(
        &self,
        books: Books,
        measurement: SharedMeasurement,
        found: assemble::Found<'_>,
    ) -> Result<Done, RunError> {
        for text in books.close() {
            let event = Event {
                t_s: found.clock.now().as_secs_f64(),
                text: text.clone(),
            };
            measurement.with(|measurement| measurement.event(event));
            self.progress.show(&Update::Note { text });
        }
        let measurement = measurement.into_inner().expect("the loop and the presenter have ended");
        let report = assemble::report(measurement, found);
        let folder = self.folder.path().to_owned();
        let report_folder = write_report_somewhere(&report, self.folder)?;
        if report_folder != folder {
            let (elsewhere, text) = (report_folder.display(), "did not take the report: it is in");
            let text = format!("{} {text} {elsewhere}", folder.display());
            self.progress.show(&Update::Note { text });
        }
        Ok(Done::Run(Box::new(RunOutcome {
            report,
            folder,
            report_folder,
        })))
    }

    /// Logs and shows a remark.
    fn note(&self, text: String) {
        self.folder.log(&text);
        self.progress.show(&Update::Note { text });
    }

    /// Describes how to remove possible leftovers of a run that ends here.
    fn may_be_left(&self, what: &str) {
        let folder = self.folder.path().display();
        let text = format!("{what} may be left at storages: weir challenge clean {folder} removes them");
        self.progress.show(&Update::Note { text });
    }

    /// Looks at storage that does not start with the grid, if that is wanted.
    async fn look_at_sites(&self, open: &Open) -> Result<Option<SitesReport>, RunError> {
        let catalog = open.catalog.as_deref().filter(|_| open.is_elsewhere);
        let doors: &[StorageDoor] = &open.doors;
        let Some(limit) = self
            .options
            .preflight
            .filter(|_| catalog.is_some() || doors.iter().any(|door| !door.embedded))
        else {
            return Ok(None);
        };
        self.step("storage that does not start with the grid is looked at");
        let ground = sites::CopyMeans {
            doors,
            transfer: &open.transfer,
            catalog,
            made: open.books.made(),
        };
        let report = tokio::select! {
            report = sites::check(self.plan, &ground, limit) => report,
            () = self.stop.soft.cancelled() => {
                self.may_be_left("test files");
                return Err(RunError::Interrupted);
            }
        };
        if let Some(report) = &report {
            let text = serde_json::to_string_pretty(report).expect("plain data can be written as JSON");
            self.folder.write("sites.json", |to| writeln!(to, "{text}"))?;
            self.progress.show(&Update::Sites(report.clone()));
        }
        Ok(report)
    }

    /// Waits until earlier writes are on the disk: their flush would stop the services' own commits in the middle of
    /// the run.
    async fn settle(&self) {
        let scratch = self.scratch.to_owned();
        let flush = move || Ok(rustix::fs::syncfs(std::fs::File::open(scratch)?)?);
        let written = tokio::task::spawn_blocking(flush);
        let outcome = tokio::select! {
            written = tokio::time::timeout(SETTLE, written) => written,
            () = self.stop.soft.cancelled() => return,
        };
        match outcome {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err::<_, std::io::Error>(error))) => self
                .folder
                .log(&format!("the source files could not be flushed: {error}")),
            Ok(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            Err(_) => self
                .folder
                .log("the disk was still writing source files when the run began"),
        }
    }

    /// The samples without those of withdrawn rules: the catalogue deletes their copies.
    fn still_there(&self, mut samples: Vec<Sample>, driven: &DrivenRun) -> Vec<Sample> {
        let n_before = samples.len();
        samples.retain(|sample| sample.job.as_ref().is_none_or(|job| !driven.engine.is_withdrawn(job)));
        let n_gone = n_before - samples.len();
        if n_gone > 0 && self.options.audit.is_some() {
            self.note(format!(
                "{n_gone} delivered files are not read back: other files of their rules did not come, and the catalogue deletes them too"
            ));
        }
        samples
    }

    async fn audit(&self, samples: Vec<Sample>, driven: &DrivenRun, doors: &Arc<Vec<StorageDoor>>) -> Option<Audit> {
        let percent = self.options.audit.filter(|percent| *percent > 0.0)?;
        self.step(format!("{} delivered files are read back", samples.len()));
        tokio::select! {
            audit = audit::audit(percent, samples, &driven.sources, doors) => Some(audit),
            () = self.stop.hard.cancelled() => None,
        }
    }
}

/// Begins to read the waits of the run's transfers.
fn watch_signals(open: &Open, clock: Clock, host: &str) -> SignalWatch {
    let sources = SignalSources {
        transfer: open.transfer.clone(),
        catalog: open.catalog.clone(),
        doors: open.doors.clone(),
        ends: open.ends.iter().map(|ends| (ends.source, ends.destination)).collect(),
        host: host.to_owned(),
    };
    let bin = open.measurement.with(|measurement| measurement.signals().width());
    SignalWatch::start(sources, bin.max(SHORTEST_BIN), clock)
}

/// The doors into which rules copy.
fn destinations_of_rules(plan: &Plan, rated: &BTreeMap<usize, Vec<RatedPlaces>>, ends: &[LinkEnds]) -> Vec<usize> {
    let of_rules = plan.rates().filter(|(_, rates)| rates.inject == Inject::Rules);
    let places = of_rules.flat_map(|(number, _)| &rated[&number]);
    let doors: BTreeSet<usize> = places.map(|place| ends[place.link].destination).collect();
    doors.into_iter().collect()
}

/// Shows the figures, even while the run waits.
async fn tell(measurement: SharedMeasurement, clock: Clock, progress: Arc<dyn Progress>) {
    let mut ticks = tokio::time::interval(TELL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        progress.show(&Update::Live(measurement.live(clock.now())));
    }
}
