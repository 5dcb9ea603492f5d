//! One run, from preflight to report.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_grid::{EmbeddedGrid, GridOptions};
use weir_measure::report::{Audit, Event, Report};
use weir_measure::samples::Stage;
use weir_measure::{Measurement, Spec};
use weir_plan::{Inject, Plan};

use crate::assemble::write_report_somewhere;
use crate::audit::{self, Keep, Sample};
use crate::books::{Books, Subject};
use crate::catalogued;
use crate::clock::Clock;
use crate::counted;
use crate::description::RunDescription;
use crate::drive::Drive;
use crate::engine::{Engine, Ground, LinkEnds};
use crate::folder::RunFolder;
use crate::fts::FtsDoor;
use crate::layout::{Layout, lay_out};
use crate::live::SharedMeasurement;
use crate::made::MadeFiles;
use crate::options::{Options, Stop};
use crate::progress::{Progress, Update};
use crate::rates::{RatedPlaces, RatesDriver};
use crate::rules::RulesDoor;
use crate::run_door::RunDoor;
use crate::seed::Sources;
use crate::sites::{self, SitesReport};
use crate::steps::StepsDriver;
use crate::storage::StorageDoor;
use crate::{RunError, assemble, cleanup, doors, host, leftovers, preflight};

/// Source files of less than this are written while the run goes on; 256 MB: a disk takes them in a second or two.
const SETTLED_FROM: u64 = 256_000_000;

/// Longest wait for the disk before a run begins.
const SETTLE: Duration = Duration::from_secs(60);

/// How often the presenter gets figures.
const TELL: Duration = Duration::from_millis(500);

/// The result of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The report.
    pub report: Report,
    /// The run folder.
    pub folder: PathBuf,
    /// The folder with the report: the run folder, or another if that did not take it.
    pub report_folder: PathBuf,
}

impl RunOutcome {
    /// Returns the exit code: 0 pass or no verdict, 1 fail or unstable, 130 interrupted.
    pub fn exit_code(&self) -> u8 {
        match (self.report.interrupted, self.report.verdict) {
            (true, _) => 130,
            (false, weir_measure::Verdict::Pass | weir_measure::Verdict::None) => 0,
            (false, _) => 1,
        }
    }
}

/// Runs a plan against its grid and writes the run folder.
///
/// Starts the embedded part of the grid, puts source files in place, injects, observes, drains, audits, compares
/// counters, cleans up everywhere and reports. To be called on a runtime of its own: data moves on the grid's.
///
/// # Errors
/// When the challenge could not begin; later errors are in the report.
pub async fn run(
    plan: Plan,
    options: Options,
    progress: Arc<dyn Progress>,
    stop: Stop,
) -> Result<RunOutcome, RunError> {
    preflight::check(&plan, &options, &*progress)?;
    let (folder, scratch) = lay_ground(&plan, &options)?;
    let outcome = Box::pin(run_in(
        &plan,
        &options,
        &progress,
        &stop,
        &folder,
        &scratch,
        Purpose::Run,
    ))
    .await;
    let outcome = outcome.map(|done| match done {
        Done::Run(outcome) => *outcome,
        Done::Sites(_) => unreachable!("a run ends with its outcome"),
    });
    clear(&options, &folder, &scratch);
    if let Err(error) = &outcome {
        folder.log(&weir_auth::error_chain(error));
    }
    outcome
}

/// Checks the storages of a plan as a run would before it begins, and leaves nothing; `None` if all of them start with
/// the grid.
///
/// The grid is started for it, in a folder of its own below `options.out`, which is removed unless something could not
/// be deleted.
///
/// # Errors
/// When the grid could not start. Problems at a storage are in the report.
pub async fn check_sites(
    plan: Plan,
    options: Options,
    progress: Arc<dyn Progress>,
    stop: Stop,
) -> Result<Option<SitesReport>, RunError> {
    let (folder, scratch) = lay_ground(&plan, &options)?;
    let outcome = Box::pin(run_in(
        &plan,
        &options,
        &progress,
        &stop,
        &folder,
        &scratch,
        Purpose::Sites,
    ))
    .await;
    clear(&options, &folder, &scratch);
    let report = outcome.map(|done| match done {
        Done::Sites(report) => report,
        Done::Run(_) => unreachable!("a look at the sites ends with its report"),
    })?;
    let left = report
        .iter()
        .flat_map(|report| &report.sites)
        .flat_map(|site| &site.checks);
    if !left
        .into_iter()
        .any(|check| check.name == "delete" && check.outcome.has_failed())
    {
        let _gone = std::fs::remove_dir_all(folder.path());
    }
    Ok(report)
}

