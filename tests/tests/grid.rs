//! `weir grid up | env | status | down`, seen from outside.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use weir_tests::{RunningGrid, TWO_SITES, files_below, run, weir};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn six_rses_are_six_storage_elements() {
    // Clients tell storage elements apart by scheme and host, without the port.
    let rse = |number: usize| format!("[[rse]]\nname = \"RSE{number}\"\nsite = \"A\"\nquota = \"1 GB\"\n");
    let text = format!(
        "name = \"six\"\n[[site]]\nname = \"A\"\ntier = 1\n{}",
        (1..=6).map(rse).collect::<String>()
    );
    let grid = RunningGrid::up(&text).unwrap();
    let hosts: BTreeSet<String> = (1..=6)
        .map(|number| {
            grid.rse_url(&format!("RSE{number}"))
                .rsplit_once(':')
                .unwrap()
                .0
                .to_string()
        })
        .collect();
    assert_eq!(hosts.len(), 6, "{hosts:?}");
    assert!(hosts.iter().all(|host| host.starts_with("https://127.0.")), "{hosts:?}");
}

#[test]
fn a_grid_goes_up_serves_and_goes_down() {
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    let url = format!("{}/folder/hello", grid.rse_url("ALPHA"));
    fs::write(grid.scratch().join("hello"), "hello, grid\n").unwrap();
    grid.curl(&["-T", "hello", &url]).unwrap().expect_ok().unwrap();
    assert_eq!(grid.curl(&[&url]).unwrap().expect_ok().unwrap().stdout, "hello, grid\n");

    // The token opens these doors, its absence does not, and the other storage has no such file.
    let bare = run(grid
        .command("curl")
        .unwrap()
        .args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url]))
    .unwrap();
    assert_eq!(bare.stdout, "401", "{bare:?}");
    let other = format!("{}/folder/hello", grid.rse_url("BETA"));
    assert!(!grid.curl(&[&other]).unwrap().ok());

    let dir = grid.dir();
    let dir = dir.to_str().unwrap();
    let status = weir(&["grid", "status", dir, "--json"])
        .unwrap()
        .expect_ok()
        .unwrap()
        .envelope()
        .unwrap();
    let doors = status["data"]["doors"].as_array().unwrap();
    assert_eq!(doors.len(), 5, "{status}");
    assert!(doors.iter().all(|door| door["up"] == true), "{status}");

    let down = weir(&["grid", "down", dir, "--json"])
        .unwrap()
        .expect_ok()
        .unwrap()
        .envelope()
        .unwrap();
    assert_eq!(down["data"]["pid"], grid.pid(), "{down}");
    assert!(!Path::new(dir).join("grid.json").exists());
    for command in ["status", "env", "down"] {
        let answer = weir(&["grid", command, dir, "--json"]).unwrap();
        assert_eq!(answer.code, Some(3), "{answer:?}");
        let envelope = answer.envelope().unwrap();
        assert_eq!(envelope["command"], format!("grid {command}"));
        assert!(
            envelope["error"]["remedy"].as_str().unwrap().contains("weir grid up"),
            "{envelope}"
        );
    }
}

#[test]
fn a_restart_keeps_authority_addresses_and_data() {
    // Files, URLs in queued transfers, and what clients trust would be lost with the process.
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    let url = format!("{}/kept", grid.rse_url("BETA"));
    fs::write(grid.scratch().join("kept"), vec![7; 100_000]).unwrap();
    grid.curl(&["-T", "kept", &url]).unwrap().expect_ok().unwrap();
    let authority = |grid: &RunningGrid| fs::read(grid.description["ca"]["file"].as_str().unwrap()).unwrap();
    let before = (
        authority(&grid),
        grid.transfer_url(),
        grid.description["issuer"].clone(),
    );

    let grid = grid.restart().unwrap();
    assert_eq!(
        (
            authority(&grid),
            grid.transfer_url(),
            grid.description["issuer"].clone()
        ),
        before
    );
    assert_eq!(format!("{}/kept", grid.rse_url("BETA")), url);
    grid.curl(&["-o", "back", &url]).unwrap().expect_ok().unwrap();
    assert_eq!(fs::read(grid.scratch().join("back")).unwrap(), vec![7; 100_000]);
}

