//! Each verb that changes something, with each fault at each call that it makes of the disk: the answer is an error or right, a file
//! is wholly old or wholly new, nothing private stays, the books are right, and no place or claim is lost.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use rustix::io::Errno;
use weir_storage::{Dav, Durability, StorageConfig};
use weir_units::Algorithm;

use super::{
    faulty::{Call, Fault, Faults, FaultyAreas},
    lab::{Answer, Endpoint, Lab, digest, noise, pieces, until},
    namespace::balanced,
};

/// More than any change holds at once, and little enough that the disk of a small machine has as much.
const QUOTA: u64 = 200_000_000;
const SMALL: usize = 10_000;
const OLD: usize = 70_000;
const MIDDLE: usize = 2_300_000;
/// The size of a file that is removed behind the answer, and has room for four streams.
const LARGE: usize = 4_400_000;

/// A request that changes something, and what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    PutNew,
    PutOver,
    PutChunked,
    PutOverLarge,
    PullByOne,
    PullByFour,
    CopyOver,
    CopyTree,
    CopyTreeOverTree,
    CopyOverTree,
    MoveNew,
    MoveOverLarge,
    MoveTreeOverTree,
    MakeDirectory,
    DeleteFile,
    DeleteLarge,
    DeleteTree,
    DeleteEmpty,
}

/// The content of a folder: files by their paths, and directories, whose paths end with a slash.
type Content = BTreeMap<String, Bytes>;

impl Change {
    /// Sizes of the files that are there before; directories have none.
    fn before(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::PutNew | Self::MakeDirectory => &[],
            Self::PutOver
            | Self::PutChunked
            | Self::PullByOne
            | Self::PullByFour
            | Self::MoveNew
            | Self::DeleteFile => &[("f", OLD)],
            Self::PutOverLarge | Self::DeleteLarge => &[("f", LARGE)],
            Self::CopyOver => &[("f", MIDDLE), ("g", OLD)],
            Self::CopyTree => &[("d/e", OLD), ("d/u/v", SMALL), ("d/w/", 0)],
            Self::CopyTreeOverTree => &[("d/e", OLD), ("t/u/v", LARGE)],
            Self::CopyOverTree => &[("f", OLD), ("t/u/v", SMALL)],
            Self::MoveOverLarge => &[("f", OLD), ("g", LARGE)],
            Self::MoveTreeOverTree => &[("d/e", OLD), ("t/u/v", SMALL)],
            Self::DeleteTree => &[("d/e", OLD), ("d/u/v", LARGE)],
            Self::DeleteEmpty => &[("d/", 0)],
        }
    }

    /// The same after it.
    fn after(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::PutNew => &[("x/y/f", SMALL)],
            Self::PutOver | Self::PutChunked | Self::PullByOne => &[("f", MIDDLE)],
            Self::PutOverLarge => &[("f", SMALL)],
            Self::PullByFour => &[("f", LARGE)],
            Self::CopyOver => &[("f", MIDDLE), ("g", MIDDLE)],
            Self::CopyTree => &[
                ("d/e", OLD),
                ("d/u/v", SMALL),
                ("d/w/", 0),
                ("t/e", OLD),
                ("t/u/v", SMALL),
                ("t/w/", 0),
            ],
            Self::CopyTreeOverTree => &[("d/e", OLD), ("t/e", OLD)],
            Self::CopyOverTree => &[("f", OLD), ("t", OLD)],
            Self::MoveNew | Self::MoveOverLarge => &[("g", OLD)],
            Self::MoveTreeOverTree => &[("t/e", OLD)],
            Self::MakeDirectory => &[("d/", 0)],
            Self::DeleteFile | Self::DeleteLarge | Self::DeleteTree | Self::DeleteEmpty => &[],
        }
    }

    /// Bytes that come in.
    fn received(self) -> u64 {
        match self {
            Self::PutNew | Self::PutOverLarge => SMALL as u64,
            Self::PutOver | Self::PutChunked | Self::PullByOne | Self::CopyOver => MIDDLE as u64,
            Self::PullByFour => LARGE as u64,
            Self::CopyTree => (OLD + SMALL) as u64,
            Self::CopyTreeOverTree | Self::CopyOverTree => OLD as u64,
            _ => 0,
        }
    }

    async fn ask(self, at: &Endpoint, source: &str, folder: &str) -> Answer {
        let path = |name: &str| format!("{folder}/{name}");
        let pull = async |size: usize, streams: &str| {
            let source = format!("{source}/{size}");
            at.pull(&path("f"), &source, &[("X-Number-Of-Streams", streams)]).await
        };
        let onto = async |method: &str, from: &str, to: &str| {
            let to = at.url(&path(to));
            at.ask(method, &path(from), &[("destination", &to)], "").await
        };
        match self {
            Self::PutNew => at.put(&path("x/y/f"), noise(SMALL)).await,
            Self::PutOver => at.put(&path("f"), noise(MIDDLE)).await,
            Self::PutOverLarge => at.put(&path("f"), noise(SMALL)).await,
            Self::PutChunked => {
                let content = noise(MIDDLE);
                let parts: Vec<_> = content
                    .chunks(100_000)
                    .map(|part| Ok(Bytes::copy_from_slice(part)))
                    .collect();
                at.send("PUT", &path("f"), &[], pieces(stream::iter(parts))).await
            }
            Self::PullByOne => pull(MIDDLE, "1").await,
            Self::PullByFour => pull(LARGE, "4").await,
            Self::CopyOver => onto("COPY", "f", "g").await,
            Self::CopyTree | Self::CopyTreeOverTree => onto("COPY", "d", "t").await,
            Self::CopyOverTree => onto("COPY", "f", "t").await,
            Self::MoveNew | Self::MoveOverLarge => onto("MOVE", "f", "g").await,
            Self::MoveTreeOverTree => onto("MOVE", "d", "t").await,
            Self::MakeDirectory => at.ask("MKCOL", &path("d"), &[], "").await,
            Self::DeleteFile | Self::DeleteLarge => at.ask("DELETE", &path("f"), &[], "").await,
            Self::DeleteTree => at.ask("DELETE", &path("d"), &[], "").await,
            Self::DeleteEmpty => at.ask("DELETE", &path("d"), &[("depth", "0")], "").await,
        }
    }
}