/// The purpose for which a grid is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Run,
    Sites,
}

/// The result of a [`Purpose`].
enum Done {
    Run(Box<RunOutcome>),
    Sites(Option<SitesReport>),
}

/// Makes the run folder and the directory of the data areas.
fn lay_ground(plan: &Plan, options: &Options) -> Result<(Arc<RunFolder>, PathBuf), RunError> {
    let moment = jiff::Timestamp::now();
    let folder = Arc::new(RunFolder::create(&options.out, &plan.name, moment)?);
    folder.write("challenge.toml", |to| to.write_all(plan.resolved.as_bytes()))?;
    folder.log(&format!("weir {} runs {}", env!("CARGO_PKG_VERSION"), options.command));
    // Always a directory of the run's own, because it is removed with all that is in it.
    let scratch = match (&options.scratch, folder.path().file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => folder.path().join("scratch"),
    };
    let made = scratch.parent().map_or(Ok(()), std::fs::create_dir_all);
    // Only a new folder: the creator of an existing one could read it, or have put something into it.
    let made = made.and_then(|()| DirBuilder::new().mode(0o700).create(&scratch));
    made.map_err(|source| RunError::Folder {
        path: scratch.clone(),
        source,
    })?;
    Ok((folder, scratch))
}

/// Removes the data areas, unless they are kept.
fn clear(options: &Options, folder: &RunFolder, scratch: &Path) {
    if !options.keep
        && let Err(error) = std::fs::remove_dir_all(scratch)
    {
        folder.log(&format!("could not remove {}: {error}", scratch.display()));
    }
}

/// Runs with the grid's life around it.
async fn run_in(
    plan: &Plan,
    options: &Options,
    progress: &Arc<dyn Progress>,
    stop: &Stop,
    folder: &Arc<RunFolder>,
    scratch: &Path,
    purpose: Purpose,
) -> Result<Done, RunError> {
    let step = |text: String| {
        folder.log(&text);
        progress.show(&Update::Step { text });
    };
    progress.show(&Update::Folder {
        folder: folder.path().to_owned(),
    });
    step("the grid starts".to_owned());
    let host = host::describe(scratch);
    let mut grid_options = GridOptions::default();
    grid_options.catalog = plan.makes_rules();
    let grid = tokio::select! {
        grid = EmbeddedGrid::start(&plan.grid, scratch, grid_options) => grid?,
        () = stop.soft.cancelled() => return Err(RunError::Interrupted),
    };
    let run = RunTask {
        plan,
        options,
        progress,
        stop,
        folder,
        scratch,
        host,
    };
    let outcome = run.with(&grid, purpose).await;
    // Dropping the grid cuts everything off, as a second interruption demands.
    let stopped = tokio::select! {
        stopped = grid.shutdown() => stopped,
        () = stop.hard.cancelled() => Ok(()),
    };
    if let Err(error) = stopped {
        folder.log(&weir_auth::error_chain(&error));
    }
    outcome
}

/// A run against a grid that is up.
struct RunTask<'a> {
    plan: &'a Plan,
    options: &'a Options,
    progress: &'a Arc<dyn Progress>,
    stop: &'a Stop,
    folder: &'a Arc<RunFolder>,
    scratch: &'a Path,
    host: weir_measure::report::Host,
}

