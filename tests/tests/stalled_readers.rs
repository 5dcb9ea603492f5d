//! Clients that ask the catalogue for much and read nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{fs, net::Ipv4Addr, path::PathBuf, process::Command, time::Duration};

use serde_json::json;
use tempfile::TempDir;
use weir_auth::ca::{CertificateAuthority, San, write_identity};
use weir_tests::{Answer, Crowd, Daemon, Habit, free_port, run, wait_for, weir_binary, write_private};

const PATIENCE: Duration = Duration::from_secs(30);

/// The account that is there from the start.
const ACCOUNT: &str = "root";

/// Files whose replicas each client asks for.
const FILES: usize = 20_000;

/// The clients that read nothing.
const READERS: usize = 150;

/// The memory that the catalogue may keep for each of them, in bytes.
const EACH: u64 = 256 * 1024;

/// A catalogue with a dataset of that many files.
struct Scene {
    folder: TempDir,
    port: u16,
    daemon: Daemon,
    token: String,
}

impl Scene {
    fn lay() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port().unwrap();
        let authority = CertificateAuthority::create(&folder.path().join("ca")).unwrap();
        let own = authority
            .issue(&[San::Ip(Ipv4Addr::LOCALHOST.into())], "catalog")
            .unwrap();
        write_identity(&own, folder.path(), "catalog").unwrap();
        write_private(&folder.path().join("password"), "correct horse\n").unwrap();
        let config = format!(
            "listen = \"127.0.0.1:{port}\"\nstore = \"catalog.db\"\n[tls]\ncertificate = \"catalog.pem\"\nkey = \"catalog.key\"\n\
             [root]\nuser = \"admin\"\npassword_file = \"password\"\n"
        );
        let file = folder.path().join("catalog.toml");
        fs::write(&file, config).unwrap();
        let mut weir = Command::new(weir_binary());
        weir.args(["serve", "catalog", "--config"]).arg(&file);
        // With an arena of glibc's for each thread most of what is measured is memory that the allocator has free.
        weir.env("MALLOC_ARENA_MAX", "1");
        let mut daemon = Daemon::start(weir, &folder.path().join("log")).unwrap();
        wait_for(PATIENCE, || {
            anyhow::ensure!(daemon.ended()?.is_none(), "the catalogue ended: {}", daemon.said());
            Ok(daemon.said().contains("catalog is ready at").then_some(()))
        })
        .unwrap();
        let mut scene = Self {
            folder,
            port,
            daemon,
            token: String::new(),
        };
        scene.login();
        scene.fill();
        scene
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("ca/ca.pem")
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    fn login(&mut self) {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-i", "--cacert"]).arg(self.authority());
        for header in ["Account: root", "Username: admin", "Password: correct horse"] {
            curl.args(["-H", &format!("X-Rucio-{header}")]);
        }
        let said = run(curl.arg(self.url("/auth/userpass")))
            .unwrap()
            .expect_ok()
            .unwrap()
            .stdout;
        let line = said
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with("x-rucio-auth-token:"));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        let (_, token) = line.split_once(':').unwrap();
        token.trim().clone_into(&mut self.token);
    }

    fn post(&self, path: &str, body: &serde_json::Value) {
        let file = self.folder.path().join("body");
        fs::write(&file, body.to_string()).unwrap();
        let mut curl = Command::new("curl");
        curl.args(["-s", "-w", "\n%{http_code}", "-X", "POST", "--cacert"])
            .arg(self.authority());
        curl.args(["-H", &format!("X-Rucio-Auth-Token: {}", self.token), "--data-binary"]);
        curl.arg(format!("@{}", file.display())).arg(self.url(path));
        let answer = Answer::of(&run(&mut curl).unwrap());
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    }

    fn fill(&self) {
        self.post("/rses/ALPHA", &json!({ "deterministic": true }));
        let protocol = json!({
            "hostname": "alpha.example.org", "port": 443, "prefix": "/data", "impl": "rucio.rse.protocols.gfal.Default",
            "domains": { "wan": { "read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 1 } },
        });
        self.post("/rses/ALPHA/protocols/https", &protocol);
        self.post(&format!("/accounts/{ACCOUNT}/scopes/data"), &json!({}));
        self.post("/dids/data/all", &json!({ "type": "DATASET" }));
        let files: Vec<_> = (0..FILES)
            .map(|number| json!({ "scope": "data", "name": name(number), "bytes": 1000, "adler32": "0000000a" }))
            .collect();
        for part in files.chunks(2000) {
            self.post("/replicas", &json!({ "rse": "ALPHA", "files": part }));
            self.post("/dids/data/all/dids", &json!({ "dids": part }));
        }
    }

    /// Bytes of the catalogue's memory that are in use now.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.daemon.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }

    /// Asks for the replicas of these DIDs by so many clients that read nothing; gives what each of them costs.
    fn cost(&self, dids: &serde_json::Value, readers: usize) -> u64 {
        let body = json!({ "dids": dids }).to_string();
        let request = format!(
            "POST /replicas/list HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Rucio-Auth-Token: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        let gather = |count: usize| {
            let request = request.clone();
            let door = self.url("");
            let address = Ipv4Addr::new(127, 0, 9, 77);
            Crowd::gather(
                &door,
                &self.authority(),
                address,
                count,
                move |_| request.clone(),
                Habit::Stalls,
            )
            .unwrap()
        };
        // Memory that is needed once, for any number of readers.
        drop(gather(8));
        std::thread::sleep(Duration::from_secs(2));
        let before = self.memory();
        let crowd = gather(readers);
        // All have their first bytes, and nothing moves any more.
        let mut last = 0;
        wait_for(PATIENCE, || {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.memory();
            Ok((std::mem::replace(&mut last, now) == now).then_some(()))
        })
        .unwrap();
        assert_eq!(crowd.open(), readers);
        self.memory().saturating_sub(before) / readers as u64
    }
}

fn name(number: usize) -> String {
    format!("raw.2026.detector.run{:06}.file{number:06}", number / 100)
}

#[test]
fn a_reader_that_stops_costs_little() {
    // Wrong: a client that asks for the replicas of a dataset from many connections and reads nothing has the catalogue's memory.
    let scene = Scene::lay();
    let dataset = scene.cost(&json!([{ "scope": "data", "name": "all" }]), READERS);
    let files: Vec<_> = (0..FILES)
        .map(|number| json!({ "scope": "data", "name": name(number) }))
        .collect();
    let each = scene.cost(&json!(files), READERS / 3);
    assert!(dataset <= EACH, "{dataset} bytes");
    // The allocator keeps most of what the bodies of 900 kB took while they were parsed, as free pieces between
    // what is in use: 530 to 900 kB were measured for the same program. Held whole, an answer took 6,679 kB.
    assert!(each <= 6 * EACH, "{each} bytes");
}
