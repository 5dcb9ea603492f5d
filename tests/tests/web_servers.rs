//! Apache and nginx as storages of a challenge: WebDAV servers that make no third-party copies and tell no checksums.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde_json::Value;
use tempfile::TempDir;
use weir_auth::ca::CertificateAuthority;
use weir_tests::{Run, WebServer, WebServerKind, peers, run, steadily, visible_files, weir_binary, write_private};

/// Both servers, and a folder for challenges.
struct Lab {
    folder: TempDir,
    apache: WebServer,
    nginx: WebServer,
}

impl Lab {
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let authority = CertificateAuthority::create(&folder.path().join("lab-ca"))?;
        let start = |kind, last| WebServer::start(folder.path(), kind, Ipv4Addr::new(127, 0, 9, last), &authority);
        let (apache, nginx) = (start(WebServerKind::Apache, 11)?, start(WebServerKind::Nginx, 12)?);
        for (name, server) in [("APACHE", &apache), ("NGINX", &nginx)] {
            write_private(&folder.path().join(name), &server.token)?;
        }
        Ok(Self { folder, apache, nginx })
    }

    fn weir(&self, arguments: &[&str]) -> Result<Run> {
        run(Command::new(weir_binary())
            .args(arguments)
            .current_dir(self.folder.path()))
    }

    /// Writes a challenge between the grid's own storage and both servers.
    fn challenge(&self, workload: &str) -> Result<()> {
        let rse = |name: &str, server: &WebServer| {
            let url = &server.url;
            format!(
                "[[grid.rse]]\nname = \"{name}\"\nurl = \"{url}\"\nca = \"lab-ca/ca.pem\"\ntoken_file = \"{name}\"\n"
            )
        };
        let text = format!(
            "name = \"web\"\n[phases]\nramp = \"1 s\"\nhold = \"3 s\"\n[grid]\nname = \"web\"\nauthority = \"lab-ca\"\n\
             [grid.storage]\nquota = \"1 GB\"\ndurability = \"cache\"\n[[grid.rse]]\nname = \"HERE\"\n{}{}{workload}",
            rse("APACHE", &self.apache),
            rse("NGINX", &self.nginx),
        );
        Ok(fs::write(self.folder.path().join("c.toml"), text)?)
    }

    /// Report and rows of the newest run.
    fn results(&self) -> (Value, Vec<BTreeMap<String, String>>) {
        let runs = fs::read_dir(self.folder.path().join("runs")).unwrap();
        let out: PathBuf = runs.map(|entry| entry.unwrap().path()).max().unwrap();
        let report = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
        let mut rows = csv::Reader::from_path(out.join("transfers.csv")).unwrap();
        (report, rows.deserialize().map(Result::unwrap).collect())
    }

    fn is_empty(&self) -> bool {
        let left = |data: &Path| visible_files(data);
        left(&self.apache.data).is_empty() && left(&self.nginx.data).is_empty()
    }
}

const RATES: &str = "[[workload]]\nkind = \"rates\"\nfile_size_min = \"1 MB\"\nfile_size_max = \"1 MB\"\nrates = [\
    { source = \"HERE\", destination = \"APACHE\", rate = \"16 Mb/s\" }, { source = \"APACHE\", destination = \"HERE\", rate = \"16 Mb/s\" }, \
    { source = \"HERE\", destination = \"NGINX\", rate = \"16 Mb/s\" }, { source = \"NGINX\", destination = \"HERE\", rate = \"16 Mb/s\" }, \
    { source = \"APACHE\", destination = \"NGINX\", rate = \"8 Mb/s\" }, { source = \"NGINX\", destination = \"APACHE\", rate = \"8 Mb/s\" }]\n\
    [[threshold]]\ntotal = true\nmetric = \"failed\"\nmax = 0\n";

