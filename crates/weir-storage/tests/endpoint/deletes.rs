//! A deleted file is gone at once and for good, without anybody waiting for the disk who need not; its room comes later.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use weir_storage::Durability;

use super::{
    faulty::{Call, Fault, Faults, FaultyAreas},
    lab::{Lab, noise, until},
    namespace::balanced,
};

/// While the disk takes its time over one client's change, others whose names share a lock with it go on; and nobody is
/// told of a change that a power cut could undo.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_delays_no_other_client() {
    let lab = Lab::new();
    let faults = Faults::default();
    let at = lab
        .endpoint_on("a", FaultyAreas::new(&faults), |config| {
            config.areas[0].durability = Durability::Full;
        })
        .await;
    for name in ["removed", "moved", "replaced"] {
        at.put(&format!("/{name}"), "x").await.expect(201);
    }
    faults.arm_all(Call::Flush, Fault::Held);
    let (removed, moved, made) = (
        at.ask("DELETE", "/removed", &[], ""),
        at.ask("MOVE", "/moved", &[("destination", "/elsewhere")], ""),
        at.ask("MKCOL", "/made", &[], ""),
    );
    let written = at.put("/replaced", "new");
    let others = async {
        // Every name that was changed is seen so, and asks for its lock again.
        let look = async |path: &str| at.ask("PROPFIND", path, &[("depth", "0")], "").await;
        for (path, status) in [("/removed", 404), ("/moved", 404), ("/elsewhere", 207), ("/made", 207)] {
            for _ in 0..1000 {
                if look(path).await.status.as_u16() == status {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            look(path).await.expect(status);
        }
        while at.get("/replaced").await.text() != "new" {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        at.ask("DELETE", "/removed", &[], "").await.expect(404);
        at.ask("DELETE", "/moved", &[], "").await.expect(404);
        at.ask("DELETE", "/replaced", &[("if-match", "\"other\"")], "")
            .await
            .expect(412);
        until("all four wait for the disk", || faults.waiting() == 4).await;
        faults.release();
    };
    let waited = async {
        let answers = tokio::join!(removed, moved, made, written);
        assert_eq!(faults.fired(), 0, "they were answered before the disk had it");
        answers
    };
    let ((removed, moved, made, written), ()) = tokio::join!(waited, others);
    removed.expect(204);
    moved.expect(201);
    made.expect(201);
    written.expect(204);
    balanced(&at).await;
}

/// A power cut would bring back the name of a file that was cut short meanwhile. In a cached area nobody waits for the disk but the reaper.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_cut_short_while_its_name_may_come_back() {
    const SIZE: usize = 30_000_000;
    let lab = Lab::new();
    let faults = Faults::default();
    let at = lab
        .endpoint_on("a", FaultyAreas::new(&faults), |config| {
            config.areas[0].durability = Durability::Cache;
        })
        .await;
    at.put("/removed", noise(SIZE)).await.expect(201);
    at.put("/replaced", noise(SIZE)).await.expect(201);
    faults.arm_all(Call::Flush, Fault::Held);
    at.ask("DELETE", "/removed", &[], "").await.expect(204);
    at.put("/replaced", "new").await.expect(204);
    until("the reaper waits for the disk", || faults.waiting() == 1).await;
    let sizes = || {
        let entries = std::fs::read_dir(at.root.join(".weir-private")).unwrap();
        let sizes = entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()));
        sizes.filter(|size| *size > 0).collect::<Vec<_>>()
    };
    assert_eq!(sizes(), [SIZE as u64; 2], "what lost its name is whole");
    faults.release();
    until("all is removed", || sizes().is_empty()).await;
    balanced(&at).await;
}

/// A slow removal goes on behind the answer, at its own pace, but at once where somebody needs the room.
#[tokio::test]
async fn large_files_go_behind_the_answer() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.areas[0].quota = Some("70 MB".parse().unwrap());
            // A visit every four seconds.
            config.limits.removal_rate = "1 MB".parse().unwrap();
        })
        .await;
    let content = noise(30_000_000);
    at.put("/f", content.clone()).await.expect(201);
    at.put("/g", content.clone()).await.expect(201);
    at.ask("DELETE", "/f", &[], "").await.expect(204);
    at.get("/f").await.expect(404);
    assert_eq!(at.names().len(), 2, "{:?}", at.names());
    assert!(
        at.running.counters()["data"].used > 30_000_000,
        "what is not removed yet takes room"
    );
    let metrics = at.get("/.well-known/weir/metrics").await.text();
    assert!(
        metrics.contains("weir_storage_removals_waiting{area=\"data\"} 1"),
        "{metrics}"
    );
    at.put("/h", content.clone()).await.expect(201);
    // Replaced files are treated alike.
    at.put("/h", "small").await.expect(204);
    at.put("/i", content).await.expect(201);
    at.ask("DELETE", "/i", &[], "").await.expect(204);
    at.put("/j", noise(60_000_000)).await.expect(507);
    balanced(&at).await;
}

/// An endpoint that first empties what it had not finished is down as long as that takes.
#[tokio::test]
async fn a_restart_goes_on_with_it() {
    let lab = Lab::new();
    let slow = |config: &mut weir_storage::StorageConfig| config.limits.removal_rate = "1 MB".parse().unwrap();
    let at = lab.endpoint("a", slow).await;
    at.put("/f", noise(30_000_000)).await.expect(201);
    at.ask("DELETE", "/f", &[], "").await.expect(204);
    at.running.shutdown().await;
    // At this rate it takes half a minute: that something is left says that nobody waited for it.
    let at = lab.endpoint("a", slow).await;
    assert_eq!(at.names().len(), 1, "{:?}", at.names());
    assert_eq!(at.running.counters()["data"].used, 0);
    at.running.shutdown().await;
    let at = lab.endpoint("a", |_| {}).await;
    until("nothing is left", || at.names().is_empty()).await;
    assert_eq!(
        (at.running.counters()["data"].used, at.running.counters()["data"].files),
        (0, 0)
    );
}

/// Descriptors of this process that lead below a directory.
fn descriptors_below(root: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.starts_with(root)).count()
}

/// Trees that are removed faster than their room comes back must not take every descriptor of the process: no other request would
/// find one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_deletions_holds_few_descriptors() {
    const TREES: usize = 3000;
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.areas[0].durability = Durability::Cache;
            // Nothing comes back meanwhile.
            config.limits.removal_rate = weir_units::Bytes(1);
        })
        .await;
    let root = at.root.clone();
    for number in 0..TREES {
        std::fs::create_dir(root.join(format!("t{number}"))).unwrap();
        std::fs::write(root.join(format!("t{number}/f")), noise(1000)).unwrap();
        std::fs::create_dir(root.join(format!("e{number}"))).unwrap();
    }
    let remove = |number| {
        let at = &at;
        async move {
            for name in ["t", "e"] {
                let gone = at.ask("DELETE", &format!("/{name}{number}"), &[], "").await;
                gone.expect(204);
            }
        }
    };
    stream::iter(0..TREES).for_each_concurrent(16, remove).await;
    let held = descriptors_below(&root);
    assert!(held < 1500, "{held} descriptors for {TREES} trees");
}
