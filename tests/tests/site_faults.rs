//! Storage of somebody else that fails in the middle of a challenge: it dies, slows down, loses its certificate, or asks for less.
//! The run ends in time, names the storage and the fault, and measures the links that have nothing to do with it.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Daemon, Services, StorageSettings, run, visible_files, wait_for, weir_binary, write_private};

/// How long a run may take on a loaded machine: 12 s and its preparations.
const LIMIT: Duration = Duration::from_secs(120);

/// Rights of the token for the storage.
const SCOPES: &str = "storage.read:/ storage.create:/ storage.modify:/";

/// A storage elsewhere, and a challenge between it and two that start with their grid.
struct Lab {
    services: Services,
    folder: tempfile::TempDir,
}

/// The files that a run left.
struct Outcome {
    folder: PathBuf,
    report: Value,
    rows: Vec<Row>,
}

/// A row of `transfers.csv`.
#[derive(Debug)]
struct Row {
    link: String,
    state: String,
    class: String,
    party: String,
    message: String,
}

impl Lab {
    fn up() -> Result<Self> {
        let services = Services::start(&[StorageSettings::new("FAR")], "")?;
        let folder = tempfile::tempdir()?;
        let token = folder.path().join("token");
        write_private(&token, &services.token(SCOPES)?)?;
        let text = format!(
            "name = \"faults\"\n[phases]\nramp = \"1 s\"\nhold = \"7 s\"\ndrain = \"5 s\"\n[grid]\nname = \"faults\"\nauthority = \"{}\"\n\
             [grid.storage]\nquota = \"1 GB\"\ndurability = \"cache\"\n[grid.transfer]\nretries = 1\n\
             [[grid.rse]]\nname = \"HERE\"\n[[grid.rse]]\nname = \"THERE\"\n\
             [[grid.rse]]\nname = \"FAR\"\nurl = \"{}\"\nca = \"{}\"\ntoken_file = \"{}\"\n\
             [[workload]]\nkind = \"rates\"\nfile_size_min = \"500 kB\"\nfile_size_max = \"500 kB\"\nrates = [\
             {{ source = \"HERE\", destination = \"THERE\", rate = \"16 Mb/s\" }}, {{ source = \"HERE\", destination = \"FAR\", rate = \"16 Mb/s\" }}, \
             {{ source = \"FAR\", destination = \"THERE\", rate = \"16 Mb/s\" }}]\n",
            services.file("authority").display(),
            services.storage("FAR").url,
            services.file("authority/ca.pem").display(),
            token.display(),
        );
        fs::write(folder.path().join("faults.toml"), text)?;
        Ok(Self { services, folder })
    }

    /// Runs the challenge, and brings the fault once files have come from and to the storage.
    fn run(&mut self, fault: impl FnOnce(&mut Services) -> Result<()>) -> Result<Outcome> {
        let runs = self.folder.path().join("runs");
        let mut command = Command::new(weir_binary());
        command.args(["challenge", "run", "faults.toml", "--out"]).arg(&runs);
        command.current_dir(self.folder.path()).env_remove("WEIR_LOG");
        let mut challenge = Daemon::start(command, &self.folder.path().join("said"))?;
        let moved = || {
            let Some(Ok(folder)) = fs::read_dir(&runs).ok().and_then(|mut runs| runs.next()) else {
                return Ok(None);
            };
            let rows = rows(&folder.path()).unwrap_or_default();
            let of = |link: &str| rows.iter().filter(|row| row.link == link).count();
            Ok((of("HERE->FAR") > 3 && of("FAR->THERE") > 3).then(|| folder.path()))
        };
        let folder = wait_for(LIMIT, moved).with_context(|| challenge.said())?;
        fault(&mut self.services)?;
        let ended = wait_for(LIMIT, || challenge.ended()).with_context(|| challenge.said())?;
        anyhow::ensure!(ended == Some(0), "{ended:?}: {}", challenge.said());
        let report = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
        let rows = rows(&folder)?;
        Ok(Outcome { folder, report, rows })
    }