const MATRIX: &str = "[[workload]]\nkind = \"matrix\"\nsizes = [\"1 MB\"]\n\
    links = [\"HERE->APACHE\", \"APACHE->HERE\", \"HERE->NGINX\", \"NGINX->HERE\"]\n";

#[test]
fn web_servers_take_part_in_a_challenge() -> Result<()> {
    // Wrong: a site's administrator whose storage is an Apache reads "check the path at the destination".
    if !peers() {
        return Ok(());
    }
    let lab = Lab::start()?;
    lab.challenge(RATES)?;
    let checked = lab.weir(&["challenge", "check", "c.toml", "--sites"])?.expect_ok()?;
    for part in [
        "6 of 6 copies that were tried work",
        "APACHE makes no third-party copies; the transfer service reads from it for NGINX; the transfer service writes to it from NGINX; \
         HERE pulls from it and pushes to it",
        "NGINX makes no third-party copies; ",
        "HERE -> APACHE           copied and verified by its size (push)",
        "APACHE -> HERE           copied and verified (pull)",
    ] {
        assert!(checked.stdout.contains(part), "{part}: {}", checked.stdout);
    }
    let ran = steadily(|| lab.weir(&["challenge", "run", "c.toml", "--out", "runs", "--audit", "10%"]))?.expect_ok()?;
    let head = "copies to APACHE, NGINX are verified by size alone";
    assert!(ran.stdout.contains(head), "{}", ran.stdout);
    let (report, rows) = lab.results();
    assert_eq!(report["verdict"], "pass", "{}", report["verdict_reasons"]);
    assert_eq!(report["verified_by_size"], serde_json::json!(["APACHE", "NGINX"]));
    assert!(report["audit"]["files"].as_u64() > Some(0) && report["audit"]["failed"] == 0);
    for row in &rows {
        let mode = match (row["source"].as_str(), row["destination"].as_str()) {
            ("HERE", _) => "push",
            (_, "HERE") => "pull",
            _ => "streamed",
        };
        assert_eq!(row["mode"], mode, "{row:?}");
    }
    assert!(lab.is_empty(), "something is left");
    // Each transfer service asked each server at most a few times; the rest of the transfers asked for what works.
    let orders = |server: &WebServer| server.said().lines().filter(|line| line.starts_with("COPY")).count();
    let (apache, nginx) = (orders(&lab.apache), orders(&lab.nginx));
    assert!(apache + nginx < rows.len() / 2, "{apache} + {nginx} of {}", rows.len());
    Ok(())
}

#[test]
fn a_matrix_tells_which_modes_a_web_server_has() -> Result<()> {
    // Wrong: the modes that a server lacks keep the run from beginning, or an Apache copies within itself.
    if !peers() {
        return Ok(());
    }
    let lab = Lab::start()?;
    lab.challenge(MATRIX)?;
    let ran = steadily(|| lab.weir(&["challenge", "run", "c.toml", "--out", "runs"]))?;
    for part in [
        "APACHE makes no third-party copies; ",
        "NGINX makes no third-party copies; ",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let (report, rows) = lab.results();
    assert!(
        ran.stdout.contains("4 of 12 cells of the copy matrix failed"),
        "{}",
        ran.stdout
    );
    let cells = report["workloads"][0]["cells"].as_array().unwrap();
    for cell in cells {
        let (mode, source, destination) = (&cell["mode"], &cell["source"], &cell["destination"]);
        // A web server is no active party.
        let active = if mode == "pull" { destination } else { source };
        let works = mode == "streamed" || active == "HERE";
        assert_eq!(cell["ok"], works, "{cell}");
    }
    for row in rows.iter().filter(|row| row["state"] == "failed") {
        assert!(row["message"].contains("makes no third-party copies"), "{row:?}");
        assert_eq!(row["error_class"], "protocol", "{row:?}");
    }
    assert!(
        !lab.apache.said().contains("https://127.0.1."),
        "ordered to push: {}",
        lab.apache.said()
    );
    assert!(lab.is_empty(), "something is left");
    Ok(())
}
