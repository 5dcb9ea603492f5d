//! Storage that is not ours: real XRootD servers beside Weir's endpoints, each as active and as passive party.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{collections::BTreeMap, fs, net::Ipv4Addr, path::Path, process::Command};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weir_auth::ca::CertificateAuthority;
use weir_tests::{RunningGrid, Xrootd, XrootdSettings, free_port, peers, run, weir_binary};

/// A grid that gives out tokens, and two XRootD servers that trust it.
struct Lab {
    grid: RunningGrid,
    alpha: Xrootd,
    beta: Xrootd,
    folder: tempfile::TempDir,
}

impl Lab {
    fn up() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-xrootd-").tempdir()?;
        // XRootD drops root and must still reach its own files below.
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let authority = CertificateAuthority::create(&folder.path().join("authority"))?;
        // The grid reaches the servers that its file names, and nothing else on this host.
        let address = |last: u8| Ipv4Addr::new(127, 0, 2, last);
        let ports = [free_port()?, free_port()?];
        let external = |name: &str, last: u8| {
            let (address, port) = (address(last), ports[usize::from(last) - 1]);
            let ca = folder.path().join("authority/ca.pem");
            format!(
                "[[rse]]\nname = \"{name}\"\nurl = \"https://{address}:{port}/data\"\nca = \"{}\"\n",
                ca.display()
            )
        };
        let grid = RunningGrid::up(&format!(
            "name = \"lab\"\nauthority = \"{}\"\n[[rse]]\nname = \"ALPHA\"\n[[rse]]\nname = \"BETA\"\n{}{}\
             [storage]\ndurability = \"cache\"\n",
            folder.path().join("authority").display(),
            external("XA", 1),
            external("XB", 2),
        ))?;
        let issuer = grid.description["issuer"]["url"]
            .as_str()
            .context("no issuer")?
            .to_owned();
        let jwks = jwks(&grid, &issuer)?;
        // gfal2 has one token for both sides.
        let audiences = grid.audiences();
        let start = |name: &str, last: u8| {
            Xrootd::start(
                folder.path(),
                &XrootdSettings {
                    name,
                    authority: &authority,
                    trusted: &[authority.directory()],
                    issuer: &issuer,
                    jwks: &jwks,
                    audiences: &audiences,
                    address: address(last),
                    port: ports[usize::from(last) - 1],
                    root_port: free_port()?,
                    measured: false,
                    elsewhere: None,
                    cluster: None,
                },
            )
        };
        let (alpha, beta) = (start("xa", 1)?, start("xb", 2)?);
        Ok(Self {
            grid,
            alpha,
            beta,
            folder,
        })
    }
}

impl Lab {
    /// The tables of both servers in a challenge, which shows them a token of the grid.
    fn external(&self) -> Result<[String; 2]> {
        let token = self.folder.path().join("token");
        let environment = self.grid.env()?;
        let bearer = environment.iter().find(|(name, _)| name == "BEARER_TOKEN");
        weir_tests::write_private(&token, &bearer.context("no token")?.1)?;
        let table = |(name, server): (&str, &Xrootd)| {
            format!(
                "[[grid.rse]]\nname = \"{name}\"\nurl = \"{}/data\"\nca = \"{}\"\ntoken_file = \"{}\"\n",
                server.url,
                self.folder.path().join("authority/ca.pem").display(),
                token.display()
            )
        };
        Ok([("XA", &self.alpha), ("XB", &self.beta)].map(table))
    }

    /// Runs a challenge; gives its report.
    fn report_of(&self, challenge: &str) -> Result<Value> {
        let (file, runs) = (self.folder.path().join("lab.toml"), self.folder.path().join("runs"));
        fs::write(&file, challenge)?;
        let run = run(Command::new(weir_binary())
            .args(["challenge", "run"])
            .arg(&file)
            .arg("--out")
            .arg(&runs)
            .current_dir(self.folder.path()))?;
        let report = fs::read_dir(&runs)
            .with_context(|| format!("no run folder: {run:?}"))?
            .next()
            .context("no run")??;
        Ok(serde_json::from_slice(&fs::read(report.path().join("report.json"))?)?)
    }
}

fn jwks(grid: &RunningGrid, issuer: &str) -> Result<String> {
    let base = issuer.trim_end_matches('/');
    let discovery = grid
        .curl(&[&format!("{base}/.well-known/openid-configuration")])?
        .expect_ok()?;
    let discovery: Value = serde_json::from_str(&discovery.stdout)?;
    let uri = discovery["jwks_uri"].as_str().context("no jwks_uri")?.to_owned();
    Ok(grid.curl(&[&uri])?.expect_ok()?.stdout)
}

