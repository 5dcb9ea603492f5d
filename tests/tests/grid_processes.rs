//! `weir grid up --processes`: each site is a process of its own, and lives and dies alone.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use weir_tests::{Daemon, RunningGrid, TWO_SITES, run, wait_for, weir, weir_binary};

const LIMIT: Duration = Duration::from_secs(30);

/// The processes that `grid.json` names now, by site.
fn pids(dir: &Path) -> Vec<(String, Option<u64>)> {
    let text = fs::read(dir.join("grid.json")).unwrap();
    let description: Value = serde_json::from_slice(&text).unwrap();
    let processes = description["processes"].as_array().unwrap();
    let pair = |process: &Value| (process["site"].as_str().unwrap().to_owned(), process["pid"].as_u64());
    processes.iter().map(pair).collect()
}

fn pid_of(dir: &Path, site: &str) -> Option<u64> {
    pids(dir).into_iter().find(|(name, _)| name == site).unwrap().1
}

fn kill(pid: u64) {
    signal("-9", pid);
}

fn terminate(pid: u64) {
    signal("-TERM", pid);
}

fn signal(signal: &str, pid: u64) {
    run(Command::new("kill").args([signal, &pid.to_string()]))
        .unwrap()
        .expect_ok()
        .unwrap();
}

fn runs(pid: u64) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    // A zombie has ended; nobody has asked how.
    !status.is_empty() && !status.contains("State:\tZ")
}

/// Copies a file with the transfer service; the exit code of the command.
fn copy(grid: &RunningGrid, from: &str, to: &str) -> Option<i32> {
    let mut submit = grid.command(weir_binary().to_str().unwrap()).unwrap();
    submit.args(["transfer", "submit", from, to, "--retry", "0", "--watch"]);
    run(&mut submit).unwrap().code
}

#[test]
fn one_site_is_killed_and_the_others_serve_on() {
    // A fault of one site that took the grid with it would measure nothing.
    let grid = RunningGrid::up_in_processes(TWO_SITES).unwrap();
    let dir = grid.dir();
    let processes = pids(&dir);
    let named: BTreeSet<&str> = processes.iter().map(|(site, _)| site.as_str()).collect();
    assert_eq!(named, ["A", "B"].into(), "{processes:?}");
    let mut all: BTreeSet<u64> = processes.iter().map(|(_, pid)| pid.unwrap()).collect();
    all.insert(grid.pid().into());
    assert_eq!(all.len(), 3, "{processes:?}");
    // The process of a site has the site's data open, and no other has.
    let (alpha, beta) = (pid_of(&dir, "A").unwrap(), pid_of(&dir, "B").unwrap());
    let opened = |pid: u64, name: &str| {
        let folder = grid.area(name);
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let links = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        links.into_iter().any(|link| link.starts_with(&folder))
    };
    assert!(opened(alpha, "ALPHA") && !opened(alpha, "BETA"));
    assert!(opened(beta, "BETA") && !opened(u64::from(grid.pid()), "BETA"));

    fs::write(grid.scratch().join("hello"), vec![5; 300_000]).unwrap();
    let (source, target) = (grid.rse_url("ALPHA"), grid.rse_url("BETA"));
    let file = format!("{source}/hello");
    grid.curl(&["-T", "hello", &file]).unwrap().expect_ok().unwrap();
    assert_eq!(copy(&grid, &file, &format!("{target}/before")), Some(0));

    // It died: another starts by itself at its address, with its data.
    kill(beta);
    let other = || Ok(pid_of(&dir, "B").filter(|pid| *pid != beta));
    let beta = wait_for(LIMIT, other).unwrap();
    assert!(grid.log().contains("the process of site B has ended"), "{}", grid.log());
    assert!(grid.log().contains("started the site again"), "{}", grid.log());
    let kept = format!("{target}/before");
    wait_for(LIMIT, || Ok(grid.curl(&[&kept, "-o", "kept"])?.ok().then_some(()))).unwrap();

    // It was stopped: it stays so.
    terminate(beta);
    wait_for(LIMIT, || Ok(pid_of(&dir, "B").is_none().then_some(()))).unwrap();
    assert!(grid.curl(&[&file, "-o", "back"]).unwrap().ok());
    let status = weir(&["grid".as_ref(), "status".as_ref(), dir.as_os_str()]).unwrap();
    assert_eq!(status.code, Some(3), "{status:?}");
    for part in ["DOWN BETA", "up   ALPHA", "weir grid site GRID B --dir DIR"] {
        assert!(status.stdout.contains(part), "{part}: {}", status.stdout);
    }
    assert_ne!(copy(&grid, &file, &format!("{target}/gone")), Some(0));

    // It comes back at its address, with its data, by the command that the status names.
    let mut command = Command::new(weir_binary());
    command.args(["grid", "site", "grid.toml", "B", "--dir", "grid"]);
    command.current_dir(grid.scratch());
    let mut back = Daemon::start(command, &grid.scratch().join("site.log")).unwrap();
    let again = u64::from(back.pid());
    wait_for(LIMIT, || Ok((pid_of(&dir, "B") == Some(again)).then_some(()))).unwrap();
    let ready = || Ok(back.said().contains("site B is ready").then_some(()));
    wait_for(LIMIT, ready).unwrap();
    grid.curl(&[&kept, "-o", "kept"]).unwrap().expect_ok().unwrap();
    assert_eq!(copy(&grid, &file, &format!("{target}/after")), Some(0));
    let second = weir(&[
        "grid".as_ref(),
        "site".as_ref(),
        grid.scratch().join("grid.toml").as_os_str(),
        "B".as_ref(),
        "--dir".as_ref(),
        dir.as_os_str(),
    ])
    .unwrap();
    assert_eq!(second.code, Some(3), "{second:?}");
    assert!(second.stderr.contains(&format!("(process {again})")), "{second:?}");

    grid.down().unwrap().expect_ok().unwrap();
    assert_eq!(back.terminate(LIMIT).unwrap(), Some(0), "{}", back.said());
    assert!(!runs(alpha), "the site outlives its grid");
}

