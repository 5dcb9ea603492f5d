//! Every incident of the library shows its deficit, where and when it should, and passes with its remedy.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_plan::Incident;
use weir_sim::incident::verify;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../incidents");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

/// Lines about what an incident lacks; none if it is as expected.
fn judged(path: &Path) -> Vec<String> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let incident = match Incident::parse(&text, path) {
        Ok(incident) => incident,
        Err(problems) => return problems.iter().map(|problem| format!("{name}: {problem}")).collect(),
    };
    if incident.id != name {
        return vec![format!("{name} is called {}", incident.id)];
    }
    match verify(&incident) {
        Ok(verified) => {
            let lines: Vec<String> = verified.wrong().map(|wrong| format!("{name}: {wrong}")).collect();
            if lines.is_empty() {
                return lines;
            }
            let told = format!(
                "{name}: missed {:?} before {:?} held {:?} of {:?}: {:.3?}",
                verified.with.missed_ratio,
                verified.with.missed_before_ratio,
                verified.with.held_bps,
                verified.with.links,
                verified.with.causes
            );
            lines.into_iter().chain([told]).collect()
        }
        Err(problems) => problems.iter().map(|problem| format!("{name}: {problem}")).collect(),
    }
}

#[test]
fn every_incident_shows_and_its_remedy_helps() {
    let files = files();
    let next = AtomicUsize::new(0);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut wrong = Vec::new();
            while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                wrong.extend(judged(path));
            }
            wrong
        };
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