#[test]
fn one_directory_has_one_grid_and_a_killed_one_leaves_it_free() {
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    let (file, dir) = (grid.scratch().join("grid.toml"), grid.dir());
    let second = weir(&[
        "grid".as_ref(),
        "up".as_ref(),
        file.as_os_str(),
        "--dir".as_ref(),
        dir.as_os_str(),
    ])
    .unwrap();
    assert_eq!(second.code, Some(3), "{second:?}");
    assert!(
        second.stderr.contains("already runs") && second.stderr.contains("remedy: "),
        "{second:?}"
    );

    run(Command::new("kill").args(["-9", &grid.pid().to_string()]))
        .unwrap()
        .expect_ok()
        .unwrap();
    let wait = || {
        !weir(&["grid".as_ref(), "status".as_ref(), dir.as_os_str()])
            .unwrap()
            .ok()
    };
    while !wait() {}
    // The description is still there, but nobody holds the lock: no signal goes to whoever has that pid now.
    assert!(dir.join("grid.json").exists());
    let down = weir(&["grid".as_ref(), "down".as_ref(), dir.as_os_str()]).unwrap();
    assert_eq!(down.code, Some(3), "{down:?}");

    let mut detached = vec![
        "grid".as_ref(),
        "up".as_ref(),
        file.as_os_str(),
        "--dir".as_ref(),
        dir.as_os_str(),
    ];
    detached.extend(["--detach".as_ref(), "--json".as_ref()] as [&std::ffi::OsStr; 2]);
    let up = weir(&detached).unwrap().expect_ok().unwrap().envelope().unwrap();
    assert_ne!(up["data"]["grid"]["pid"], grid.pid());
    weir(&["grid".as_ref(), "status".as_ref(), dir.as_os_str()])
        .unwrap()
        .expect_ok()
        .unwrap();
    weir(&["grid".as_ref(), "down".as_ref(), dir.as_os_str()])
        .unwrap()
        .expect_ok()
        .unwrap();
}

#[test]
fn secrets_stay_in_private_files() {
    // Any other user of the machine could act in the grid's name.
    let grid = RunningGrid::up(TWO_SITES).unwrap();
    assert_eq!(mode(&grid.dir()), 0o700);
    let secret_file = grid.description["client"]["secret_file"].as_str().unwrap().to_string();
    let token_file = grid.description["token_file"].as_str().unwrap().to_string();
    let secret = fs::read_to_string(&secret_file).unwrap().trim().to_string();
    let exports = grid.env().unwrap();
    let token = exports
        .iter()
        .find(|(name, _)| name == "BEARER_TOKEN")
        .unwrap()
        .1
        .clone();
    assert_eq!(fs::read_to_string(&token_file).unwrap().trim(), token);
    assert!(secret.len() >= 32 && token.matches('.').count() == 2);
    for file in [secret_file, token_file] {
        assert_eq!(mode(Path::new(&file)), 0o600, "{file}");
    }

    // Nothing that the grid wrote holds them but those two files; private keys are 0600.
    let url = format!("{}/f", grid.rse_url("ALPHA"));
    grid.curl(&["-T", "grid.toml", &url]).unwrap().expect_ok().unwrap();
    for file in files_below(&grid.dir()) {
        let content = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        let holds = |text: &str| content.contains(text);
        assert!(!holds("PRIVATE KEY") || mode(&file) == 0o600, "{}", file.display());
        assert!(
            !(holds(&token) || holds(&secret)) || mode(&file) == 0o600,
            "{}",
            file.display()
        );
    }
    assert!(!grid.log().contains(&token) && !grid.log().contains(&secret));
    let processes = run(Command::new("ps").args(["-eww", "-o", "args"])).unwrap();
    assert!(!processes.stdout.contains(&token) && !processes.stdout.contains(&secret));
    // The environment that a process was started with is as public as its arguments.
    let environment = fs::read(format!("/proc/{}/environ", grid.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains(&secret));

    let hidden = weir(&["grid".as_ref(), "env".as_ref(), grid.dir().as_os_str()])
        .unwrap()
        .expect_ok()
        .unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    assert!(
        !hidden.stdout.contains(parts[0]) && hidden.stdout.contains("BEARER_TOKEN_FILE="),
        "{hidden:?}"
    );
}
