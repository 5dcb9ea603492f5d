//! `weir transfer watch`: follows jobs to their end.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_fts_api::{File, Job};
use weir_units::BitRate;

use super::{
    door::TransferClient,
    look,
    show::{self, Tally, is_terminal},
};
use crate::cli::TransferWatchArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::signals::Signals;

/// Between two looks at a small job. A look at many files costs the service more, and they take longer anyway.
const PAUSE: Duration = Duration::from_millis(500);
const FILES_PER_PAUSE: usize = 500;

const BAR: usize = 24;

pub(super) async fn run(arguments: &TransferWatchArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    follow(&door, &arguments.jobs, output).await
}

/// Follows jobs until all have ended. A signal ends the watching, not the jobs.
pub(super) async fn follow(door: &TransferClient, jobs: &[String], output: &Output) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let mut watched = Vec::new();
    for id in jobs {
        let mut watch = JobWatch::new(id);
        tokio::select! {
            done = watch.follow(door, output) => done?,
            signal = signals.next() => {
                output.note(format!("{signal}: the jobs go on; cancel them with `weir transfer cancel`"));
                return Ok(Exit::Interrupted);
            }
        }
        watched.push(watch);
    }
    let good = watched.iter().all(|watch| watch.state() == "FINISHED");
    let jobs: Vec<Value> = watched
        .iter()
        .map(|watch| json!({ "job_id": watch.id, "job_state": watch.job.job_state, "tally": Tally::of(watch.files()) }))
        .collect();
    output.done(&json!({ "jobs": jobs }));
    Ok(if good { Exit::Done } else { Exit::VerdictFail })
}

struct JobWatch<'a> {
    id: &'a str,
    job: Job<'static>,
    /// The last change of the number of bytes, and the rate before it.
    last: Option<(Instant, u64)>,
    rate: Option<BitRate>,
    told: Option<Tally>,
}

impl<'a> JobWatch<'a> {
    fn new(id: &'a str) -> Self {
        Self {
            id,
            job: Job::default(),
            last: None,
            rate: None,
            told: None,
        }
    }

    async fn follow(&mut self, door: &TransferClient, output: &Output) -> Result<(), Failure> {
        loop {
            self.job = look::job(door, self.id).await?.job;
            let tally = Tally::of(self.files());
            self.measure(tally.bytes);
            self.show(tally, output);
            if is_terminal(self.state()) {
                if output.terminal() {
                    draw("");
                }
                show::job(&self.job, false, output);
                return Ok(());
            }
            let pauses = 1 + self.files().len() / FILES_PER_PAUSE;
            tokio::time::sleep(PAUSE * u32::try_from(pauses).unwrap_or(u32::MAX)).await;
        }
    }

    fn state(&self) -> &str {
        self.job.job_state.as_deref().unwrap_or_default()
    }

    fn files(&self) -> &[File<'static>] {
        self.job.files.as_deref().unwrap_or_default()
    }

    fn measure(&mut self, bytes: u64) {
        let now = Instant::now();
        match self.last {
            Some((at, before)) if bytes > before => {
                let seconds = (now - at).as_secs_f64();
                self.rate = Some(BitRate(((bytes - before) as f64 * 8.0 / seconds) as u64));
                self.last = Some((now, bytes));
            }
            Some(_) => {}
            None => self.last = Some((now, bytes)),
        }
    }

    fn show(&mut self, tally: Tally, output: &Output) {
        let rate = self.rate.map(|rate| format!("  {rate}")).unwrap_or_default();
        if output.terminal() {
            let full = (tally.share() * BAR as f64).round() as usize;
            let bar = format!("{}{}", "█".repeat(full.min(BAR)), "░".repeat(BAR - full.min(BAR)));
            draw(&format!(
                "{bar} {:3.0}%  {}{rate}",
                tally.share() * 100.0,
                tally.sentence()
            ));
        } else if self.told != Some(tally) && !is_terminal(self.state()) {
            // A log is told of changes only, and the whole job follows its end.
            output.line(format!("{}  {}  {}{rate}", self.id, self.state(), tally.sentence()));
        }
        if self.told != Some(tally) {
            output.event(
                "progress",
                &json!({ "job_id": self.id, "job_state": self.job.job_state, "tally": tally }),
            );
        }
        self.told = Some(tally);
    }
}

/// Draws over the line that stands. A line longer than the terminal would leave its rest behind.
fn draw(line: &str) {
    let width = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col).max(20));
    let line: String = line.chars().take(width - 1).collect();
    let mut out = std::io::stdout().lock();
    // A closed pipe ends the drawing, not the command.
    let _ = write!(out, "\r\x1b[J{line}");
    let _ = out.flush();
}
