//! Faults of a grid, one each, in the middle of a job: the transfer fails with a reason that can be acted on,
//! and its neighbours finish.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};
use weir_tests::{Draw, Peer, Services, StorageSettings, adler32};

const LIMIT: Duration = Duration::from_secs(240);

/// Limits long enough for a loaded machine, and short enough for a test.
const TRANSFER: &str = "[retry]\ndelay = \"1s\"\n\
    [copy]\nconnect_timeout = \"8s\"\nresponse_timeout = \"16s\"\nstall_timeout = \"20s\"\nbusy_patience = \"2s\"\n";
const TPC: &str =
    "connect_timeout = \"8s\"\nresponse_timeout = \"12s\"\nstall_timeout = \"8s\"\nstall_bytes = \"1 kB\"\n";

const SCOPES: &str = "storage.read:/ storage.create:/ storage.modify:/";
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 7, 40);

/// One transfer of a job and what must come of it.
struct Case {
    name: &'static str,
    source: String,
    destination: String,
    checksum: Option<String>,
    tokens: Option<[String; 2]>,
    fails: Option<Fails>,
}

/// A failure: one of these classes, this party, a word of the reason.
struct Fails {
    classes: &'static [&'static str],
    party: &'static str,
    word: &'static str,
}

struct Lab {
    services: Services,
    good: String,
    early: String,
    narrow: String,
    silent: SocketAddr,
    closing: SocketAddr,
    stalling: SocketAddr,
    breaking: SocketAddr,
    checksum: String,
}

const FILE: usize = 2_000_000;

impl Lab {
    fn new() -> Self {
        let alpha = StorageSettings::new("ALPHA")
            .certified_for(&[Services::storage_address(0), PROXY])
            .tpc(TPC);
        let beta = StorageSettings::new("BETA")
            .area("readonly", "read_only = true")
            .area("small", "quota = \"1 MB\"")
            .tpc(TPC);
        let misnamed = StorageSettings::new("MISNAMED").certified_for(&[Ipv4Addr::new(127, 0, 7, 99)]);
        let services = Services::start(&[alpha, beta, misnamed], TRANSFER).unwrap();
        let content = Draw::new(1).bytes(FILE);
        services
            .put(&content, &format!("{}/file", services.storage("ALPHA").url))
            .unwrap();
        let peer = |kind: Peer| kind.start(PROXY.into()).unwrap();
        let behind: SocketAddr = services.storage("ALPHA").url["https://".len()..].parse().unwrap();
        Self {
            good: services.token(SCOPES).unwrap(),
            early: services.early_token(SCOPES).unwrap(),
            narrow: services.token("storage.read:/").unwrap(),
            silent: peer(Peer::Silent),
            closing: peer(Peer::Closing),
            // More than a handshake and a HEAD, less than the file.
            stalling: peer(Peer::StallsAfter(behind, 400_000)),
            breaking: peer(Peer::BreaksAfter(behind, 400_000)),
            checksum: adler32(&content),
            services,
        }
    }

    fn case(&self, name: &'static str) -> Case {
        Case {
            name,
            source: format!("{}/file", self.services.storage("ALPHA").url),
            destination: format!("{}/{name}", self.services.storage("BETA").url),
            checksum: Some(self.checksum.clone()),
            tokens: None,
            fails: None,
        }
    }

    fn from(&self, name: &'static str, source: String, fails: Fails) -> Case {
        Case {
            source,
            fails: Some(fails),
            ..self.case(name)
        }
    }

    fn to(&self, name: &'static str, destination: String, fails: Fails) -> Case {
        Case {
            destination,
            fails: Some(fails),
            ..self.case(name)
        }
    }

    fn with(&self, name: &'static str, tokens: [&str; 2], fails: Fails) -> Case {
        let tokens = Some(tokens.map(str::to_owned));
        Case {
            tokens,
            fails: Some(fails),
            ..self.case(name)
        }
    }

    /// Faults of every mode.
    fn everywhere(&self) -> Vec<Case> {
        let url = |name| self.services.storage(name).url.as_str();
        let fails = |classes, party, word| Fails { classes, party, word };
        vec![
            self.case("good-first"),
            self.from(
                "missing",
                format!("{}/nowhere", url("ALPHA")),
                fails(&["not-found"], "source", "nowhere"),
            ),
            Case {
                checksum: Some("ADLER32:0badcafe".to_owned()),
                fails: Some(fails(&["checksum"], "source", "0badcafe")),
                ..self.case("checksum")
            },
            self.to(
                "read-only",
                format!("{}/readonly/f", url("BETA")),
                fails(&["read-only"], "destination", "read-only"),
            ),
            self.to(
                "full",
                format!("{}/small/f", url("BETA")),
                fails(&["no-space"], "destination", "quota"),
            ),
            self.case("good-middle"),
            self.with("garbage", ["garbage", &self.good], fails(&["token"], "source", "token")),
            self.with(
                "early",
                [&self.good, &self.early],
                fails(&["token"], "destination", "not valid"),
            ),
            self.with(
                "narrow",
                [&self.good, &self.narrow],
                fails(&["permission"], "destination", "storage."),
            ),
            self.from(
                "misnamed",
                format!("{}/file", url("MISNAMED")),
                fails(&["tls"], "source", "certificate"),
            ),
            self.to(
                "misnamed-destination",
                format!("{}/f", url("MISNAMED")),
                fails(&["tls"], "destination", "certificate"),
            ),
            self.from(
                "silent",
                format!("https://{}/file", self.silent),
                fails(&["timeout"], "source", "8s"),
            ),
            self.from(
                "closing",
                format!("https://{}/file", self.closing),
                fails(&["network", "tls"], "source", ""),
            ),
            self.case("good-last"),
        ]
    }

