//! The suite against a real server, and tests of this backend's own risks.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod opening;
mod plans;
mod unreadable;
mod ways;

use std::{
    path::PathBuf,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use uuid::Uuid;
use weir_store::postgres::{
    Node, Session, TERM,
    testing::{Server, wanted},
};

use super::PostgresStore;
use weir_executor::job::FileState;

use crate::{
    config::PostgresConfig,
    store::{
        Change, Durable, Standing, Store, StoreError, Writer, confirm_key, start_writer,
        suite::{Keeper, begin, end, submission},
    },
};
pub(in crate::store) use opening::open_on;
use opening::{config_of, open};

pub(super) struct OnServer {
    database: PostgresConfig,
    directory: tempfile::TempDir,
}

impl OnServer {
    fn on(server: &Server) -> Self {
        Self {
            database: config_of(&server.database()),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn key(&self) -> PathBuf {
        self.directory.path().join("token.key")
    }

    /// A handle that does not lead.
    pub(super) fn handle(&self) -> PostgresStore {
        open(&self.database, &self.key())
    }
}

impl Keeper for OnServer {
    type Store = PostgresStore;

    fn new() -> Self {
        Self::on(Server::shared())
    }

    fn open(&self) -> PostgresStore {
        let store = self.handle();
        store.next_epoch().unwrap();
        store
    }

    fn tokens(store: &PostgresStore) -> usize {
        let count = store
            .readers
            .with(|session| session.row("SELECT count(*) FROM tokens", &[]));
        count.unwrap().unwrap().get::<_, i64>(0) as usize
    }
}

crate::store::suite::store_suite!(OnServer, wanted());

pub(super) fn submit(job: u128, first: u64, n: u64) -> Change {
    Change::Submit(Box::new(submission(job, first, n)))
}

#[test]
fn a_node_with_another_key_does_not_start() {
    // The node would look healthy, and its submissions would fail at all others.
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    confirm_key(&keeper.handle(), &keeper.key()).unwrap();
    confirm_key(&keeper.handle(), &keeper.key()).unwrap();
    let other = keeper.directory.path().join("other.key");
    let refused = confirm_key(&open(&keeper.database, &other), &other).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Key { path, .. } if *path == other),
        "{refused}"
    );
}

#[test]
fn a_deposed_scheduler_changes_nothing() {
    // A process that was paused would start transfers that another one has started already.
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let (old, new) = (keeper.handle(), keeper.handle());
    let first = old.next_epoch().unwrap();
    old.apply(&[submit(1, 1, 2)]).unwrap();
    assert!(matches!(new.stand().unwrap(), Standing::HeldBy(_)), "the old one lives");
    let second = new.next_epoch().unwrap();
    assert!(second > first);
    for change in [begin(1, 1), submit(2, 3, 1), end(1, FileState::Finished)] {
        assert!(matches!(old.apply(&[change]), Err(StoreError::LeadershipLost)));
    }
    assert!(matches!(old.renew(), Err(StoreError::LeadershipLost)));
    new.apply(&[begin(1, 1)]).unwrap();
    let file = new.file(1).unwrap().unwrap();
    assert_eq!((file.state, file.attempts), (FileState::Active, 1));
    assert!(new.job(Uuid::from_u128(2)).unwrap().is_none());
    assert!(old.job(Uuid::from_u128(1)).unwrap().is_some());
    old.resign().unwrap();
    new.renew().unwrap();
    new.resign().unwrap();
    assert!(matches!(old.stand().unwrap(), Standing::Elected(epoch) if epoch > second));
}

#[test]
fn a_leader_has_a_term_and_a_batch_prolongs_it() {
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let (old, new) = (keeper.handle(), keeper.handle());
    old.next_epoch().unwrap();
    let expire = |store: &PostgresStore| {
        let past = "UPDATE scheduler SET until = clock_timestamp() - interval '1 s'";
        store.readers.with(|session| session.run(past)).unwrap();
    };
    expire(&old);
    old.renew().unwrap();
    assert!(matches!(new.stand().unwrap(), Standing::HeldBy(_)));
    expire(&old);
    old.apply(&[submit(1, 1, 1)]).unwrap();
    assert!(matches!(new.stand().unwrap(), Standing::HeldBy(_)));
    expire(&old);
    assert!(matches!(new.stand().unwrap(), Standing::Elected(_)));
    assert!(matches!(old.apply(&[begin(1, 1)]), Err(StoreError::LeadershipLost)));
}

#[test]
fn a_batch_that_takes_long_does_not_cost_the_lead() {
    // Others see the term only as it was before the batch.
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let (old, new, other) = (keeper.handle(), keeper.handle(), keeper.handle());
    old.next_epoch().unwrap();
    old.apply(&[submit(1, 1, 1)]).unwrap();
    let past = "UPDATE scheduler SET until = clock_timestamp() - interval '1 s'";
    old.readers.with(|session| session.run(past)).unwrap();
    std::thread::scope(|scope| {
        let (locked, is_locked) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let hold = |session: &mut Session| {
                session.run("BEGIN; LOCK TABLE files IN EXCLUSIVE MODE")?;
                locked.send(()).unwrap();
                sleep(Duration::from_secs(3));
                session.run("COMMIT")
            };
            other.readers.with(hold).unwrap();
        });
        is_locked.recv().unwrap();
        let batch = scope.spawn(|| old.apply(&[begin(1, 1)]));
        sleep(Duration::from_millis(500));
        assert!(matches!(new.stand().unwrap(), Standing::HeldBy(_)));
        batch.join().unwrap().unwrap();
    });
    let left = "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM scheduler";
    let left = new.readers.with(|session| session.row(left, &[])).unwrap().unwrap();
    assert!(left.get::<_, f64>(0) > 6.0, "the term begins with the end of the batch");
    old.renew().unwrap();
    old.apply(&[end(1, FileState::Finished)]).unwrap();
}