/// Files of this size have no pattern that a broken transfer could hit by chance.
fn noise(path: &Path, size: usize) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = vec![0; size];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    fs::write(path, &bytes)?;
    Ok(bytes)
}

fn gfal(grid: &RunningGrid, arguments: &[&str]) -> Result<()> {
    let run = run(grid.command("gfal-copy")?.args(arguments))?;
    run.expect_ok()
        .with_context(|| format!("gfal-copy {}", arguments.join(" ")))?;
    Ok(())
}

/// gfal2 would not move a file between Weir and XRootD in one direction or mode.
#[test]
fn gfal_copies_between_weir_and_xrootd_in_every_mode() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    let local = lab.folder.path().join("noise");
    let sent = noise(&local, 3_000_001)?;
    let weir = format!("{}/gfal", lab.grid.rse_url("ALPHA"));
    let xrootd = format!("{}/data/gfal", lab.alpha.url);
    let local = format!("file://{}", local.display());
    for (at, source, destination) in [("wx", &weir, &xrootd), ("xw", &xrootd, &weir)] {
        let origin = format!("{source}/{at}/origin");
        gfal(&lab.grid, &["-p", &local, &origin])?;
        for mode in ["pull", "push", "streamed"] {
            let target = format!("{destination}/{at}/{mode}");
            gfal(&lab.grid, &["-p", "--copy-mode", mode, &origin, &target]).with_context(|| lab.alpha.said())?;
            let back = lab.folder.path().join(format!("{at}-{mode}"));
            gfal(&lab.grid, &[&target, &format!("file://{}", back.display())])?;
            assert!(fs::read(&back)? == sent, "{at} {mode}: other bytes came back");
        }
    }
    Ok(())
}

/// Files at `data`, however deep.
fn n_files(data: &Path) -> usize {
    let entries = fs::read_dir(data)
        .into_iter()
        .flatten()
        .filter_map(std::result::Result::ok);
    let count = |path: &Path| if path.is_dir() { n_files(path) } else { 1 };
    entries.map(|entry| count(&entry.path())).sum()
}

/// Rules would keep no copies at storage that is not ours.
#[test]
fn rules_keep_copies_at_xrootd_and_bring_them_back() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let user = lab.grid.description["user"]["both"].as_str().context("no user")?;
    let mut python = lab
        .grid
        .command(&root.join("../.peers/bin/python").display().to_string())?;
    python
        .arg(root.join("rucio/rules.py"))
        .arg(lab.grid.dir().join("grid.json"))
        .arg("mixed")
        .env("HOME", lab.grid.scratch())
        .env("RUCIO_HOME", lab.grid.scratch())
        .env("X509_USER_PROXY", user)
        .env("PYTHONWARNINGS", "ignore")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let told = run(&mut python)?;
    assert!(
        told.ok(),
        "{}\n{}\n{}\n{}",
        told.stdout,
        told.stderr,
        lab.grid.log(),
        lab.alpha.said()
    );
    for server in [&lab.alpha, &lab.beta] {
        assert_eq!(n_files(&server.data.join("mix")), 0, "{}", server.url);
    }
    Ok(())
}

/// A challenge over storage that is not ours would not say what works in every cell of its matrix.
#[test]
fn the_matrix_of_weir_and_xrootd_passes() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    let external = lab.external()?;
    let challenge = format!(
        "name = \"mixed\"\n[[workload]]\nkind = \"matrix\"\nmodes = [\"pull\", \"push\", \"streamed\"]\nsizes = [\"1 MB\"]\n\
         [grid]\nname = \"mixed\"\nauthority = \"{}\"\n[[grid.rse]]\nname = \"WA\"\n[[grid.rse]]\nname = \"WB\"\n{}{}",
        lab.folder.path().join("authority").display(),
        external[0],
        external[1],
    );
    let report = lab.report_of(&challenge)?;
    let cells = report["workloads"][0]["cells"].as_array().context("no cells")?.clone();
    assert_eq!(cells.len(), 4 * 3 * 3, "every ordered pair in every mode");
    let failed: Vec<_> = cells.iter().filter(|cell| cell["ok"] != true).collect();
    assert!(
        failed.is_empty(),
        "{failed:#?}\nXRootD A:\n{}\nXRootD B:\n{}",
        lab.alpha.said(),
        lab.beta.said()
    );
    Ok(())
}

/// A call of `/dm`: its output, whether it went well or not.
fn dm(lab: &Lab, call: &str, body: Option<&Value>) -> Result<Value> {
    let url = format!("{}/dm/{call}", lab.grid.transfer_url());
    let text = body.map(Value::to_string);
    let mut arguments = vec![url.as_str()];
    if let Some(text) = &text {
        arguments.extend(["-H", "Content-Type: application/json", "-d", text]);
    }
    let said = lab.grid.curl(&arguments)?.stdout;
    serde_json::from_str(&said).with_context(|| format!("{call}: {said}"))
}