impl RunTask<'_> {
    fn step(&self, text: impl Into<String>) {
        let text = text.into();
        self.folder.log(&text);
        self.progress.show(&Update::Step { text });
    }

    async fn with(self, grid: &EmbeddedGrid, purpose: Purpose) -> Result<Done, RunError> {
        let name = self
            .folder
            .path()
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        // Two runs that begin in the same second against the same storage must not meet.
        let run = format!("{name}-{:08x}", uuid::Uuid::new_v4().as_fields().0);
        let build = assemble::build();
        let mut description = RunDescription::new(&self.options.command, build, self.host.clone(), &run, self.scratch);
        description.write(self.folder)?;
        let opened = doors::open(&self.plan.grid, grid, &run)?;
        let doors = Arc::new(opened.storage);
        for text in leftovers::of_others(&doors, &self.options.out).await {
            self.folder.log(&text);
            self.progress.show(&Update::Note { text });
        }
        let spec = Spec::of(self.plan);
        let Layout {
            ends,
            mut sources,
            rated,
            cells,
        } = lay_out(self.plan, &spec, &doors, &run);
        let measurement = SharedMeasurement::new(Measurement::of(self.plan));
        let subject = Subject {
            spec,
            ends: &ends,
            doors: &doors,
            measurement: &measurement,
        };
        let mut books = Books::open(self.folder, subject)?;
        let transfer = FtsDoor::new(opened.transfer, doors.clone(), &run);
        // Held until the run has ended.
        let _renewal = match opened.delegated {
            Some(identity) => {
                let kept = transfer.keep_delegated(identity, self.folder.clone()).await;
                Some(kept.map_err(RunError::Delegation)?)
            }
            None => None,
        };
        let catalog = opened.catalog.filter(|_| self.plan.makes_rules());
        let is_elsewhere = catalog.as_ref().is_some_and(|catalog| !catalog.is_own);
        let catalog = catalog.map(|catalog| Arc::new(RulesDoor::new(catalog, transfer.clone(), doors.clone(), &run)));
        let elsewhere = catalog.as_deref().filter(|_| is_elsewhere);
        let report = self.look_at_sites((&transfer, elsewhere), &doors, books.made()).await?;
        if purpose == Purpose::Sites {
            let _lacks = books.close();
            return Ok(Done::Sites(report));
        }
        if let Some(failures) = report
            .as_ref()
            .map(SitesReport::failures)
            .filter(|failures| *failures > 0)
        {
            let first = report.as_ref().and_then(SitesReport::first_failure).unwrap_or_default();
            let _lacks = books.close();
            return Err(RunError::Sites { failures, first });
        }
        self.step(format!("{} source files go to their places", sources.files().len()));
        let made = books.made().clone();
        if let Some(catalog) = &catalog {
            catalog
                .place(&mut sources, &destinations_of_rules(self.plan, &rated, &ends))
                .await?;
        }
        sources
            .upload(&doors, self.plan.seed, &made, self.progress, &self.stop.soft)
            .await;
        for (door, refused) in sources.all_refused() {
            let (name, reason) = (&doors[*door].name, &refused.reason);
            let text = format!("{name} has no source files, so its links out fail: {reason}");
            self.folder.log(&text);
            self.progress.show(&Update::Note { text: text.clone() });
            measurement.with(|measurement| measurement.event(Event { t_s: 0.0, text }));
        }
        let protecting = match &catalog {
            Some(catalog) => {
                self.step("the catalogue learns of the source files");
                match catalog.register(&sources).await {
                    Ok(rules) => rules,
                    Err(error) => {
                        self.may_be_left("source files");
                        return Err(error.into());
                    }
                }
            }
            None => Vec::new(),
        };
        if sources.files().iter().map(|file| file.size).sum::<u64>() > SETTLED_FROM {
            self.settle().await;
        }
        let sources = Arc::new(sources);
        let before = counted::read(&doors).await;

        let clock = Clock::start();
        description.started_at = Some(assemble::moment(clock.started_at()));
        let without_checksums = doors.iter().filter(|door| door.is_without_checksums());
        description.verified_by_size = without_checksums.map(|door| door.name.clone()).collect();
        description.write(self.folder)?;
        let no_more = CancellationToken::new();
        let keep = Keep::percent(self.plan.seed, self.options.audit);
        let ground = Ground {
            doors: doors.clone(),
            links: ends.clone(),
            workloads: self.plan.workloads.len(),
            sources: sources.clone(),
            folder: self.folder.clone(),
            made: made.clone(),
            clock,
            stop: no_more.clone(),
            keep,
        };
        let door = RunDoor {
            transfer,
            catalog: catalog.clone(),
        };
        let mut engine = Engine::new(Arc::new(door), ground);
        engine.protected_by(protecting, is_elsewhere);
        let mut rates = RatesDriver::new(self.plan, &rated);
        let mut steps = StepsDriver::all(self.plan, &cells);
        let telling = tokio::spawn(tell(measurement.clone(), clock, self.progress.clone()));
        let drive = Drive {
            engine: &mut engine,
            rates: rates.as_mut(),
            steps: &mut steps,
            phases: self.plan.phases,
            clock,
            measurement: &measurement,
            books: &mut books,
            folder: self.folder,
            stop: self.stop,
            no_more: &no_more,
            stage: Stage::Injecting,
        };
        let driven = drive.run().await;
        telling.abort();
        let _cancelled = telling.await;

        let after = counted::read(&doors).await;
        let mut crosschecks = counted::compare(&doors, &books.moved, &before, &after);
        // Where files come past the catalogue, too, it cannot know them all.
        let by_rules = self
            .plan
            .rates()
            .filter(|(_, rates)| rates.inject == Inject::Rules)
            .count();
        if let Some(catalog) = catalog.filter(|_| by_rules == self.plan.workloads.len()) {
            let dids = sources.files().iter().filter_map(|file| file.did.as_deref());
            let known = catalog
                .catalogued(dids)
                .await
                .map_err(|error| weir_auth::error_chain(&error));
            let stored = counted::read(&doors).await;
            crosschecks.extend(catalogued::compare(&doors, &known, &stored, &engine.leaving()));
        }
        let audit = self.audit(std::mem::take(&mut books.samples), &sources, &doors).await;
        // Files kept for inspection are at the embedded storages; nothing of a run stays at others.
        let (keep, all) = (self.options.keep, doors.clone());
        let stays = move |door: usize| keep && all[door].embedded;
        if keep {
            let scratch = self.scratch.display();
            self.step(format!("the data areas are kept as they are, below {scratch}/storage"));
        } else {
            self.step("delivered files and source files are deleted");
        }
        let tell = |text: String| self.step(text);
        let tell = is_elsewhere.then_some(&tell as &(dyn Fn(String) + Sync));
        cleanup::delivered(&mut engine, &stays, (self.stop, tell), self.folder).await;
        if !self.stop.hard.is_cancelled() {
            books.write();
            let directories = std::mem::take(&mut books.directories);
            let left = cleanup::rest((&doors, &stays), &sources, directories, (self.folder, &made)).await;
            let undeleted = engine.leaving_behind();
            if undeleted > 0 {
                let text = format!(
                    "the catalogue has not deleted {undeleted} copies whose rules have ended: it may yet do so, and weir challenge clean {} removes them",
                    self.folder.path().display()
                );
                self.progress.show(&Update::Note { text });
            }
            if left > 0 {
                let text = format!(
                    "{left} paths could not be deleted at external storage, and run.log says why: try weir challenge clean {}",
                    self.folder.path().display()
                );
                self.progress.show(&Update::Note { text });
            }
        }
        let found = assemble::Found {
            command: &self.options.command,
            host: self.host.clone(),
            clock,
            sums: engine.sums(),
            deletions: engine.deletions().report(),
            driven,
            crosschecks,
            audit,
            verified_by_size: description.verified_by_size,
        };
        for text in books.close() {
            let t_s = clock.now().as_secs_f64();
            measurement.with(|measurement| {
                measurement.event(Event {
                    t_s,
                    text: text.clone(),
                });
            });
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

    /// Describes how to remove possible leftovers of a run that ends here.
    fn may_be_left(&self, what: &str) {
        let folder = self.folder.path().display();
        let text = format!("{what} may be left at storages: weir challenge clean {folder} removes them");
        self.progress.show(&Update::Note { text });
    }

    /// Looks at storage that does not start with the grid, if that is wanted.
    async fn look_at_sites(
        &self,
        (transfer, catalog): (&FtsDoor, Option<&RulesDoor>),
        doors: &[StorageDoor],
        made: &MadeFiles,
    ) -> Result<Option<SitesReport>, RunError> {
        let Some(limit) = self
            .options
            .preflight
            .filter(|_| catalog.is_some() || doors.iter().any(|door| !door.embedded))
        else {
            return Ok(None);
        };
        self.step("storage that does not start with the grid is looked at");
        let ground = sites::Ground {
            doors,
            transfer,
            catalog,
            made,
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

    async fn audit(&self, samples: Vec<Sample>, sources: &Sources, doors: &Arc<Vec<StorageDoor>>) -> Option<Audit> {
        let percent = self.options.audit.filter(|percent| *percent > 0.0)?;
        self.step(format!("{} delivered files are read back", samples.len()));
        tokio::select! {
            audit = audit::audit(percent, samples, sources, doors) => Some(audit),
            () = self.stop.hard.cancelled() => None,
        }
    }
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
