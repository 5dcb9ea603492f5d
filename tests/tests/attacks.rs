//! Attacks on credentials and folders, made as they were made on a running service; each of them gets nothing.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown, symlink},
    path::Path,
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use weir_tests::{Answer, Services, StorageSettings, TWO_SITES, peers, run, wait_for, weir_binary, write_private};

/// A user who is not the one that runs the tests.
const SOMEBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn with_token(services: &Services, claims: &Value, words: &[&str]) -> Answer {
    let token = services.token_with(claims).unwrap();
    let header = services.file("attack.header");
    write_private(&header, &format!("Authorization: Bearer {token}\n")).unwrap();
    let header = format!("@{}", header.display());
    Answer::of(&run(services.bare_curl().args(["-m", "30", "-H", &header]).args(words)).unwrap())
}

#[test]
fn a_token_for_a_download_administers_nothing() {
    // Every storage that is shown such a token could see and cancel everybody's transfers, and ban people.
    let table = "[[admin]]\ngroup = \"/test/admins\"\n";
    let services = Services::start(&[StorageSettings::new("ALPHA")], table).unwrap();
    let audit = format!("{}/config/audit", services.transfer.url);
    let groups = json!(["/test", "/test/admins"]);
    let of_group = json!({ "scope": null, "wlcg.groups": groups });
    assert_eq!(with_token(&services, &of_group, &[&audit]).status, 200);
    for scope in ["storage.read:/alice", "compute.read", "openid storage.stage:/"] {
        let claims = json!({ "scope": scope, "wlcg.groups": groups });
        assert_eq!(with_token(&services, &claims, &[&audit]).status, 403, "{scope}");
        let ban = format!("{}/ban/dn", services.transfer.url);
        let words = [
            "-H",
            "Content-Type: application/json",
            "-d",
            r#"{"user_dn": "/CN=alice"}"#,
            &ban,
        ];
        assert_eq!(with_token(&services, &claims, &words).status, 403, "{scope}");
    }
    // A token for every service was made for storages, and is none for this one.
    let any = json!({ "scope": null, "wlcg.groups": groups, "aud": "https://wlcg.cern.ch/jwt/v1/any" });
    let refused = with_token(&services, &any, &[&audit]);
    assert_eq!(refused.status, 401, "{refused:?}");
}

#[test]
fn a_client_behind_a_local_proxy_is_not_this_host() {
    // Behind a reverse proxy on the same host everybody would read every VO's names, depths and volumes.
    let services = Services::start(&[StorageSettings::new("ALPHA")], "").unwrap();
    for (door, refused) in [(&services.transfer.url, 401), (&services.storage("ALPHA").url, 403)] {
        let url = format!("{door}/.well-known/weir/metrics");
        let ask = |words: &[&str]| Answer::of(&run(services.bare_curl().args(words).arg(&url)).unwrap()).status;
        assert_eq!(ask(&[]), 200, "{url}");
        for header in [
            "X-Forwarded-For: 192.0.2.1",
            "Forwarded: for=192.0.2.1",
            "Via: 1.1 proxy",
        ] {
            assert_eq!(ask(&["-H", header]), refused, "{url}: {header}");
        }
    }
}

/// `weir grid up` in this folder, which must not come up.
fn refused_grid(scratch: &Path, dir: &Path) -> String {
    fs::write(scratch.join("grid.toml"), TWO_SITES).unwrap();
    let mut weir = Command::new("timeout");
    weir.args(["60"])
        .arg(weir_binary())
        .args(["grid", "up", "grid.toml", "--json", "--dir"])
        .arg(dir);
    let ended = run(weir.current_dir(scratch)).unwrap();
    assert!(![Some(0), Some(124)].contains(&ended.code), "{ended:?}");
    format!("{}{}", ended.stdout, ended.stderr)
}

