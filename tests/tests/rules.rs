//! Rules on a grid with a catalogue: Rucio's own client uploads, asks for copies, downloads, and lets go.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path, process::Command, time::Duration};

use weir_tests::{Run, RunningGrid, peers, run, wait_for, weir, weir_binary};

const THREE_SITES: &str = "
name = \"three\"
vo = \"lab\"
[[rse]]
name = \"ALPHA\"
[[rse]]
name = \"BETA\"
[[rse]]
name = \"GAMMA\"
[storage]
durability = \"cache\"
";

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a program of Rucio's client as `weir grid env` sets it up.
fn client(grid: &RunningGrid, program: &str, arguments: &[&str]) -> Run {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(root.join(".peers/bin").join(program));
    command
        .envs(grid.env().unwrap())
        .args(arguments)
        .env("HOME", grid.scratch())
        .env("RUCIO_HOME", grid.scratch())
        .env("X509_USER_PROXY", grid.description["user"]["both"].as_str().unwrap())
        .env("PYTHONWARNINGS", "ignore")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(grid.scratch());
    run(&mut command).unwrap()
}

/// A step of `rules.py`, with what it printed.
fn step(grid: &RunningGrid, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rucio/rules.py");
    let (script, description) = (
        script.display().to_string(),
        grid.dir().join("grid.json").display().to_string(),
    );
    let told = client(grid, "python", &[&[script.as_str(), &description], arguments].concat());
    assert!(told.ok(), "{}\n{}\n{}", told.stdout, told.stderr, grid.log());
    told.stdout.trim().to_owned()
}

#[test]
fn rucios_client_moves_data_by_rules() {
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(THREE_SITES).unwrap();
    let me = client(&grid, "rucio", &["whoami"]);
    assert!(me.ok() && me.stdout.contains("root"), "{}\n{}", me.stdout, me.stderr);
    let rses = client(&grid, "rucio", &["rse", "list"]);
    assert_eq!(
        rses.stdout.split_whitespace().collect::<Vec<_>>(),
        ["ALPHA", "BETA", "GAMMA"]
    );
    // The password is nobody else's.
    let exports = grid.env().unwrap();
    let (_, config) = exports.iter().find(|(name, _)| name == "RUCIO_CONFIG").unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::mode(&fs::metadata(config).unwrap()) & 0o777,
        0o600
    );
    step(&grid, &["logins"]);
    step(&grid, &["daily"]);
}

/// The process with catalogue, transfer service and storages dies while 400 files are on their way.
#[test]
fn a_rule_outlives_its_catalogue_and_ends_with_its_files() {
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(THREE_SITES).unwrap();
    let rule = step(&grid, &["many"]);
    let begun = || {
        let area = grid.area("BETA").join("many");
        Ok(fs::read_dir(area)
            .is_ok_and(|mut files| files.next().is_some())
            .then_some(()))
    };
    wait_for(PATIENCE, begun).unwrap();
    let grid = grid.kill_and_restart().unwrap();
    step(&grid, &["finish", &rule]);
    let status = weir(&["grid".as_ref(), "status".as_ref(), grid.dir().as_os_str()]).unwrap();
    assert!(status.ok() && status.stdout.contains("catalog"), "{}", status.stdout);
}

/// A command of people, in the environment that `weir grid env` makes.
fn people(grid: &RunningGrid, arguments: &[&str]) -> Run {
    let mut command = grid.command(&weir_binary().display().to_string()).unwrap();
    run(command.args(arguments)).unwrap()
}

#[test]
fn people_ask_for_copies_and_learn_why_they_wait() {
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(THREE_SITES).unwrap();
    step(&grid, &["seed", "20"]);
    let said = |arguments: &[&str]| {
        let told = people(&grid, arguments);
        assert!(told.ok(), "{arguments:?}: {}\n{}", told.stdout, told.stderr);
        told.stdout
    };
    let watched = said(&[
        "rule",
        "add",
        "lab:twenty",
        "--rses",
        "BETA|GAMMA",
        "--copies",
        "2",
        "--watch",
    ]);
    let rule = watched.lines().next().unwrap();
    assert!(watched.contains("40 of 40 there"), "{watched}");
    assert!(said(&["rule", "list"]).contains(rule) && said(&["rule", "list", "lab:twenty"]).contains(rule));
    assert!(said(&["rule", "why", rule]).contains("nothing is missing"));

    // A file that no RSE has.
    step(&grid, &["lost"]);
    let stuck = people(&grid, &["rule", "add", "lab:lost", "--rses", "BETA", "--watch"]);
    assert_eq!(stuck.code, Some(1), "{}\n{}", stuck.stdout, stuck.stderr);
    let why = said(&["rule", "why", stuck.stdout.lines().next().unwrap()]);
    assert!(
        why.contains("lab:lost") && why.contains("NO_SOURCES") || why.contains("FAILED"),
        "{why}"
    );

    let status = said(&["catalog", "status"]);
    assert!(
        status.contains("1 STUCK") && status.contains(&grid.transfer_url()),
        "{status}"
    );
    assert!(said(&["rule", "delete", rule]).contains("within the hour"));
    let refused = people(&grid, &["rule", "add", "nonsense", "--rses", "BETA"]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("scope:name"),
        "{}",
        refused.stderr
    );
    let unknown = people(&grid, &["rule", "show", "0123"]);
    assert!(
        unknown.code == Some(2) && unknown.stderr.contains("No rule"),
        "{}",
        unknown.stderr
    );

    // A copy while it serves; the copy alone has the rules.
    let (store, copy) = (grid.dir().join("catalog/catalog.sqlite"), grid.scratch().join("copy"));
    let (store, copy) = (store.display().to_string(), copy.display().to_string());
    said(&["catalog", "backup", &store, &copy]);
    let served = people(&grid, &["catalog", "restore", &copy, &store, "--replace"]);
    assert!(
        served.code == Some(2) && served.stderr.contains("stop the catalogue"),
        "{}",
        served.stderr
    );
    let other = grid.scratch().join("other.db").display().to_string();
    said(&["catalog", "restore", &copy, &other]);
}