/// The faults of a call.
fn faults_at(call: Call, number: u64) -> Vec<Fault> {
    let full = if number.is_multiple_of(2) {
        Errno::NOSPC
    } else {
        Errno::DQUOT
    };
    let mut faults = vec![Fault::Error(Errno::IO), Fault::Stop];
    match call {
        Call::Write => faults.extend([
            Fault::Error(full),
            Fault::Torn(full),
            Fault::Torn(Errno::IO),
            Fault::StopAfter,
        ]),
        Call::Stat
        | Call::List
        | Call::Next
        | Call::Open
        | Call::Read
        | Call::Checksums
        | Call::Properties
        | Call::Space
        | Call::Height => {}
        _ => faults.extend([Fault::Error(full), Fault::StopAfter]),
    }
    faults
}

/// An endpoint on a disk that fails, and one to copy from.
struct Scene {
    lab: Lab,
    source: Endpoint,
    faults: Faults,
    areas: Arc<FaultyAreas>,
    /// Always there, but while it is restarted.
    at: Option<Endpoint>,
    rounds: u32,
}

impl Scene {
    fn at(&self) -> &Endpoint {
        self.at.as_ref().expect("it is not being restarted")
    }

    async fn new(lab: Lab) -> Self {
        let source = lab.endpoint("source", |_| {}).await;
        for size in [SMALL, MIDDLE, LARGE] {
            source.put(&format!("/{size}"), noise(size)).await.expect(201);
        }
        let faults = Faults::default();
        let areas = FaultyAreas::new(&faults);
        let at = lab.endpoint_on("at", areas.clone(), configure).await;
        Self {
            lab,
            source,
            faults,
            areas,
            at: Some(at),
            rounds: 0,
        }
    }

    /// Makes a change with such a fault; gives the calls it made.
    async fn round(&mut self, change: Change, fault: Option<(Call, u64, Fault)>) -> BTreeMap<Call, u64> {
        self.rounds += 1;
        let folder = format!("/r{}", self.rounds);
        self.prepare(change, &folder).await;
        let completed = self.completed();
        match fault {
            Some((call, number, fault)) => self.faults.arm(call, number, fault),
            None => self.faults.release(),
        }
        let answer = change.ask(self.at(), self.source.running.url(), &folder).await;
        // Behind the answer something may still be removed.
        let (faults, at) = (&self.faults, self.at());
        until("the end, or the fault", || faults.stopped() || at.leftovers() == 0).await;
        let (calls, fired) = (self.faults.calls(), self.faults.fired());
        let what = format!("{change:?} with {fault:?}, which came {fired} times: {answer:?}");
        let good = succeeded(&answer);
        assert!(good || fired > 0, "{what}");
        check_answer(&answer, fault, &what);
        if self.faults.stopped() {
            self.live_again().await;
        } else {
            self.faults.release();
            let due = completed + if good { change.received() } else { 0 };
            until(&format!("{due} received: {what}"), || self.completed() == due).await;
        }
        self.check_content(change, &folder, good, &what).await;
        self.check_books(&what).await;
        self.check_doors(&folder, &what).await;
        calls
    }

