//! The driver is a world like any other: it passes the suite.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use weir_http::{Client, ClientConfig, TrustRoots};
use weir_sched::{Command, Event, Link, Op, Record, Work};
use weir_world::{
    OpId, TransferId,
    suite::{Harness, Probe},
};

use super::{Beginning, Driver};
use weir_executor::{Executor, ExecutorSettings, TokenRefresher};

use crate::{
    events::Events,
    store::{Change, Sealer, Store, StoreError, TroubledStore, sqlite::SqliteStore, submission},
    testing::surl,
};

type Core = Probe<Command, Record, Op, Event>;

/// Files below this end at once, because no server listens at their source; those above wait for a source that never
/// answers.
const LONG: u64 = 1000;

fn beginning(store: Arc<dyn Store>) -> (Arc<dyn Store>, Beginning) {
    let beginning = Beginning::read(store.as_ref()).unwrap();
    (store, beginning)
}

struct RealWorld {
    driver: Driver<Core>,
    runtime: tokio::runtime::Runtime,
    _silent: TcpListener,
    _directory: tempfile::TempDir,
}

fn op(file: u64) -> (OpId, Op) {
    let id = OpId {
        transfer: TransferId(file),
        attempt: 1,
        epoch: 1,
    };
    (
        id,
        Op::Copy {
            link: Link::default(),
            resume: false,
            failures: 0,
        },
    )
}

impl Harness for RealWorld {
    type Command = Command;
    type Record = Record;
    type Op = Op;
    type Event = Event;