    /// Faults that exist only while bytes come from the source.
    fn on_the_way(&self) -> Vec<Case> {
        let fails = |classes, word| Fails {
            classes,
            party: "source",
            word,
        };
        vec![
            self.from(
                "stalling",
                format!("https://{}/file", self.stalling),
                fails(&["stall"], ""),
            ),
            self.from(
                "breaking",
                format!("https://{}/file", self.breaking),
                fails(&["network"], ""),
            ),
        ]
    }

    /// One job with all cases, in one mode.
    fn try_all(&self, mode: &str, cases: &[Case]) {
        let prefixed = |url: &str| {
            let (folder, name) = url.rsplit_once('/').unwrap();
            format!("{folder}/{mode}/{name}")
        };
        let file = |case: &Case| {
            let mut file = json!({
                "sources": [case.source],
                "destinations": [prefixed(&case.destination)],
                "checksum": case.checksum,
                "filesize": FILE,
            });
            let [source, destination] = case.tokens.clone().unwrap_or([self.good.clone(), self.good.clone()]);
            file["source_tokens"] = json!([source]);
            file["destination_tokens"] = json!([destination]);
            file
        };
        let job = json!({
            "files": cases.iter().map(file).collect::<Vec<Value>>(),
            "params": { "verify_checksum": "both", "retry": -1, "copy_mode": mode },
        });
        let id = self.services.submit(mode, &job).unwrap();
        let files = self.services.settled(&id, LIMIT).unwrap();
        assert_eq!(files.len(), cases.len());
        let wrong: Vec<String> = files
            .iter()
            .zip(cases)
            .flat_map(|(file, case)| {
                let wrong = self.wrong(case, file);
                wrong
                    .into_iter()
                    .map(move |wrong| format!("{mode}, {}: {wrong}: {file:#}", case.name))
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Deviations from the expected outcome.
    fn wrong(&self, case: &Case, file: &Value) -> Vec<&'static str> {
        let weir = &file["weir"];
        let destination = file["dest_surl"].as_str().unwrap();
        let there = self.services.ask(&["-k", "-I", destination]).unwrap().status == 200;
        let Some(fails) = &case.fails else {
            let checks = [
                (file["file_state"] == "FINISHED", "it should be FINISHED"),
                (there, "the file is not there"),
            ];
            return checks
                .iter()
                .filter(|(right, _)| !right)
                .map(|(_, wrong)| *wrong)
                .collect();
        };
        let reason = file["reason"].as_str().unwrap_or_default();
        let remedy = weir["remedy"].as_str().unwrap_or_default();
        let phase = weir["phase"].as_str().unwrap_or_default();
        let text = file.to_string();
        let checks = [
            (file["file_state"] == "FAILED", "it should be FAILED"),
            (
                fails.classes.iter().any(|class| weir["error_class"] == *class),
                "the class is another",
            ),
            (weir["party"] == fails.party, "the party is another"),
            (
                ["preparation", "transfer", "finalization"].contains(&phase),
                "it names no phase",
            ),
            (
                !remedy.is_empty() && reason.contains(remedy),
                "the reason names no remedy",
            ),
            (reason.contains(fails.word), "the reason does not name the cause"),
            (weir["attempts"] == 1, "it was tried again"),
            (!there, "something is at the destination"),
            (
                ![&self.good, &self.early, &self.narrow]
                    .iter()
                    .any(|token| text.contains(*token)),
                "it tells a token",
            ),
        ];
        checks
            .iter()
            .filter(|(right, _)| !right)
            .map(|(_, wrong)| *wrong)
            .collect()
    }
}

#[test]
fn a_failure_names_party_phase_cause_and_remedy() {
    // An operator would not know whom to call, or one bad file would take a whole job with it.
    let lab = Lab::new();
    let cases = |mode: &str| {
        let mut cases = lab.everywhere();
        if mode != "push" {
            cases.extend(lab.on_the_way());
        }
        cases
    };
    std::thread::scope(|scope| {
        for mode in ["pull", "push", "streamed"] {
            let (lab, cases) = (&lab, &cases);
            scope.spawn(move || lab.try_all(mode, &cases(mode)));
        }
    });
}