/// A program of other people in the shell of `weir grid env`, and in nothing else.
fn in_the_shell(grid: &RunningGrid, program: &Path, arguments: &[&str]) -> Run {
    let mut command = Command::new(program);
    for ambient in ["X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY", "BEARER_TOKEN"] {
        command.env_remove(ambient);
    }
    command
        .envs(grid.env().unwrap())
        .args(arguments)
        .env("HOME", grid.scratch())
        .env("PYTHONWARNINGS", "ignore")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(grid.scratch());
    run(&mut command).unwrap()
}

// A newcomer's `rucio upload` ended with "X509_USER_PROXY is not set"; the remedy must not take gfal and davix their logins.
#[test]
fn one_shell_serves_rucio_gfal_and_davix() {
    if !peers() {
        return;
    }
    let grid = RunningGrid::up(THREE_SITES).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rucio = root.join(".peers/bin/rucio");
    let said = |program: &Path, arguments: &[&str]| {
        let told = in_the_shell(&grid, program, arguments);
        assert!(
            told.ok(),
            "{arguments:?}: {}\n{}\n{}",
            told.stdout,
            told.stderr,
            grid.log()
        );
        told.stdout
    };
    // No `;`: Rucio's client (41.5.1) takes what follows it for parameters of the URL.
    fs::write(grid.scratch().join("plus+x'a&b=(c)"), "some bytes\n").unwrap();
    assert!(said(&rucio, &["whoami"]).contains("root"));
    said(&rucio, &["scope", "add", "--account", "root", "odd"]);
    said(
        &rucio,
        &["upload", "--rse", "ALPHA", "--scope", "odd", "plus+x'a&b=(c)"],
    );
    let replicas = said(&rucio, &["replica", "list", "file", "odd:plus+x'a&b=(c)"]);
    assert!(replicas.contains("ALPHA"), "{replicas}");
    said(&rucio, &["download", "odd:plus+x'a&b=(c)", "--dir", "down"]);
    let down = fs::read_to_string(grid.scratch().join("down/odd/plus+x'a&b=(c)")).unwrap();
    assert_eq!(down, "some bytes\n");
    said(&rucio, &["account", "limit", "list", "root"]);
    // Weir's own commands read the same configuration.
    said(weir_binary(), &["catalog", "status"]);
    let exports = grid.env().unwrap();
    let variable = |name: &str| &exports.iter().find(|(one, _)| one == name).unwrap().1;
    let alpha = variable("WEIR_RSE_ALPHA");
    fs::write(grid.scratch().join("g"), "bytes\n").unwrap();
    let local = format!("file://{}", grid.scratch().join("g").display());
    said(Path::new("gfal-copy"), &[&local, &format!("{alpha}/gfal+1")]);
    said(Path::new("gfal-stat"), &[&format!("{alpha}/gfal+1")]);
    let token = fs::read_to_string(variable("BEARER_TOKEN_FILE")).unwrap();
    let header = format!("Authorization: Bearer {}", token.trim());
    let davix = [
        "--capath",
        variable("X509_CERT_DIR"),
        "-H",
        &header,
        "g",
        &format!("{alpha}/davix+1"),
    ];
    said(Path::new("davix-put"), &davix);
    // A key that is no filter is refused, not ignored.
    let catalog = variable("WEIR_CATALOG");
    let asked = |path: &str| {
        let header = format!("X-Rucio-Auth-Token: {}", token.trim());
        let url = format!("{catalog}{path}");
        said(Path::new("curl"), &["-s", "-m", "20", "-H", &header, &url])
    };
    fs::write(grid.scratch().join("plain"), "x\n").unwrap();
    said(&rucio, &["upload", "--rse", "ALPHA", "--scope", "odd", "plain"]);
    assert_eq!(asked("/dids/odd/dids/search?name=plain&type=all").trim(), "\"plain\"");
    assert_eq!(asked("/dids/odd/dids/search?name=pla*&type=file").trim(), "\"plain\"");
    assert!(asked("/rses/?expression=ALPHA&sort=x").contains("sort"));
    assert!(asked("/rules/?account=root&colour=red").contains("colour"));
}