    fn start(core: Core) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&directory.path().join("db"), Sealer::ephemeral()).unwrap());
        // The kernel accepts connections, but no server reads from them.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (job, first, source) in [(1, 1, nobody), (2, LONG, silent.local_addr().unwrap())] {
            let mut submission = submission(job, first, 100);
            for file in &mut submission.files {
                file.source = surl(format!("http://{source}/{}", file.id));
                file.destination = surl(format!("http://{nobody}/{}", file.id));
            }
            store.apply(&[Change::Submit(Box::new(submission))]).unwrap();
        }
        let entered = runtime.enter();
        let client = Client::new(ClientConfig::new(TrustRoots::default())).unwrap();
        let executor = Executor::new(
            client.clone(),
            store.clone(),
            (ExecutorSettings::default(), std::sync::Arc::default()),
            Arc::new(()),
            TokenRefresher::idle(&client, store.clone()),
            None,
        );
        let driver = Driver::start(core, beginning(store), (executor, Events::default()), &[], None, None).unwrap();
        drop(entered);
        Self {
            driver,
            runtime,
            _silent: silent,
            _directory: directory,
        }
    }

    fn command(&mut self) {
        self.driver.command(Command::Begin);
    }

    fn record(&mut self, n: u64) -> Record {
        Record::Started {
            op: OpId {
                transfer: TransferId(1 + n % 100),
                attempt: 1,
                epoch: 1,
            },
            work: Work::Copy,
        }
    }

    fn short_op(&mut self, n: u64) -> (OpId, Op) {
        op(n)
    }

    fn long_op(&mut self, n: u64) -> (OpId, Op) {
        op(LONG + n)
    }

    fn run_until(&mut self, done: &mut dyn FnMut() -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if done() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

impl Drop for RealWorld {
    fn drop(&mut self) {
        self.runtime.block_on(self.driver.shutdown());
    }
}

weir_world::world_suite!(RealWorld);

/// A core with a defect.
struct Broken;

impl weir_world::Core for Broken {
    type Command = Command;
    type Record = Record;
    type Op = Op;
    type Event = Event;

    fn step(
        &mut self,
        _: weir_units::Timestamp,
        _: &[weir_world::Input<Command, Record>],
        _: &mut Vec<weir_world::Effect<Record, Op, Event>>,
    ) {
        panic!("a defect of the core, on purpose");
    }
}

#[tokio::test]
async fn a_driver_without_a_core_says_so() {
    // Otherwise the service would look well, and nothing would ever start.
    let store = Arc::new(crate::store::sqlite::SqliteStore::in_memory());
    let client = Client::new(ClientConfig::new(TrustRoots::default())).unwrap();
    let executor = Executor::new(
        client.clone(),
        store.clone(),
        (ExecutorSettings::default(), std::sync::Arc::default()),
        Arc::new(()),
        TokenRefresher::idle(&client, store.clone()),
        None,
    );
    let driver = Driver::start(Broken, beginning(store), (executor, Events::default()), &[], None, None).unwrap();
    for _ in 0..500 {
        if driver.trouble().is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(driver.trouble().unwrap().contains("has stopped"));
    // The leader would go on leading for a scheduler that is not there.
    tokio::time::timeout(Duration::from_secs(5), driver.stopped())
        .await
        .expect("its end is told");
}

/// A driver with the real core around this store, which holds one job of one file.
fn around(store: Arc<TroubledStore>) -> Driver {
    store.apply(&[Change::Submit(Box::new(submission(1, 1, 1)))]).unwrap();
    let client = Client::new(ClientConfig::new(TrustRoots::default())).unwrap();
    let executor = Executor::new(
        client.clone(),
        store.clone(),
        (ExecutorSettings::default(), std::sync::Arc::default()),
        Arc::new(()),
        TokenRefresher::idle(&client, store.clone()),
        None,
    );
    let config = weir_sched::Config {
        epoch: 1,
        ..weir_sched::Config::default()
    };
    Driver::start(
        weir_sched::Scheduler::new(config),
        beginning(store),
        (executor, Events::default()),
        &[],
        Some(Command::Begin),
        None,
    )
    .unwrap()
}

async fn soon(what: &str, done: impl Fn() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited in vain: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_fails_is_said_and_tried_again() {
    // Otherwise nothing ever starts, and health says that all is well.
    let mut failures = 3;
    let store = Arc::new(TroubledStore::new(move || {
        failures -= 1;
        if failures >= 0 {
            return Err(StoreError::Unavailable("the disk is away".into()));
        }
        Ok(())
    }));
    let driver = around(store.clone());
    soon("trouble", || {
        driver.trouble().is_some_and(|text| text.contains("the disk is away"))
    })
    .await;
    let refused = driver
        .ask(|reply| super::Request::Priority {
            job: uuid::Uuid::from_u128(1),
            files: vec![1],
            priority: 5,
            reply,
        })
        .await;
    assert!(matches!(refused, Err(super::NotTaken::Busy(_))), "{refused:?}");
    soon("a start", || store.file(1).unwrap().unwrap().attempts > 0).await;
    assert_eq!(driver.trouble(), None);
    driver.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_row_is_not_taken_fails_and_all_others_go_on() {
    // It once stopped the writer, and with it everything, again after each restart.
    let store = Arc::new(TroubledStore::refusing(|change| {
        matches!(change, Change::Begin { file: 1, .. })
    }));
    let driver = around(store.clone());
    soon("its end", || {
        store.file(1).unwrap().unwrap().state == weir_executor::job::FileState::Failed
    })
    .await;
    let submission = Box::new(submission(2, 2, 1));
    driver
        .ask(|reply| super::Request::Submit { submission, reply })
        .await
        .unwrap();
    soon("a start", || store.file(2).unwrap().unwrap().attempts > 0).await;
    let mut held = Some(true);
    for _ in 0..2000 {
        held = driver.look(|core, _, _| core.why(TransferId(1)).is_some()).await;
        if held == Some(false) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(held, Some(false), "the scheduler lets it go");
    assert_eq!((driver.set_aside(), driver.trouble()), (1, None));
    driver.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_written_while_the_service_stops_is_not_refused() {
    // A client that is told 503 submits again, and has two jobs.
    static GO: AtomicBool = AtomicBool::new(false);
    let store = Arc::new(TroubledStore::refusing(|change| {
        while matches!(change, Change::Submit(job) if job.files[0].id == 2) && !GO.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }));
    let driver = around(store.clone());
    let asked = driver.clone();
    let submission = Box::new(submission(2, 2, 1));
    let answer = tokio::spawn(async move { asked.ask(|reply| super::Request::Submit { submission, reply }).await });
    soon("a write", || driver.busy_for() > Duration::from_millis(50)).await;
    let stopping = driver.clone();
    let stopped = tokio::spawn(async move { stopping.shutdown().await });
    soon("the stop", || driver.is_stopped()).await;
    GO.store(true, Ordering::Relaxed);
    stopped.await.unwrap();
    assert!(store.job(uuid::Uuid::from_u128(2)).unwrap().is_some());
    let answer = answer.await.unwrap();
    assert!(
        matches!(answer, Err(super::NotTaken::Unknown(_)) | Ok(())),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_during_the_restore_has_its_effect() {
    // Were it answered before the core knows the transfer, the client would be told of a cancellation that never happens.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let store = Arc::new(TroubledStore::new(move || {
        let _ = wait.recv();
        Ok(())
    }));
    let driver = around(store.clone());
    let asked = driver.clone();
    let mut answer = tokio::spawn(async move {
        let cancel = |reply| super::Request::Cancel {
            job: uuid::Uuid::from_u128(1),
            whole: true,
            files: vec![1],
            reason: "enough".into(),
            reply,
        };
        asked.ask(cancel).await
    });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut answer).await;
    assert!(early.is_err(), "answered before the restore: {early:?}");
    drop(go);
    answer.await.unwrap().unwrap();
    let file = store.file(1).unwrap().unwrap();
    assert_eq!(file.state, weir_executor::job::FileState::Canceled);
    assert_eq!(file.attempts, 0);
    driver.shutdown().await;
}
