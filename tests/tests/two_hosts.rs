//! A challenge between two hosts that share nothing but a wire: a grid on each, a real XRootD on one, driven from either side.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;
use weir_auth::ca::CertificateAuthority;
use weir_tests::{Daemon, Run, TwoHosts, Xrootd, XrootdSettings, peers, run, steadily, wait_for, weir_binary};

const LIMIT: Duration = Duration::from_secs(60);
const XROOTD_PORT: u16 = 1094;

/// Both hosts with what runs there.
struct Lab {
    hosts: TwoHosts,
    folder: tempfile::TempDir,
    _grids: [Daemon; 2],
    _xrootd: Xrootd,
}

impl Lab {
    fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-hosts-").tempdir()?;
        // XRootD drops root and must still reach its own files below.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let hosts = TwoHosts::start(folder.path())?;
        // The lab's own authority, which everybody trusts.
        let authority = CertificateAuthority::create(&folder.path().join("authority"))?;
        let grid = |name: &str, address: Ipv4Addr, more: &str| {
            let folder = folder.path();
            let text = format!(
                "name = \"{name}\"\nauthority = \"authority\"\nreach = [\"10.9.1.0/24\"]\n[issuer]\nlisten = \"{address}\"\n\
                 [storage]\ndurability = \"cache\"\n[[rse]]\nname = \"{}\"\nlisten = \"{address}\"\n{more}",
                name.to_uppercase()
            );
            fs::write(folder.join(format!("{name}.toml")), text).unwrap();
        };
        let xrootd = format!(
            "[[rse]]\nname = \"XROOTD\"\nurl = \"https://{}:{XROOTD_PORT}/data\"\nca = \"authority/ca.pem\"\n",
            TwoHosts::NEAR
        );
        grid("near", TwoHosts::NEAR, &xrootd);
        grid("far", TwoHosts::FAR, "");
        let up = |mut command: Command, name: &str| -> Result<Daemon> {
            command
                .args(["grid", "up", &format!("{name}.toml"), "--dir", name])
                .current_dir(folder.path());
            let daemon = Daemon::start(command, &folder.path().join(format!("{name}.log")))?;
            let description = folder.path().join(name).join("grid.json");
            let ready = wait_for(LIMIT, || Ok(description.exists().then_some(())));
            ready.with_context(|| daemon.said())?;
            Ok(daemon)
        };
        let near = up(Command::new(weir_binary()), "near")?;
        let far = up(hosts.far(weir_binary()), "far")?;
        let description = described(&folder.path().join("near"))?;
        let issuer = description["issuer"]["url"].as_str().context("no issuer")?.to_owned();
        let keys = run(Command::new("curl")
            .args(["-sS", "--fail", "--cacert"])
            .arg(folder.path().join("authority/ca.pem"))
            .arg(format!("{issuer}/jwks")))?;
        let audience = format!("https://{}:{XROOTD_PORT}", TwoHosts::NEAR);
        let xrootd = Xrootd::start(
            folder.path(),
            &XrootdSettings {
                name: "xrootd",
                authority: &authority,
                trusted: &[authority.directory()],
                issuer: &issuer,
                jwks: &keys.expect_ok()?.stdout,
                audiences: &[audience],
                address: TwoHosts::NEAR,
                port: XROOTD_PORT,
                root_port: XROOTD_PORT + 1,
                measured: false,
                elsewhere: None,
                cluster: None,
            },
        )?;
        Ok(Self {
            hosts,
            folder,
            _grids: [near, far],
            _xrootd: xrootd,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a challenge of an embedded RSE, the grid of the other side and XRootD, in all directions.
    fn challenge(&self, name: &str, (own, host): (Ipv4Addr, &str), other: &str, hold: &str) -> Result<()> {
        let description = described(&self.path(other))?;
        let text = |pointer: &str| {
            description
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let other_name = other.to_uppercase();
        let rses = ["HERE", &other_name, "XROOTD"];
        let pairs = rses.iter().flat_map(|one| rses.iter().map(move |other| (one, other)));
        let rates: Vec<String> = pairs
            .filter(|(one, other)| one != other)
            .map(|(one, other)| format!("{{ source = \"{one}\", destination = \"{other}\", rate = \"8 Mb/s\" }}"))
            .collect();
        let content = format!(
            "name = \"{name}\"\n[phases]\nramp = \"1 s\"\nhold = \"{hold}\"\n[grid]\nname = \"{name}\"\nauthority = \"authority\"\n\
             reach = [\"10.9.1.0/24\"]\n\
             [grid.storage]\ndurability = \"cache\"\n[[grid.rse]]\nname = \"HERE\"\nlisten = \"{own}\"\nhost = \"{host}\"\n\
             [[grid.rse]]\nname = \"{other_name}\"\nurl = \"{}\"\nca = \"authority/ca.pem\"\n\
             token_issuer = {{ token_url = \"{}/token\", client_id = \"{}\", secret_file = \"{}\", ca = \"authority/ca.pem\" }}\n\
             [[grid.rse]]\nname = \"XROOTD\"\nurl = \"https://{}:{XROOTD_PORT}/data\"\nca = \"authority/ca.pem\"\ntoken_file = \"near/token\"\n\
             [[workload]]\nkind = \"rates\"\nlifetime = \"1 h\"\nrates = [{}]\n[[threshold]]\ntotal = true\nmetric = \"failed_ratio\"\nmax = 0.0\n",
            text("/rses/0/url"),
            text("/issuer/url"),
            text("/client/id"),
            text("/client/secret_file"),
            TwoHosts::NEAR,
            rates.join(", ")
        );
        Ok(fs::write(self.path(&format!("{name}.toml")), content)?)
    }

    fn weir(&self, mut command: Command, arguments: &[&str]) -> Result<Run> {
        run(command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("WEIR_LOG"))
    }

    fn near(&self, arguments: &[&str]) -> Result<Run> {
        self.weir(Command::new(weir_binary()), arguments)
    }

    fn far(&self, arguments: &[&str]) -> Result<Run> {
        self.weir(self.hosts.far(weir_binary()), arguments)
    }

    /// Files of runs at the storages that are not a run's own.
    fn left(&self) -> usize {
        let xrootd = self.path("xrootd").join("root").join("data/weir");
        let weir = ["near/storage/NEAR/weir", "far/storage/FAR/weir"].map(|place| self.path(place));
        weir.iter().chain([&xrootd]).map(|place| count(place)).sum()
    }
}

fn described(dir: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(dir.join("grid.json"))?)?)
}

fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 })
        .sum()
}

