//! Progress of a simulation, on a terminal line that is drawn over itself; none without a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use weir_sim::world::Probe;
use weir_units::duration::format;

/// Between two drawings.
const PAUSE: Duration = Duration::from_millis(250);

const BAR: usize = 24;

/// Draws until it is dropped.
pub(super) struct Watching {
    shown: Arc<Mutex<Shown>>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The current simulation.
struct Shown {
    name: String,
    probe: Probe,
    whole: Duration,
}

impl Watching {
    /// Begins the display for simulations whose virtual time ends after `whole` at the latest.
    pub(super) fn begin(whole: Duration) -> Self {
        let shown = Arc::new(Mutex::new(Shown {
            name: String::new(),
            probe: Probe::default(),
            whole,
        }));
        let mut watching = Self {
            shown: shown.clone(),
            stop: None,
            thread: None,
        };
        if io::stderr().is_terminal() {
            let (stop, stopped) = mpsc::channel();
            watching.stop = Some(stop);
            watching.thread = std::thread::Builder::new()
                .name("weir-progress".to_owned())
                .spawn(move || {
                    while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                        let line = line(&shown.lock());
                        let _gone = write!(io::stderr(), "\r\x1b[K{line}");
                    }
                    let _gone = write!(io::stderr(), "\r\x1b[K");
                })
                .ok();
        }
        watching
    }

    /// The next simulation, of this name; it reports its progress through the returned probe.
    pub(super) fn next(&self, name: String) -> Probe {
        let probe = Probe::default();
        let mut shown = self.shown.lock();
        shown.name = name;
        shown.probe = probe.clone();
        probe
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn line(shown: &Shown) -> String {
    let reached = Duration::from_nanos(shown.probe.reached().0).min(shown.whole);
    let share = reached.as_secs_f64() / shown.whole.as_secs_f64().max(1e-9);
    let full = (share * BAR as f64) as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
    // Whole seconds: fractions change too fast to be read.
    let (reached, whole) = (
        Duration::from_secs(reached.as_secs()),
        Duration::from_secs(shown.whole.as_secs()),
    );
    format!(
        "{bar} {:3.0} %  {}  {} of {} at most",
        share * 100.0,
        shown.name,
        format(reached),
        format(whole)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_the_simulation_is() {
        let shown = Shown {
            name: "weir, 1 of 4".to_owned(),
            probe: Probe::default(),
            whole: Duration::from_secs(100),
        };
        assert_eq!(
            line(&shown),
            format!("{}   0 %  weir, 1 of 4  0s of 1m40s at most", "░".repeat(24))
        );
    }
}
