//! Tokens, client secrets and private keys stay where they belong, at the highest log level that operators use.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::json;
use weir_tests::{
    Daemon, NodeSettings, Postgres, Secrets, Services, StorageSettings, files_below, holds, peers, process_words,
    wait_for, weir_binary,
};

const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn a_run_tells_no_secret_to_anybody() {
    // A reader of a log, a report, a data area or the list of processes could read and delete everybody's files.
    let scratch = tempfile::tempdir().unwrap();
    let weir = |arguments: &[&str]| {
        let mut command = Command::new(weir_binary());
        command
            .args(arguments)
            .current_dir(scratch.path())
            .env_remove("WEIR_LOG");
        command
    };
    assert!(weir(&["challenge", "new", "c.toml"]).output().unwrap().status.success());
    let run = [
        "challenge",
        "run",
        "c.toml",
        "--duration",
        "2s",
        "--keep",
        "--log-level",
        "debug",
        "--out",
        "runs",
    ];
    let log = scratch.path().join("output");
    let mut daemon = Daemon::start(weir(&run), &log).unwrap();

    let mut secrets = Secrets::default();
    let mut words = Vec::new();
    let runs = scratch.path().join("runs");
    let ended = wait_for(LIMIT, || {
        words.extend(process_words(daemon.pid()));
        for run in fs::read_dir(&runs).into_iter().flatten().filter_map(Result::ok) {
            // Tokens change and may go with the process: learn them while they live.
            if run.path().join("scratch/grid.json").exists() {
                secrets.learn(&run.path().join("scratch"));
            }
        }
        daemon.ended()
    });
    let said = daemon.said();
    // The verdict is no matter here: a loaded machine may be slow.
    assert!(matches!(ended.unwrap(), Some(0 | 1)), "{said}");
    let folder = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    secrets.learn(&folder.join("scratch"));

    // Each kind of secret was met, so that the search has something to find.
    let names: Vec<String> = secrets.0.keys().map(|file| file.display().to_string()).collect();
    for kind in ["client.secret", "signing-keys.json", "seal.key", "ca.key", "token"] {
        assert!(
            names.iter().any(|name| name.contains(kind)),
            "no {kind} among {names:?}"
        );
    }
    assert!(secrets.0.values().all(|secrets| !secrets.is_empty()));
    // And the look itself finds what is there.
    assert!(said.contains("DEBUG") || said.contains("debug"), "{said}");

    secrets.assert_absent("the output", said.as_bytes());
    secrets.assert_absent("the list of processes", &words);
    for file in files_below(&folder) {
        let bytes = fs::read(&file).unwrap();
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        if secrets.0.contains_key(&file) {
            assert_eq!(mode, 0o600, "{}", file.display());
            let own = &secrets.0[&file];
            let mut foreign = secrets.0.values().flatten().filter(|secret| !own.contains(*secret));
            assert!(
                !foreign.any(|secret| holds(&bytes, secret)),
                "{} holds more than its own",
                file.display()
            );
        } else {
            secrets.assert_absent(&file.display().to_string(), &bytes);
        }
    }
    let grid = fs::metadata(folder.join("scratch")).unwrap().permissions().mode() & 0o777;
    assert_eq!(grid, 0o700, "the grid's directory is open to others");
}

/// Takes whatever is posted to it.
struct Hook {
    url: String,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Hook {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut wire = BufReader::new(stream.try_clone().unwrap());
                let (mut line, mut length) = (String::new(), 0);
                while wire.read_line(&mut line).unwrap_or(0) > 2 {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    told.lock().extend(line.as_bytes());
                    line.clear();
                }
                let mut body = vec![0; length];
                let _cut_off = wire.read_exact(&mut body);
                told.lock().extend(body);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _gone = (&stream).write_all(answer);
            }
        });
        Self { url, seen }
    }
}

/// Bytes as a dump writes them: `\x` and two digits for each.
fn unhex_dump(dump: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in dump.split("\\x").skip(1) {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).collect::<Vec<_>>();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        bytes.extend(digits.chunks_exact(2).map(byte));
        bytes.push(b' ');
    }
    bytes
}

/// With `offline_access`: the issuer exchanges no other tokens.
const SCOPES: &str = "storage.read:/ storage.create:/ storage.modify:/ offline_access";
const NEEDLE: &str = "needle-that-the-look-must-find";
const OPAQUE: &str = "an-opaque-token-that-no-storage-takes";

/// The content of the database, as a thief of it would read it.
type Stolen<'a> = &'a dyn Fn(&Services) -> Vec<u8>;

