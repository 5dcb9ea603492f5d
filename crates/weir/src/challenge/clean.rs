//! `weir challenge clean`: lists the leftovers of a run, and deletes them on request.

use anyhow::Context;
use weir_challenge::clean::{CleanError, Cleaned, Delete, LeftFile, LeftoverState, clean};
use weir_units::Bytes;

use crate::cli::ChallengeCleanArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Files of one kind that are named; the rest is counted.
const SHOWN: usize = 20;

/// Lists the leftovers of the run of a folder, and deletes them on request.
pub(super) fn run(arguments: &ChallengeCleanArguments, output: &Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?;
    // A million files are a million requests: every thousandth is a sign of life.
    let count = std::sync::atomic::AtomicU64::new(0);
    let tell = |_file: &LeftFile| {
        let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        if count.is_multiple_of(1000) {
            output.note(format!("{count} files looked at"));
        }
    };
    let which = match (arguments.yes, arguments.partial) {
        (false, _) => Delete::Nothing,
        (true, false) => Delete::Whole,
        (true, true) => Delete::WholeAndPartial,
    };
    let cleaned = runtime.block_on(clean(&arguments.dir, which, &tell)).map_err(failure)?;
    print(&cleaned, output);
    output.done(&cleaned);
    Ok(if cleaned.has_failed() {
        Exit::CouldNotRun
    } else {
        Exit::Done
    })
}

fn failure(error: CleanError) -> Failure {
    match error {
        CleanError::NoRun(_) => Failure::bad_input(error).with_remedy("name the folder of a run"),
        CleanError::Running { .. } => {
            Failure::bad_input(error).with_remedy("wait for its end, or interrupt it: it cleans up behind itself")
        }
        CleanError::Inhabited { .. } => Failure::bad_input(error).with_remedy("stop it first: weir grid down DIR"),
        CleanError::Grid(_) | CleanError::Door(_) | CleanError::Scratch { .. } => Failure::could_not_run(error),
    }
}

fn print(cleaned: &Cleaned, output: &Output) {
    let is = |found: fn(&LeftoverState) -> bool| -> Vec<&LeftFile> { cleaned.with(found).collect() };
    let (same, deleted) = (
        is(|found| *found == LeftoverState::Same),
        is(|found| *found == LeftoverState::Deleted),
    );
    let partial = is(|found| matches!(found, LeftoverState::Partial(_)));
    let other = is(|found| matches!(found, LeftoverState::Other(_)));
    let failed = is(|found| matches!(found, LeftoverState::Failed(_)));
    let gone = is(|found| *found == LeftoverState::Gone).len();
    if cleaned.rules > 0 {
        let verb = if cleaned.deleted { "ended" } else { "to end" };
        output.line(format!("rules in the catalogue, {verb}: {}", cleaned.rules));
    }
    if let Some(why) = &cleaned.rules_failed {
        output.line(format!(
            "rules in the catalogue could not be looked at, or not be ended: {why}"
        ));
    }
    list(&same, "to delete", output);
    list(&deleted, "deleted", output);
    list(
        &partial,
        "left alone: only a part is there (--yes --partial deletes them)",
        output,
    );
    list(&other, "left alone: not what the run put there", output);
    list(&failed, "could not be looked at, or deleted", output);
    if gone > 0 {
        output.line(format!("{} noted, and not there any more", files(gone)));
    }
    if !cleaned.unknown.is_empty() {
        output.line(format!("left alone: not noted by the run: {}", cleaned.unknown.len()));
        for (rse, path) in cleaned.unknown.iter().take(SHOWN) {
            output.line(format!("  {rse:<12} {path}"));
        }
    }
    for (rse, path, why) in &cleaned.directories {
        if let Some(why) = why {
            output.line(format!("directory stays: {rse} {path}: {why}"));
        }
    }
    let directories = cleaned.directories.iter().filter(|(_, _, why)| why.is_none()).count();
    let verb = if cleaned.deleted { "deleted" } else { "to delete" };
    if directories > 0 {
        output.line(format!("{directories} empty directories {verb}"));
    }
    if !cleaned.processes.is_empty() {
        let verb = if cleaned.deleted { "stopped" } else { "to stop" };
        output.line(format!("processes of sites, {verb}: {}", cleaned.processes.join(", ")));
    }
    if let Some((scratch, bytes)) = &cleaned.scratch {
        let verb = if cleaned.is_unfinished() && cleaned.deleted {
            "kept: its credentials may be needed again"
        } else {
            verb
        };
        output.line(format!(
            "data areas of the embedded grid, {:.1}, {verb}: {}",
            Bytes(*bytes),
            scratch.display()
        ));
    }
    if let Some(cut) = &cleaned.cut {
        output.note(format!(
            "the records of the run are cut off: {cut}; unrecorded files are left alone"
        ));
    }
    let has_rules = cleaned.rules > 0 || cleaned.rules_failed.is_some();
    let nothing =
        !has_rules && gone == cleaned.files.len() && cleaned.directories.is_empty() && cleaned.scratch.is_none();
    if nothing && cleaned.unknown.is_empty() {
        output.line("the run left nothing");
    } else if !cleaned.deleted && (has_rules || !same.is_empty() || directories > 0 || cleaned.scratch.is_some()) {
        output.line("nothing was deleted; add --yes to delete the listed files");
    }
}

/// Names files of one kind.
fn list(some: &[&LeftFile], what: &str, output: &Output) {
    if some.is_empty() {
        return;
    }
    let bytes = some.iter().map(|file| file.size).sum();
    output.line(format!("{}, {:.1}, {what}", files(some.len()), Bytes(bytes)));
    for file in some.iter().take(SHOWN) {
        let why = match &file.found {
            LeftoverState::Partial(why) | LeftoverState::Other(why) | LeftoverState::Failed(why) => format!("  {why}"),
            LeftoverState::Same | LeftoverState::Deleted | LeftoverState::Gone => String::new(),
        };
        output.line(format!(
            "  {:<12} {:>9}  {}{why}",
            file.rse,
            format!("{:.1}", Bytes(file.size)),
            file.path
        ));
    }
    if some.len() > SHOWN {
        output.line(format!("  … and {} more", some.len() - SHOWN));
    }
}

fn files(count: usize) -> String {
    if count == 1 {
        "one file".to_owned()
    } else {
        format!("{count} files")
    }
}
