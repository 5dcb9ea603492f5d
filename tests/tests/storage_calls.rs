//! Errors, and `kill -9`, at the system calls by which a storage changes its disk, one after the other.
//!
//! An acknowledged file is there with its bytes and its checksums; any other is old, absent or whole; nothing else stays. One error
//! of each call; all that it may give with `WEIR_SOAK` set.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use weir_tests::{
    Answer, Draw, Services, StorageSettings, Strace, Trouble, adler32, drafts, peers, run, visible_files, wait_for,
};

const LIMIT: Duration = Duration::from_secs(60);
const OLD: usize = 50_000;
/// Four streams' worth, and what goes behind the answer when it is removed.
const LARGE: usize = 4_400_000;

/// The system calls by which a disk is changed, and the errors that each may give.
const CALLS: [(&str, &[&str]); 12] = [
    ("openat", &["EMFILE", "EIO", "ENOSPC", "EDQUOT"]),
    ("openat2", &["EIO"]),
    ("fallocate", &["ENOSPC", "EDQUOT", "EIO"]),
    ("pwrite64", &["ENOSPC", "EIO", "EDQUOT", "EINVAL"]),
    ("pwritev", &["EDQUOT", "EIO", "ENOSPC"]),
    ("statx", &["EIO"]),
    ("fsetxattr", &["ENOSPC", "EIO", "EOPNOTSUPP"]),
    ("fsync,fdatasync", &["EIO", "ENOSPC"]),
    ("mkdirat", &["ENOSPC", "EIO", "EDQUOT"]),
    ("renameat,renameat2", &["EIO", "ENOSPC", "EINVAL"]),
    ("linkat", &["EIO", "EPERM"]),
    ("unlinkat,ftruncate", &["EIO"]),
];

/// Files by their paths.
type Content = BTreeMap<String, Vec<u8>>;

#[derive(Debug, Clone, Copy)]
enum Change {
    PutNew,
    PutOver,
    Pull,
    CopyOver,
    MoveOver,
    MoveTree,
    DeleteTree,
}

const CHANGES: [Change; 7] = [
    Change::PutNew,
    Change::PutOver,
    Change::Pull,
    Change::CopyOver,
    Change::MoveOver,
    Change::MoveTree,
    Change::DeleteTree,
];

impl Change {
    fn before(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::PutNew => &[],
            Self::PutOver => &[("f", LARGE)],
            Self::Pull => &[("f", OLD)],
            Self::CopyOver | Self::MoveOver => &[("f", OLD), ("g", LARGE)],
            Self::MoveTree => &[("d/e", OLD), ("t/u/v", LARGE)],
            Self::DeleteTree => &[("d/e", OLD), ("d/u/v", LARGE)],
        }
    }

    fn after(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::PutNew => &[("x/y/f", LARGE)],
            Self::PutOver => &[("f", OLD)],
            Self::Pull => &[("f", LARGE)],
            Self::CopyOver => &[("f", OLD), ("g", OLD)],
            Self::MoveOver => &[("g", OLD)],
            Self::MoveTree => &[("t/e", OLD)],
            Self::DeleteTree => &[],
        }
    }

    /// Calls that it makes on every file system: where no trouble struck at one of them, nothing was tried.
    fn calls(self) -> &'static [&'static str] {
        match self {
            Self::PutNew => &["mkdirat", "fsync,fdatasync", "renameat,renameat2"],
            // Old files are removed behind the answer, often after strace has let the program go.
            _ => &["fsync,fdatasync", "renameat,renameat2"],
        }
    }

    fn assert_struck(self, struck: &[&str]) {
        let missed: Vec<_> = self.calls().iter().filter(|call| !struck.contains(call)).collect();
        assert!(
            missed.is_empty(),
            "{self:?}: no trouble at {missed:?}, only at {struck:?}"
        );
    }

    /// Words of a curl that asks for it.
    fn ask(self, scene: &Scene, folder: &str) -> Answer {
        let base = scene.services.storage("BETA").url.clone();
        let url = |name: &str| format!("{base}/{folder}/{name}");
        let to = |name: &str| format!("Destination: {}", url(name));
        let file = |size: usize| scene.services.file(&size.to_string()).display().to_string();
        let words = match self {
            Self::PutNew => vec!["-T".to_owned(), file(LARGE), url("x/y/f")],
            Self::PutOver => vec!["-T".to_owned(), file(OLD), url("f")],
            Self::Pull => {
                let source = format!("Source: {}/{LARGE}", scene.services.storage("ALPHA").url);
                let streams = "X-Number-Of-Streams: 4".to_owned();
                let words = ["-X", "COPY", "-H", "@forwarded", "-H"].map(str::to_owned);
                words
                    .into_iter()
                    .chain([source, "-H".to_owned(), streams, url("f")])
                    .collect()
            }
            Self::CopyOver => ["-X", "COPY", "-H"]
                .map(str::to_owned)
                .into_iter()
                .chain([to("g"), url("f")])
                .collect(),
            Self::MoveOver => ["-X", "MOVE", "-H"]
                .map(str::to_owned)
                .into_iter()
                .chain([to("g"), url("f")])
                .collect(),
            Self::MoveTree => ["-X", "MOVE", "-H"]
                .map(str::to_owned)
                .into_iter()
                .chain([to("t"), url("d")])
                .collect(),
            Self::DeleteTree => vec!["-X".to_owned(), "DELETE".to_owned(), url("d")],
        };
        Answer::of(&run(scene.services.curl().args(["-m", "60"]).args(words)).unwrap())
    }
}

