//! Faults on real services: relays, limits of the transfer service, its database, the injector.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;
use std::process::Command;

use anyhow::Result;
use weir_tests::{BROKEN as GRID, broken_report as report_with, leave_out, missed, peers, run, weir};

/// Runs a challenge with these faults; gives its report.
fn report(faults: &str) -> Result<serde_json::Value> {
    report_of(&format!("{GRID}{faults}"))
}

/// Runs a challenge; gives its report.
fn report_of(challenge: &str) -> Result<serde_json::Value> {
    report_with(challenge, &[])
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

/// A class of errors would be another one, files be small or counters wrong in the report alone. A pull goes on after a broken connection
/// for 6.2 s, so that the relay's fault lasts longer.
#[test]
fn errors_sizes_and_counters_are_as_faults_have_them() -> Result<()> {
    let challenge = format!(
        "{}{}",
        GRID.replace("hold = \"42 s\"", "hold = \"18 s\"")
            .replace("retries = 1", "retries = 0"),
        r#"
[[fault]]
kind = "failures"
name = "bits"
link = "A->C"
error = "tls"
mode = "pull"
share = 1
at = "2 s"
for = "9 s"
[[fault]]
kind = "failures"
name = "disks"
rse = "B"
way = "out"
error = "checksum"
share = 0.5
at = "3 s"
for = "3 s"
[[fault]]
kind = "failures"
name = "busy"
rse = "C"
way = "in"
error = "overload"
share = 0.5
at = "12 s"
for = "2 s"
[[fault]]
kind = "small-files"
workload = "rates"
size = "50 kB"
at = "16 s"
for = "3 s"
[[fault]]
kind = "wrong-counters"
rse = "C"
factor = 3
"#
    );
    let report = report_of(&challenge)?;
    let classes: Vec<&str> = report["errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|error| error["class"].as_str())
        .collect();
    for class in ["tls", "checksum", "overload"] {
        assert!(classes.contains(&class), "{class} is not among {classes:?}");
    }
    let faults = report["faults"].as_array().unwrap();
    let acted = |name: &str| {
        let fault = faults.iter().find(|fault| fault["name"] == name).unwrap();
        fault["acted"].as_str().unwrap_or_default().to_owned()
    };
    assert!(!acted("bits").contains("changed bits of 0"), "{}", acted("bits"));
    assert!(!acted("disks").contains("failed for 0 files"), "{}", acted("disks"));
    assert!(
        acted("wrong-counters").contains("more than were counted"),
        "{}",
        acted("wrong-counters")
    );
    let received = report["crosschecks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["subject"] == "C" && row["quantity"] == "bytes received")
        .unwrap();
    assert_eq!(received["pass"], false, "{received:#}");
    // In a size of 500 kB there is time for 18 s x 48 Mb/s / 4 Mb = 216 files, and there are ten of 50 kB in the place of each.
    let transfers = report["totals"]["finished"].as_u64().unwrap();
    assert!(transfers > 250, "{transfers} transfers: {:#}", report["totals"]);
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
        (&here, "kind = \"fifo\"", "serves links in turn"),
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
            "kind = \"failures\"\nlink = \"A->C\"\nerror = \"token\"\nshare = 0.5",
            "relays make failures of network, timeout and tls",
        ),
        (
            &here,
            "kind = \"failures\"\nrse = \"C\"\nerror = \"checksum\"\nshare = 0.5",
            "add way = \"out\"",
        ),
        (
            &here,
            "kind = \"token-lifetime\"\nservice = \"issuer\"\ndelay = \"1 s\"",
            "the transfer service renews tokens",
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