#[test]
fn a_writer_that_is_deposed_says_so_and_ends() {
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let (old, new) = (Arc::new(keeper.handle()), keeper.handle());
    old.next_epoch().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let writer = start_writer(old, move |durable| tell.send(durable).unwrap()).unwrap();
    new.next_epoch().unwrap();
    writer.push(weir_world::Seq(1), vec![submit(1, 1, 1)]);
    assert!(matches!(told.recv().unwrap(), Durable::LeadershipLost));
    assert!(writer.trouble().unwrap().contains("another scheduler"));
    assert!(new.job(Uuid::from_u128(1)).unwrap().is_none());
}

#[test]
fn a_batch_whose_commit_was_not_answered_is_written_once() {
    // Bytes would be counted twice, and a submission refused as a duplicate of itself.
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let store = keeper.open();
    store.next_epoch().unwrap();
    store.apply(&[submit(1, 1, 1), begin(1, 1)]).unwrap();
    let batch = [submit(2, 2, 1), end(1, FileState::Finished)];
    // The commit that came through, and of which the writer knows nothing: its number is still the old one.
    let before = *store.writer.lock();
    store.apply(&batch).unwrap();
    *store.writer.lock() = before;
    store.apply(&batch).unwrap();
    assert_eq!(store.file(1).unwrap().unwrap().moved_total, 5);
    store.apply(&[begin(2, 1)]).unwrap();
    // And if something else comes next, it is written too.
    *store.writer.lock() = before;
    store.apply(&[end(2, FileState::Finished)]).unwrap();
    assert_eq!(store.file(2).unwrap().unwrap().state, FileState::Finished);
}

