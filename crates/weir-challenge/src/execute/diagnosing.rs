//! The diagnosis while a run goes on: causes that hold its links back are named as soon as they show, and withdrawn where they were wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_measure::Measurement;
use weir_measure::diagnosis::{Change, Statement, Told};
use weir_measure::report::Event;
use weir_service::metrics::{Kind, Page};

use crate::execute::clock::Clock;
use crate::execute::live::SharedMeasurement;
use crate::execute::progress::{Progress, Update, Why};
use crate::output::folder::{RunFolder, write_atomically};

/// The file of a run that holds the diagnosis so far.
pub const WHY_FILE: &str = "why.json";

/// The file of a run that holds the same as metrics, for the textfile collector of Prometheus' node exporter.
const METRICS_FILE: &str = "why.prom";

/// After so many withdrawn statements changes are in the log of the run alone, and no events of its report.
const NOTED: u64 = 500;

/// Looks are never closer together.
const SHORTEST: Duration = Duration::from_secs(1);

/// A look that took so long is followed by a pause of so many times that: a diagnosis takes one percent of a processor.
const PAUSE_OF_A_LOOK: u32 = 100;

/// The diagnosis of a run so far, as [`WHY_FILE`] has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WhySoFar {
    /// The moment of the last look, seconds from the start of the run.
    pub at_s: f64,
    /// The statements that hold, the surest first.
    pub statements: Vec<Statement>,
    /// The statements that were withdrawn last, at most a hundred.
    pub withdrawn: Vec<Change>,
    /// The number of statements that were ever withdrawn.
    #[serde(default)]
    pub n_withdrawn: u64,
}

/// The parts of a run that its diagnosis needs.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) measurement: SharedMeasurement,
    pub(crate) clock: Clock,
    pub(crate) folder: Arc<RunFolder>,
    pub(crate) progress: Arc<dyn Progress>,
    /// The name of the challenge.
    pub(crate) challenge: String,
    /// Width of the bins of the diagnosis.
    pub(crate) bin: Duration,
}

/// The running diagnosis.
pub(crate) struct Diagnosing {
    told: Arc<Mutex<Told>>,
    /// Ends the task, also where the run is given up.
    over: DropGuard,
    task: JoinHandle<()>,
}

impl Diagnosing {
    /// Looks at the run in every bin of the diagnosis.
    pub(crate) fn start(scene: Scene) -> Self {
        let (told, over) = (Arc::new(Mutex::new(Told::default())), CancellationToken::new());
        let task = tokio::spawn(watch(scene, told.clone(), over.clone()));
        Self {
            told,
            over: over.drop_guard(),
            task,
        }
    }

    /// Ends it after a look under way; returns all that was said.
    pub(crate) async fn end(self) -> Told {
        drop(self.over);
        if let Err(error) = self.task.await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
        std::mem::take(&mut *self.told.lock())
    }
}

async fn watch(scene: Scene, told: Arc<Mutex<Told>>, over: CancellationToken) {
    let bin = scene.bin.max(SHORTEST);
    let mut pause = bin;
    while over.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        let began = Instant::now();
        let (scene, told) = (scene.clone(), told.clone());
        let look = tokio::task::spawn_blocking(move || look(&scene, &told));
        if let Err(error) = look.await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
        pause = bin.max(began.elapsed() * PAUSE_OF_A_LOOK);
    }
}