    /// Has the storage take its configuration again, with these tables more.
    fn reload(services: &Services, tables: &str) -> Result<()> {
        let file = services.file("FAR.toml");
        fs::write(&file, format!("{}\n{tables}", fs::read_to_string(&file)?))?;
        let far = services.storage("FAR");
        far.signal(Signal::HUP)?;
        let taken = || Ok(far.said().contains("configuration and files read again").then_some(()));
        wait_for(Duration::from_secs(20), taken).with_context(|| far.said())
    }
}

fn rows(folder: &Path) -> Result<Vec<Row>> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_path(folder.join("transfers.csv"))?;
    let header = reader.headers()?.clone();
    let column = |name: &str| header.iter().position(|column| column == name);
    let wanted = ["source", "destination", "state", "error_class", "party", "message"];
    let columns = wanted.iter().map(|name| column(name).context("a column is missing"));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    // The last line may be half written while the run goes on.
    let records = reader.records().filter_map(Result::ok);
    let row = |record: csv::StringRecord| {
        let field = |at: usize| record.get(columns[at]).map(str::to_owned);
        Some(Row {
            link: format!("{}->{}", field(0)?, field(1)?),
            state: field(2)?,
            class: field(3)?,
            party: field(4)?,
            message: field(5)?,
        })
    };
    Ok(records.filter_map(row).collect())
}

impl Outcome {
    /// The link that has nothing to do with the storage moved everything at its rate.
    fn others_are_unharmed(&self) {
        let link = self.link("HERE->THERE");
        assert_eq!(link["failed"], 0, "{link}");
        assert!(link["ratio"].as_f64().unwrap() > 0.95, "{link}");
    }

    fn link(&self, name: &str) -> &Value {
        let (source, destination) = name.split_once("->").unwrap();
        let links = self.report["links"].as_array().unwrap();
        let found = links
            .iter()
            .find(|link| link["source"] == source && link["destination"] == destination);
        found.unwrap()
    }

    /// Failed transfers on the storage's links: of these classes, and the storage's fault.
    fn failed_there(&self, classes: &[&str]) -> usize {
        let failed: Vec<&Row> = self.rows.iter().filter(|row| row.state == "failed").collect();
        for row in &failed {
            let party = if row.link == "FAR->THERE" {
                "source"
            } else {
                "destination"
            };
            assert_ne!(row.link, "HERE->THERE", "{row:?}");
            assert!(classes.contains(&row.class.as_str()), "{row:?}");
            // A transfer that was copied, or waited its turn, when time was over was not refused.
            if row.class != "unfinished" || row.message.contains("paused by") {
                assert_eq!(row.party, party, "{row:?}");
            }
            assert!(!row.message.is_empty(), "{row:?}");
        }
        failed.len()
    }
}

#[test]
fn it_dies() -> Result<()> {
    let mut lab = Lab::up()?;
    let outcome = lab.run(|services| services.storage_mut("FAR").kill())?;
    outcome.others_are_unharmed();
    let failed = outcome.failed_there(&["network", "unfinished"]);
    assert!(failed > 10, "{failed}");
    // The service stops to try once it has seen enough; a waiting transfer then names its fault.
    let waited = outcome.rows.iter().filter(|row| row.class == "unfinished");
    for row in waited {
        assert!(row.message.contains("paused by network until"), "{row:?}");
    }
    // Its files are deleted once it is back.
    lab.services.storage_mut("FAR").start()?;
    assert_ne!(visible_files(&lab.services.root("FAR")), Vec::<PathBuf>::new());
    let clean = run(Command::new(weir_binary())
        .args(["challenge", "clean", "--yes"])
        .arg(&outcome.folder)
        .current_dir(lab.folder.path()))?
    .expect_ok()?;
    assert_eq!(
        visible_files(&lab.services.root("FAR")),
        Vec::<PathBuf>::new(),
        "{clean:?}"
    );
    Ok(())
}

