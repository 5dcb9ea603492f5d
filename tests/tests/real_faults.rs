//! Faults on real services: relays, limits of the transfer service, its database, the injector.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::Value;
use weir_tests::{steadily, weir};

const GRID: &str = r#"
name = "broken"
[grid]
name = "broken"
[grid.storage]
durability = "cache"
[grid.transfer]
retries = 1
retry_delay = "1 s"
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[phases]
ramp = "2 s"
hold = "42 s"
drain = "8 s"
[[workload]]
kind = "rates"
file_size_min = "500 kB"
file_size_max = "500 kB"
cycle = "300 ms"
rates = [
  { source = "A", destination = "C", rate = "24 Mb/s" },
  { source = "B", destination = "C", rate = "24 Mb/s" },
]
"#;

/// Runs a challenge with these faults; gives its report.
fn report(faults: &str) -> Result<Value> {
    let scratch = tempfile::tempdir()?;
    let (file, out) = (scratch.path().join("broken.toml"), scratch.path().join("runs"));
    fs::write(&file, format!("{GRID}{faults}"))?;
    let ran = steadily(|| {
        let _before = fs::remove_dir_all(&out);
        weir(&[
            "challenge".as_ref(),
            "run".as_ref(),
            "--out".as_ref(),
            out.as_os_str(),
            file.as_os_str(),
        ])
    })?;
    anyhow::ensure!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let folder = fs::read_dir(&out)?.next().context("there is no run folder")??.path();
    Ok(serde_json::from_slice(&fs::read(folder.join("report.json"))?)?)
}

/// Share of the asked bits that a link missed between two moments.
fn missed(report: &Value, link: &str, from: f64, until: f64) -> f64 {
    let bin = report["series"]["bin_s"].as_f64().unwrap();
    let sum = |key: &str| -> f64 {
        let values = report["series"]["links"][link][key].as_array().unwrap();
        let within = |at: usize| ((at as f64 + 0.5) * bin >= from) && ((at as f64 + 0.5) * bin < until);
        values
            .iter()
            .enumerate()
            .filter(|(at, _)| within(*at))
            .filter_map(|(_, value)| value.as_f64())
            .sum()
    };
    1.0 - sum("achieved_bps") / sum("asked_bps")
}

/// A fault would be listed and change nothing, strike another link, or stay after its end.
#[test]
fn faults_strike_where_and_when_they_should() -> Result<()> {
    let report = report(
        r#"
[[fault]]
kind = "slow-read"
rse = "A"
rate = "4 Mb/s"
at = "6 s"
for = "5 s"
[[fault]]
kind = "outage"
link = "B->C"
at = "15 s"
for = "4 s"
[[fault]]
kind = "frozen-store"
at = "23 s"
for = "4 s"
[[fault]]
kind = "pause"
workload = "rates"
at = "32 s"
for = "5 s"
[[fault]]
kind = "slots"
name = "harmless"
link = "A->C"
limit = 50
at = "3 s"
for = "2 s"
"#,
    )?;
    let faults = report["faults"].as_array().unwrap();
    let of = |name: &str| faults.iter().find(|fault| fault["name"] == name).unwrap();
    for name in ["slow-read", "outage", "frozen-store", "pause"] {
        assert_eq!(of(name)["effect"], true, "{name}: {:#}", of(name));
    }
    assert_eq!(of("harmless")["effect"], false, "{:#}", of("harmless"));
    let slow = (missed(&report, "A→C", 6.5, 10.5), missed(&report, "B→C", 6.5, 10.5));
    assert!(slow.0 > 0.5 && slow.1 < 0.3, "slow-read: {slow:?}");
    let cut = (missed(&report, "A→C", 15.5, 18.5), missed(&report, "B→C", 15.5, 18.5));
    assert!(cut.1 > 0.4 && cut.0 < 0.3, "outage: {cut:?}");
    assert!(missed(&report, "A→C", 39.0, 43.0) < 0.3, "nothing is broken at the end");
    for (name, said) in [
        ("slow-read", "disks held calls back for"),
        ("outage", "held connections back for"),
        ("frozen-store", "its database was held for 4"),
        ("harmless", "the transfer service took the limit"),
    ] {
        let acted = of(name)["acted"].as_str().unwrap_or_default();
        assert!(acted.contains(said), "{name}: {acted}");
    }
    Ok(())
}

/// A fault without means would be passed over.
#[test]
fn what_has_no_means_is_refused_before_anything_starts() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    for (fault, said) in [
        ("kind = \"read-back\"\nrse = \"C\"", "it has no means in a real run yet"),
        (
            "kind = \"outage\"\nsegment = \"sea\"",
            "segments are a part of the simulated network",
        ),
        (
            "kind = \"window\"\nlink = \"A->C\"\nsize = \"1 MB\"",
            "add the fault round-trip at the same link",
        ),
        (
            "kind = \"failures\"\nlink = \"A->C\"\nerror = \"tls\"\nshare = 0.5",
            "failures of the network alone",
        ),
        (
            "kind = \"volume\"\nworkload = \"rates\"\nfactor = 2",
            "more than was asked cannot be injected",
        ),
    ] {
        let file = scratch.path().join("broken.toml");
        fs::write(&file, format!("{GRID}[[fault]]\n{fault}\n"))?;
        let out = scratch.path().join("runs");
        let told = weir(&[
            "challenge".as_ref(),
            "run".as_ref(),
            "--out".as_ref(),
            out.as_os_str(),
            file.as_os_str(),
        ])?;
        assert_eq!(told.code, Some(3), "{told:?}");
        assert!(
            told.stderr.contains(said) && told.stderr.contains("weir sim run"),
            "{}",
            told.stderr
        );
        assert!(!out.exists(), "a folder was made");
    }
    Ok(())
}

/// A run under way, killed when the test ends.
struct Run(std::process::Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ended_before = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Faults by hand would be taken and not made, or survive the run that they are in.
#[test]
fn faults_are_added_and_cleared_by_hand() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (file, out) = (scratch.path().join("broken.toml"), scratch.path().join("runs"));
    fs::write(&file, GRID)?;
    let child = std::process::Command::new(weir_tests::weir_binary())
        .args(["challenge", "run", "--breakable", "--out"])
        .args([&out, &file])
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let mut run = Run(child);
    let until = |what: &str, is_there: &dyn Fn() -> bool| -> Result<()> {
        for _ in 0..300 {
            if is_there() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        anyhow::bail!("{what} does not come about")
    };
    until("the run folder", &|| {
        fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some())
    })?;
    let folder = fs::read_dir(&out)?.next().context("there is no run folder")??.path();
    until("the folder of orders", &|| folder.join("faults").is_dir())?;
    let run_folder = folder.to_string_lossy().into_owned();
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
            &["add", "read-back", "--rse", "A"],
            2,
            "it has no means in a real run yet",
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
    // Killed while a fault acts: nothing is left of it, and nobody takes orders any more.
    run.0.kill()?;
    run.0.wait()?;
    let late = fault(&["add", "pause", "--workload", "rates"])?;
    assert!(late.code == Some(3) && late.stderr.contains("has ended"), "{late:?}");
    let cleaned = weir(&["challenge", "clean", run_folder.as_str(), "--yes"])?;
    assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
    Ok(())
}
