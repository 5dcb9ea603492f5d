//! A challenge whose transfer service and issuer run elsewhere: another Weir's, and one that tells no more than an FTS3.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use serde_json::Value;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{
    Daemon, Draw, Run, Services, StorageSettings, free_port, missed, run, steadily, visible_files, wait_for,
    weir_binary, write_private,
};

fn weir_in(folder: &Path, arguments: &[&str]) -> Result<Run> {
    run(Command::new(weir_binary()).args(arguments).current_dir(folder))
}

/// Operators' services, the issuer of which knows a client for challenges.
fn services() -> Result<Services> {
    services_with("")
}

/// The same, with tables of the transfer service.
fn services_with(transfer: &str) -> Result<Services> {
    let mut services = Services::start(&["ALPHA", "BETA"].map(StorageSettings::new), transfer)?;
    services.reconfigure_issuer(
        "[[client]]\nid = \"challenge\"\nsecret_file = \"client.secret\"\naudiences = [\"*\"]\n\
         scopes = [\"fts\", \"storage.read:/\", \"storage.create:/\", \"storage.modify:/\"]\n",
    )?;
    Ok(services)
}

/// A challenge between both storages and one that starts with its grid.
fn challenge(services: &Services, transfer: &str) -> String {
    let ca = services.file("authority/ca.pem");
    let ca = ca.display();
    let external = |name: &str| {
        let url = &services.storage(name).url;
        format!("[[grid.rse]]\nname = \"{name}\"\nurl = \"{url}/test\"\nca = \"{ca}\"\nbase_path = \"/\"\n")
    };
    format!(
        "name = \"elsewhere\"\n[phases]\nramp = \"1 s\"\nhold = \"3 s\"\n[grid]\nname = \"elsewhere\"\nauthority = \"{authority}\"\n\
         [grid.storage]\nquota = \"1 GB\"\ndurability = \"cache\"\n{alpha}{beta}[[grid.rse]]\nname = \"HERE\"\n\
         [grid.issuer]\nurl = \"{issuer}\"\nclient_id = \"challenge\"\nsecret_file = \"{secret}\"\nca = \"{ca}\"\n\
         [grid.transfer]\nca = \"{ca}\"\n{transfer}\n\
         [[workload]]\nkind = \"rates\"\nfile_size_min = \"500 kB\"\nfile_size_max = \"500 kB\"\nrates = [\
         {{ source = \"ALPHA\", destination = \"BETA\", rate = \"8 Mb/s\" }}, {{ source = \"HERE\", destination = \"ALPHA\", rate = \"8 Mb/s\" }}, \
         {{ source = \"BETA\", destination = \"HERE\", rate = \"8 Mb/s\" }}]\n\
         [[threshold]]\ntotal = true\nmetric = \"failed\"\nmax = 0\n",
        authority = services.file("authority").display(),
        alpha = external("ALPHA"),
        beta = external("BETA"),
        issuer = services.issuer(),
        secret = services.file("client.secret").display(),
    )
}

/// The report and the rows of the one run in a folder.
fn results(folder: &Path) -> (Value, Vec<csv::StringRecord>, csv::StringRecord) {
    let runs = fs::read_dir(folder.join("runs")).unwrap();
    let out = runs.map(|entry| entry.unwrap().path()).max().unwrap();
    let report = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    let mut rows = csv::Reader::from_path(out.join("transfers.csv")).unwrap();
    let header = rows.headers().unwrap().clone();
    (report, rows.records().map(Result::unwrap).collect(), header)
}

fn finished(report: &Value) -> u64 {
    report["totals"]["finished"].as_u64().unwrap()
}

#[test]
fn another_transfer_service_and_issuer_move_the_files() -> Result<()> {
    // Wrong: a laboratory that has its services must let Weir bring a second set, and measures that.
    let services = services()?;
    let folder = tempfile::tempdir()?;
    let text = challenge(&services, &format!("url = \"{}\"", services.transfer.url));
    fs::write(folder.path().join("c.toml"), text)?;
    let checked = weir_in(folder.path(), &["challenge", "check", "c.toml", "--sites"])?.expect_ok()?;
    for part in [
        "✓ transfer service",
        "it knows the run as",
        "3 of 3 copies that were tried work",
    ] {
        assert!(checked.stdout.contains(part), "{part}: {}", checked.stdout);
    }
    let ran = steadily(|| weir_in(folder.path(), &["challenge", "run", "c.toml", "--out", "runs"]))?.expect_ok()?;
    let (issuer, transfer) = (services.issuer(), &services.transfer.url);
    let starts = format!("one storage endpoint on loopback addresses; uses {issuer}, {transfer}");
    assert!(ran.stdout.contains(&starts), "{starts}: {}", ran.stdout);
    let (report, ..) = results(folder.path());
    assert!(
        finished(&report) > 10 && report["totals"]["failed"] == 0,
        "{}",
        report["totals"]
    );
    assert_eq!(report["verdict"], "pass", "{}", report["verdict"]);
    // The service of the laboratory has them in its books, and the grid has no service of its own.
    let jobs = services.ask(&[&format!("{}/jobs?state_in=FINISHED&limit=500", services.transfer.url)])?;
    assert_ne!(jobs.json()?, Value::Array(Vec::new()), "{jobs:?}");
    for name in ["ALPHA", "BETA"] {
        assert_eq!(
            visible_files(&services.root(name)),
            Vec::<std::path::PathBuf>::new(),
            "{name}"
        );
    }
    Ok(())
}

