//! A challenge whose process is killed, or whose disk is full: its measurements are there all the same.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;
use weir_tests::{Daemon, Run, RunningGrid, SmallDisk, wait_for, weir, weir_binary};

/// Two sites, both ways, for three seconds.
const SMALL: &str = r#"
name = "small"
[phases]
ramp = "1 s"
hold = "2 s"
drain = "10 s"
[grid]
name = "small"
[grid.storage]
durability = "cache"
quota = "100 MB"
[[grid.rse]]
name = "ALPHA"
[[grid.rse]]
name = "BETA"
[[workload]]
kind = "rates"
lifetime = "1 s"
rates = [
    { source = "ALPHA", destination = "BETA", rate = "40 Mb/s" },
    { source = "BETA", destination = "ALPHA", rate = "20 Mb/s" },
]
"#;

/// The one run folder below `runs`.
fn run_folder(runs: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(runs)?;
    Ok(entries.next().context("there is no run folder")??.path())
}

fn report(folder: &Path) -> Result<Run> {
    weir(&["report".as_ref(), "--json".as_ref(), folder.as_os_str()])
}

fn json(path: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// Starts a challenge in a folder of its own.
fn start(scratch: &Path, number: usize) -> Result<(Daemon, PathBuf)> {
    let runs = scratch.join(format!("runs-{number}"));
    let mut command = Command::new(weir_binary());
    command.args(["challenge", "run", "small.toml", "--out"]).arg(&runs);
    command.current_dir(scratch).env_remove("WEIR_LOG");
    let run = Daemon::start(command, &scratch.join(format!("out-{number}")))?;
    Ok((run, runs))
}

#[test]
fn a_run_that_is_killed_at_any_moment_has_its_report() -> Result<()> {
    // Wrong: hours of measurements go with the process, or the report shows other transfers than the rows.
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("small.toml"), SMALL)?;
    let mut with_transfers = 0;
    for number in 0..10 {
        let (mut run, runs) = start(scratch.path(), number)?;
        let begun = || {
            Ok(run_folder(&runs)
                .ok()
                .filter(|folder| folder.join("series.csv").exists()))
        };
        let folder = wait_for(Duration::from_secs(60), begun)?;
        std::thread::sleep(Duration::from_millis(number as u64 * 310));
        run.kill()?;
        let rows = lines(&folder.join("transfers.csv")).saturating_sub(1);
        assert!(!folder.join("report.json").exists(), "the run had ended");
        let built = report(&folder)?;
        if !built.ok() {
            // Killed while source files went to their places.
            assert!(built.stdout.contains("before its first transfer"), "{built:?}");
            assert!(number < 3, "{built:?}");
            continue;
        }
        assert_eq!(built.envelope()?["data"]["incomplete"], true);
        let report = json(&folder.join("report.json"))?;
        let counted = report["totals"]["transfers"].as_u64().unwrap();
        assert!(counted.abs_diff(rows as u64) <= 1, "{counted} of {rows} rows");
        with_transfers += usize::from(counted > 0);
        assert_eq!(report["verdict"], "unstable");
        let reason = report["verdict_reasons"][0].as_str().unwrap();
        assert!(reason.starts_with("the run ended without a report"), "{reason}");
        assert!(fs::read_to_string(folder.join("report.html"))?.contains("weir-report"));
    }
    assert!(
        with_transfers >= 5,
        "{with_transfers} of ten runs were killed with transfers done"
    );
    Ok(())
}

