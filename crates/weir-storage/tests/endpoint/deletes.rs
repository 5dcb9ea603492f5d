//! What is deleted is gone at once and for good, without anybody waiting for the disk who need not; its room comes later.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use weir_auth::StoragePath;
use weir_storage::{
    AreaConfig, Directories, Durability, OpenArea,
    backend::{
        Backend, BackendError, Changed, Directory, Draft, Grave, Listing, Meta, OpenRoot, Published, Reader, Space,
        Usage,
    },
};
use weir_units::Checksums;

use super::{
    lab::{Lab, noise, until},
    namespace::balanced,
};

/// A disk that does not end a flush of a directory while it is shut.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicU64,
}

impl Gate {
    fn shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let shut = self.shut.lock().unwrap();
        // Not for ever: a test that fails must end.
        let shut = self
            .opened
            .wait_timeout_while(shut, Duration::from_secs(20), |shut| *shut);
        drop(shut);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Gated {
    disk: Arc<dyn Backend>,
    gate: Arc<Gate>,
}

struct GatedAreas(Arc<Gate>);

impl OpenArea for GatedAreas {
    fn open(&self, area: &AreaConfig) -> Result<Arc<dyn Backend>, OpenRoot> {
        Ok(Arc::new(Gated {
            disk: Directories.open(area)?,
            gate: self.0.clone(),
        }))
    }
}

struct GatedDirectory(Box<dyn Directory>, Arc<Gate>);

impl Directory for GatedDirectory {
    fn flush(&self) -> Result<(), BackendError> {
        self.1.pass();
        self.0.flush()
    }
}

impl Gated {
    fn slow(&self, changed: Changed) -> Changed {
        slow(changed, &self.gate)
    }
}

fn slow(changed: Changed, gate: &Arc<Gate>) -> Changed {
    let wrap = |directory| -> Box<dyn Directory> { Box::new(GatedDirectory(directory, gate.clone())) };
    Changed {
        directories: changed.directories.into_iter().map(wrap).collect(),
        grave: changed.grave,
    }
}

struct GatedDraft(Box<dyn Draft>, Arc<Gate>);

impl Draft for GatedDraft {
    fn write_at(&self, pieces: &[Bytes], offset: u64) -> Result<(), BackendError> {
        self.0.write_at(pieces, offset)
    }

    fn seal(&mut self, checksums: &Checksums, durable: bool) -> Result<(), BackendError> {
        self.0.seal(checksums, durable)
    }

    fn publish(self: Box<Self>, path: &StoragePath, overwrite: bool) -> Result<Published, BackendError> {
        let published = self.0.publish(path, overwrite)?;
        Ok(Published {
            changed: slow(published.changed, &self.1),
            ..published
        })
    }
}

impl Backend for Gated {
    fn stat(&self, path: &StoragePath) -> Result<Meta, BackendError> {
        self.disk.stat(path)
    }

    fn list(&self, path: &StoragePath) -> Result<Box<dyn Listing>, BackendError> {
        self.disk.list(path)
    }

    fn open(&self, path: &StoragePath) -> Result<Arc<dyn Reader>, BackendError> {
        self.disk.open(path)
    }

    fn draft(&self, durable: bool) -> Result<Box<dyn Draft>, BackendError> {
        Ok(Box::new(GatedDraft(self.disk.draft(durable)?, self.gate.clone())))
    }

    fn make_directory(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        Ok(self.slow(self.disk.make_directory(path)?))
    }

    fn remove_file(&self, path: &StoragePath) -> Result<(Meta, Changed), BackendError> {
        let (meta, changed) = self.disk.remove_file(path)?;
        Ok((meta, self.slow(changed)))
    }

    fn remove_directory(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        Ok(self.slow(self.disk.remove_directory(path)?))
    }

    fn bury(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        Ok(self.slow(self.disk.bury(path)?))
    }

    fn supplant(&self, from: &StoragePath, to: &StoragePath) -> Result<Changed, BackendError> {
        Ok(self.slow(self.disk.supplant(from, to)?))
    }

    fn rename(
        &self,
        from: &StoragePath,
        to: &StoragePath,
        overwrite: bool,
    ) -> Result<(Option<Meta>, Changed), BackendError> {
        let (replaced, changed) = self.disk.rename(from, to, overwrite)?;
        Ok((replaced, self.slow(changed)))
    }

    fn space(&self) -> Result<Space, BackendError> {
        self.disk.space()
    }

    fn usage(&self) -> Result<Usage, BackendError> {
        self.disk.usage()
    }

    fn height(&self, path: &StoragePath, at_most: usize) -> Result<usize, BackendError> {
        self.disk.height(path, at_most)
    }

    fn sweep(&self) -> Result<Vec<Box<dyn Grave>>, BackendError> {
        self.disk.sweep()
    }
}

/// While the disk takes its time over one client's change, others whose names share a lock with it go on; and nobody is
/// told of a change that a power cut could undo.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_strangers_flush() {
    let lab = Lab::new();
    let gate = Arc::new(Gate::default());
    let at = lab
        .endpoint_on("a", Arc::new(GatedAreas(gate.clone())), |config| {
            config.areas[0].durability = Durability::Full;
        })
        .await;
    for name in ["removed", "moved", "replaced"] {
        at.put(&format!("/{name}"), "x").await.expect(201);
    }
    gate.shut(true);
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
        until("all four wait for the disk", || {
            gate.waiting.load(Ordering::SeqCst) == 4
        })
        .await;
        gate.shut(false);
    };
    let waited = async {
        let answers = tokio::join!(removed, moved, made, written);
        assert!(!*gate.shut.lock().unwrap(), "they were answered before the disk had it");
        answers
    };
    let ((removed, moved, made, written), ()) = tokio::join!(waited, others);
    removed.expect(204);
    moved.expect(201);
    made.expect(201);
    written.expect(204);
    balanced(&at).await;
}

/// What takes long to remove goes behind the answer, at its own pace, but at once where somebody needs the room.
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
    // What is replaced is treated alike.
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