fn content(size: usize) -> Vec<u8> {
    Draw::new(size as u64).bytes(size)
}

fn expected(files: &[(&str, usize)]) -> Content {
    files
        .iter()
        .map(|(name, size)| ((*name).to_owned(), content(*size)))
        .collect()
}

struct Scene {
    services: Services,
    rounds: u32,
}

impl Scene {
    fn new() -> Self {
        let full = StorageSettings::durable("BETA");
        let services = Services::start(&[StorageSettings::new("ALPHA"), full], "").unwrap();
        for size in [OLD, LARGE] {
            fs::write(services.file(&size.to_string()), content(size)).unwrap();
            services
                .put(&content(size), &format!("{}/{size}", services.storage("ALPHA").url))
                .unwrap();
        }
        let header = fs::read_to_string(services.file("header")).unwrap();
        fs::write(services.file("forwarded"), format!("TransferHeader{header}")).unwrap();
        Self { services, rounds: 0 }
    }

    /// Makes a change with such trouble; tells whether there was any.
    fn round(&mut self, change: Change, call: &str, number: u32, trouble: Trouble) -> bool {
        self.rounds += 1;
        let folder = format!("r{}", self.rounds);
        let base = format!("{}/{folder}", self.services.storage("BETA").url);
        for (name, size) in change.before() {
            self.services.put(&content(*size), &format!("{base}/{name}")).unwrap();
        }
        let pid = self.services.storage("BETA").pid().unwrap();
        let scratch = self.services.file("");
        let strace = Strace::attach(pid, call, number, trouble, &scratch).unwrap();
        let answer = change.ask(self, &folder);
        let struck = strace.detach().unwrap();
        let what = format!("{change:?} with {trouble:?} at {call} {number}: {answer:?}");
        let good = succeeded(&answer);
        assert!(good || struck, "{what}\n{}", self.services.storage("BETA").said_last());
        if trouble == Trouble::Killed && struck {
            let beta = self.services.storage_mut("BETA");
            beta.kill().unwrap();
            beta.start().unwrap();
        }
        self.check(change, &folder, good, &what);
        struck
    }

    /// Makes a change with trouble at the first, the second and each further one of these calls, until it makes no further one.
    /// Whether there was any trouble.
    fn rounds_of(&mut self, change: Change, call: &str, trouble: Trouble) -> bool {
        let mut numbers = 1..40;
        let mut struck = 0;
        while numbers
            .next()
            .is_some_and(|number| self.round(change, call, number, trouble))
        {
            struck += 1;
        }
        struck > 0
    }