#[test]
fn figures_that_an_fts3_lacks_are_empty_in_the_report() -> Result<()> {
    // Wrong: numbers that nobody measured, or a run that fails for lack of them.
    let services = services()?;
    let address = Ipv4Addr::new(127, 0, 7, 240);
    let port = free_port()?;
    let authority = CertificateAuthority::load(&services.file("authority"))?;
    let identity = authority.issue(&[San::Ip(address.into())], "plain")?;
    let (certificate, key) = write_identity(&identity, &services.file("identities"), "plain")?;
    let mut command = Command::new("python3");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("fts/plain.py"))
        .args([address.to_string(), port.to_string()])
        .args([certificate, key, services.file("authority/ca.pem")])
        .arg(&services.transfer.url);
    let plain = Daemon::start(command, &services.file("plain.log"))?;
    wait_for(Duration::from_secs(20), || {
        Ok(plain.said().contains("ready").then_some(()))
    })?;

    let folder = tempfile::tempdir()?;
    let service = format!(
        "url = \"https://{address}:{port}\"\naudience = \"{}\"",
        services.transfer.url
    );
    fs::write(folder.path().join("c.toml"), challenge(&services, &service))?;
    let ran = steadily(|| weir_in(folder.path(), &["challenge", "run", "c.toml", "--out", "runs"]))?.expect_ok()?;
    assert!(
        ran.stdout.contains("3 of 3 copies that were tried work"),
        "{}",
        ran.stdout
    );
    let (report, rows, header) = results(folder.path());
    assert!(
        finished(&report) > 10 && report["totals"]["failed"] == 0,
        "{}",
        report["totals"]
    );
    assert_eq!(report["verdict"], "pass", "{}", report["verdict"]);
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    for row in &rows {
        for name in ["mode", "counted_bytes", "first_byte_s"] {
            assert_eq!(&row[column(name)], "", "{name}: {row:?}");
        }
        for name in ["bytes_moved", "started_s", "ended_s"] {
            assert_ne!(&row[column(name)], "", "{name}: {row:?}");
        }
    }
    Ok(())
}

/// A fault at another program's door would be refused where it can be made, or strike beside its place.
#[test]
fn doors_of_other_programs_on_this_machine_can_be_broken() -> Result<()> {
    let services = services()?;
    let folder = tempfile::tempdir()?;
    let faults = "\
        [[fault]]\nkind = \"capacity\"\nlink = \"BETA->HERE\"\nrate = \"1 Mb/s\"\nat = \"4 s\"\nfor = \"5 s\"\n\
        [[fault]]\nkind = \"outage\"\nname = \"storage\"\nrse = \"BETA\"\nat = \"13 s\"\nfor = \"4 s\"\n\
        [[fault]]\nkind = \"outage\"\nname = \"transfer\"\nservice = \"transfer\"\nat = \"23 s\"\nfor = \"4 s\"\n";
    let text = challenge(&services, &format!("url = \"{}\"", services.transfer.url))
        .replace("hold = \"3 s\"", "hold = \"34 s\"")
        .replace("kind = \"rates\"", "kind = \"rates\"\ncycle = \"300 ms\"")
        + faults;
    fs::write(folder.path().join("c.toml"), text)?;
    let ran = steadily(|| weir_in(folder.path(), &["challenge", "run", "c.toml", "--out", "runs"]))?;
    let (report, ..) = results(folder.path());
    let missed = |link: &str, from: f64, until: f64| missed(&report, link, from, until);
    let of = |name: &str| {
        let faults = report["faults"].as_array().unwrap();
        faults.iter().find(|fault| fault["name"] == name).cloned().unwrap()
    };
    for name in ["capacity", "storage", "transfer"] {
        assert_eq!(of(name)["effect"], true, "{name}: {:#} {ran:?}", of(name));
        let acted = of(name)["acted"].as_str().unwrap_or_default().to_owned();
        assert!(acted.contains("held connections back"), "{name}: {acted}");
    }
    let slow = (missed("BETA→HERE", 4.5, 8.5), missed("HERE→ALPHA", 4.5, 8.5));
    assert!(slow.0 > 0.4 && slow.1 < 0.3, "capacity: {slow:?}");
    let cut = (missed("ALPHA→BETA", 13.5, 16.5), missed("HERE→ALPHA", 13.5, 16.5));
    assert!(cut.0 > 0.4 && cut.1 < 0.3, "outage of a storage: {cut:?}");
    let cut = missed("HERE→ALPHA", 24.0, 26.5);
    assert!(cut > 0.4, "outage of the transfer service: {cut}");
    assert!(missed("HERE→ALPHA", 31.0, 35.0) < 0.3, "nothing is broken at the end");
    for name in ["ALPHA", "BETA"] {
        assert_eq!(
            visible_files(&services.root(name)),
            Vec::<std::path::PathBuf>::new(),
            "{name}"
        );
    }
    Ok(())
}

