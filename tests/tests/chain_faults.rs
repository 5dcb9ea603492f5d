//! Faults of the services between a rule and its copy: each is a process of its own, and is killed or made slow while a challenge makes rules.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{
    Daemon, NodeSettings, Services, StorageSettings, free_port, run, visible_files, wait_for, weir_binary,
    write_private,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Services, each with a process of its own, a catalogue over them, and the folder of a challenge.
struct Scene {
    services: Services,
    catalog: Daemon,
    port: u16,
    folder: tempfile::TempDir,
    /// URL of each RSE.
    rses: Vec<(&'static str, String)>,
}

impl Scene {
    fn lay() -> Result<Self> {
        Self::lay_with(&["ALPHA", "BETA"].map(StorageSettings::new))
    }

    fn lay_with(storages: &[StorageSettings]) -> Result<Self> {
        // Tokens for transfer services name the host, as Rucio has them.
        let node = NodeSettings {
            name: "transfer".to_owned(),
            keys: "store = \"transfer.sqlite\"\naudiences = [\"127.0.7.251\"]\n".to_owned(),
            ..NodeSettings::default()
        };
        let mut services = Services::start_nodes(storages, &[node], |_| Ok(()))?;
        services.reconfigure_issuer(
            "[[client]]\nid = \"challenge\"\nsecret_file = \"client.secret\"\naudiences = [\"*\"]\n\
             scopes = [\"fts\", \"storage.read:/\", \"storage.create:/\", \"storage.modify:/\"]\n",
        )?;
        let names = ["ALPHA", "BETA", "GAMMA"].into_iter().take(storages.len());
        let rses = names.map(|name| (name, format!("{}/test", services.storage(name).url)));
        let rses = rses.collect();
        let authority = CertificateAuthority::load(&services.file("authority"))?;
        let identity = authority.issue(&[San::Ip(Ipv4Addr::LOCALHOST.into())], "catalog")?;
        write_identity(&identity, &services.file("."), "catalog")?;
        write_private(&services.file("password"), "correct horse\n")?;
        let port = free_port()?;
        let config = format!(
            "listen = \"127.0.0.1:{port}\"\nstore = \"catalog.sqlite\"\n[tls]\ncertificate = \"catalog.pem\"\nkey = \"catalog.key\"\n\
             [root]\nuser = \"admin\"\npassword_file = \"password\"\n[trust]\nfiles = [\"authority/ca.pem\"]\n\
             [tokens]\ntoken_url = \"{}/token\"\nclient_id = \"challenge\"\nsecret_file = \"client.secret\"\n\
             [transfers]\nservices = [\"{}\"]\npoll = \"500ms\"\nunmanaged_tokens = true\n[deletion]\ngreedy = true\n",
            services.issuer(),
            services.transfer.url,
        );
        fs::write(services.file("catalog.toml"), config)?;
        let catalog = start_catalog(&services)?;
        Ok(Self {
            services,
            catalog,
            port,
            folder: tempfile::tempdir()?,
            rses,
        })
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Adds the RSEs to the catalogue.
    fn describe(&self) -> Result<()> {
        let login = self.services.bare_curl();
        let mut login = login;
        login.args([
            "-D",
            "-",
            "-o",
            "/dev/null",
            "-H",
            "X-Rucio-Account: root",
            "-H",
            "X-Rucio-Username: admin",
        ]);
        login.args([
            "-H",
            "X-Rucio-Password: correct horse",
            &format!("{}/auth/userpass", self.url()),
        ]);
        let heads = run(&mut login)?.expect_ok()?.stdout;
        let mut heads = heads.lines().filter_map(|line| line.split_once(": "));
        let token = heads.find(|(name, _)| name.eq_ignore_ascii_case("x-rucio-auth-token"));
        let token = token.context("the log-in gave no token")?.1.trim().to_owned();
        let add = |path: String, content: Value| -> Result<()> {
            let mut curl = self.services.bare_curl();
            curl.args([
                "-f",
                "-H",
                &format!("X-Rucio-Auth-Token: {token}"),
                "-d",
                &content.to_string(),
            ]);
            run(curl.arg(format!("{}{path}", self.url())))?.expect_ok().map(drop)
        };
        for (name, url) in &self.rses {
            let place = url.strip_prefix("https://").unwrap();
            let (authority, prefix) = place.split_once('/').unwrap();
            let (host, port) = authority.split_once(':').unwrap();
            let all =
                json!({ "read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 1 });
            let protocol = json!({
                "hostname": host, "port": port.parse::<u16>()?, "prefix": format!("/{prefix}/"), "impl": "rucio.rse.protocols.webdav.Default",
                "domains": { "lan": { "read": 1, "write": 1, "delete": 1 }, "wan": all },
            });
            add(
                format!("/rses/{name}"),
                json!({ "deterministic": true, "rse_type": "DISK" }),
            )?;
            add(format!("/rses/{name}/protocols/https"), protocol)?;
            for (key, value) in [
                ("audience", format!("https://{authority}")),
                ("oidc_base_path", "/".to_owned()),
            ] {
                add(format!("/rses/{name}/attr/{key}"), json!({ "value": value }))?;
            }
        }
        for (source, _) in &self.rses {
            for (destination, _) in self.rses.iter().filter(|(name, _)| name != source) {
                add(
                    format!("/rses/{source}/distances/{destination}"),
                    json!({ "distance": 1 }),
                )?;
            }
        }
        Ok(())
    }

    /// Starts a challenge with these links.
    fn start(&self, links: &[(&str, &str, &str)], lifetime: &str) -> Result<Child> {
        let ca = self.services.file("authority/ca.pem");
        let ca = ca.display();
        let rse = |(name, url): &(&str, String)| {
            format!("[[grid.rse]]\nname = \"{name}\"\nurl = \"{url}\"\nca = \"{ca}\"\nbase_path = \"/\"\n")
        };
        let rses: String = self.rses.iter().map(rse).collect();
        let rates = links.iter().map(|(source, destination, rate)| {
            format!("{{ source = \"{source}\", destination = \"{destination}\", rate = \"{rate}\" }}, ")
        });
        let text = format!(
            "name = \"faults\"\n[phases]\nramp = \"1 s\"\nhold = \"9 s\"\ndrain = \"60 s\"\n[grid]\nname = \"faults\"\n{rses}\
             [grid.issuer]\nurl = \"{issuer}\"\nclient_id = \"challenge\"\nsecret_file = \"{secret}\"\nca = \"{ca}\"\n\
             [grid.transfer]\nurl = \"{transfer}\"\nca = \"{ca}\"\n\
             [grid.catalog]\nurl = \"{catalog}\"\nca = \"{ca}\"\naccount = \"root\"\nuser = \"admin\"\npassword_file = \"{password}\"\n\
             [[workload]]\nkind = \"rates\"\nfile_size_min = \"250 kB\"\nfile_size_max = \"250 kB\"\nlifetime = \"{lifetime}\"\nsource_files = 60\n\
             rates = [{rates}]\n",
            issuer = self.services.issuer(),
            secret = self.services.file("client.secret").display(),
            transfer = self.services.transfer.url,
            catalog = self.url(),
            password = self.services.file("password").display(),
            rates = rates.collect::<String>(),
        );
        fs::write(self.folder.path().join("c.toml"), text)?;
        let mut weir = Command::new(weir_binary());
        weir.args(["challenge", "run", "c.toml", "--out", "runs", "--preflight", "none"])
            .current_dir(self.folder.path());
        let log = fs::File::create(self.folder.path().join("said"))?;
        Ok(weir.stdout(Stdio::null()).stderr(log).spawn()?)
    }

    fn run_folder(&self) -> Option<PathBuf> {
        let runs = fs::read_dir(self.folder.path().join("runs")).ok()?;
        runs.map(|entry| entry.unwrap().path()).max()
    }

    /// Waits until so many rules have ended well.
    fn begun(&self, rules: usize) -> Result<()> {
        wait_for(PATIENCE, || {
            let text = self
                .run_folder()
                .and_then(|run| fs::read_to_string(run.join("rules.csv")).ok());
            Ok(text.filter(|text| text.lines().count() > rules).map(drop))
        })
    }

    /// Waits for the end of a challenge; gives its report.
    fn end(&self, mut running: Child) -> Result<Value> {
        let ended = wait_for(2 * PATIENCE, || Ok(running.try_wait()?));
        running.kill()?;
        running.wait()?;
        let run = self.run_folder().context("there is no run")?;
        let log = fs::read_to_string(run.join("run.log"))?;
        // The files that a fault held up make the rate unsteady, and the verdict says so.
        let code = ended.with_context(|| log.clone())?.code();
        ensure!(matches!(code, Some(0 | 1)), "{code:?}: {log}\n{}", self.catalog.said());
        let report: Value = serde_json::from_slice(&fs::read(run.join("report.json"))?)?;
        let rows = fs::read_to_string(run.join("transfers.csv"))?;
        let first: Vec<&str> = rows.lines().take(4).collect();
        ensure!(
            report["verdict"] != "fail",
            "{log}\n{first:#?}\n{}",
            self.catalog.said()
        );
        Ok(report)
    }

    /// Nothing was lost, nothing was moved twice, nothing is left.
    fn is_exact(&self, report: &Value) -> Result<()> {
        let (chain, totals) = (&report["chain"], &report["totals"]);
        let run = self.run_folder().unwrap();
        let rows = |name: &str| -> Vec<HashMap<String, String>> {
            let mut rows = csv::Reader::from_path(run.join(name)).unwrap();
            rows.deserialize().map(Result::unwrap).collect()
        };
        let finished = totals["finished"].as_u64().unwrap();
        let transfers = rows("transfers.csv");
        let lost: Vec<_> = transfers.iter().filter(|row| row["state"] != "finished").collect();
        let log = fs::read_to_string(run.join("run.log"))?;
        ensure!(finished > 15 && lost.is_empty(), "{lost:?}\n{log}");
        ensure!(chain["ok"] == chain["rules"] && chain["refused"] == 0, "{chain}");
        ensure!(chain["deletions"]["done"] == finished, "{chain}");
        let rules = rows("rules.csv");
        let ids: std::collections::BTreeSet<&String> = rules.iter().map(|row| &row["rule_id"]).collect();
        ensure!(ids.len() == rules.len(), "a rule is there twice");
        let of_rules: u64 = rules.iter().map(|row| row["files"].parse::<u64>().unwrap()).sum();
        let asked: u64 = rows("ledger.csv")
            .iter()
            .map(|row| row["injected"].parse::<u64>().unwrap())
            .sum();
        ensure!(
            of_rules == finished && asked == finished,
            "{of_rules} files of rules, {asked} in the ledger, {finished} finished"
        );
        // The transfer service was asked for each once.
        let jobs = format!(
            "{}/jobs?state_in=FINISHED,FAILED,CANCELED,FINISHEDDIRTY,ACTIVE,SUBMITTED&limit=500",
            self.services.transfer.url
        );
        let jobs = self.services.ask(&[&jobs])?.json()?;
        let mut moved = 0;
        for job in jobs.as_array().with_context(|| jobs.to_string())? {
            let files = self.services.files(job["job_id"].as_str().unwrap())?;
            moved += files.len() as u64;
            ensure!(files.iter().all(|file| file["file_state"] == "FINISHED"), "{files:?}");
        }
        ensure!(
            moved == finished,
            "the transfer service moved {moved} files of {finished}"
        );
        let left: Vec<PathBuf> = ["ALPHA", "BETA"]
            .iter()
            .flat_map(|name| visible_files(&self.services.root(name)))
            .collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    }
}

fn start_catalog(services: &Services) -> Result<Daemon> {
    let mut weir = Command::new(weir_binary());
    weir.args(["serve", "catalog", "--config"])
        .arg(services.file("catalog.toml"));
    let mut daemon = Daemon::start(weir, &services.file("catalog.log"))?;
    wait_for(PATIENCE, || {
        ensure!(daemon.ended()?.is_none(), "the catalogue ended: {}", daemon.said());
        Ok(daemon.said().contains("catalog is ready at").then_some(()))
    })?;
    Ok(daemon)
}

const BOTH: [(&str, &str, &str); 2] = [("ALPHA", "BETA", "8 Mb/s"), ("BETA", "ALPHA", "6 Mb/s")];

#[test]
fn a_catalogue_that_is_killed_makes_no_rule_twice_and_forgets_none() -> Result<()> {
    // Wrong: after a crash of the catalogue files are asked for again that it has, or the ledger has what it lost.
    let mut scene = Scene::lay()?;
    scene.describe()?;
    let running = scene.start(&BOTH, "60 s")?;
    for pause in [1_300, 2_100] {
        scene.begun(3)?;
        std::thread::sleep(Duration::from_millis(pause));
        scene.catalog.kill()?;
        std::thread::sleep(Duration::from_millis(1_500));
        scene.catalog = start_catalog(&scene.services)?;
    }
    let report = scene.end(running)?;
    scene.is_exact(&report)
}

#[test]
fn a_transfer_service_that_is_away_finds_the_queue_when_it_is_back() -> Result<()> {
    // Wrong: rules get stuck for a service that was away, or all is submitted anew, again and again, when it is back.
    let mut scene = Scene::lay()?;
    scene.describe()?;
    let away = if std::env::var_os("WEIR_SOAK").is_some() {
        60
    } else {
        10
    };
    let running = scene.start(&BOTH, "90 s")?;
    scene.begun(3)?;
    scene.services.transfer.kill()?;
    std::thread::sleep(Duration::from_secs(away));
    scene.services.transfer.start()?;
    let report = scene.end(running)?;
    scene.is_exact(&report)
}

#[test]
fn an_issuer_that_is_away_is_waited_for() -> Result<()> {
    // Wrong: files are given up, or copied without end, because nobody gives tokens for a while.
    let mut scene = Scene::lay()?;
    let file = scene.services.file("issuer.toml");
    fs::write(
        &file,
        format!("token_lifetime = \"6s\"\n{}", fs::read_to_string(&file)?),
    )?;
    let issuer = scene.services.service_mut("issuer");
    issuer.stop(PATIENCE)?;
    issuer.start()?;
    scene.describe()?;
    let running = scene.start(&BOTH, "60 s")?;
    scene.begun(3)?;
    let issuer = scene.services.service_mut("issuer");
    issuer.kill()?;
    std::thread::sleep(Duration::from_secs(9));
    issuer.start()?;
    let report = scene.end(running)?;
    scene.is_exact(&report)
}

#[test]
fn a_storage_that_deletes_slowly_is_asked_once_and_delays_nobody() -> Result<()> {
    // Wrong: files are deleted twice while the first deletion goes on (Rucio issue 6512), or one slow site keeps all others full.
    let (address, port) = (Ipv4Addr::new(127, 0, 7, 241), free_port()?);
    let place = format!("https://{address}:{port}");
    let beta = StorageSettings::new("BETA").audience(&place);
    let mut scene = Scene::lay_with(&[StorageSettings::new("ALPHA"), beta, StorageSettings::new("GAMMA")])?;
    let authority = CertificateAuthority::load(&scene.services.file("authority"))?;
    let identity = authority.issue(&[San::Ip(IpAddr::V4(address))], "slow")?;
    let (certificate, key) = write_identity(&identity, &scene.services.file("identities"), "slow")?;
    let mut command = Command::new("python3");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("storage/slow.py"))
        .args([address.to_string(), port.to_string()])
        .args([certificate, key, scene.services.file("authority/ca.pem")])
        .args([scene.services.storage("BETA").url.as_str(), "20"]);
    let slow = Daemon::start(command, &scene.services.file("slow.log"))?;
    wait_for(PATIENCE, || Ok(slow.said().contains("ready").then_some(())))?;
    scene.rses[1].1 = format!("{place}/test");
    scene.describe()?;
    let running = scene.start(&[("ALPHA", "BETA", "1 Mb/s"), ("ALPHA", "GAMMA", "8 Mb/s")], "10 s")?;
    let report = scene.end(running)?;
    let deletions = &report["chain"]["deletions"];
    // Most files go to GAMMA, and are deleted in time while BETA's take twenty seconds.
    ensure!(deletions["done"] == report["totals"]["finished"], "{deletions}");
    ensure!(deletions["delay_s"]["p50"].as_f64().unwrap() < 5.0, "{deletions}");
    let said = slow.said();
    let asked: Vec<&str> = said.lines().filter(|line| line.contains(".source.")).collect();
    let once: std::collections::BTreeSet<&str> = asked.iter().copied().collect();
    ensure!(
        asked.len() > 3 && deletions["late"].as_u64().unwrap() > 0,
        "{asked:?} {deletions}"
    );
    ensure!(asked.len() == once.len(), "a file was deleted twice: {asked:?}");
    Ok(())
}
