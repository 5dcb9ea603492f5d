//! Observers of a run: a terminal, a log, or a program.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_challenge::{Progress, Update};

use super::lines::Lines;
use super::screen::Screen;
use crate::logging;
use crate::output::Output;

/// Shows the progress of a run.
#[derive(Debug)]
pub(super) struct Watch {
    output: Output,
    view: Mutex<View>,
}

#[derive(Debug)]
enum View {
    Screen(Screen),
    Lines(Lines),
    Json,
}

impl Watch {
    /// Chooses the display by the kind of standard output.
    pub(super) fn new(output: &Output) -> Arc<Self> {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let view = if output.json() {
            View::Json
        } else if output.terminal() && !dumb {
            View::Screen(Screen::new(output.color()))
        } else {
            View::Lines(Lines::default())
        };
        Arc::new(Self {
            output: output.clone(),
            view: Mutex::new(view),
        })
    }

    /// Ends the display, so that later output stands below it.
    pub(super) fn end(&self) {
        if let View::Screen(screen) = &mut *self.view.lock() {
            screen.end();
        }
    }
}

impl Progress for Watch {
    fn show(&self, update: &Update) {
        if let Update::Folder { folder } = update {
            // A run goes on without the services' log lines in its own.
            if let Err(failure) = logging::attach_file(&folder.join("run.log")) {
                tracing::warn!(%failure, "the run's log has no lines of the services");
            }
        }
        match &mut *self.view.lock() {
            // A look that changes nothing is no event.
            View::Json if matches!(update, Update::Why(why) if why.changes.is_empty()) => {}
            View::Json => self.output.event(update.name(), update),
            View::Lines(lines) => lines.show(update, &self.output),
            View::Screen(screen) => screen.show(update, &self.output),
        }
    }
}
