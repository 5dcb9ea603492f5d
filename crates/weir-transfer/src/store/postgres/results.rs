//! How attempts went, as columns of one statement.

use weir_sched::Work;
use weir_world::Waits;

use weir_store::postgres::Values;

use super::text::optional;
use weir_executor::job::{FileResult, bytes};

pub(super) const RESULT_ARRAYS: &str =
    "$1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::boolean[], $12::boolean[], $13::bigint[], $14::bigint[], $15::text[]";
pub(super) const RESULT_COLUMNS: &str = "file_id, filesize, moved, mode, reason, class, party, phase, remedy, host, again, keep, counted, first_byte, waits";
/// Bytes are bounded by [`weir_executor::job::SIZE_MAX`], and so is their sum before each attempt: it never overflows.
pub(super) const RESULT_SET: &str =
    "filesize = coalesce(d.filesize, files.filesize), moved_total = least(moved_total, 9007199254740992) + d.moved,
    moved = CASE WHEN d.keep THEN files.moved ELSE d.moved END, mode = CASE WHEN d.keep THEN files.mode ELSE d.mode END,
    counted = CASE WHEN d.keep THEN files.counted ELSE d.counted END,
    first_byte = CASE WHEN d.keep THEN files.first_byte ELSE d.first_byte END, waits = CASE WHEN d.keep THEN files.waits ELSE d.waits END, reason = d.reason, class = d.class, party = d.party, phase = d.phase, remedy = d.remedy, again = d.again,
    host = CASE WHEN d.keep THEN files.host ELSE coalesce(d.host, files.host) END";

/// How attempts went, as columns.
#[derive(Default)]
pub(super) struct Results {
    files: Vec<i64>,
    filesizes: Vec<Option<i64>>,
    moved: Vec<i64>,
    /// Mode, reason, class, party, phase, remedy, host.
    texts: [Vec<Option<String>>; 7],
    again: Vec<Option<bool>>,
    /// Watching a copy moves nothing: the bytes of the copy stay.
    keep: Vec<bool>,
    counted: Vec<Option<i64>>,
    /// Milliseconds.
    first_byte: Vec<Option<i64>>,
    waits: Vec<Option<String>>,
}

impl Results {
    pub(super) fn push(&mut self, file: u64, work: Work, result: &FileResult) {
        self.keep.push(work == Work::Archive);
        self.files.push(file as i64);
        self.filesizes.push(result.filesize.map(bytes));
        self.moved.push(bytes(result.bytes_moved));
        let [class, party, phase] = result.words();
        let texts = [
            result.mode.as_deref(),
            result.reason.as_deref(),
            class,
            party,
            phase,
            result.remedy.as_deref(),
            result.host.as_deref(),
        ];
        for (column, value) in self.texts.iter_mut().zip(texts) {
            column.push(optional(value));
        }
        self.again.push(result.recoverable);
        self.counted.push(result.counted.map(bytes));
        self.first_byte.push(result.first_byte_ms.map(bytes));
        self.waits.push(result.waits.as_deref().map(Waits::to_string));
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(Values<'_>) -> T) -> T {
        let [mode, reason, class, party, phase, remedy, host] = &self.texts;
        work(&[
            &self.files,
            &self.filesizes,
            &self.moved,
            mode,
            reason,
            class,
            party,
            phase,
            remedy,
            host,
            &self.again,
            &self.keep,
            &self.counted,
            &self.first_byte,
            &self.waits,
        ])
    }
}
