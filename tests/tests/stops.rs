//! The transfer service is stopped as an operator stops it, while clients ask and files move: every request that reached it has a whole
//! answer, and no transfer fails for it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use weir_tests::{Draw, Services, StorageSettings, adler32, drafts, run, wait_for};

const LIMIT: Duration = Duration::from_secs(120);
const COPIES: usize = 8;
const STOPS: usize = 3;

/// curl's exit codes that a client may see: an answer, or nobody who listens.
const WHOLE: i32 = 0;
const NOBODY: i32 = 7;

/// Asks again and again, each time over a new connection, as command lines do; counts curl's exit codes.
fn ask(mut curl: impl FnMut() -> Command, stop: &AtomicBool) -> BTreeMap<i32, usize> {
    let mut seen = BTreeMap::new();
    while !stop.load(Ordering::Acquire) {
        let told = run(&mut curl()).unwrap();
        let code = told.code.unwrap_or(-1);
        if code == WHOLE {
            let (body, status) = told.stdout.rsplit_once('\n').unwrap();
            assert!(
                serde_json::from_str::<Value>(body).is_ok(),
                "half an answer, {status}: {body}"
            );
            // 503: it was stopping, and says so.
            assert!(status == "200" || status == "503", "{status}: {body}");
        } else {
            assert_eq!(code, NOBODY, "{}", told.stderr);
        }
        *seen.entry(code).or_default() += 1;
    }
    seen
}

#[test]
fn a_stop_cuts_no_answer_off_and_fails_no_transfer() {
    // Clients give a job up whose answer was cut off, or submit it again; users would lose transfers at each update of the service.
    let content = Draw::new(72).bytes(64_000_000);
    let storages = ["ALPHA", "BETA"].map(StorageSettings::new);
    let mut services = Services::start(&storages, "[retry]\nretries = 0\n").unwrap();
    services
        .put(&content, &format!("{}/large", services.storage("ALPHA").url))
        .unwrap();
    let job = |mode: &str| {
        let [source, destination] = ["ALPHA", "BETA"].map(|name| &services.storage(name).url);
        let file = |number: usize| {
            json!({ "sources": [format!("{source}/large")], "destinations": [format!("{destination}/{mode}/{number}")],
            "checksum": adler32(&content) })
        };
        json!({ "files": (0..COPIES).map(file).collect::<Vec<_>>(), "params": { "retry": -1, "copy_mode": mode, "verify_checksum": "both" } })
    };
    let ids = ["pull", "streamed"].map(|mode| services.submit(mode, &job(mode)).unwrap());
    let (stop, root) = (AtomicBool::new(false), services.root("BETA"));
    let commands = [
        "/jobs?state_in=SUBMITTED,ACTIVE",
        "/whoami",
        &format!("/jobs/{}/files", ids[0]),
        "/jobs",
    ];
    let commands = commands.map(|path| format!("{}{path}", services.transfer.url));
    let folder = services.file("");
    let curl = |url: &str| {
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "-m",
            "30",
            "-w",
            "\n%{http_code}",
            "--cacert",
            "authority/ca.pem",
            "-H",
            "@header",
            url,
        ]);
        curl.current_dir(&folder);
        curl
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = commands
            .iter()
            .map(|url| scope.spawn(|| ask(|| curl(url), &stop)))
            .collect();
        for _ in 0..STOPS {
            wait_for(LIMIT, || Ok((!drafts(&root).is_empty()).then_some(()))).unwrap();
            let begun = std::time::Instant::now();
            services.transfer.stop(LIMIT).unwrap();
            // Open requests have five seconds; the rest is the store's.
            assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
            services.transfer.start().unwrap();
        }
        stop.store(true, Ordering::Release);
        let seen: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert!(seen.iter().all(|codes| codes.contains_key(&WHOLE)), "{seen:?}");
    });
    for id in &ids {
        for file in services.settled(id, LIMIT).unwrap() {
            assert_eq!(
                file["file_state"],
                "FINISHED",
                "{file:#}\n{}",
                services.transfer.said_last()
            );
        }
    }
    for mode in ["pull", "streamed"] {
        for number in 0..COPIES {
            assert!(
                fs::read(root.join(mode).join(number.to_string())).unwrap() == content,
                "{mode}/{number}"
            );
        }
    }
}