#[test]
fn a_value_that_postgresql_cannot_hold_does_not_stop_the_writer() {
    // A refused row would be tried again for ever, and nothing would be written any more.
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let store = keeper.open();
    let mut odd = submission(1, 1, 1);
    odd.job.user_dn = "nul\0dn".into();
    odd.files[0].metadata = Some(serde_json::value::RawValue::from_string(r#""\u0000 \ud83d""#.into()).unwrap());
    store.apply(&[Change::Submit(Box::new(odd))]).unwrap();
    let job = store.job(uuid::Uuid::from_u128(1)).unwrap().unwrap();
    assert_eq!(job.spec.user_dn, "nul\u{fffd}dn");
    let key = Change::Setting {
        key: "link/\0".into(),
        value: Some("\0".into()),
    };
    store.apply(&[key]).unwrap();
}

#[test]
fn changes_of_one_file_in_one_batch_keep_their_order() {
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let store = keeper.open();
    let cancel = super::super::suite::cancel(1, true, &[2], &[]);
    let again = super::super::suite::again(1, weir_executor::job::FileResult::default());
    store
        .apply(&[
            submit(1, 1, 2),
            begin(1, 1),
            again,
            begin(1, 2),
            end(1, FileState::Failed),
            cancel,
            begin(2, 1),
        ])
        .unwrap();
    let (one, two) = (store.file(1).unwrap().unwrap(), store.file(2).unwrap().unwrap());
    assert_eq!(
        (one.state, one.attempts, store.retries(1).unwrap().len()),
        (FileState::Failed, 2, 1)
    );
    assert_eq!((two.state, two.attempts), (FileState::Canceled, 0));
    let job = store.job(Uuid::from_u128(1)).unwrap().unwrap();
    assert_eq!((job.counts.failed, job.counts.canceled, job.counts.started), (1, 1, 1));
}

#[test]
fn a_restore_goes_page_by_page_without_gaps() {
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let store = keeper.open();
    let jobs = (1..=5001_u64)
        .map(|job| submit(job.into(), 2 * job, 2))
        .collect::<Vec<_>>();
    store.apply(&jobs).unwrap();
    let mut files = Vec::new();
    let mut take = |row| files.extend(super::super::suite::live(row).files.into_iter().map(|file| file.file));
    store.restore(u64::MAX >> 1, &mut take).unwrap();
    assert_eq!(files, (2..=10_003).collect::<Vec<u64>>());
}

#[test]
fn no_token_is_in_a_dump() {
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let store = keeper.open();
    store.apply(&[submit(1, 1, 2), submit(2, 3, 1)]).unwrap();
    store
        .apply(&[super::super::suite::cancel(1, true, &[1, 2], &[])])
        .unwrap();
    store.archive(i64::MAX, 100).unwrap();
    let server = Server::shared();
    let dump = std::process::Command::new("pg_dump")
        .args([
            "-h",
            server.directory().to_str().unwrap(),
            "-U",
            "weir",
            &keeper.database.database,
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&dump.stdout).into_owned();
    assert!(
        text.contains("https://a/f0") && !text.contains("token-of"),
        "{}",
        dump.status
    );
}

/// A writer, and how much it has made durable.
struct Load {
    store: Arc<PostgresStore>,
    writer: Writer,
    told: std::sync::mpsc::Receiver<Durable>,
}

impl Load {
    fn on(keeper: &OnServer) -> Self {
        let store = Arc::new(keeper.handle());
        store.next_epoch().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let writer = start_writer(store.clone(), move |durable| drop(tell.send(durable))).unwrap();
        Self { store, writer, told }
    }

    fn push(&self, seq: u64) {
        self.writer.push(weir_world::Seq(seq), vec![submit(seq.into(), seq, 1)]);
    }

    fn await_durable(&self, seq: u64) {
        loop {
            match self.told.recv_timeout(Duration::from_secs(60)).unwrap() {
                Durable::UpTo(up_to) if up_to >= weir_world::Seq(seq) => return,
                Durable::UpTo(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn await_trouble(&self) -> String {
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(trouble) = self.writer.trouble() {
                return trouble;
            }
            assert!(Instant::now() < patience, "nobody was told");
            sleep(Duration::from_millis(10));
        }
    }

    fn check(&self, upto: u64) {
        for seq in 1..=upto {
            assert!(
                self.store.job(Uuid::from_u128(seq.into())).unwrap().is_some(),
                "job {seq} is lost"
            );
        }
    }
}

#[test]
fn a_database_that_goes_and_comes_back_costs_nothing() {
    // SIGINT to all sessions, SIGKILL of a session's process with recovery: each in the middle of writing.
    if !wanted() {
        return;
    }
    let mut server = Server::start(&[]);
    let keeper = OnServer::on(&server);
    let load = Load::on(&keeper);
    let mut seq = 0;
    let mut push = |n: u64| {
        (0..n).for_each(|_| {
            seq += 1;
            load.push(seq);
        });
        seq
    };
    let first = push(20);
    load.await_durable(first);
    for how in ["stop", "kill"] {
        push(20);
        server.end(how);
        push(20);
        let trouble = load.await_trouble();
        assert!(!trouble.contains("token"), "{trouble}");
        let error = load.store.file(1).unwrap_err();
        assert!(error.is_passing(), "{error:?}");
        server.start_again();
        let last = push(1);
        load.await_durable(last);
        assert_eq!(load.writer.trouble(), None);
        load.check(last);
    }
}

#[test]
fn a_frozen_database_holds_up_and_loses_nothing() {
    if !wanted() {
        return;
    }
    let server = Server::start(&[]);
    let keeper = OnServer::on(&server);
    let load = Load::on(&keeper);
    (1..=20).for_each(|seq| load.push(seq));
    load.await_durable(20);
    for round in 0..3 {
        let begin = 21 + round * 40;
        (begin..begin + 20).for_each(|seq| load.push(seq));
        sleep(Duration::from_millis(3 * round));
        server.signal(Signal::STOP);
        (begin + 20..begin + 40).for_each(|seq| load.push(seq));
        sleep(Duration::from_millis(300));
        server.signal(Signal::CONT);
        load.await_durable(begin + 39);
    }
    load.check(140);
}

#[test]
fn a_full_disk_is_a_passing_trouble() {
    // The database says 53100 then; so does this trigger.
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let store = keeper.open();
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON files FOR EACH ROW EXECUTE FUNCTION refuse();";
    store.readers.with(|session| session.run(refuse)).unwrap();
    let error = store.apply(&[submit(1, 1, 1)]).unwrap_err();
    assert!(
        error.is_passing() && weir_auth::error_chain(&error).contains("No space left"),
        "{error:?}"
    );
    store
        .readers
        .with(|session| session.run("DROP TRIGGER refuse ON files"))
        .unwrap();
    store.apply(&[submit(1, 1, 1)]).unwrap();
}

/// A durable server with settings as operators are told to make them, and a store on it.
pub(in crate::store) struct Bench {
    pub(in crate::store) store: Arc<PostgresStore>,
    database: String,
    server: Server,
    _directory: tempfile::TempDir,
}

pub(in crate::store) fn bench() -> Bench {
    let server = Server::start(&[
        "-c",
        "shared_buffers=1GB",
        "-c",
        "max_wal_size=8GB",
        "-c",
        "checkpoint_timeout=15min",
    ]);
    let keeper = OnServer::on(&server);
    Bench {
        store: Arc::new(keeper.open()),
        database: keeper.database.database,
        server,
        _directory: keeper.directory,
    }
}

impl Bench {
    /// Rows like those of files, copied as text into a table without an index, one commit for all of these. Returns
    /// rows per second.
    pub(in crate::store) fn raw_copy(&self, jobs: &[crate::store::Submission]) -> f64 {
        use futures_util::SinkExt as _;
        let mut session = self.server.session(&self.database);
        let table = "CREATE TABLE raw (id bigint, a bigint, b bigint, source text, dest text, c text, d text, e text)";
        session.run(table).unwrap();
        let files = jobs.iter().flat_map(|job| &job.files);
        let row = |file: &weir_executor::job::NewFile| {
            format!(
                "{}\t1\t2\t{}\t{}\tADLER32\tdefault\tauto\n",
                file.id, file.source, file.destination
            )
        };
        let text = bytes::Bytes::from(files.map(row).collect::<String>());
        let rows = jobs.iter().map(|job| job.files.len()).sum::<usize>();
        let (start, mut n) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(4) {
            let copy = async {
                let sink = session.client().unwrap().copy_in("COPY raw FROM STDIN").await?;
                let mut sink = std::pin::pin!(sink);
                sink.send(text.clone()).await?;
                sink.finish().await
            };
            weir_store::postgres::wait(copy, Duration::from_secs(60))
                .unwrap()
                .unwrap();
            n += rows;
        }
        session.run("DROP TABLE raw").unwrap();
        n as f64 / start.elapsed().as_secs_f64()
    }
}

#[test]
fn a_node_that_stood_still_for_a_term_does_not_lead_whatever_the_databases_clock_says() {
    // The clock went back ten minutes and the scheduler died: no node scheduled until the clock had caught up.
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let (old, new) = (keeper.handle(), keeper.handle());
    let first = old.next_epoch().unwrap();
    // As after the clock has gone back: the term ends in ten minutes.
    let clock_went_back = || {
        let mut session = Server::shared().session(&keeper.database.database);
        for table in ["scheduler", "nodes"] {
            session
                .execute(&format!("UPDATE {table} SET until = until + interval '10 min'"), &[])
                .unwrap();
        }
    };
    let node = Node {
        id: Uuid::from_u128(7),
        url: "https://a".into(),
        role: "any".into(),
        slots: 1,
        epoch: first,
    };
    old.members.pulse(&node, &[], None).unwrap();
    let other = Node {
        id: Uuid::from_u128(8),
        ..node.clone()
    };
    new.members.pulse(&other, &[], None).unwrap();
    // The first one has heard that it is not alone.
    old.members.pulse(&node, &[], None).unwrap();
    let held = |standing: Result<Standing, StoreError>| matches!(standing, Ok(Standing::HeldBy(_)));
    let begun = Instant::now();
    while begun.elapsed() < TERM + Duration::from_secs(3) {
        clock_went_back();
        old.renew().unwrap();
        old.members.pulse(&node, &[], None).unwrap();
        assert!(held(new.stand()), "it lives, and says so");
        assert_eq!(new.members.peers().unwrap().len(), 2);
        sleep(Duration::from_millis(500));
    }
    clock_went_back();
    let died = Instant::now();
    let elected = loop {
        new.members.pulse(&other, &[], None).unwrap();
        let alive = new.members.peers().unwrap().len();
        match new.stand().unwrap() {
            Standing::Elected(epoch) => break epoch,
            Standing::HeldBy(_) => assert!(died.elapsed() < TERM * 2, "nobody takes over; {alive} live"),
        }
        sleep(Duration::from_millis(500));
    };
    assert!(elected > first && died.elapsed() + Duration::from_secs(1) >= TERM);
    while new.members.peers().unwrap().len() > 1 {
        assert!(died.elapsed() < TERM * 3, "a node that is dead counts as living");
        new.members.pulse(&other, &[], None).unwrap();
        sleep(Duration::from_millis(500));
    }
    new.bury(elected).unwrap();
    assert_eq!(new.members.all_peers().unwrap().len(), 1, "its row is gone");
    assert!(matches!(old.renew(), Err(StoreError::LeadershipLost)));
}