/// A job whose tokens expire while it waits completes, others fail, and no secret is revealed.
#[expect(clippy::too_many_lines, reason = "a test tells one story")]
fn tells_no_token(keys: &str, table: &str, stolen: Stolen<'_>) {
    let hook = Hook::start();
    let tables = format!(
        "client_id = \"tester\"\nsecret_file = \"client.secret\"\n{table}\
         [[admin]]\nsubject = \"tester\"\n[tokens]\nrefresh_margin = \"2s\"\nexchange_ahead = \"5s\"\n\
         [events]\nspool = \"spool\"\n[[events.file]]\npath = \"events.jsonl\"\n[[events.webhook]]\nurl = \"{}\"\n",
        hook.url
    );
    let node = NodeSettings {
        name: "transfer".to_owned(),
        keys: keys.to_owned(),
        tables,
        talks: true,
        ..NodeSettings::default()
    };
    let storages = ["alpha", "beta"].map(StorageSettings::new);
    let services = Services::start_nodes(&storages, &[node], |_| Ok(())).unwrap();
    let (alpha, beta) = (&services.storage("alpha").url, &services.storage("beta").url);
    services.put(b"bytes", &format!("{alpha}/f")).unwrap();
    let door = services.transfer.url.clone();
    let drain = |drain: bool| {
        let body = json!({ "hostname": door.trim_start_matches("https://"), "drain": drain }).to_string();
        let url = format!("{door}/config/drain");
        let answer = services
            .ask(&["-H", "Content-Type: application/json", "-d", &body, &url])
            .unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    drain(true);

    let short = ["source", "destination"].map(|name| services.token_until(SCOPES, name, 10).unwrap());
    let narrow = services.token("storage.read:/elsewhere").unwrap();
    let file = |source: &str, name: &str, tokens: [&str; 2]| {
        json!({
            "sources": [format!("{alpha}/{source}")], "destinations": [format!("{beta}/{name}")],
            "source_tokens": [tokens[0]], "destination_tokens": [tokens[1]], "metadata": { "planted": NEEDLE }
        })
    };
    let files = json!([
        file("f", "good", [&short[0], &short[1]]),
        file("absent", "absent", [&short[0], &short[1]]),
        file("f", "narrow", [&narrow, &narrow]),
        file("f", "opaque", [OPAQUE, OPAQUE]),
    ]);
    let job = json!({ "files": files, "params": { "retry": -1, "job_metadata": { "planted": NEEDLE } } });
    let id = services.submit("job", &job).unwrap();
    let mut words = process_words(services.transfer.pid().unwrap());
    // Longer than the tokens live.
    std::thread::sleep(Duration::from_secs(12));
    drain(false);
    let files = services.settled(&id, LIMIT).unwrap();
    let states = files
        .iter()
        .map(|file| file["file_state"].as_str().unwrap())
        .collect::<Vec<_>>();
    assert_eq!(states, ["FINISHED", "FAILED", "FAILED", "FAILED"], "{files:#?}");
    words.extend(process_words(services.transfer.pid().unwrap()));

    let mut secrets = Secrets::default();
    secrets.learn(&services.file(""));
    let mut submitted: BTreeSet<Vec<u8>> = short
        .iter()
        .chain([&narrow])
        .map(|token| token.clone().into_bytes())
        .collect();
    submitted.insert(OPAQUE.as_bytes().to_vec());
    secrets.0.insert(PathBuf::from("the job"), submitted);
    for kind in ["client.secret", "signing-keys.json", "refresh.key", "ca.key"] {
        assert!(secrets.0.keys().any(|file| file.ends_with(kind)), "no {kind}");
    }

    let ask = |path: &str| services.ask(&[&format!("{door}{path}")]).unwrap().body;
    let mut answers = String::new();
    for file in &files {
        answers += &ask(&format!("/jobs/{id}/files/{}/retries", file["file_id"]));
    }
    for path in [
        &format!("/jobs/{id}?files=file_state,reason,file_metadata"),
        &format!("/jobs/{id}/files"),
        "/config/audit",
    ] {
        answers += &ask(path);
    }
    let metrics = ask("/.well-known/weir/metrics");
    let granted = metrics
        .lines()
        .filter(|line| line.contains("grant=\"exchange\",result=\"granted\""));
    assert!(granted.clone().any(|line| line.ends_with(" 2")), "{metrics}");
    let hooked = || {
        let seen = hook.seen.lock().clone();
        Ok(holds(&seen, b"t_final_transfer_state").then_some(seen))
    };
    let hooked = wait_for(LIMIT, hooked).unwrap();
    let events = fs::read(services.file("events.jsonl")).unwrap();
    let spool = files_below(&services.file("spool"))
        .iter()
        .map(|file| fs::read(file).unwrap())
        .collect::<Vec<_>>();
    let said = services.transfer.said();
    let database = stolen(&services);
    // The hash of a token lies beside what must not be read of it.
    let hash = files[0]["src_token_id"].as_str().unwrap();
    let hash = unhex_dump(&format!("\\x{hash}"));
    let found: [(&str, &[u8], &[u8]); 8] = [
        ("the answers", answers.as_bytes(), NEEDLE.as_bytes()),
        ("the metrics", metrics.as_bytes(), b"weir_transfer_tokens_held"),
        ("the webhook", &hooked, NEEDLE.as_bytes()),
        ("the JSON lines", &events, NEEDLE.as_bytes()),
        ("the spool", &spool.concat(), NEEDLE.as_bytes()),
        ("the log", said.as_bytes(), b"transfer service started"),
        ("the list of processes", &words, b"--log-level\0debug"),
        ("the database", &database, &hash[..8]),
    ];
    for (place, bytes, needle) in found {
        assert!(holds(bytes, needle), "the look does not see {place}");
        secrets.assert_absent(place, bytes);
    }
    assert!(holds(&database, NEEDLE.as_bytes()), "the look does not see the rows");
}

#[test]
fn a_transfer_service_on_sqlite_tells_no_token_to_anybody() {
    tells_no_token("store = \"transfer.sqlite\"\n", "", &|services| {
        let mut bytes = fs::read(services.file("transfer.sqlite")).unwrap();
        bytes.extend(fs::read(services.file("transfer.sqlite-wal")).unwrap_or_default());
        bytes
    });
}

#[test]
fn a_transfer_service_on_postgresql_tells_no_token_to_anybody() {
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    tells_no_token("key_file = \"transfer.key\"\n", &postgres.table("any"), &|_| {
        let dump = postgres.dump().unwrap();
        let mut bytes = unhex_dump(&dump);
        bytes.extend(dump.into_bytes());
        bytes
    });
}
