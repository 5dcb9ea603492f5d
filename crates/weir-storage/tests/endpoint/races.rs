//! Many at one name while the disk is slow: each reader has one file from its first byte to its last, the file that was acknowledged last is
//! there, and the books balance.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    faulty::{Call, Fault, Faults, FaultyAreas},
    lab::{Endpoint, Lab, noise, until},
    namespace::balanced,
};

async fn slow(lab: &Lab) -> (Faults, Endpoint) {
    let faults = Faults::default();
    let at = lab.endpoint_on("at", FaultyAreas::new(&faults), |_| {}).await;
    (faults, at)
}

/// A reader of a file has that file, whatever becomes of its name meanwhile; a later reader has the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_keeps_its_file() {
    let lab = Lab::new();
    let (faults, at) = slow(&lab).await;
    let (old, new) = (noise(6_000_000), noise(100_000));
    for change in ["PUT", "DELETE", "MOVE away", "MOVE over", "DELETE above"] {
        at.put("/d/f", old.clone()).await;
        at.put("/g", new.clone()).await;
        faults.arm(Call::Read, 1, Fault::Held);
        let reader = at.get("/d/f");
        let writer = async {
            until("the reader is at it", || faults.waiting() == 1).await;
            let to = |path: &str| at.url(path);
            let answer = match change {
                "PUT" => at.put("/d/f", new.clone()).await,
                "DELETE" => at.ask("DELETE", "/d/f", &[], "").await,
                "MOVE away" => at.ask("MOVE", "/d/f", &[("destination", &to("/h"))], "").await,
                "MOVE over" => at.ask("MOVE", "/g", &[("destination", &to("/d/f"))], "").await,
                _ => at.ask("DELETE", "/d", &[], "").await,
            };
            assert!(answer.status.is_success(), "{change}: {answer:?}");
            // The reaper has its chance to cut the file short.
            let later = at.get("/d/f").await;
            match change {
                "PUT" | "MOVE over" => assert!(later.body == new, "{change}"),
                _ => assert_eq!(later.status.as_u16(), 404, "{change}"),
            }
            faults.release();
        };
        let (read, ()) = tokio::join!(reader, writer);
        assert!(read.expect(200).body == old, "{change}");
        at.ask("DELETE", "/h", &[], "").await;
    }
    balanced(&at).await;
}

/// A deletion that meets a file on its way into place comes before it or after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_meets_a_deletion() {
    let lab = Lab::new();
    let (faults, at) = slow(&lab).await;
    for (held, there) in [
        (Call::Publish, true),
        (Call::Publish, false),
        (Call::Seal, true),
        (Call::Write, true),
    ] {
        at.ask("DELETE", "/f", &[], "").await;
        if there {
            at.put("/f", "old").await.expect(201);
        }
        faults.arm(held, 0, Fault::Held);
        let writer = at.put("/f", "new");
        let remover = async {
            until("the file is on its way", || faults.waiting() == 1).await;
            let deletion = at.ask("DELETE", "/f", &[], "");
            let release = async {
                // While the name is being given, the deletion waits for it.
                tokio::time::sleep(Duration::from_millis(50)).await;
                faults.release();
            };
            tokio::join!(deletion, release).0.status.as_u16()
        };
        let (written, removed) = tokio::join!(writer, remover);
        assert!(written.status.is_success(), "{written:?}");
        let now = at.get("/f").await;
        if held == Call::Publish {
            assert_eq!(
                (removed, now.status.as_u16()),
                (204, 404),
                "what was there last is deleted"
            );
        } else {
            assert_eq!(removed, if there { 204 } else { 404 });
            assert_eq!(now.expect(200).text(), "new");
        }
        balanced(&at).await;
    }
}

/// While one moves a file, others write to either of its names, and delete them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_the_only_writer_of_both_its_names() {
    let lab = Lab::new();
    let (faults, at) = slow(&lab).await;
    at.put("/f", "moved").await.expect(201);
    at.put("/g", "replaced").await.expect(201);
    faults.arm(Call::Rename, 0, Fault::Held);
    let to = at.url("/g");
    let headers = [("destination", to.as_str())];
    let mover = at.ask("MOVE", "/f", &headers, "");
    let others = async {
        until("the move is on its way", || faults.waiting() == 1).await;
        for path in ["/f", "/g"] {
            at.put(path, "x").await.expect(409);
        }
        let back = [("destination", at.url("/f"))];
        let back = [(back[0].0, back[0].1.as_str())];
        at.ask("MOVE", "/g", &back, "").await.expect(409);
        assert_eq!(at.get("/g").await.text(), "replaced");
        let deletions = async { tokio::join!(at.ask("DELETE", "/f", &[], ""), at.ask("DELETE", "/g", &[], "")) };
        let release = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            faults.release();
        };
        tokio::join!(deletions, release).0
    };
    let (moved, (source, target)) = tokio::join!(mover, others);
    moved.expect(204);
    source.expect(404);
    target.expect(204);
    assert!(at.names().is_empty());
    balanced(&at).await;
}