/// FTS3 does it with gfal2: a user who changes from one to the other would find other names, sizes or kinds, or lose files.
#[test]
fn namespaces_are_seen_as_gfal_sees_them() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    let local = lab.folder.path().join("noise");
    let sent = noise(&local, 12_345)?;
    let local = format!("file://{}", local.display());
    for base in [format!("{}/data", lab.alpha.url), lab.grid.rse_url("ALPHA")] {
        let at = |path: &str| format!("{}/dm{path}", base.replacen("https", "davs", 1));
        let surl = |path: &str| json!({ "surl": at(path) });
        let rename = |old: &str, new: &str| json!({ "old": at(old), "new": at(new) });
        let said = |call: &str, body: Value| {
            let said = dm(&lab, call, Some(&body)).unwrap();
            (format!("{base} {call} {body}: {said}"), said)
        };
        let done = |call: &str, body: Value| {
            let (shown, said) = said(call, body);
            assert_eq!(said, 0, "{shown}");
        };
        let refused = |call: &str, body: Value, number: &str| {
            let (shown, said) = said(call, body);
            let number = format!("[{number}] ");
            assert!(
                said["message"].as_str().is_some_and(|text| text.starts_with(&number)),
                "{shown}"
            );
        };
        done("mkdir", surl(""));
        done("mkdir", surl("/inner"));
        gfal(&lab.grid, &[&local, &at("/a%20file")])?;
        gfal(&lab.grid, &[&local, &at("/inner/f")])?;
        as_gfal_lists(&lab, &at(""))?;
        as_gfal_lists(&lab, &at("/inner"))?;
        let told = dm(&lab, &format!("stat?surl={}", at("/inner/f")), None)?;
        let seen = run(lab.grid.command("gfal-stat")?.arg(at("/inner/f")))?
            .expect_ok()?
            .stdout;
        assert!(
            told["size"] == sent.len() && seen.contains("Size: 12345\tregular file"),
            "{told} {seen}"
        );

        for call in ["list?surl=", "stat?surl="] {
            let said = dm(&lab, &format!("{call}{}", at("/none")), None)?;
            assert_eq!(said["status"], "404 Not Found", "{base} {said}");
        }
        refused("unlink", surl("/inner"), "21");
        refused("rmdir", surl("/inner"), "39");
        refused("rmdir", surl("/inner/f"), "20");
        refused("unlink", surl("/none"), "2");
        refused("rename", rename("/inner/f", "/a%20file"), "17");
        refused("rename", rename("/inner/f", "/inner"), "17");
        if base == lab.grid.rse_url("ALPHA") {
            // XRootD makes what is missing.
            refused("rename", rename("/inner/f", "/none/f"), "2");
            refused("mkdir", surl("/none/d"), "2");
            refused("mkdir", surl("/inner"), "17");
        }
        refused("rename", rename("/none", "/g"), "2");
        done("rename", rename("/inner/f", "/moved"));
        done("rename", rename("/inner", "/outer"));
        let back = lab.folder.path().join("back");
        gfal(&lab.grid, &["-f", &at("/moved"), &format!("file://{}", back.display())])?;
        assert!(fs::read(&back)? == sent, "{base}: other bytes came back");
        done("unlink", surl("/moved"));
        done("unlink", surl("/a%20file"));
        done("rmdir", surl("/outer"));
        assert_eq!(dm(&lab, &format!("list?surl={}", at("")), None)?, json!({}), "{base}");
        done("rmdir", surl(""));
    }
    Ok(())
}

/// Names, kinds and permissions, and sizes of files are those that `gfal-ls -l` has.
fn as_gfal_lists(lab: &Lab, directory: &str) -> Result<()> {
    let listed = dm(lab, &format!("list?surl={directory}"), None)?;
    let seen = run(lab.grid.command("gfal-ls")?.args(["-l", directory]))?.expect_ok()?;
    let seen = seen.stdout.lines().filter_map(|line| {
        let words = line.split_whitespace().collect::<Vec<_>>();
        let (mode, size) = (*words.first()?, words.get(4)?.parse::<u64>().ok()?);
        let name = words.get(8..)?.join(" ").replace("%20", " ");
        let name = if mode.starts_with('d') { name + "/" } else { name };
        Some((name, (mode.to_owned(), size)))
    });
    let listed = listed.as_object().context("no object")?.iter().map(|(name, told)| {
        let mode = told["mode"].as_u64().unwrap_or_default();
        let letter = |bit: u64| {
            if mode >> bit & 1 == 1 {
                ['x', 'w', 'r'][bit as usize % 3]
            } else {
                '-'
            }
        };
        let kind = if mode >> 12 == 0o04 { 'd' } else { '-' };
        let shown = std::iter::once(kind)
            .chain((0..9).rev().map(letter))
            .collect::<String>();
        (name.clone(), (shown, told["size"].as_u64().unwrap_or_default()))
    });
    let (seen, listed) = (seen.collect::<BTreeMap<_, _>>(), listed.collect::<BTreeMap<_, _>>());
    assert_eq!(listed, seen, "{directory}");
    assert!(!seen.is_empty());
    Ok(())
}