#[test]
fn a_run_that_goes_on_shows_how_far_it_is() -> Result<()> {
    // Wrong: nobody can look at the figures of a run of days, or the look replaces the report of the run itself.
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("small.toml"), SMALL)?;
    let (mut run, runs) = start(scratch.path(), 0)?;
    let interim = || {
        let Ok(folder) = run_folder(&runs) else { return Ok(None) };
        Ok(report(&folder)?.ok().then_some(folder))
    };
    let folder = wait_for(Duration::from_secs(60), interim)?;
    let interim = json(&folder.join("report.json"))?;
    let reason = interim["verdict_reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("the run still goes on"), "{reason}");
    let ended = || run.ended();
    assert_eq!(
        wait_for(Duration::from_secs(60), ended)?,
        Some(0),
        "no threshold, no failure"
    );
    let last = json(&folder.join("report.json"))?;
    assert_eq!(last["incomplete"], false);
    report(&folder)?.expect_ok()?;
    assert_eq!(
        json(&folder.join("report.json"))?,
        last,
        "what is whole is not built again"
    );
    Ok(())
}

#[test]
fn data_areas_in_which_a_grid_runs_are_not_removed() -> Result<()> {
    // Wrong: the clean-up takes away the data of a grid that somebody has made of the data areas of a run.
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("small.toml"), SMALL)?;
    let (mut run, runs) = start(scratch.path(), 0)?;
    let begun = || {
        Ok(run_folder(&runs)
            .ok()
            .filter(|folder| folder.join("series.csv").exists()))
    };
    let folder = wait_for(Duration::from_secs(60), begun)?;
    run.kill()?;
    let areas = folder.join("scratch");
    // Else that of the killed one would be taken for the next.
    fs::remove_file(areas.join("grid.json"))?;
    let grid = "name = \"small\"\n[[rse]]\nname = \"ALPHA\"\n";
    fs::write(scratch.path().join("grid.toml"), grid)?;
    let mut command = Command::new(weir_binary());
    command
        .args(["grid", "up", "grid.toml", "--dir"])
        .arg(&areas)
        .current_dir(scratch.path());
    let mut up = Daemon::start(command, &scratch.path().join("up.log"))?;
    wait_for(Duration::from_secs(60), || {
        Ok(areas.join("grid.json").exists().then_some(()))
    })?;
    let refused = clean(&folder, &["--yes"])?;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("a grid runs in") && areas.join("grid.json").exists(),
        "{refused:?}"
    );
    up.terminate(Duration::from_secs(60))?;
    clean(&folder, &["--yes"])?.expect_ok()?;
    assert!(!areas.exists());
    Ok(())
}

/// A grid whose two RSEs are the external storages of challenges.
const STORAGES: &str =
    "name = \"far\"\n[storage]\ndurability = \"cache\"\n[[rse]]\nname = \"FAR\"\n[[rse]]\nname = \"AWAY\"\n";

/// A challenge between both, with further keys of the file.
fn between(grid: &RunningGrid, phases: &str) -> String {
    let rse = |name: &str| {
        let (url, dir) = (grid.rse_url(name), grid.dir());
        let dir = dir.display();
        format!(
            "[[grid.rse]]\nname = \"{name}\"\nurl = \"{url}\"\nca = \"{dir}/trust/ca.pem\"\ntoken_file = \"{dir}/token\"\n"
        )
    };
    format!(
        "name = \"far\"\n[phases]\n{phases}\n[grid]\nname = \"far\"\n{}{}[[workload]]\nkind = \"rates\"\nlifetime = \"1 h\"\nfile_size_min = \"100 kB\"\nfile_size_max = \"100 kB\"\n\
         rates = [{{ source = \"FAR\", destination = \"AWAY\", rate = \"20 Mb/s\" }}]\n",
        rse("FAR"),
        rse("AWAY")
    )
}

/// Files below the area of an RSE.
fn stored(grid: &RunningGrid, name: &str) -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => below(&path, found),
                path => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    below(&grid.area(name).join("weir"), &mut found);
    found
}