#[test]
fn it_slows_down_to_a_tenth() -> Result<()> {
    let mut lab = Lab::up()?;
    let slow = |services: &mut Services| Lab::reload(services, "[limits]\nbandwidth = \"3.2 Mb/s\"\n");
    let outcome = lab.run(slow)?;
    outcome.others_are_unharmed();
    for link in ["HERE->FAR", "FAR->THERE"] {
        let link = outcome.link(link);
        assert!(link["ratio"].as_f64().unwrap() < 0.8, "{link}");
    }
    // Nothing failed but for time: copies that were under way, and some behind them.
    let late: Vec<&Row> = outcome.rows.iter().filter(|row| row.state == "failed").collect();
    assert!(
        late.iter()
            .all(|row| row.class == "unfinished" && row.link != "HERE->THERE"),
        "{late:?}"
    );
    assert!(
        late.iter().any(|row| row.message.ends_with("its copy was under way")),
        "{late:?}"
    );
    Ok(())
}

#[test]
fn it_loses_its_certificate() -> Result<()> {
    // A server that shows another one goes on to serve the connections that are there: it starts again with it.
    let mut lab = Lab::up()?;
    let outcome = lab.run(|services| {
        let stranger = CertificateAuthority::create(&services.file("stranger"))?;
        let host = services.storage("FAR").url.trim_start_matches("https://").to_owned();
        let host = host.split(':').next().unwrap_or_default();
        let identity = stranger.issue(&[San::from(host)], "FAR")?;
        write_identity(&identity, &services.file("identities"), "FAR")?;
        let far = services.storage_mut("FAR");
        far.kill()?;
        far.start()
    })?;
    outcome.others_are_unharmed();
    let failed = outcome.failed_there(&["tls", "network", "unfinished"]);
    assert!(failed > 10, "{failed}");
    let tls: Vec<&Row> = outcome.rows.iter().filter(|row| row.class == "tls").collect();
    assert!(
        tls.iter().any(|row| row.message.contains("UnknownIssuer")),
        "{:?}",
        outcome.rows
    );
    Ok(())
}

#[test]
fn it_asks_for_less() -> Result<()> {
    let mut lab = Lab::up()?;
    let busy = "[limits]\nbandwidth = \"3.2 Mb/s\"\npatience = \"100 ms\"\n\
                [[limit]]\nclient = \"*\"\ntransfers = 1\ncopies = 1\ncopies_queued = 1\n";
    let outcome = lab.run(|services| Lab::reload(services, busy))?;
    outcome.others_are_unharmed();
    let failed = outcome.failed_there(&["overload", "unfinished"]);
    let refused = outcome.rows.iter().filter(|row| row.class == "overload");
    let refused = refused
        .filter(|row| row.message.contains("429 Too Many Requests"))
        .count();
    assert!(refused > 3, "{refused} of {failed}: {:?}", outcome.rows);
    Ok(())
}

#[test]
fn two_runs_meet_at_one_storage() -> Result<()> {
    // Wrong: one deletes the files of the other, or takes them for its own.
    let lab = Lab::up()?;
    let start = |number: usize| {
        let mut command = Command::new(weir_binary());
        command
            .args(["challenge", "run", "faults.toml", "--out"])
            .arg(format!("runs-{number}"));
        command.current_dir(lab.folder.path()).env_remove("WEIR_LOG");
        Daemon::start(command, &lab.folder.path().join(format!("said-{number}")))
    };
    let mut runs = [start(0)?, start(1)?];
    for (number, challenge) in runs.iter_mut().enumerate() {
        let ended = wait_for(LIMIT, || challenge.ended()).with_context(|| challenge.said())?;
        assert_eq!(ended, Some(0), "{}", challenge.said());
        let mut folders = fs::read_dir(lab.folder.path().join(format!("runs-{number}")))?;
        let folder = folders.next().context("there is no run folder")??.path();
        let report: Value = serde_json::from_slice(&fs::read(folder.join("report.json"))?)?;
        assert_eq!(report["totals"]["failed"], 0, "{}", challenge.said());
        assert!(
            report["totals"]["finished"].as_u64().unwrap() > 50,
            "{}",
            report["totals"]
        );
        assert!(
            !challenge.said().contains("could not be deleted"),
            "{}",
            challenge.said()
        );
    }
    assert_eq!(visible_files(&lab.services.root("FAR")), Vec::<PathBuf>::new());
    Ok(())
}
