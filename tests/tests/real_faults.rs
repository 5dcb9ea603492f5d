//! Faults on real services: relays, limits of the transfer service, its database, the injector.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;
use weir_tests::{leave_out, missed, peers, run, steadily, weir};

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
    report_of(&format!("{GRID}{faults}"))
}

/// Runs a challenge; gives its report.
fn report_of(challenge: &str) -> Result<Value> {
    report_with(challenge, &[])
}

/// Runs a challenge with these options; gives its report.
fn report_with(challenge: &str, options: &[&str]) -> Result<Value> {
    let scratch = tempfile::tempdir()?;
    let (file, out) = (scratch.path().join("broken.toml"), scratch.path().join("runs"));
    fs::write(&file, challenge)?;
    let ran = steadily(|| {
        let _before = fs::remove_dir_all(&out);
        let command = [
            "challenge".as_ref(),
            "run".as_ref(),
            "--out".as_ref(),
            out.as_os_str(),
            file.as_os_str(),
        ];
        let options = options.iter().map(std::ffi::OsStr::new);
        weir(&command.into_iter().chain(options).collect::<Vec<_>>())
    })?;
    anyhow::ensure!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let folder = fs::read_dir(&out)?.next().context("there is no run folder")??.path();
    Ok(serde_json::from_slice(&fs::read(folder.join("report.json"))?)?)
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

/// Rules would be made while the catalogue is down, or never again.
#[test]
fn the_catalogue_is_cut_off_and_comes_back() -> Result<()> {
    let grid = GRID
        .replace("[grid.storage]", "[grid.catalog]\n[grid.storage]")
        .replace("kind = \"rates\"", "kind = \"rates\"\ninject = \"rules\"")
        .replace("hold = \"42 s\"", "hold = \"18 s\"");
    let fault = "[[fault]]\nkind = \"outage\"\nservice = \"catalog\"\nat = \"6 s\"\nfor = \"4 s\"\n";
    let report = report_of(&format!("{grid}{fault}"))?;
    let fault = &report["faults"][0];
    assert_eq!(fault["effect"], true, "{fault:#}");
    let acted = fault["acted"].as_str().unwrap_or_default();
    assert!(
        acted.contains("held connections back for") && !acted.contains(" 0.0 s"),
        "{acted}"
    );
    assert!(missed(&report, "A→C", 6.5, 9.5) > 0.8, "{fault:#}");
    assert!(missed(&report, "A→C", 13.0, 19.0) < 0.3, "it is back");
    Ok(())
}

/// Packets would be lost by word alone, between other ends, or after the end of the fault.
#[test]
fn packets_are_lost_and_queue_in_a_namespace() -> Result<()> {
    const ALLOWED: [&str; 5] = ["--user", "--map-root-user", "--net", "--", "true"];
    if !peers() {
        return Ok(());
    }
    if !run(Command::new("unshare").args(ALLOWED))?.ok() {
        leave_out("no network namespace that a user may have");
        return Ok(());
    }
    let faults = r#"
[[fault]]
kind = "packet-loss"
link = "A->C"
share = 0.4
at = "5 s"
for = "4 s"
[[fault]]
kind = "mtu"
link = "B->C"
size = "1 MB"
at = "13 s"
for = "4 s"
[[fault]]
kind = "capacity"
link = "A->C"
rate = "4 Mb/s"
at = "22 s"
for = "4 s"
"#;
    let challenge = format!("{GRID}{faults}").replace("hold = \"42 s\"", "hold = \"30 s\"");
    let report = report_with(&challenge, &["--namespace", "--congestion-control", "reno"])?;
    let of = |name: &str| {
        let faults = report["faults"].as_array().unwrap();
        faults.iter().find(|fault| fault["name"] == name).unwrap()
    };
    for (name, said) in [
        ("packet-loss", "packets were dropped"),
        ("mtu", "packets were dropped"),
        ("capacity", "packets went through its queue"),
    ] {
        let acted = of(name)["acted"].as_str().unwrap_or_default();
        let count: u64 = acted.split(' ').next().unwrap().parse()?;
        assert!(acted.ends_with(said) && count > 20, "{name}: {acted}");
        assert_eq!(of(name)["effect"], true, "{:#}", of(name));
    }
    let missed = |link: &str, from: f64| missed(&report, link, from + 0.5, from + 3.5);
    for (link, other, from) in [("A→C", "B→C", 5.0), ("B→C", "A→C", 13.0), ("A→C", "B→C", 22.0)] {
        let shares = (missed(link, from), missed(other, from));
        assert!(shares.0 > 0.4 && shares.1 < 0.3, "{link} from {from} s: {shares:?}");
    }
    assert!(missed("A→C", 28.0) < 0.3, "nothing is broken at the end");
    Ok(())
}

/// A run would go on without its namespace, as if its packets were lost, or end without a reason.
#[test]
fn a_namespace_that_cannot_be_is_refused() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let scratch = tempfile::tempdir()?;
    let (file, outside) = (scratch.path().join("broken.toml"), scratch.path().join("outside.toml"));
    fs::write(&file, GRID)?;
    fs::write(
        &outside,
        GRID.replace(
            "name = \"B\"\n",
            "name = \"B\"\nurl = \"https://127.0.9.1:1094/data\"\n",
        ),
    )?;
    let weir_run = format!(
        "{} challenge run --namespace --out {}/runs",
        weir_tests::weir_binary().display(),
        scratch.path().display()
    );
    let forbidden = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces; {weir_run} {}",
        file.display()
    );
    let of = |words: &[&str]| run(Command::new(words[0]).args(&words[1..]));
    for (told, said) in [
        (
            of(&[
                "unshare",
                "--user",
                "--map-root-user",
                "--net",
                "--",
                "sh",
                "-c",
                &forbidden,
            ])?,
            "allows no network namespace",
        ),
        (
            of(&[
                "env",
                "PATH=/nowhere",
                "/bin/sh",
                "-c",
                &format!("{weir_run} {}", file.display()),
            ])?,
            "apt-get install util-linux",
        ),
        (
            of(&[
                "sh",
                "-c",
                &format!("{weir_run} --congestion-control nothing {}", file.display()),
            ])?,
            "congestion control nothing; it has",
        ),
        (
            of(&["sh", "-c", &format!("{weir_run} {}", outside.display())])?,
            "B cannot be reached from a network namespace",
        ),
    ] {
        let is_not_allowed =
            told.stderr.contains("allows no network namespace") || told.stderr.contains("unshare failed");
        assert!(told.stderr.contains(said) || is_not_allowed, "{said}: {told:?}");
        assert_ne!(told.code, Some(0), "{told:?}");
    }
    assert!(!scratch.path().join("runs").exists(), "a folder was made");
    Ok(())
}