#[test]
fn sites_outlive_a_grid_that_is_killed_and_are_not_left_behind() {
    // Copies between storages go on without the service that ordered them; processes that nobody finds would hold the addresses.
    let mut grid = RunningGrid::up_in_processes(TWO_SITES).unwrap();
    let dir = grid.dir();
    fs::write(grid.scratch().join("hello"), "hello\n").unwrap();
    let file = format!("{}/hello", grid.rse_url("ALPHA"));
    grid.curl(&["-T", "hello", &file]).unwrap().expect_ok().unwrap();
    let before: Vec<u64> = pids(&dir).into_iter().filter_map(|(_, pid)| pid).collect();
    grid.kill().unwrap();
    assert!(before.iter().all(|pid| runs(*pid)), "{before:?}");
    let serves = run(Command::new("curl")
        .args(["-sS", "--fail", "--cacert", "trust/ca.pem", "-H"])
        .arg(format!(
            "Authorization: Bearer {}",
            fs::read_to_string(dir.join("token")).unwrap().trim()
        ))
        .arg(&file)
        .current_dir(&dir))
    .unwrap();
    assert_eq!(serves.stdout, "hello\n", "{serves:?}");

    // The next start takes their place.
    let mut grid = grid.kill_and_restart_with(&["--processes"]).unwrap();
    assert!(
        grid.log().contains("stopped the sites of a grid that had been killed"),
        "{}",
        grid.log()
    );
    assert!(!before.iter().any(|pid| runs(*pid)), "{before:?}");
    assert_eq!(grid.curl(&[&file]).unwrap().expect_ok().unwrap().stdout, "hello\n");

    // So does the command that stops a grid.
    let before: Vec<u64> = pids(&grid.dir()).into_iter().filter_map(|(_, pid)| pid).collect();
    grid.kill().unwrap();
    let down = grid.down().unwrap().expect_ok().unwrap();
    assert!(down.stdout.contains("site A, site B"), "{down:?}");
    assert!(!before.iter().any(|pid| runs(*pid)), "{before:?}");
    assert_eq!(grid.down().unwrap().code, Some(3));
}

#[test]
fn a_site_that_cannot_start_is_named_with_its_cause() {
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    let file = grid.scratch().join("grid.toml");
    let site = |name: &str, dir: &Path| {
        weir(&[
            "grid".as_ref(),
            "site".as_ref(),
            file.as_os_str(),
            name.as_ref(),
            "--dir".as_ref(),
            dir.as_os_str(),
        ])
        .unwrap()
    };
    let unknown = site("C", &grid.dir());
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
    assert!(
        unknown.stderr.contains("no storage at a site C; it does at A, B"),
        "{unknown:?}"
    );
    let nowhere = site("A", &grid.scratch().join("nowhere"));
    assert_eq!(nowhere.code, Some(3), "{nowhere:?}");
    assert!(nowhere.stderr.contains("weir grid up"), "{nowhere:?}");
    // The grid runs this storage itself.
    let taken = site("A", &grid.dir());
    assert_eq!(taken.code, Some(3), "{taken:?}");
    assert!(
        taken.stderr.contains("could not start the storage of ALPHA"),
        "{taken:?}"
    );

    // A site whose process ends at once ends the start of the grid, which leaves no process of another site.
    grid.down().unwrap().expect_ok().unwrap();
    let lock = grid.dir().join("sites/B/grid.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let held = fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let up = weir(&[
        "grid".as_ref(),
        "up".as_ref(),
        file.as_os_str(),
        "--processes".as_ref(),
        "--dir".as_ref(),
        grid.dir().as_os_str(),
    ])
    .unwrap();
    assert_eq!(up.code, Some(3), "{up:?}");
    for part in ["the process of site B has ended", "log/site-B.log", "already runs"] {
        assert!(up.stderr.contains(part), "{part}: {up:?}");
    }
    drop(held);
    assert_eq!(grid.down().unwrap().code, Some(3), "the process of site A is left");
}
