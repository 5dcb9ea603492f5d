//! One transfer that has ended, and the same in the words of the measuring room.

use weir_measure::{Failure as Reason, Stages, State, Transfer};
use weir_sched::Settled;
use weir_units::Timestamp;
use weir_world::{CopyMode, Failure};

use crate::scene::Scene;

/// One ended transfer: the input of the report and of the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its number: its place in the order of injection.
    pub id: u64,
    /// Index of the link of a workload ([`crate::scene::Scene::asks`]).
    pub ask: usize,
    /// Size of the file.
    pub size: u64,
    /// How its bytes move.
    pub mode: CopyMode,
    /// Its end; a transfer that was withdrawn because its step took too long has failed.
    pub state: Settled,
    /// When the plan wanted it.
    pub wanted: Timestamp,
    /// When it was submitted.
    pub injected: Timestamp,
    /// Start of the last attempt; `None` if there was none.
    pub started: Option<Timestamp>,
    /// End of the last attempt, or of the transfer if there was none.
    pub ended: Timestamp,
    /// Bytes that the last attempt moved.
    pub moved: u64,
    /// Attempts.
    pub attempts: u32,
    /// The failure of the last attempt.
    pub failure: Option<Box<Failure>>,
    /// Number of the rule that asked for it, if one did.
    pub rule: Option<u64>,
    /// When it passed from one service to the next, if a rule asked for it.
    pub stages: Option<Stages>,
}

impl Row {
    /// A row in the words of the measuring room, of a cell of its workload where that has cells.
    pub fn transfer(&self, scene: &Scene, cell: Option<usize>) -> Transfer {
        let ask = &scene.asks[self.ask];
        let since = |at: Timestamp| at.since(Timestamp(0));
        let failure = self.failure.as_ref().filter(|_| self.state == Settled::Failed);
        Transfer {
            workload: ask.workload,
            link: ask.link,
            cell,
            size: self.size,
            state: match self.state {
                Settled::Finished => State::Finished,
                Settled::Failed => State::Failed,
                Settled::Cancelled => State::Cancelled,
            },
            mode: Some(self.mode.to_string()).filter(|_| self.state == Settled::Finished),
            injected: since(self.injected),
            late: self.injected.since(self.wanted),
            started: self.started.map(since),
            ended: since(self.ended),
            // A simulated world has no first byte: its data flow from the start of the copy.
            first_byte: None,
            waits: None,
            bytes_moved: self.moved,
            counted: (self.state == Settled::Finished).then_some(self.moved),
            retries: self.attempts.saturating_sub(1),
            stages: self.stages,
            failure: failure.map(|failure| Reason {
                class: failure.class,
                message: failure.message.clone(),
                party: Some(failure.party),
                phase: Some(failure.phase),
                remedy: Some(failure.remedy.clone()).filter(|remedy| !remedy.is_empty()),
            }),
        }
    }
}