/// The process of a site would serve on, or another would not take its place.
#[test]
fn processes_of_sites_are_stopped_killed_and_deceived() -> Result<()> {
    let report = report(
        r#"
[[fault]]
kind = "frozen-site"
site = "A"
at = "5 s"
for = "4 s"
[[fault]]
kind = "killed-site"
site = "B"
at = "15 s"
for = "4 s"
[[fault]]
kind = "skewed-clock"
site = "A"
delay = "10 m"
at = "26 s"
for = "5 s"
"#,
    )?;
    let faults = report["faults"].as_array().unwrap();
    for (name, said) in [
        ("frozen-site", "the process of A was stopped for 4."),
        (
            "killed-site",
            "the process of B was killed once, and there was none for 4.",
        ),
        ("skewed-clock", "the clock of A was behind"),
    ] {
        let fault = faults.iter().find(|fault| fault["name"] == name).unwrap();
        assert_eq!(fault["effect"], true, "{fault:#}");
        let acted = fault["acted"].as_str().unwrap_or_default();
        assert!(acted.contains(said), "{name}: {acted}");
    }
    let frozen = (missed(&report, "A→C", 5.5, 8.5), missed(&report, "B→C", 5.5, 8.5));
    assert!(frozen.0 > 0.4 && frozen.1 < 0.3, "frozen-site: {frozen:?}");
    let killed = (missed(&report, "B→C", 15.5, 18.5), missed(&report, "A→C", 15.5, 18.5));
    assert!(killed.0 > 0.4 && killed.1 < 0.3, "killed-site: {killed:?}");
    assert!(missed(&report, "A→C", 27.5, 30.5) > 0.4, "skewed-clock");
    assert!(missed(&report, "B→C", 35.0, 43.0) < 0.3, "B is back");
    // Its counters began at zero: no other is compared with them.
    let checks = report["crosschecks"].as_array().unwrap();
    let of = |subject: &str| checks.iter().find(|check| check["subject"] == subject).unwrap();
    assert!(
        of("B")["note"].as_str().unwrap().contains("started anew"),
        "{:#}",
        of("B")
    );
    assert!(of("B")["pass"].is_null() && of("C")["pass"] == true, "{checks:#?}");
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

/// A fault without means would be passed over.
#[test]
fn what_has_no_means_is_refused_before_anything_starts() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let here = GRID.to_owned();
    let at = |url: &str| GRID.replace("name = \"B\"\n", &format!("name = \"B\"\nurl = \"{url}\"\n"));
    // An address for documentation (RFC 5737), and one of this machine.
    let (away, beside) = (at("https://192.0.2.1/data"), at("https://127.0.9.1:1094/data"));
    let catalog = "[grid.catalog]\nurl = \"https://127.0.0.1:9\"\naccount = \"root\"\nscope = \"test\"\n\
                   user = \"u\"\npassword_file = \"p\"\n[grid.storage]";
    let rucio = beside.replace("[grid.storage]", catalog);
    weir_tests::write_private(&scratch.path().join("p"), "secret")?;
    for (grid, fault, said) in [
        (
            &away,
            "kind = \"capacity\"\nlink = \"B->C\"\nrate = \"1 Mb/s\"",
            "B is not on this machine",
        ),
        (&away, "kind = \"outage\"\nrse = \"B\"", "B is not on this machine"),
        (
            &beside,
            "kind = \"slow-read\"\nrse = \"B\"\nrate = \"1 Mb/s\"",
            "the disks of B are another program's",
        ),
        (
            &beside,
            "kind = \"outage\"\nlink = \"B->C\"",
            "break the storage itself (rse)",
        ),
        (&beside, "kind = \"killed-site\"\nsite = \"B\"", "is not ours to stop"),
        (
            &rucio,
            "kind = \"outage\"\nrse = \"B\"",
            "knows B by its own address, and goes past a relay",
        ),
        (
            &here,
            "kind = \"outage\"\nservice = \"catalog\"",
            "no workload of the challenge makes rules",
        ),
        (&here, "kind = \"fifo\"", "it has no means in a real run yet"),
        (
            &here,
            "kind = \"mixing\"\nrse = \"C\"\nshare = 0.5",
            "add the fault slow-disk at the same storage",
        ),
        (
            &here,
            "kind = \"outage\"\nsegment = \"sea\"",
            "segments are a part of the simulated network",
        ),
        (
            &here,
            "kind = \"window\"\nlink = \"A->C\"\nsize = \"1 MB\"",
            "add the fault round-trip at the same link",
        ),
        (
            &here,
            "kind = \"failures\"\nlink = \"A->C\"\nerror = \"tls\"\nshare = 0.5",
            "relays make failures of the network",
        ),
        (
            &here,
            "kind = \"small-files\"\nworkload = \"rates\"\nsize = \"1 MB\"",
            "it has no means in a real run yet",
        ),
        (
            &here,
            "kind = \"volume\"\nworkload = \"rates\"\nfactor = 2",
            "more than was asked cannot be injected",
        ),
    ] {
        let file = scratch.path().join("broken.toml");
        fs::write(&file, format!("{grid}[[fault]]\n{fault}\n"))?;
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

/// Begins a run without faults; gives its folder once it takes orders.
fn under_way(scratch: &Path, option: &str) -> Result<(Run, String)> {
    let (file, out) = (scratch.join("broken.toml"), scratch.join("runs"));
    fs::write(&file, GRID)?;
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
            "it has no means in a real run yet",
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