    async fn prepare(&self, change: Change, folder: &str) {
        self.at().ask("MKCOL", folder, &[], "").await.expect(201);
        for (name, size) in change.before() {
            let path = format!("{folder}/{name}");
            if name.ends_with('/') {
                self.at().ask("MKCOL", &path, &[], "").await.expect(201);
            } else {
                self.at().put(&path, noise(*size)).await.expect(201);
            }
        }
    }

    fn completed(&self) -> u64 {
        self.at().running.counters()["data"].traffic.received_completed
    }

    /// A killed endpoint begins anew on what it left.
    async fn live_again(&mut self) {
        self.at.take().expect("it lives").running.shutdown().await;
        self.faults.release();
        self.at = Some(self.lab.endpoint_on("at", self.areas.clone(), configure).await);
    }

    async fn check_content(&self, change: Change, folder: &str, good: bool, what: &str) {
        let now = content(&self.at().root.join(&folder[1..]));
        let (before, after) = (expected(change.before()), expected(change.after()));
        let shown: Vec<_> = now.iter().map(|(name, bytes)| (name, bytes.len())).collect();
        assert!(now == after || (!good && now == before), "{what}\nleft {shown:?}");
        for (name, bytes) in now.iter().filter(|(name, _)| !name.ends_with('/')) {
            for algorithm in [Algorithm::Adler32, Algorithm::Crc32c] {
                let wanted = [("want-digest", algorithm.as_str())];
                let told = self
                    .at()
                    .ask("HEAD", &format!("{folder}/{name}"), &wanted, "")
                    .await
                    .expect(200);
                assert_eq!(told.header("digest"), digest(algorithm, bytes), "{what}");
            }
        }
    }

    /// The used bytes are those of the files, and no room is reserved any more.
    async fn check_books(&self, what: &str) {
        balanced(self.at()).await;
        let used = self.at().running.counters()["data"].used;
        let asked = r#"<propfind xmlns="DAV:"><prop><quota-available-bytes/></prop></propfind>"#;
        let answer = self
            .at()
            .ask("PROPFIND", "/", &[("depth", "0")], asked)
            .await
            .expect(207);
        let due = format!("quota-available-bytes>{}<", QUOTA - used);
        assert!(answer.text().contains(&due), "no {due} in {}\n{what}", answer.text());
    }

