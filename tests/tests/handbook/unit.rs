//! The unit that starts services: the files that it makes, and the calls that it allows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use weir_tests::{STORAGES, Services, StorageSettings, peers, run};

const UNIT: &str = include_str!("../../../deploy/weir@.service");
const STORAGE: &str = include_str!("../../../deploy/weir@storage.conf");

#[test]
fn the_unit_makes_the_folders_that_the_samples_name() {
    // The service would not start, on the first try.
    assert!(UNIT.lines().any(|line| line == "StateDirectory=weir/%i"), "{UNIT}");
    let samples = [
        ("transfer", include_str!("../../../deploy/transfer.toml"), 4),
        ("issuer", include_str!("../../../deploy/issuer.toml"), 1),
        ("storage", include_str!("../../../deploy/storage.toml"), 0),
    ];
    for (service, sample, least) in samples {
        let below = sample.split("\"/var/lib/weir/").skip(1).collect::<Vec<_>>();
        assert!(below.len() >= least, "{service}");
        assert!(
            below.iter().all(|path| path.starts_with(service)),
            "{service}: {below:?}"
        );
    }
}

#[test]
fn each_service_has_a_user_and_a_sandbox_of_its_own() {
    // An attacker who takes over the storage, which strangers speak to, would read the issuer's keys.
    if !peers() {
        return;
    }
    assert!(UNIT.contains("\nUser=weir-%i\n") && UNIT.contains("\nStateDirectoryMode=0700\n"));
    let folder = tempfile::tempdir().unwrap();
    for service in ["storage", "issuer", "transfer"] {
        let extra = if service == "storage" { STORAGE } else { "" };
        let unit = folder.path().join(format!("weir@{service}.service"));
        // The program need not be installed here.
        let text = UNIT.replace("/usr/local/bin/weir", "/bin/true");
        fs::write(&unit, format!("{text}\n{extra}")).unwrap();
        let mut judge = Command::new("systemd-analyze");
        judge.args(["security", "--offline=yes", "--no-pager"]).arg(&unit);
        let judged = run(&mut judge).unwrap().stdout;
        let exposure = judged.rsplit_once(": ").and_then(|(_, rest)| rest.split(' ').next());
        let exposure: f64 = exposure
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("{judged}"));
        assert!(exposure < 2.0, "{service}: {judged}");
    }
}

/// The names that a set of system calls stands for.
fn calls_of(sets: &BTreeMap<String, Vec<String>>, name: &str) -> BTreeSet<String> {
    let members = sets.get(name).unwrap_or_else(|| panic!("no {name}")).iter();
    members
        .flat_map(|member| match member.strip_prefix('@') {
            Some(_) => calls_of(sets, member),
            None => BTreeSet::from([member.clone()]),
        })
        .collect()
}

/// The system calls that the unit's filter allows.
fn allowed() -> BTreeSet<String> {
    let told = run(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager"]))
        .unwrap()
        .stdout;
    let mut sets = BTreeMap::<String, Vec<String>>::new();
    let mut last = String::new();
    for line in told.lines() {
        match line.strip_prefix("    ") {
            Some(member) if !member.starts_with('#') => sets.entry(last.clone()).or_default().push(member.to_owned()),
            None if line.starts_with('@') => line.clone_into(&mut last),
            _ => {}
        }
    }
    let mut allowed = BTreeSet::new();
    for line in UNIT.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (taken, names) = line.strip_prefix('~').map_or((false, line), |names| (true, names));
        for call in names.split(' ').flat_map(|name| calls_of(&sets, name)) {
            if taken {
                allowed.remove(&call);
            } else {
                allowed.insert(call);
            }
        }
    }
    allowed
}

/// Lines of a recording of every call, without process ids.
fn recorded(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let calls = text
        .lines()
        .filter_map(|line| line.split_once(' ').map(|(_, call)| call.trim_start()));
    calls.map(str::to_owned).collect()
}

#[test]
fn the_sandbox_lets_each_service_do_its_work() {
    // An operator's service would fail at a call that no test of ours forbids.
    if !peers() {
        return;
    }
    let mut services = Services::start(&STORAGES.map(StorageSettings::new), "").unwrap();
    let recording = |services: &Services, name: &str| services.file(&format!("{name}.calls"));
    for name in ["issuer", "ALPHA", "transfer"] {
        let file = recording(&services, name).display().to_string();
        let service = services.service_mut(name);
        service
            .run_within(&["strace", "-D", "-f", "-qq", "-s", "0", "-o", &file])
            .unwrap();
    }
    let (alpha, beta) = (
        services.storage("ALPHA").url.clone(),
        services.storage("BETA").url.clone(),
    );
    services
        .put(&vec![7; 100_000], &format!("{alpha}/folder/file"))
        .unwrap();
    services.token("storage.read:/").unwrap();
    let file =
        serde_json::json!({ "sources": [format!("{alpha}/folder/file")], "destinations": [format!("{beta}/copy")] });
    let back = serde_json::json!({ "sources": [format!("{beta}/copy")], "destinations": [format!("{alpha}/back")] });
    for (name, file) in [("there", file), ("back", back)] {
        let job = services.submit(name, &serde_json::json!({ "files": [file] })).unwrap();
        let files = services.settled(&job, std::time::Duration::from_secs(60)).unwrap();
        assert_eq!(files[0]["file_state"], "FINISHED", "{files:#?}");
    }
    services.ask(&["-X", "DELETE", &format!("{alpha}/folder")]).unwrap();
    let allowed = allowed();
    assert!(
        allowed.contains("openat2") && !allowed.contains("mount") && !allowed.contains("setuid"),
        "{allowed:?}"
    );
    for name in ["issuer", "ALPHA", "transfer"] {
        services
            .service_mut(name)
            .stop(std::time::Duration::from_secs(60))
            .unwrap();
        let calls = recorded(&recording(&services, name));
        let names = calls
            .iter()
            .filter_map(|call| call.split_once('(').map(|(name, _)| name.to_owned()));
        let names: BTreeSet<String> = names
            .filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
            .collect();
        assert!(names.contains("accept4") && names.len() > 30, "{name}: {names:?}");
        // SQLite gives its files to the database's owner where it runs as root, as tests may; services do not.
        let refused: Vec<_> = names.difference(&allowed).filter(|call| *call != "fchown").collect();
        assert!(refused.is_empty(), "{name}: the filter refuses {refused:?}");
        let families = ["AF_INET", "AF_INET6", "AF_UNIX"];
        let socket = |call: &&String| {
            call.starts_with("socket(")
                && !families
                    .iter()
                    .any(|family| call.contains(&format!("socket({family},")))
        };
        assert_eq!(calls.iter().find(socket), None, "{name}");
        // MemoryDenyWriteExecute.
        let executable = |call: &&String| {
            call.contains("PROT_EXEC") && (call.starts_with("mprotect(") || call.contains("PROT_WRITE"))
        };
        assert_eq!(calls.iter().find(executable), None, "{name}");
    }
}
