//! The diagnosis while a run goes on: what holds its links back, said as soon as it shows, and taken back if it was wrong.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_measure::Measurement;
use weir_measure::diagnosis::{Change, Statement, Told};
use weir_measure::report::Event;

use crate::execute::clock::Clock;
use crate::execute::live::SharedMeasurement;
use crate::execute::progress::{Progress, Update, Why};
use crate::output::folder::{RunFolder, write_atomically};

/// The file of a run that holds the diagnosis so far.
pub const WHY_FILE: &str = "why.json";

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
    /// The statements that were withdrawn.
    pub withdrawn: Vec<Change>,
}

/// The parts of a run that its diagnosis needs.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) measurement: SharedMeasurement,
    pub(crate) clock: Clock,
    pub(crate) folder: Arc<RunFolder>,
    pub(crate) progress: Arc<dyn Progress>,
    /// Width of the bins of the diagnosis.
    pub(crate) bin: Duration,
}

/// The running diagnosis.
pub(crate) struct Diagnosing {
    told: Arc<Mutex<Told>>,
    over: CancellationToken,
    task: JoinHandle<()>,
}

impl Diagnosing {
    /// Looks at the run in every bin of the diagnosis.
    pub(crate) fn start(scene: Scene) -> Self {
        let (told, over) = (Arc::new(Mutex::new(Told::default())), CancellationToken::new());
        let task = tokio::spawn(watch(scene, told.clone(), over.clone()));
        Self { told, over, task }
    }

    /// Ends it after a look under way; returns all that was said.
    pub(crate) async fn end(self) -> Told {
        self.over.cancel();
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
        };
        (changes, why)
    };
    for change in &changes {
        let text = change.sentence();
        scene.folder.log(&text);
        scene
            .measurement
            .with(|measurement| measurement.event(Event { t_s: at_s, text }));
    }
    let path = scene.folder.path().join(WHY_FILE);
    let written = write_atomically(&path, |to| Ok(serde_json::to_writer(to, &why)?));
    if let Err(error) = written {
        scene
            .folder
            .log(&format!("could not write {}: {error}", path.display()));
    }
    let WhySoFar { statements, .. } = why;
    scene.progress.show(&Update::Why(Why {
        at_s,
        statements,
        changes,
    }));
}