    /// There is one place for transfers and one for copies: a request that does not give it back keeps all others out.
    async fn check_doors(&self, folder: &str, what: &str) {
        let path = |name: &str| format!("{folder}/{name}");
        let source = self.source.url(&format!("/{SMALL}"));
        let copied = self.at().pull(&path("after/pulled"), &source, &[]).await;
        assert!(succeeded(&copied), "{copied:?} after {what}");
        // No name is claimed for ever.
        for name in ["f", "g", "x/y/f", "after/put"] {
            let answer = self.at().put(&path(name), "next").await;
            assert!(answer.status.is_success(), "{name}: {answer:?} after {what}");
        }
        let answer = self.at().ask("DELETE", folder, &[], "").await;
        assert!(answer.status.is_success(), "{answer:?} after {what}");
        // A copy gives its place back just after its last line is sent.
        let idle = tokio::time::timeout(Duration::from_secs(30), async {
            while !self.is_idle().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(idle.await.is_ok(), "a transfer is still counted as active after {what}");
    }

    /// Whether the metrics count no active transfer of any kind.
    async fn is_idle(&self) -> bool {
        let metrics = self.at().get("/.well-known/weir/metrics").await.text();
        let mut active = metrics
            .lines()
            .filter(|line| line.starts_with("weir_storage_transfers_active{"))
            .peekable();
        assert!(active.peek().is_some(), "{metrics}");
        active.all(|line| line.ends_with(" 0"))
    }
}

fn configure(config: &mut StorageConfig) {
    config.areas[0].durability = Durability::Full;
    config.areas[0].quota = Some(weir_units::Bytes(QUOTA));
    config.areas[0].dav = Dav::Full;
    config.limits.transfers = 1;
    config.limits.patience = Duration::from_secs(60);
    config.limits.copies = 1;
    config.limits.grace = Duration::from_millis(100);
}

fn succeeded(answer: &Answer) -> bool {
    answer.status.is_success() && (answer.status.as_u16() != 202 || answer.last_word().starts_with("success"))
}

/// A refused client learns whether to come again, or to look for another place.
fn check_answer(answer: &Answer, fault: Option<(Call, u64, Fault)>, what: &str) {
    if succeeded(answer) {
        return;
    }
    let full = matches!(
        fault,
        Some((
            _,
            _,
            Fault::Error(Errno::NOSPC | Errno::DQUOT) | Fault::Torn(Errno::NOSPC | Errno::DQUOT)
        ))
    );
    if answer.status.as_u16() == 202 {
        let word = answer.last_word();
        assert!(word.starts_with("failure: ") && word.contains("destination"), "{what}");
        assert_eq!(full, word.contains("no-space"), "{what}");
    } else {
        assert_eq!(answer.status.as_u16(), if full { 507 } else { 500 }, "{what}");
    }
}

/// The content of a directory.
fn content(root: &Path) -> Content {
    fn walk(folder: &Path, prefix: &str, all: &mut Content) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                let name = name + "/";
                walk(&entry.path(), &name, all);
                all.insert(name, Bytes::new());
            } else {
                all.insert(name, fs::read(entry.path()).unwrap().into());
            }
        }
    }
    let mut all = Content::new();
    walk(root, "", &mut all);
    all
}

/// The same as it should be.
fn expected(files: &[(&str, usize)]) -> Content {
    let mut all = Content::new();
    for (name, size) in files {
        for (at, _) in name.match_indices('/') {
            all.insert(name[..=at].to_owned(), Bytes::new());
        }
        if !name.ends_with('/') {
            all.insert((*name).to_owned(), noise(*size));
        }
    }
    all
}

async fn every_call(change: Change, lab: Lab) {
    let mut scene = Scene::new(lab).await;
    let calls = scene.round(change, None).await;
    assert!(calls.len() >= 2, "{calls:?}");
    for (call, count) in calls {
        for number in 0..count {
            for fault in faults_at(call, number) {
                scene.round(change, Some((call, number, fault))).await;
            }
        }
    }
}

macro_rules! every_call {
    ($($name:ident: $change:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                // A file that is neither old nor new, quota that is lost for good, or an endpoint that takes no more after an error.
                every_call(Change::$change, Lab::new()).await;
            }
        )+
    };
}

every_call! {
    a_new_file: PutNew,
    a_file_over_another: PutOver,
    a_file_of_unknown_size: PutChunked,
    a_file_over_a_large_one: PutOverLarge,
    a_pull_by_one_stream: PullByOne,
    a_pull_by_several_streams: PullByFour,
    a_copy_within: CopyOver,
    a_copy_of_a_tree: CopyTree,
    a_copy_of_a_tree_over_another: CopyTreeOverTree,
    a_copy_over_a_tree: CopyOverTree,
    a_move: MoveNew,
    a_move_over_a_large_file: MoveOverLarge,
    a_move_of_a_tree_over_another: MoveTreeOverTree,
    a_directory: MakeDirectory,
    a_deleted_file: DeleteFile,
    a_deleted_large_file: DeleteLarge,
    a_deleted_tree: DeleteTree,
    a_deleted_empty_directory: DeleteEmpty,
}

/// Where nothing waits, the task that takes the bytes writes them too, on another way than above.
macro_rules! every_call_in_memory {
    ($($name:ident: $change:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                every_call(Change::$change, Lab::in_memory()).await;
            }
        )+
    };
}

every_call_in_memory! {
    a_new_file_in_memory: PutNew,
    a_file_over_another_in_memory: PutOver,
    a_file_of_unknown_size_in_memory: PutChunked,
    a_pull_by_one_stream_in_memory: PullByOne,
    a_pull_by_several_streams_in_memory: PullByFour,
    a_copy_within_memory: CopyOver,
}
