//! Storage of several servers: a door that keeps no file, and redirects every request to a node. A real XRootD cluster.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fs, net::Ipv4Addr, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;
use weir_auth::ca::CertificateAuthority;
use weir_tests::{
    Cluster, Run, RunningGrid, Xrootd, XrootdSettings, free_port, peers, run, steadily, visible_files, wait_for,
    weir_binary,
};

const DOOR: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);
/// XRootD's door names a node by the address from which it came.
const NODE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A cluster of one door and one node, and the grid whose issuer both trust.
struct Lab {
    grid: RunningGrid,
    door: Xrootd,
    node: Xrootd,
    folder: tempfile::TempDir,
}

impl Lab {
    fn up() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-cluster-").tempdir()?;
        // XRootD drops root and must still reach its own files below.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let authority = CertificateAuthority::create(&folder.path().join("authority"))?;
        let grid = RunningGrid::up(&format!(
            "name = \"lab\"\nauthority = \"{}\"\n[[rse]]\nname = \"LAB\"\n[storage]\ndurability = \"cache\"\n",
            folder.path().join("authority").display()
        ))?;
        let issuer = grid.description["issuer"]["url"].as_str().context("no issuer")?;
        let jwks = grid.curl(&[&format!("{issuer}/jwks")])?.expect_ok()?.stdout;
        let (door_port, announced) = (free_port()?, free_port()?);
        let start = |name: &str, address, (port, root_port), cluster| {
            let settings = XrootdSettings {
                name,
                authority: &authority,
                trusted: &[authority.directory()],
                issuer,
                jwks: &jwks,
                audiences: &[format!("https://{DOOR}:{door_port}")],
                address,
                port,
                root_port,
                measured: false,
                elsewhere: None,
                cluster: Some(cluster),
            };
            Xrootd::start(folder.path(), &settings)
        };
        let door = start(
            "door",
            DOOR,
            (door_port, free_port()?),
            Cluster::Door { port: announced },
        )?;
        let both = free_port()?;
        let node = Cluster::Node {
            door: (DOOR, announced),
        };
        let node = start("node", NODE, (both, both), node)?;
        let lab = Self {
            grid,
            door,
            node,
            folder,
        };
        // Until its node has announced itself, the door has nowhere to send anybody.
        let url = format!("{}/data/", lab.door.url);
        let redirects = || {
            let asked = lab.grid.curl(&[
                "-m",
                "5",
                "-X",
                "PROPFIND",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                &url,
            ])?;
            Ok((asked.stdout == "307").then_some(()))
        };
        wait_for(Duration::from_secs(60), redirects).with_context(|| lab.door.said())?;
        Ok(lab)
    }

    /// A challenge in both directions; `grid` are keys of the grid, `more` those of the cluster's RSE.
    fn challenge(&self, grid: &str, more: &str) -> Result<()> {
        let text = |pointer: &str| self.grid.description.pointer(pointer).and_then(Value::as_str).unwrap();
        let content = format!(
            "name = \"cluster\"\n[phases]\nramp = \"1 s\"\nhold = \"3 s\"\n[grid]\nname = \"cluster\"\nauthority = \"authority\"\n{grid}\
             [grid.storage]\ndurability = \"cache\"\n[[grid.rse]]\nname = \"HERE\"\n\
             [[grid.rse]]\nname = \"CLUSTER\"\nurl = \"{}/data\"\nbase_path = \"/\"\nca = \"authority/ca.pem\"\n{more}\n\
             token_issuer = {{ token_url = \"{}/token\", client_id = \"{}\", secret_file = \"{}\", ca = \"authority/ca.pem\" }}\n\
             [[workload]]\nkind = \"rates\"\nfile_size_min = \"500 kB\"\nfile_size_max = \"500 kB\"\nrates = [\
             {{ source = \"HERE\", destination = \"CLUSTER\", rate = \"8 Mb/s\" }}, \
             {{ source = \"CLUSTER\", destination = \"HERE\", rate = \"8 Mb/s\" }}]\n\
             [[threshold]]\ntotal = true\nmetric = \"failed\"\nmax = 0\n",
            self.door.url,
            text("/issuer/url"),
            text("/client/id"),
            text("/client/secret_file"),
        );
        Ok(fs::write(self.folder.path().join("c.toml"), content)?)
    }

    fn weir(&self, arguments: &[&str]) -> Result<Run> {
        run(Command::new(weir_binary())
            .args(arguments)
            .current_dir(self.folder.path()))
    }
}

fn report(folder: &Path) -> Value {
    let runs = fs::read_dir(folder.join("runs")).unwrap();
    let newest = runs.map(|entry| entry.unwrap().path()).max().unwrap();
    serde_json::from_slice(&fs::read(newest.join("report.json")).unwrap()).unwrap()
}

#[test]
fn a_challenge_runs_against_storage_that_redirects_to_its_nodes() -> Result<()> {
    // Wrong: a site whose storage has pools (dCache, EOS, a cluster of XRootD) cannot take part.
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    lab.challenge("", &format!("redirect_hosts = [\"{NODE}\"]"))?;
    let ran = steadily(|| lab.weir(&["challenge", "run", "c.toml", "--out", "runs"]))?;
    let said = format!("{}\n{}", ran.stdout, ran.stderr);
    assert!(!said.contains("eyJ"), "a token is shown: {said}");
    ran.expect_ok()?;
    let report = report(lab.folder.path());
    assert!(
        report["totals"]["finished"].as_u64().unwrap() > 5,
        "{}",
        report["totals"]
    );
    assert_eq!(report["totals"]["failed"], 0, "{}", report["totals"]);
    assert!(lab.node.data.join("weir").is_dir(), "the node was never written to");
    let left: Vec<_> = visible_files(&lab.node.data);
    assert!(left.is_empty(), "the run left {left:?}");
    let probed = lab.weir(&["probe", &format!("{}/data", lab.door.url), "--ca", "authority/ca.pem"])?;
    assert!(probed.stdout.contains("XrootD"), "{probed:?}");
    Ok(())
}

#[test]
fn a_node_that_the_grid_file_does_not_name_gets_no_token() -> Result<()> {
    // Wrong: tokens of both sides go wherever a redirect leads; or the failures of copies have no reason.
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    lab.challenge("reach = [\"127.0.0.1/32\"]\n", "")?;
    let checked = lab.weir(&["challenge", "check", "c.toml", "--sites", "--json"])?;
    assert_eq!(checked.code, Some(3), "{checked:?}");
    let text = checked.envelope()?["data"]["storage"].to_string();
    for part in [
        "redirected to 127.0.0.1, to which credentials do not follow",
        "redirect_hosts of the RSE",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    Ok(())
}