#[test]
fn a_challenge_runs_between_two_hosts_from_either_side() -> Result<()> {
    // Wrong: embedded storage is on loopback addresses alone, so that no other host's storage can read from it or write to it.
    if !peers() || !TwoHosts::within("a_challenge_runs_between_two_hosts_from_either_side")? {
        return Ok(());
    }
    let lab = Lab::start()?;
    let (near, far) = (TwoHosts::NEAR.to_string(), TwoHosts::FAR.to_string());
    lab.challenge("from-near", (TwoHosts::NEAR, &near), "far", "2 s")?;
    lab.challenge("from-far", (TwoHosts::FAR, &far), "near", "2 s")?;
    let checked = lab
        .near(&["challenge", "check", "from-near.toml", "--sites"])?
        .expect_ok()?;
    assert!(
        checked.stdout.contains("6 of 6 copies that were tried work"),
        "{}",
        checked.stdout
    );
    let ran = steadily(|| lab.near(&["challenge", "run", "from-near.toml", "--audit", "20%"]))?.expect_ok()?;
    assert!(ran.stdout.contains("from-near: PASS"), "{}", ran.stdout);
    let ran = steadily(|| lab.far(&["challenge", "run", "from-far.toml", "--audit", "20%"]))?.expect_ok()?;
    assert!(ran.stdout.contains("from-far: PASS"), "{}", ran.stdout);
    assert_eq!(lab.left(), 0, "files stay at storages");

    // Killed in the middle: the report is there, and nothing of the run stays.
    lab.challenge("killed", (TwoHosts::NEAR, &near), "far", "60 s")?;
    let mut command = Command::new(weir_binary());
    command
        .args(["challenge", "run", "killed.toml", "--out", "killed"])
        .current_dir(lab.folder.path());
    let mut daemon = Daemon::start(command, &lab.path("killed.log"))?;
    wait_for(LIMIT, || Ok((lab.left() > 20).then_some(()))).with_context(|| daemon.said())?;
    daemon.kill()?;
    let folder = fs::read_dir(lab.path("killed"))?
        .next()
        .context("no run folder")??
        .path();
    let folder = folder.to_str().unwrap();
    let built = lab.near(&["report", folder])?.expect_ok()?;
    assert!(built.stdout.contains("(incomplete)"), "{}", built.stdout);
    // A copy that a storage carries out goes on without the run, for a moment, and leaves a part of the file where its other end was gone.
    let mut said = Value::Null;
    let cleaned = || {
        let clean = lab
            .near(&["challenge", "clean", folder, "--yes", "--partial", "--json"])?
            .expect_ok()?;
        said = clean.envelope()?["data"].clone();
        Ok((lab.left() == 0).then_some(()))
    };
    wait_for(LIMIT, cleaned).map_err(|error| error.context(said.to_string()))?;
    Ok(())
}

#[test]
fn a_host_that_only_the_other_side_cannot_reach_is_found() -> Result<()> {
    // Wrong: half of the copies of a challenge fail, and nobody says that it is the name of this host which the other cannot reach.
    if !peers() || !TwoHosts::within("a_host_that_only_the_other_side_cannot_reach_is_found")? {
        return Ok(());
    }
    let lab = Lab::start()?;
    // An address of this host that the other takes for its own.
    let wrong = Ipv4Addr::new(127, 0, 5, 5);
    lab.challenge("wrong", (wrong, &wrong.to_string()), "far", "2 s")?;
    let refused = lab.near(&["challenge", "check", "wrong.toml", "--sites", "--json"])?;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let report = refused.envelope()?["data"]["storage"].clone();
    let failed = |copy: &Value| copy["outcome"] == "failed";
    let copies = report["copies"].as_array().unwrap();
    let of = |source: &str, destination: &str| {
        copies
            .iter()
            .find(|copy| copy["source"] == source && copy["destination"] == destination)
            .unwrap()
    };
    assert!(failed(of("HERE", "FAR")), "{report}");
    assert!(!failed(of("FAR", "XROOTD")) && !failed(of("XROOTD", "FAR")), "{report}");
    assert!(!of("HERE", "FAR")["remedy"].as_str().unwrap().is_empty(), "{report}");
    Ok(())
}