/// One step of one client.
#[derive(Debug, Clone, Copy)]
enum Step {
    Put(usize, usize),
    Get(usize),
    Delete(usize),
    Move(usize, usize),
    Copy(usize, usize),
}

const NAMES: [&str; 3] = ["/a", "/b", "/d/c"];

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (name(), prop_oneof![Just(0), 1..100_000_usize, Just(1_500_000)]).prop_map(|(at, size)| Step::Put(at, size)),
        4 => name().prop_map(Step::Get),
        2 => name().prop_map(Step::Delete),
        2 => (name(), name()).prop_map(|(from, to)| Step::Move(from, to)),
        1 => (name(), name()).prop_map(|(from, to)| Step::Copy(from, to)),
    ]
}

fn slow_call() -> impl Strategy<Value = Call> {
    proptest::sample::select(vec![
        Call::Publish,
        Call::Write,
        Call::Seal,
        Call::Rename,
        Call::RemoveFile,
        Call::Read,
        Call::Stat,
    ])
}

/// A file that says of each of its bytes whose it is: a mixture of two is seen.
fn stamped(stamp: u64, size: usize) -> Bytes {
    let stamp = stamp.to_le_bytes();
    stamp.iter().copied().cycle().take(size).collect()
}

async fn carry_out(at: &Endpoint, step: Step, stamps: &AtomicU64) {
    let onto = async |method: &str, from: usize, to: usize| {
        let to = at.url(NAMES[to]);
        at.ask(method, NAMES[from], &[("destination", &to)], "")
            .await
            .status
            .as_u16()
    };
    match step {
        Step::Put(name, size) => {
            let content = stamped(stamps.fetch_add(1, Ordering::Relaxed), size);
            let status = at.put(NAMES[name], content).await.status.as_u16();
            assert!([201, 204, 409].contains(&status), "{step:?}: {status}");
        }
        Step::Get(name) => {
            let answer = at.get(NAMES[name]).await;
            assert!([200, 404].contains(&answer.status.as_u16()), "{step:?}: {answer:?}");
            if answer.status.as_u16() == 200 && answer.body.len() >= 8 {
                let stamp = u64::from_le_bytes(answer.body[..8].try_into().unwrap());
                assert!(answer.body == stamped(stamp, answer.body.len()), "{step:?}: a mixture");
            }
        }
        Step::Delete(name) => {
            let status = at.ask("DELETE", NAMES[name], &[], "").await.status.as_u16();
            assert!([204, 404].contains(&status), "{step:?}: {status}");
        }
        Step::Move(from, to) => {
            let status = onto("MOVE", from, to).await;
            assert!([201, 204, 403, 404, 409].contains(&status), "{step:?}: {status}");
        }
        Step::Copy(from, to) => {
            let status = onto("COPY", from, to).await;
            assert!([201, 204, 403, 404, 409].contains(&status), "{step:?}: {status}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// With many clients at once at a few names of a slow disk, no reader sees a mixture of two files, and the books balance.
    #[test]
    fn no_reader_sees_two_files_in_one(
        clients in proptest::collection::vec(proptest::collection::vec(step(), 1..12), 2..6),
        call in slow_call(), millis in 0..4_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async move {
            let lab = Lab::new();
            let (faults, at) = slow(&lab).await;
            // Its parent stays whatever becomes of the file.
            at.ask("MKCOL", "/d", &[], "").await.expect(201);
            faults.arm_all(call, Fault::Delay(Duration::from_millis(millis)));
            let stamps = Arc::new(AtomicU64::new(1));
            let each = clients.into_iter().map(async |steps| {
                for step in steps {
                    carry_out(&at, step, &stamps).await;
                }
            });
            futures_util::future::join_all(each).await;
            faults.release();
            balanced(&at).await;
            for name in at.names() {
                let answer = at.get(&format!("/{name}")).await.expect(200);
                let path = format!("/{name}");
                let again = at.ask("HEAD", &path, &[("want-digest", "adler32")], "").await;
                let due = super::lab::digest(weir_units::Algorithm::Adler32, &answer.body);
                assert_eq!(again.header("digest"), due, "{name}");
            }
        });
    }
}
