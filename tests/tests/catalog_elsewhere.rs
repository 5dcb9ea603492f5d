//! Challenges whose catalogue runs elsewhere: a real Rucio with its own daemons, and another grid's.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{
    Daemon, Postgres, RucioHome, RunningGrid, free_port, peers, run, steadily, visible_files, wait_for, weir_binary,
    write_private,
};

/// The grid whose storages and transfer service are used, and, with Rucio beside it, whose catalogue is not.
const GRID: &str = "name = \"elsewhere\"\nvo = \"def\"\n[[rse]]\nname = \"ALPHA\"\n[[rse]]\nname = \"BETA\"\n[storage]\ndurability = \"cache\"\n";

const PATIENCE: Duration = Duration::from_secs(60);

fn told<'d>(grid: &'d RunningGrid, pointer: &str) -> &'d str {
    grid.description.pointer(pointer).unwrap().as_str().unwrap()
}

/// A challenge over storages, issuer and transfer service of another grid, with these keys of the services and workloads.
fn challenge(grid: &RunningGrid, transfer: &str, catalog: &str, workloads: &str) -> String {
    let ca = told(grid, "/ca/file");
    let rse = |name: &str| {
        format!(
            "[[grid.rse]]\nname = \"{name}\"\nurl = \"{}\"\nca = \"{ca}\"\n",
            grid.rse_url(name)
        )
    };
    format!(
        "name = \"elsewhere\"\n[phases]\nramp = \"1 s\"\nhold = \"6 s\"\ndrain = \"60 s\"\n[grid]\nname = \"challenger\"\n{}{}\
         [grid.issuer]\nurl = \"{}\"\nclient_id = \"{}\"\nsecret_file = \"{}\"\nca = \"{ca}\"\n\
         [grid.transfer]\nurl = \"{}\"\nca = \"{ca}\"\n{transfer}\n[grid.catalog]\nca = \"{ca}\"\n{catalog}\n{workloads}",
        rse("ALPHA"),
        rse("BETA"),
        told(grid, "/issuer/url"),
        told(grid, "/client/id"),
        told(grid, "/client/secret_file"),
        told(grid, "/transfer/url"),
    )
}

/// A workload in both directions.
fn workload(more: &str) -> String {
    format!(
        "[[workload]]\nkind = \"rates\"\ncycle = \"2 s\"\nfile_size_min = \"200 kB\"\nfile_size_max = \"200 kB\"\n{more}\nrates = [\
         {{ source = \"ALPHA\", destination = \"BETA\", rate = \"4 Mb/s\" }}, {{ source = \"BETA\", destination = \"ALPHA\", rate = \"2 Mb/s\" }}]\n"
    )
}

const NO_FAILURE: &str = "[[threshold]]\ntotal = true\nmetric = \"failed\"\nmax = 0\n";

fn weir(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(weir_binary());
    command.args(arguments).current_dir(folder);
    command
}

fn newest_run(folder: &Path) -> Option<PathBuf> {
    let runs = fs::read_dir(folder.join("runs")).ok()?;
    runs.map(|entry| entry.unwrap().path()).max()
}