#[test]
fn a_grid_is_not_built_on_what_others_have_put_there() {
    // A secret that somebody else chose would open the grid, and their links would lead its writes to any file of the user, or of root.
    let scratch = tempfile::tempdir().unwrap();
    let victim = scratch.path().join("victim");
    fs::create_dir(&victim).unwrap();
    let plant = |name: &str, mode: u32| {
        let dir = scratch.path().join(name);
        fs::DirBuilder::new().mode(mode).create(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(dir.join("grid.lock"), "").unwrap();
        dir
    };
    // Links in place of what the grid makes itself.
    let linked = plant("linked", 0o700);
    fs::create_dir(linked.join("storage")).unwrap();
    symlink(&victim, linked.join("storage/ALPHA")).unwrap();
    let told = refused_grid(scratch.path(), &linked);
    assert!(told.contains("symbolic link"), "{told}");
    let secret = plant("secret", 0o700);
    write_private(&scratch.path().join("known"), "known").unwrap();
    symlink(scratch.path().join("known"), secret.join("client.secret")).unwrap();
    let told = refused_grid(scratch.path(), &secret);
    assert!(told.contains("symbolic link"), "{told}");
    // A folder that everybody may write into.
    let open = plant("open", 0o777);
    let told = refused_grid(scratch.path(), &open);
    assert!(told.contains("others may write into it"), "{told}");
    // A file of another user; only root can make this for a test.
    if is_root() {
        let theirs = plant("theirs", 0o755);
        write_private(&theirs.join("client.secret"), "known").unwrap();
        for name in ["", "grid.lock", "client.secret"] {
            chown(theirs.join(name), Some(SOMEBODY), None).unwrap();
        }
        let told = refused_grid(scratch.path(), &theirs);
        assert!(told.contains("belongs to user 65534"), "{told}");
        // The folder is ours, and what is in it is not.
        chown(&theirs, Some(0), None).unwrap();
        let told = refused_grid(scratch.path(), &theirs);
        assert!(told.contains("belongs to user 65534"), "{told}");
    }
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
}

#[test]
fn a_token_that_somebody_else_left_is_not_used() {
    // Uploads and jobs would run in that person's name, visible to them.
    let runtime = tempfile::tempdir().unwrap();
    let file = runtime
        .path()
        .join(format!("bt_u{}", rustix::process::geteuid().as_raw()));
    let list = || {
        let mut weir = Command::new(weir_binary());
        weir.args(["storage", "ls", "https://127.0.0.1:1/"])
            .env("XDG_RUNTIME_DIR", runtime.path());
        for name in ["BEARER_TOKEN", "BEARER_TOKEN_FILE"] {
            weir.env_remove(name);
        }
        run(&mut weir).unwrap().stderr
    };
    write_private(&file, "token").unwrap();
    let told = list();
    assert!(
        told.contains("could not connect"),
        "a token of one's own is used: {told}"
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(list().contains("its mode is 0644"), "{}", list());
    fs::rename(&file, runtime.path().join("real")).unwrap();
    symlink(runtime.path().join("real"), &file).unwrap();
    assert!(list().contains("symbolic link"), "{}", list());
    if is_root() {
        fs::remove_file(&file).unwrap();
        write_private(&file, "token").unwrap();
        chown(&file, Some(SOMEBODY), None).unwrap();
        assert!(list().contains("belongs to user 65534"), "{}", list());
    }
}

#[test]
fn a_key_that_is_made_when_the_power_fails_is_whole_or_absent() {
    // A service would not start again after a `kill -9` at its first start, or seal with a key of zeros.
    if !peers() {
        return;
    }
    let services = Services::start(&[], "").unwrap();
    let text = fs::read_to_string(services.file("transfer.toml")).unwrap();
    let begin = |folder: &str, within: &[&str]| {
        let text = text.replace("store = \"transfer.sqlite\"", &format!("store = \"{folder}/t.sqlite\""));
        // Another port than the one that runs.
        let listen = text.lines().find(|line| line.starts_with("listen")).unwrap();
        let text = text.replace(listen, "listen = \"127.0.0.1:0\"");
        fs::create_dir_all(services.file(folder)).unwrap();
        let file = services.file(&format!("{folder}.toml"));
        fs::write(&file, text).unwrap();
        let words = within.iter().map(|word| (*word).to_owned());
        let program = weir_binary().display().to_string();
        let mut words = words.chain([program]).collect::<Vec<_>>();
        words.extend(["serve", "transfer", "--json", "--config"].map(str::to_owned));
        words.push(file.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        weir_tests::Daemon::start(command, &services.file(&format!("{folder}.log"))).unwrap()
    };
    let mut struck = 0;
    for (kind, call) in [
        ("made", "openat"),
        ("written", "write"),
        ("flushed", "fsync"),
        ("named", "rename,renameat,renameat2"),
    ] {
        for number in 1.. {
            let folder = format!("{kind}{number}");
            let key = services.file(&folder).join("t.key");
            // Only calls about the key's folder count: -P takes those on this path.
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let trace = format!("trace={call}");
            let path = services.file(&folder).display().to_string();
            fs::create_dir_all(&path).unwrap();
            let within = [
                "strace",
                "-D",
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-P",
                &path,
                "-P",
                &key.display().to_string(),
                "-e",
                &trace,
                "-e",
                &inject,
            ];
            let mut service = begin(&folder, &within);
            let mut ready = false;
            wait_for(Duration::from_secs(60), || {
                ready = service.said().contains(r#""event":"ready""#);
                Ok((ready || service.ended()?.is_some()).then_some(()))
            })
            .unwrap();
            if ready {
                service.kill().unwrap();
                break;
            }
            struck += 1;
            if let Ok(bytes) = fs::read(&key) {
                assert!(
                    bytes.len() == 32 && bytes.iter().any(|byte| *byte != 0),
                    "{folder}: {} bytes",
                    bytes.len()
                );
            }
            let mut again = begin(&folder, &[]);
            let started = wait_for(Duration::from_secs(60), || {
                anyhow::ensure!(again.ended()?.is_none(), "it ended");
                Ok(again.said().contains(r#""event":"ready""#).then_some(()))
            });
            started.unwrap_or_else(|error| panic!("{folder}: {error:#}: {}", again.said()));
            again.kill().unwrap();
        }
    }
    assert!(struck >= 3, "only {struck} starts were cut off");
}