    fn check(&self, change: Change, folder: &str, good: bool, what: &str) {
        let root = self.services.root("BETA");
        let now = files(&root.join(folder));
        let shown: Vec<_> = now.iter().map(|(name, bytes)| (name, bytes.len())).collect();
        let (before, after) = (expected(change.before()), expected(change.after()));
        assert!(now == after || (!good && now == before), "{what}\nleft {shown:?}");
        let base = &self.services.storage("BETA").url;
        // The next request works; with it what could not be removed is tried again.
        self.services.put(b"next", &format!("{base}/{folder}/next")).unwrap();
        let clean = wait_for(LIMIT, || Ok(drafts(&root).is_empty().then_some(())));
        assert!(clean.is_ok(), "{what}\nleft {:?}", drafts(&root));
        for (name, bytes) in &now {
            let url = format!("{base}/{folder}/{name}");
            let told = run(self.services.curl().args(["-I", "-H", "Want-Digest: adler32", &url])).unwrap();
            let due = adler32(bytes).replace(':', "=").to_lowercase();
            assert!(told.stdout.to_lowercase().contains(&due), "no {due}: {what}\n{told:?}");
        }
        let used: usize = files(&root).values().map(Vec::len).sum();
        let due = format!("weir_storage_space_bytes{{area=\"BETA\",state=\"used\"}} {used}\n");
        let mut metrics = String::new();
        // The reaper enters what it has removed a moment after the disk shows it.
        let entered = wait_for(LIMIT, || {
            metrics = self.services.ask(&[&format!("{base}/.well-known/weir/metrics")])?.body;
            Ok(metrics.contains(&due).then_some(()))
        });
        assert!(entered.is_ok(), "no {due} in {metrics}\n{what}");
        let gone = self
            .services
            .ask(&["-X", "DELETE", &format!("{base}/{folder}")])
            .unwrap();
        assert_eq!(gone.status, 204, "{gone:?} after {what}");
        wait_for(LIMIT, || Ok(drafts(&root).is_empty().then_some(()))).unwrap();
    }
}

fn succeeded(answer: &Answer) -> bool {
    match answer.status {
        202 => answer
            .body
            .lines()
            .last()
            .is_some_and(|word| word.starts_with("success")),
        status => (200..300).contains(&status) && answer.exit == Some(0),
    }
}

/// Files below a directory, private ones apart.
fn files(root: &Path) -> Content {
    let found = visible_files(root);
    found
        .into_iter()
        .map(|file| {
            let name = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&file).unwrap())
        })
        .collect()
}

/// Whether all errors of each call are tried, and not only the first.
fn soaks() -> bool {
    std::env::var_os("WEIR_SOAK").is_some()
}

fn every_error(changes: &[Change]) {
    if !peers() {
        return;
    }
    let mut scene = Scene::new();
    for change in changes {
        let mut struck = Vec::new();
        for (call, errors) in CALLS {
            let errors = if soaks() { errors } else { &errors[..1] };
            for error in errors {
                if scene.rounds_of(*change, call, Trouble::Error(error)) {
                    struck.push(call);
                }
            }
        }
        change.assert_struck(&struck);
    }
}

#[test]
fn errors_of_the_system_leave_nothing_in_part() {
    // A disk that is full, or fails, at an unlucky moment would lose a file, or quota, or show half of a file.
    every_error(&CHANGES);
}

#[test]
fn a_kill_at_any_call_leaves_nothing_in_part() {
    // An acknowledged file would be lost, or another one would be visible in part.
    if !peers() {
        return;
    }
    let mut scene = Scene::new();
    for change in CHANGES {
        let calls = CALLS.into_iter().map(|(call, _)| call);
        let struck: Vec<&str> = calls
            .filter(|call| scene.rounds_of(change, call, Trouble::Killed))
            .collect();
        change.assert_struck(&struck);
    }
}

#[test]
fn a_listing_is_whole_or_fails() {
    // A catalogue would take a file for lost that the disk only could not show at this moment.
    if !peers() {
        return;
    }
    let scene = Scene::new();
    let beta = scene.services.storage("BETA");
    for name in 0..5 {
        scene.services.put(b"x", &format!("{}/d/{name}", beta.url)).unwrap();
    }
    for call in ["statx", "getdents64", "openat2"] {
        let mut struck = true;
        let mut numbers = 1..20;
        while struck && let Some(number) = numbers.next() {
            let error = Trouble::Error("EIO");
            let strace = Strace::attach(beta.pid().unwrap(), call, number, error, &scene.services.file("")).unwrap();
            let url = format!("{}/d/", beta.url);
            let answer = scene.services.ask(&["-X", "PROPFIND", "-H", "Depth: 1", &url]).unwrap();
            struck = strace.detach().unwrap();
            let whole = answer.exit == Some(0) && answer.status == 207;
            let shown = answer.body.matches("<D:response>").count();
            assert!(if whole { shown == 6 } else { struck }, "{call} {number}: {answer:?}");
            assert!(struck || number > 1, "no trouble at {call}");
        }
    }
}