fn report(folder: &Path) -> Value {
    let text = fs::read(newest_run(folder).unwrap().join("report.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn transfers(folder: &Path) -> Vec<HashMap<String, String>> {
    let mut rows = csv::Reader::from_path(newest_run(folder).unwrap().join("transfers.csv")).unwrap();
    rows.deserialize().map(Result::unwrap).collect()
}

/// Files at the storages of a grid.
fn stored(grid: &RunningGrid) -> Vec<PathBuf> {
    let areas = ["ALPHA", "BETA"].map(|name| grid.area(name));
    areas.iter().flat_map(|area| visible_files(area)).collect()
}

/// A Rucio over TLS for the grid, and its operators' daemons.
struct Operated {
    url: String,
    home: RucioHome,
    daemons: Daemon,
    server: Daemon,
    _postgres: Postgres,
}

impl Operated {
    fn start(grid: &RunningGrid) -> Result<Self> {
        let (postgres, port) = (Postgres::start()?, free_port()?);
        let folder = grid.scratch().join("rucio-home");
        // It submits by token, and asks for the states of jobs by certificate.
        let sections = format!(
            "loglevel = INFO\n[conveyor]\nscheme = davs\ntransfertool = fts3\nusercert = {}\n[messaging-cache]\nport = 61023\n",
            told(grid, "/user/both")
        );
        let home = RucioHome::lay(folder, postgres.socket(), port, &sections)?;
        let secret = fs::read_to_string(told(grid, "/client/secret_file"))?;
        let client = json!({ "client_id": told(grid, "/client/id"), "client_secret": secret.trim() });
        let mut issuer = client.clone();
        // As tokens name it.
        issuer["issuer"] = told(grid, "/issuer/url").into();
        issuer["SCIM"] = client;
        let secrets = json!({ "grid": issuer });
        write_private(&home.folder.join("etc/idpsecrets.json"), &secrets.to_string())?;
        let authority = CertificateAuthority::load(&grid.dir().join("authority"))?;
        let identity = authority.issue(&[San::from("127.0.0.1")], "rucio")?;
        let (certificate, key) = write_identity(&identity, &home.folder, "server")?;
        let home = home
            .trusting(told(grid, "/ca/file").into())
            .over_tls(certificate, key)?;
        let server = home.server(&["-w", "3"])?;
        let subject = format!("SUB={}, ISS={}", told(grid, "/client/id"), told(grid, "/issuer/url"));
        let lab = json!({
            "rses": grid.description["rses"], "transfer": told(grid, "/transfer/url"), "ca": told(grid, "/ca/file"),
            "user": told(grid, "/user/both"), "admin": "",
            "identities": [[told(grid, "/user/dn"), "X509"], [subject, "OIDC"]],
        });
        let path = home.folder.join("lab.json");
        write_private(&path, &lab.to_string())?;
        let mut daemons = Daemon::start(
            home.lab(&["operate", path.to_str().unwrap()]),
            &home.folder.join("log/operate"),
        )?;
        wait_for(PATIENCE, || {
            ensure!(daemons.ended()?.is_none(), "the daemons ended: {}", daemons.said());
            Ok(daemons.said().contains("\"ready\": true").then_some(()))
        })?;
        write_private(&grid.scratch().join("password"), "lab")?;
        Ok(Self {
            url: format!("https://127.0.0.1:{port}"),
            home,
            daemons,
            server,
            _postgres: postgres,
        })
    }

    /// Runs the challenge of a folder, as long as the daemons run.
    fn run(&mut self, folder: &Path) -> Result<std::process::ExitStatus> {
        let mut running = weir(folder, &["challenge", "run", "c.toml", "--out", "runs"]);
        let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let ended = wait_for(Duration::from_secs(150), || {
            ensure!(self.daemons.ended()?.is_none(), "the daemons ended: {}", self.said());
            Ok(running.try_wait()?)
        });
        running.kill()?;
        running.wait()?;
        ended
    }

    /// The last output of server and daemons.
    fn said(&self) -> String {
        let last = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(40)..].join("\n")
        };
        let daemons = last(&self.daemons.said());
        format!(
            "{}\n{}\n{daemons}",
            self.home.folder.display(),
            last(&self.server.said())
        )
    }
}

#[test]
fn a_challenge_makes_rules_in_a_real_rucio() -> Result<()> {
    // Wrong: a laboratory that has Rucio can only test what Weir brings, or its Rucio is left full of rules and files.
    if !peers() {
        return Ok(());
    }
    let grid = RunningGrid::up(GRID)?;
    let mut rucio = Operated::start(&grid)?;
    let folder = tempfile::tempdir()?;
    let url = rucio.url.clone();
    let write = |login: &str, more: &str| {
        let catalog = format!("url = \"{url}\"\naccount = \"root\"\n{login}");
        let text = challenge(&grid, "", &catalog, &workload("lifetime = \"60 s\"\nsource_files = 40")) + NO_FAILURE;
        fs::write(folder.path().join("c.toml"), text.replace("hold = \"6 s\"\n", more)).unwrap();
    };
    let hold = "hold = \"6 s\"\n";
    // By certificate, and by a token of an issuer that Rucio trusts.
    let certificate = format!("certificate = \"{}\"\n", told(&grid, "/user/both"));
    for login in [certificate.as_str(), "audience = \"rucio\"\n"] {
        write(login, hold);
        let checked = run(&mut weir(folder.path(), &["challenge", "check", "c.toml", "--sites"]))?;
        let seen = ["it knows the run as root", "it has 2 where the grid file has them"];
        let all = seen.iter().all(|part| checked.stdout.contains(part));
        assert!(all && checked.ok(), "{login}: {checked:?}\n{}", rucio.said());
    }
    let password = format!(
        "user = \"lab\"\npassword_file = \"{}\"\n",
        grid.scratch().join("password").display()
    );
    write(&password.replace("\"lab\"", "\"nobody\""), hold);
    let refused = run(&mut weir(folder.path(), &["challenge", "check", "c.toml", "--sites"]))?;
    assert!(
        !refused.ok() && refused.stdout.contains("did not let in the account \"root\""),
        "{refused:?}"
    );

    write(&password, hold);
    // Daemons that take turns bring files in bursts: the verdict may be that the rate was not steady.
    let ran = rucio.run(folder.path())?;
    let log = fs::read_to_string(newest_run(folder.path()).unwrap().join("run.log"))?;
    assert!(matches!(ran.code(), Some(0 | 1)), "{ran:?}\n{}\n{log}", rucio.said());
    let report = report(folder.path());
    let (chain, totals) = (&report["chain"], &report["totals"]);
    assert_ne!(report["verdict"], "fail", "{log}");
    assert_eq!(totals["failed"], 0, "{log}");
    assert!(totals["finished"].as_u64().unwrap() > 10, "{totals}");
    assert_eq!(chain["ok"], chain["rules"], "{chain}");
    assert_eq!(chain["deletions"]["due"], totals["finished"], "{chain}");
    assert_eq!(chain["deletions"]["done"], totals["finished"], "{chain}");
    for room in ["evaluation_s", "submission_s", "queue_s", "copy_s", "completion_s"] {
        assert!(chain["rooms"][room]["p95"].is_number(), "{room}: {chain}");
    }
    // The transfer service is the run's own, which tells of each file.
    let modes = transfers(folder.path());
    assert!(
        modes
            .iter()
            .all(|row| row["mode"] == "pull" && row["state"] == "finished"),
        "{modes:?}"
    );
    assert_eq!(stored(&grid), Vec::<PathBuf>::new(), "{}", rucio.said());

    // A run that is killed leaves rules and files; its folder is enough to end them.
    write(&password, "hold = \"1 h\"\n");
    let mut running = weir(
        folder.path(),
        &["challenge", "run", "c.toml", "--out", "killed", "--preflight", "none"],
    );
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // Copies have the paths of their sources.
    let copies = || {
        let (alpha, beta) = (grid.area("ALPHA"), grid.area("BETA"));
        let is_at_both = |path: &&PathBuf| path.strip_prefix(&alpha).is_ok_and(|path| beta.join(path).exists());
        visible_files(&alpha).iter().filter(is_at_both).count()
    };
    wait_for(PATIENCE, || Ok((copies() > 5).then_some(())))?;
    running.kill()?;
    running.wait()?;
    let killed = fs::read_dir(folder.path().join("killed"))?.next().unwrap()?.path();
    let killed = killed.to_str().unwrap();
    let listed = run(&mut weir(folder.path(), &["challenge", "clean", killed]))?.expect_ok()?;
    assert!(listed.stdout.contains("rules in the catalogue, to end: "), "{listed:?}");
    assert!(copies() > 5, "a look has deleted files");
    let cleaned = run(&mut weir(
        folder.path(),
        &["challenge", "clean", killed, "--yes", "--partial"],
    ))?
    .expect_ok()?;
    assert!(
        cleaned.stdout.contains("rules in the catalogue, ended: "),
        "{cleaned:?}"
    );
    // Copies that were under way then are the catalogue's to delete.
    wait_for(PATIENCE, || Ok(stored(&grid).is_empty().then_some(())))?;
    Ok(())
}