/// Looks at the run once.
fn look(scene: &Scene, told: &Mutex<Told>) {
    let began = Instant::now();
    let now = scene.clock.now();
    let in_hold = |measurement: &Measurement| now >= measurement.spec().windows.ramp_end;
    let clone = scene
        .measurement
        .with(|measurement| in_hold(measurement).then(|| measurement.clone()));
    let Some(measurement) = clone else { return };
    let (found, bin_s) = measurement.diagnose(now);
    let at_s = now.as_secs_f64();
    let (changes, why) = {
        let mut told = told.lock();
        let changes = told.look(at_s, bin_s, found);
        let why = WhySoFar {
            at_s,
            statements: told.standing().into_iter().cloned().collect(),
            withdrawn: told.withdrawn().to_vec(),
            n_withdrawn: told.n_withdrawn(),
        };
        (changes, why)
    };
    // A run of days does not fill its report with causes that come and go.
    let is_noted = why.n_withdrawn <= NOTED;
    for change in &changes {
        let text = change.sentence();
        scene.folder.log(&text);
        if !is_noted {
            continue;
        }
        scene
            .measurement
            .with(|measurement| measurement.event(Event { t_s: at_s, text }));
    }
    let json = serde_json::to_string(&why).expect("plain data can be written as JSON");
    let metrics = metrics(&why, &scene.challenge, began.elapsed());
    for (name, text) in [(WHY_FILE, json), (METRICS_FILE, metrics)] {
        let path = scene.folder.path().join(name);
        if let Err(error) = write_atomically(&path, |to| to.write_all(text.as_bytes())) {
            scene
                .folder
                .log(&format!("could not write {}: {error}", path.display()));
        }
    }
    let WhySoFar { statements, .. } = why;
    scene.progress.show(&Update::Why(Why {
        at_s,
        statements,
        changes,
    }));
}

/// The diagnosis as a page of metrics: one sample for each class and place, in which all its statements are added up.
fn metrics(why: &WhySoFar, challenge: &str, took: Duration) -> String {
    let mut causes: BTreeMap<(&str, String), [f64; 3]> = BTreeMap::new();
    for statement in &why.statements {
        let place = statement.place.as_ref().map(ToString::to_string).unwrap_or_default();
        let [missing, sure, links] = causes.entry((statement.class.as_str(), place)).or_default();
        *missing += (statement.asked_bps - statement.held_bps).max(0.0);
        *sure = sure.max(statement.probability);
        *links += statement.links.len() as f64;
    }
    let mut page = Page::default();
    let families = [
        (
            "weir_attribution_missing_bps",
            "rate that links lack by this cause, bit/s, in the time of the statement",
        ),
        (
            "weir_attribution_probability",
            "how sure the diagnosis is of this cause, 0 to 1",
        ),
        ("weir_attribution_links", "links that this cause holds back"),
    ];
    for (at, (name, help)) in families.into_iter().enumerate() {
        page.family(name, Kind::Gauge, help);
        for ((class, place), values) in &causes {
            page.sample(
                &[("challenge", challenge), ("class", class), ("place", place)],
                values[at],
            );
        }
    }
    page.family(
        "weir_attribution_withdrawn_total",
        Kind::Counter,
        "statements that were made and taken back",
    );
    page.sample(&[("challenge", challenge)], why.n_withdrawn);
    page.family(
        "weir_attribution_look_seconds",
        Kind::Gauge,
        "how long the last look at the run took",
    );
    page.sample(&[("challenge", challenge)], took.as_secs_f64());
    page.text()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_have_one_sample_for_each_cause() {
        // Wrong: two samples with the same labels, which Prometheus refuses with the whole page.
        let statement = |link: &str, probability: f64| -> Statement {
            serde_json::from_value(json!({
                "class": "outage", "place": "site-in:B", "links": [link], "from_s": 1.0, "until_s": 2.0,
                "asked_bps": 5e9, "held_bps": 2e9, "probability": probability,
            }))
            .unwrap()
        };
        let why = WhySoFar {
            statements: vec![statement("A→B", 0.75), statement("C→B", 0.5)],
            ..WhySoFar::default()
        };
        let page = metrics(&why, "uk", Duration::from_millis(3));
        let labels = r#"{challenge="uk",class="outage",place="site-in:B"}"#;
        for line in [
            format!("weir_attribution_missing_bps{labels} 6000000000.0"),
            format!("weir_attribution_probability{labels} 0.75"),
            format!("weir_attribution_links{labels} 2.0"),
            r#"weir_attribution_withdrawn_total{challenge="uk"} 0"#.to_owned(),
        ] {
            assert!(page.lines().any(|other| other == line), "{line}\n{page}");
        }
        assert_eq!(page.matches("class=").count(), 3, "{page}");
    }
}
