//! What tape does for files.

use weir_sched::Work;

use super::{Row, Tables};
use crate::{
    model::{FileResult, FileState, SIZE_MAX},
    store::{Change, Pin},
    time::Millis,
};

impl Row {
    /// Watching a copy moves nothing: what the copy moved stays.
    pub(super) fn take(&mut self, work: Work, result: &FileResult) {
        if work == Work::Archive {
            let former = self.file.result.clone();
            self.file.result = FileResult {
                filesize: former.filesize,
                bytes_moved: former.bytes_moved,
                counted: former.counted,
                mode: former.mode,
                ..result.clone()
            };
            self.running = false;
            return;
        }
        let filesize = result.filesize.or(self.file.result.filesize);
        self.file.moved_total = self.file.moved_total.min(SIZE_MAX) + result.bytes_moved.min(SIZE_MAX);
        self.file.result = FileResult {
            filesize,
            ..result.clone()
        };
        self.running = false;
    }
}

impl Tables {
    /// A change that is about tape alone.
    pub(super) fn tape(&mut self, change: &Change) {
        match change {
            Change::Begin {
                file,
                work,
                attempt,
                at,
                ..
            } => {
                let Some(row) = self.live_row(*file) else { return };
                (row.file.state, row.file.attempts) = (FileState::doing(*work), *attempt);
                row.running = true;
                row.follow_up.not_before = 0;
                let tape = &mut row.file.tape;
                let first = match work {
                    Work::Stage => &mut tape.staging_start,
                    Work::Copy | Work::Archive => &mut tape.archive_start,
                };
                first.get_or_insert(*at);
            }
            Change::Advance { file, at, next, result } => self.advance(*file, *at, *next, result.as_ref()),
            Change::Requested { files, request } => {
                for file in files {
                    if let Some(row) = self.files.get_mut(file) {
                        (row.file.tape.request, row.pinned) = (Some(request.clone()), true);
                    }
                }
            }
            Change::Unpinned { files } => {
                for file in files {
                    if let Some(row) = self.files.get_mut(file) {
                        row.pinned = false;
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn pins(&self) -> Vec<Pin> {
        let pinned = self.files.values().filter(|row| row.pinned);
        let pin = |row: &Row| Pin {
            file: row.file.spec.id,
            source: row.file.spec.source.clone(),
            over: row.file.finished.is_some(),
        };
        pinned.map(pin).collect()
    }

    fn advance(&mut self, file: u64, at: Millis, next: Work, result: Option<&FileResult>) {
        let Some(row) = self.live_row(file) else { return };
        if let Some(result) = result {
            row.take(Work::Copy, result);
        }
        row.running = false;
        row.follow_up.not_before = 0;
        if !row.file.stopping {
            row.file.state = FileState::waiting(next);
        }
        let tape = &mut row.file.tape;
        let (first, job) = match next {
            Work::Archive => (&mut tape.archive_start, row.job),
            Work::Copy | Work::Stage => (&mut tape.staging_finished, row.job),
        };
        first.get_or_insert(at);
        self.count(job, at, |counts| match next {
            Work::Archive => counts.archiving += 1,
            Work::Copy | Work::Stage => counts.started += 1,
        });
    }
}
