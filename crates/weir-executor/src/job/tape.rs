//! Tape operations of a file: requested and done.

use weir_sched::{Staging, Tape, Work};

use super::{FileState, JobParams, NewFile, NewJob};
use crate::surl::Surl;

impl FileState {
    /// In which a file is of which an operation begins.
    pub fn doing(work: Work) -> Self {
        match work {
            Work::Copy => Self::Active,
            Work::Stage => Self::Started,
            Work::Archive => Self::Archiving,
        }
    }

    /// In which a file is that waits for an operation.
    pub fn waiting(work: Work) -> Self {
        match work {
            Work::Copy => Self::Submitted,
            Work::Stage => Self::Staging,
            Work::Archive => Self::Archiving,
        }
    }

    /// The operation that it waits for or runs.
    pub fn work(self) -> Work {
        match self {
            Self::Staging | Self::Started => Work::Stage,
            Self::Archiving => Work::Archive,
            _ => Work::Copy,
        }
    }
}

impl JobParams {
    /// The tape operations of a file. Of several hops, the first is brought online and the last goes to tape.
    pub fn tape(&self, index: u32, source: &Surl, destination: &Surl) -> Tape {
        let stage = match self.bring_online {
            None => Staging::No,
            Some(_) if self.hops.is_some() && index > 0 => Staging::No,
            Some(_) if source == destination => Staging::Only,
            Some(_) => Staging::First,
        };
        let archive = self.archive_timeout.is_some() && !self.is_on_the_way(index);
        Tape {
            stage,
            archive: archive && stage != Staging::Only,
        }
    }

    /// The state in which a file begins that waits for no other.
    pub fn first_state(&self, file: &NewFile) -> FileState {
        match self.tape(file.index, &file.source, &file.destination).stage {
            Staging::No => FileState::Submitted,
            Staging::First | Staging::Only => FileState::Staging,
        }
    }
}

impl NewJob {
    /// The initial state of a file. `live`: the file that begins, if the others wait for it.
    pub fn first_state(&self, file: &NewFile, live: Option<u64>) -> FileState {
        match live {
            Some(live) if live != file.id => FileState::NotUsed,
            _ => self.params.first_state(file),
        }
    }
}
