//! Faults that are added to a run under way, on real services.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use weir_tests::{BROKEN, weir};

/// A run under way, killed when the test ends.
struct Run(std::process::Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ended_before = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Begins a run without faults; gives its folder once it takes orders.
fn under_way(scratch: &Path, option: &str) -> Result<(Run, String)> {
    let (file, out) = (scratch.join("broken.toml"), scratch.join("runs"));
    fs::write(&file, BROKEN)?;
    let child = std::process::Command::new(weir_tests::weir_binary())
        .args(["challenge", "run", option, "--out"])
        .args([&out, &file])
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let run = Run(child);
    let folder = || {
        let entry = fs::read_dir(&out).ok().and_then(|mut entries| entries.next());
        let folder = entry.and_then(Result::ok).map(|entry| entry.path());
        Ok(folder.filter(|folder| folder.join("faults").is_dir()))
    };
    let folder = weir_tests::wait_for(std::time::Duration::from_secs(30), folder)?;
    Ok((run, folder.to_string_lossy().into_owned()))
}

/// Faults by hand would be taken and not made, or survive the run that they are in.
#[test]
fn faults_are_added_and_cleared_by_hand() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (mut run, run_folder) = under_way(scratch.path(), "--breakable")?;
    let fault = |words: &[&str]| weir(&[&["fault", words[0], run_folder.as_str()], &words[1..]].concat());
    let added = fault(&["add", "outage", "--link", "A->C"])?;
    assert_eq!(added.code, Some(0), "{added:?}");
    let state = || -> Result<Value> {
        let told = fault(&["list", "--json"])?;
        Ok(serde_json::from_str::<Value>(&told.stdout)?["data"]["faults"][0].clone())
    };
    assert_eq!(state()?["level"], 1.0);
    for (words, code, said) in [
        (
            &["add", "outage", "--link", "B->C"][..],
            2,
            "it has a fault called outage already",
        ),
        (
            &["add", "outage", "--name", "x", "--rse", "Z"],
            2,
            "there is no RSE \"Z\" to break",
        ),
        (
            &["add", "uneven", "--rse", "A", "--share", "0.5"],
            2,
            "a storage of a grid is one server",
        ),
        (
            &["add", "frozen-site", "--site", "A"],
            2,
            "begin the run with --processes",
        ),
        (
            &["add", "slow-read", "--rse", "A", "--rate", "0 b/s"],
            2,
            "must be above zero",
        ),
        (&["clear", "nothing"], 2, "it has no fault called nothing"),
    ] {
        let told = fault(words)?;
        assert!(
            told.code == Some(code) && told.stderr.contains(said),
            "{words:?}: {told:?}"
        );
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    let cleared = fault(&["clear"])?;
    assert!(
        cleared.code == Some(0) && cleared.stdout.contains("outage is over"),
        "{cleared:?}"
    );
    let over = state()?;
    let acted = over["acted"].as_str().unwrap_or_default();
    assert!(
        over["level"] == 0.0 && acted.contains("held connections back for"),
        "{over:#}"
    );
    let again = fault(&["add", "slow-disk", "--rse", "C", "--rate", "1 Mb/s"])?;
    assert_eq!(again.code, Some(0), "{again:?}");
    std::thread::sleep(std::time::Duration::from_secs(2));
    // Killed while a fault acts: nothing is left of it, and nobody takes orders any more.
    run.0.kill()?;
    run.0.wait()?;
    let late = fault(&["add", "pause", "--workload", "rates"])?;
    assert!(late.code == Some(3) && late.stderr.contains("has ended"), "{late:?}");
    let built = weir(&["report", run_folder.as_str()])?;
    assert_eq!(built.code, Some(0), "{built:?}");
    let report: Value = serde_json::from_slice(&fs::read(Path::new(&run_folder).join("report.json"))?)?;
    let faults = report["faults"].as_array().unwrap();
    let times = |at: usize| (faults[at]["times"][0][0].as_f64(), faults[at]["times"][0][1].as_f64());
    let (Some(begin), Some(end)) = times(0) else {
        panic!("{faults:#?}")
    };
    assert!(
        faults.len() == 2 && faults[0]["name"] == "outage" && faults[1]["name"] == "slow-disk",
        "{faults:#?}"
    );
    assert!(
        (2.5..6.0).contains(&(end - begin)) && times(1).0 > Some(end),
        "{faults:#?}"
    );
    let cleaned = weir(&["challenge", "clean", run_folder.as_str(), "--yes"])?;
    assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
    Ok(())
}

/// A run that is killed would leave stopped processes behind.
#[test]
fn processes_that_a_killed_run_has_stopped_are_cleaned_up() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (mut run, folder) = under_way(scratch.path(), "--processes")?;
    let fault = |words: &[&str]| weir(&[&["fault", words[0], folder.as_str()], &words[1..]].concat());
    let added = fault(&["add", "frozen-site", "--site", "A"])?;
    assert_eq!(added.code, Some(0), "{added:?}");
    for (words, said) in [
        (
            &["add", "slow-read", "--rse", "A", "--rate", "1 Mb/s"][..],
            "out of reach: leave out --processes",
        ),
        (
            &["add", "skewed-clock", "--site", "A", "--delay", "5 s"],
            "the check of a token forgives a minute",
        ),
    ] {
        let told = fault(words)?;
        assert!(
            told.code == Some(2) && told.stderr.contains(said),
            "{words:?}: {told:?}"
        );
    }
    let scratch = format!("{folder}/scratch");
    let processes = || -> Vec<u32> {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_ours = |pid: &u32| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.contains("grid\0site") && words.contains(&scratch)
        };
        pids.filter(is_ours).collect()
    };
    assert_eq!(processes().len(), 3);
    run.0.kill()?;
    run.0.wait()?;
    let cleaned = weir(&["challenge", "clean", folder.as_str(), "--yes"])?;
    assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
    weir_tests::wait_for(std::time::Duration::from_secs(20), || {
        Ok(processes().is_empty().then_some(()))
    })?;
    Ok(())
}