fn clean(folder: &Path, more: &[&str]) -> Result<Run> {
    let mut words = vec!["challenge".as_ref(), "clean".as_ref(), folder.as_os_str()];
    words.extend(more.iter().map(std::ffi::OsStr::new));
    weir(&words)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells one story")]
fn leftovers_of_a_killed_run_are_removed_and_nothing_else() -> Result<()> {
    // Wrong: a killed run fills somebody's storage for ever, or the clean-up deletes what somebody else has put or changed there.
    let grid = RunningGrid::up(STORAGES)?;
    let scratch = tempfile::tempdir()?;
    fs::write(
        scratch.path().join("small.toml"),
        between(&grid, "ramp = \"1 s\"\nhold = \"60 s\""),
    )?;
    let (mut run, runs) = start(scratch.path(), 0)?;
    wait_for(Duration::from_secs(60), || {
        Ok((stored(&grid, "AWAY").len() > 5).then_some(()))
    })?;
    let folder = run_folder(&runs)?;
    let refused = clean(&folder, &["--yes"])?;
    assert!(refused.stderr.contains("still goes on"), "{refused:?}");
    run.kill()?;

    let before = (stored(&grid, "FAR"), stored(&grid, "AWAY"));
    assert!(!before.0.is_empty() && before.1.len() > 5, "{before:?}");
    let listed = clean(&folder, &[])?.expect_ok()?;
    assert!(listed.stdout.contains("add --yes"), "{}", listed.stdout);
    assert_eq!(
        (stored(&grid, "FAR"), stored(&grid, "AWAY")),
        before,
        "a listing deletes nothing"
    );

    // One file gets another content of the same size, one becomes longer, one shorter, and a stranger's lies beside.
    let (same_size, longer, shorter) = (&before.1[0], &before.1[1], &before.1[2]);
    let length = fs::metadata(same_size)?.len() as usize;
    let url = |path: &Path| {
        format!(
            "{}/{}",
            grid.rse_url("AWAY"),
            path.strip_prefix(grid.area("AWAY")).unwrap().display()
        )
    };
    let stranger = same_size.with_file_name("notes.txt");
    for (path, content) in [
        (same_size, vec![7; length]),
        (longer, vec![7; length + 1]),
        (shorter, vec![7; length - 1]),
        (&stranger, vec![7]),
    ] {
        let file = grid.scratch().join("content");
        fs::write(&file, content)?;
        grid.curl(&["-sS", "-T", file.to_str().unwrap(), &url(path)])?
            .expect_ok()?;
    }
    let cleaned = clean(&folder, &["--yes", "--json"])?.expect_ok()?.envelope()?;
    let mut left = stored(&grid, "AWAY");
    left.sort();
    let mut edited = vec![same_size.clone(), longer.clone(), shorter.clone(), stranger];
    edited.sort();
    assert_eq!(left, edited, "{cleaned}");
    assert_eq!(stored(&grid, "FAR"), Vec::<PathBuf>::new());
    let others = cleaned["data"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|file| file["found"] == "other");
    let why: Vec<&str> = others.map(|file| file["why"].as_str().unwrap()).collect();
    assert_eq!(why.len(), 2, "{cleaned}");
    assert!(why.iter().any(|why| why.contains("its size is")) && why.iter().any(|why| why.contains("its checksum is")));
    assert!(
        cleaned["data"]["unknown"][0][1]
            .as_str()
            .unwrap()
            .ends_with("/notes.txt")
    );
    // A part of a file is deleted only if that is asked for; until then, the files that this needs stay.
    let partial = |cleaned: &Value| {
        let files = cleaned["data"]["files"].as_array().unwrap().iter();
        files.filter(|file| file["found"] == "partial").count()
    };
    assert_eq!(
        (partial(&cleaned), folder.join("scratch").exists()),
        (1, true),
        "{cleaned}"
    );
    let refused = clean(&folder, &["--partial"])?;
    assert_eq!(refused.code, Some(2), "without --yes nothing is deleted: {refused:?}");
    let again = clean(&folder, &["--yes", "--partial", "--json"])?
        .expect_ok()?
        .envelope()?;
    edited.retain(|path| path != shorter);
    let mut left = stored(&grid, "AWAY");
    left.sort();
    assert_eq!((partial(&again), left), (0, edited.clone()), "{again}");
    assert!(
        !folder.join("scratch").exists(),
        "the data areas hold secrets of the grid"
    );

    // The next run tells of them.
    fs::write(scratch.path().join("small.toml"), between(&grid, "hold = \"1 s\""))?;
    let (mut run, _) = start(scratch.path(), 1)?;
    wait_for(Duration::from_secs(60), || run.ended())?;
    let name = folder.file_name().unwrap().to_string_lossy();
    assert!(
        run.said()
            .contains(&format!("AWAY holds directories of other runs below /weir: {name}")),
        "{}",
        run.said()
    );

    for path in edited {
        grid.curl(&["-sS", "-X", "DELETE", &url(&path)])?.expect_ok()?;
    }
    clean(&folder, &["--yes"])?.expect_ok()?;
    assert!(!grid.area("AWAY").join("weir").join(&*name).exists());
    let again = clean(&folder, &[])?.expect_ok()?;
    assert!(again.stdout.contains("the run left nothing"), "{}", again.stdout);
    Ok(())
}

#[test]
fn a_disk_that_is_full_loses_neither_rows_nor_the_report() -> Result<()> {
    // Wrong: a disk that is full for a moment breaks rows off, or one that is full at the end takes the report with it.
    let grid = RunningGrid::up(STORAGES)?;
    for at_the_end in [false, true] {
        let disk = SmallDisk::new(24)?;
        let scratch = tempfile::tempdir()?;
        let (file, elsewhere) = (scratch.path().join("far.toml"), scratch.path().join("elsewhere"));
        fs::write(&file, between(&grid, "ramp = \"1 s\"\nhold = \"7 s\"\ndrain = \"5 s\""))?;
        fs::create_dir(&elsewhere)?;
        let within = disk.within();
        let mut command = Command::new(&within[0]);
        command.args(&within[1..]).arg(weir_binary());
        command
            .args(["challenge", "run"])
            .arg(&file)
            .arg("--out")
            .arg(disk.path().join("runs"));
        command.env_remove("WEIR_LOG").env("TMPDIR", &elsewhere);
        let mut run = Daemon::start(command, &scratch.path().join("out"))?;
        wait_for(Duration::from_secs(60), || {
            Ok((stored(&grid, "AWAY").len() > 3).then_some(()))
        })?;
        disk.fill()?;
        std::thread::sleep(Duration::from_secs(4));
        if !at_the_end {
            disk.free()?;
        }
        let code = wait_for(Duration::from_secs(120), || run.ended())?;
        let said = run.said();
        assert!(matches!(code, Some(0 | 1)), "{code:?}: {said}");
        if at_the_end {
            assert!(said.contains("did not take the report: it is in"), "{said}");
            let found = json(&run_folder(&elsewhere)?.join("report.json"))?;
            assert!(found["totals"]["finished"].as_u64().unwrap() > 3, "{found}");
            let lacking = found["events"].to_string();
            assert!(lacking.contains("does not hold the last rows"), "{lacking}");
        } else {
            assert!(!said.contains("did not take the report"), "{said}");
            let held = PathBuf::from(format!("/proc/{}/root", disk.holder()));
            let folder = run_folder(&held.join(disk.path().strip_prefix("/")?).join("runs"))?;
            let found = json(&folder.join("report.json"))?;
            let rows = lines(&folder.join("transfers.csv")) as u64 - 1;
            assert_eq!(found["totals"]["transfers"].as_u64(), Some(rows), "{found}");
            assert!(rows > 10, "{rows}");
            assert!(
                found["events"].to_string().contains("takes no rows"),
                "the disk was never full: {found}"
            );
        }
        assert_eq!(stored(&grid, "AWAY"), Vec::<PathBuf>::new(), "the run cleaned up");
    }
    Ok(())
}
