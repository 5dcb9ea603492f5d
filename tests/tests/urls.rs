//! URLs that carry credentials, with several nodes on PostgreSQL: they are in no dump of the database and in no log.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;
use weir_tests::{
    LIMIT, Postgres, all_known, node_settings, peers, running, silent, start_nodes, submit_to, wait_for, waiting_job,
};

const OF_SOURCE: &str = "authz=needle-aaaa";
const OF_DESTINATION: &str = "X-Amz-Signature=needle-bbbb";

#[test]
fn queries_of_urls_are_in_no_dump_and_no_log() {
    // A reader of a backup could read and write the files of everybody.
    if !peers() {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let socket = postgres.socket();
    let services = start_nodes(
        &["ALPHA", "BETA"],
        &node_settings(&[(socket, "scheduler"), (socket, "door"), (socket, "executor")]),
    );
    let (scheduler, door) = (services.transfer.url.clone(), services.nodes[0].url.clone());
    all_known(&services, &scheduler, 1);
    let (source, target) = (&services.storage("ALPHA").url, &services.storage("BETA").url);
    services.put(b"proof of reading", &format!("{source}/proof")).unwrap();

    // A job that is done, one that fails, and one that goes on and on.
    let file = |from: &str, to: &str| {
        json!({
            "sources": [format!("{source}/{from}?{OF_SOURCE}")],
            "destinations": [format!("{target}/{to}?{OF_DESTINATION}")],
        })
    };
    let done = json!({ "files": [file("proof", "proof-1")] });
    let done = submit_to(&services, &door, "done", &done);
    let missing = json!({ "files": [file("nothing", "proof-2")] });
    let missing = submit_to(&services, &door, "missing", &missing);
    let mut held = waiting_job(&services, silent(), "held", 1);
    for key in ["sources", "destinations"] {
        let url = format!("{}?{OF_SOURCE}", held["files"][0][key][0].as_str().unwrap());
        held["files"][0][key][0] = url.into();
    }
    let held = submit_to(&services, &door, "held", &held);
    running(&services, &door, &held, 1, 1);
    for (job, state) in [(&done, "FINISHED"), (&missing, "FAILED")] {
        let files = format!("{door}/jobs/{job}?files=source_surl,dest_surl,reason");
        let ended = || {
            let answer = services.ask(&[&files])?.json()?;
            Ok((answer["job_state"] == *state).then_some(answer))
        };
        let answer = wait_for(LIMIT, ended).unwrap();
        let shown = answer["files"][0].to_string();
        assert!(shown.contains(OF_SOURCE) && shown.contains(OF_DESTINATION), "{shown}");
        assert!(!answer["files"][0]["reason"].to_string().contains("needle"), "{shown}");
    }

    // Proof that the right bytes are read: the texts beside the needles are found.
    let dump = postgres.dump().unwrap();
    for proof in [
        "proof-1?***",
        "proof-2?***",
        "/held/0?***",
        "COPY public.leases",
        "COPY public.urls",
    ] {
        assert!(dump.contains(proof), "no {proof} in the dump");
    }
    for table in ["leases", "urls"] {
        let rows = postgres.ask(&format!("SELECT count(*) FROM {table}")).unwrap();
        assert_ne!(rows, "0", "nothing is in {table}");
    }
    assert!(!dump.contains("needle"), "a URL's credential is in the dump");
    for node in std::iter::once(&services.transfer).chain(&services.nodes) {
        let said = node.said();
        assert!(said.contains("ready"), "{said}");
        assert!(!said.contains("needle"), "{said}");
    }
}