/// The storages and the transfer service are processes of their own, so nothing of theirs ends with the run.
#[test]
fn interrupted_copies_by_several_streams_raise_no_alarm() -> Result<()> {
    // Wrong: parts of a file that a storage sent before the run ended are taken for bytes that another party lost.
    let services = services_with("[copy]\nstreams = 4\n")?;
    let folder = tempfile::tempdir()?;
    let text = challenge(&services, &format!("url = \"{}\"", services.transfer.url))
        .replace("hold = \"3 s\"", "hold = \"1h\"")
        .replace("500 kB", "32 MB")
        .replace("8 Mb/s", "600 Mb/s");
    fs::write(folder.path().join("c.toml"), text)?;
    let mut draw = Draw::new(27);
    for round in 0..4 {
        let mut command = Command::new(weir_binary());
        command.args(["challenge", "run", "c.toml", "--preflight", "none", "--out", "runs"]);
        command.current_dir(folder.path());
        let mut running = Daemon::start(command, &folder.path().join(format!("out-{round}")))?;
        wait_for(Duration::from_secs(60), || {
            anyhow::ensure!(running.ended()?.is_none(), "it ended by itself:\n{}", running.said());
            Ok(running.said().contains("finished ").then_some(()))
        })?;
        for range in [500..2_500, 0..400] {
            std::thread::sleep(Duration::from_millis(draw.between(range.start, range.end)));
            running.signal(Signal::INT)?;
        }
        let code = wait_for(Duration::from_secs(60), || running.ended())?;
        assert_eq!(code, Some(130), "{}", running.said());
        let (report, rows, header) = results(folder.path());
        for check in report["crosschecks"].as_array().unwrap() {
            assert_ne!(check["pass"], false, "{check}");
        }
        let state = header.iter().position(|column| column == "state").unwrap();
        let unanswered = rows.iter().filter(|row| &row[state] == "unanswered").count();
        assert_eq!(report["totals"]["unanswered"], unanswered);
    }
    Ok(())
}

#[test]
fn a_service_that_cannot_be_used_ends_the_preflight() -> Result<()> {
    // Wrong: a whole challenge of failed submissions.
    let services = services()?;
    let folder = tempfile::tempdir()?;
    let no_token = folder.path().join("token");
    write_private(&no_token, "not.a.token")?;
    let here = &services.transfer.url;
    let check = |transfer: &str| -> Result<Run> {
        fs::write(folder.path().join("c.toml"), challenge(&services, transfer))?;
        weir_in(folder.path(), &["challenge", "check", "c.toml", "--sites"])
    };
    let refused = check(&format!("url = \"{here}\"\ntoken_file = \"{}\"", no_token.display()))?;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    for part in [
        "✗ token",
        "401",
        "the scope fts and the audience",
        "the transfer service cannot be used",
    ] {
        assert!(refused.stdout.contains(part), "{part}: {}", refused.stdout);
    }
    assert!(!refused.stdout.contains("not.a.token"), "{}", refused.stdout);
    let dead = check("url = \"https://127.0.9.8:9\"")?;
    assert_eq!(dead.code, Some(3), "{dead:?}");
    assert!(dead.stdout.contains("✗ connection"), "{}", dead.stdout);

    // An issuer that does not answer, or a client that it does not know, ends the start.
    let text = challenge(&services, &format!("url = \"{here}\""));
    let issuer = services.issuer();
    for (from, to, part) in [
        (issuer, "https://127.0.9.8:9", "https://127.0.9.8:9"),
        ("client_id = \"challenge\"", "client_id = \"stranger\"", "401"),
    ] {
        fs::write(folder.path().join("c.toml"), text.replace(from, to))?;
        let failed = weir_in(folder.path(), &["challenge", "check", "c.toml", "--sites"])?;
        assert_eq!(failed.code, Some(3), "{failed:?}");
        let told = format!("{}{}", failed.stdout, failed.stderr);
        assert!(told.contains(part) && !told.contains("panicked"), "{part}: {told}");
    }
    Ok(())
}