#[test]
fn another_grids_catalogue_and_transfer_service_are_driven_by_password_and_certificate() -> Result<()> {
    // Wrong: rules go to the catalogue of one's own grid, jobs are sent with tokens that the service was not to see, or nothing is delegated.
    let grid = RunningGrid::up(GRID)?;
    let folder = tempfile::tempdir()?;
    let shown = format!(
        "certificate = \"{}\"\nkey = \"{}\"",
        told(&grid, "/user/certificate"),
        told(&grid, "/user/key")
    );
    let catalog = format!(
        "url = \"{}\"\naccount = \"root\"\nuser = \"{}\"\npassword_file = \"{}\"\n",
        told(&grid, "/catalog/url"),
        told(&grid, "/catalog/user"),
        told(&grid, "/catalog/password_file"),
    );
    let workloads = workload("name = \"rules\"\nlifetime = \"30 s\"\nsource_files = 60")
        + &workload("name = \"jobs\"\ninject = \"transfers\"\nlifetime = \"2 s\"")
        + NO_FAILURE;
    fs::write(
        folder.path().join("c.toml"),
        challenge(&grid, &shown, &catalog, &workloads),
    )?;
    let checked = run(&mut weir(folder.path(), &["challenge", "check", "c.toml", "--sites"]))?.expect_ok()?;
    let subject = told(&grid, "/user/dn");
    for part in ["it knows the run as root", &format!("it knows the run as {subject}")] {
        assert!(checked.stdout.contains(part), "{part}: {}", checked.stdout);
    }
    let ran = steadily(|| {
        run(&mut weir(
            folder.path(),
            // Through relays in front of both services.
            &["challenge", "run", "c.toml", "--breakable", "--out", "runs"],
        ))
    })?
    .expect_ok()?;
    assert!(ran.stdout.contains("rule to OK took"), "{}", ran.stdout);
    let (report, rows) = (report(folder.path()), transfers(folder.path()));
    assert_eq!(report["verdict"], "pass", "{}", report["verdict_reasons"]);
    let (by_rules, by_jobs): (Vec<_>, Vec<_>) = rows.iter().partition(|row| !row["rule_id"].is_empty());
    assert!(
        by_rules.len() > 10 && by_jobs.len() > 10,
        "{} {}",
        by_rules.len(),
        by_jobs.len()
    );
    // By a delegated certificate the service streams, as it does for everybody without tokens.
    assert!(by_jobs.iter().all(|row| row["mode"] == "streamed"), "{by_jobs:?}");
    assert_eq!(report["chain"]["deletions"]["done"], by_rules.len());
    assert_eq!(stored(&grid), Vec::<PathBuf>::new());
    // No rules are left there.
    let left = run(&mut weir(
        folder.path(),
        &[
            "challenge",
            "clean",
            newest_run(folder.path()).unwrap().to_str().unwrap(),
        ],
    ))?;
    let left = left.expect_ok()?;
    assert!(!left.stdout.contains("rules in the catalogue"), "{left:?}");
    Ok(())
}