#[test]
fn a_storage_that_tells_no_states_names_the_server_it_reads_from() -> Result<()> {
    // Wrong: of a site with one slow server nobody can say which.
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    // XRootD sends its first marker after five seconds.
    let challenge = format!(
        "name = \"slow\"\n[phases]\nramp = \"0 s\"\nhold = \"12 s\"\ndrain = \"20 s\"\n[[workload]]\nkind = \"rates\"\n\
         file_size_min = \"10 MB\"\nfile_size_max = \"10 MB\"\nrates = [{{ source = \"WA\", destination = \"XA\", rate = \"8 Mb/s\" }}]\n\
         [grid]\nname = \"slow\"\nauthority = \"{}\"\n[grid.transfer]\nmax_active_per_link = 1\n\
         [[grid.rse]]\nname = \"WA\"\nbandwidth = \"8 Mb/s\"\n{}",
        lab.folder.path().join("authority").display(),
        lab.external()?[0],
    );
    let report = lab.report_of(&challenge)?;
    let waits = report["signals"][0]["waits"].as_array().context("no signals")?;
    let seconds = |place: &str| -> f64 {
        let of_place =
            |wait: &&Value| wait["wait"] == "data" && wait["place"].as_str().unwrap_or_default().starts_with(place);
        waits
            .iter()
            .filter(of_place)
            .filter_map(|wait| wait["total_s"].as_f64())
            .sum()
    };
    assert!(seconds("server:127.0.1.") > 5.0, "{waits:#?}\n{}", lab.alpha.said());
    Ok(())
}

/// A fault would be made at Weir's own doors alone, or XRootD refuse what comes through a relay.
#[test]
fn relays_stand_in_front_of_xrootd() -> Result<()> {
    if !peers() {
        return Ok(());
    }
    let lab = Lab::up()?;
    let external = lab.external()?;
    let challenge = format!(
        "name = \"broken\"\n[phases]\nramp = \"1 s\"\nhold = \"28 s\"\ndrain = \"15 s\"\n[[workload]]\nkind = \"rates\"\ncycle = \"300 ms\"\n\
         file_size_min = \"500 kB\"\nfile_size_max = \"500 kB\"\nrates = [\
         {{ source = \"XA\", destination = \"WA\", rate = \"8 Mb/s\" }}, {{ source = \"WA\", destination = \"XB\", rate = \"8 Mb/s\" }}]\n\
         [grid]\nname = \"broken\"\nauthority = \"{}\"\n[[grid.rse]]\nname = \"WA\"\n{}{}\
         [[fault]]\nkind = \"outage\"\nrse = \"XA\"\nat = \"5 s\"\nfor = \"4 s\"\n\
         [[fault]]\nkind = \"capacity\"\nlink = \"WA->*\"\nrate = \"1 Mb/s\"\nat = \"15 s\"\nfor = \"5 s\"\n",
        lab.folder.path().join("authority").display(),
        external[0],
        external[1],
    );
    let report = lab.report_of(&challenge)?;
    for fault in report["faults"].as_array().context("no faults")? {
        let acted = fault["acted"].as_str().unwrap_or_default();
        assert!(
            acted.contains("held connections back") && fault["effect"] == true,
            "{fault:#}"
        );
    }
    let missed = |link: &str, from: f64, until: f64| weir_tests::missed(&report, link, from, until);
    let cut = (missed("XA→WA", 5.5, 8.5), missed("WA→XB", 5.5, 8.5));
    assert!(cut.0 > 0.4 && cut.1 < 0.3, "outage: {cut:?}");
    let slow = (missed("WA→XB", 15.5, 19.5), missed("XA→WA", 15.5, 19.5));
    assert!(slow.0 > 0.4 && slow.1 < 0.3, "capacity: {slow:?}");
    assert!(
        missed("XA→WA", 24.0, 29.0) < 0.3 && missed("WA→XB", 25.0, 29.0) < 0.3,
        "nothing is broken at the end"
    );
    Ok(())
}
