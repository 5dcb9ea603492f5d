//! A toy service against a real server: the guarantees that every service on PostgreSQL relies on.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{
    sync::{Arc, mpsc},
    thread::sleep,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::process::Signal;
use uuid::Uuid;
use weir_http::TrustRoots;
use weir_world::Seq;

use super::{
    testing::{Server, wanted},
    *,
};
use crate::error::StoreError;
use crate::lease::Lease;
use crate::standing::Standing;
use crate::writer::Change;
use crate::writer::Durable;
use crate::writer::Writer;

const WORK: &str = "work";

/// Counts additions, by name.
struct Toy {
    pool: Pool,
    election: Arc<Election>,
    members: Members,
    leadership: Mutex<Option<Leadership>>,
}

#[derive(Debug, Clone)]
struct Add(u64);

impl Change for Add {
    fn name(&self) -> &'static str {
        "add"
    }
}

impl Toy {
    fn on(address: &Address) -> Self {
        let connector = Arc::new(Connector::new(address, &TrustRoots::default()).unwrap());
        let election = Arc::new(Election::new("leader"));
        let pool = Pool::new(connector.clone(), Purpose::Batches, 3);
        let tables = [
            Election::schema("leader"),
            Members::SCHEMA.to_owned(),
            Leases::new(WORK).schema(),
            "CREATE TABLE numbers (number bigint PRIMARY KEY)".to_owned(),
        ];
        let tables = tables.each_ref().map(String::as_str);
        pool.with(|session| migrate(session, &tables)).unwrap();
        Self {
            members: Members::new(connector, election.clone()),
            pool,
            election,
            leadership: Mutex::default(),
        }
    }

    fn seize(&self) -> u64 {
        let leadership = self.pool.with(|session| self.election.seize(session)).unwrap();
        *self.leadership.lock() = Some(leadership);
        leadership.epoch
    }

    fn stand(&self) -> Standing<Leadership> {
        self.pool.with(|session| self.election.stand(session)).unwrap()
    }

    fn add(&self, numbers: &[Add]) -> Result<(), StoreError> {
        let mut leadership = self.leadership.lock();
        let leadership = leadership.as_mut().ok_or(StoreError::LeadershipLost)?;
        let numbers = numbers.iter().map(|add| add.0 as i64).collect::<Vec<_>>();
        let write = |session: &mut Session| {
            session
                .execute("INSERT INTO numbers SELECT * FROM unnest($1::bigint[])", &[&numbers])
                .map(drop)
        };
        self.pool
            .with(|session| self.election.write(leadership, session, numbers[0], write))
    }

    fn numbers(&self) -> Vec<i64> {
        let text = "SELECT number FROM numbers ORDER BY number";
        let rows = self.pool.with(|session| session.query(text, &[])).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

fn deposed<T>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::LeadershipLost))
}

#[test]
fn a_deposed_leader_is_fenced_by_its_epoch() {
    // A paused process would repeat the work of its successor.
    if !wanted() {
        return;
    }
    let database = Server::shared().database();
    let (old, new) = (Toy::on(&database), Toy::on(&database));
    let first = old.seize();
    old.add(&[Add(1)]).unwrap();
    assert!(matches!(new.stand(), Standing::HeldBy(_)), "the old one lives");
    let second = new.seize();
    assert!(second > first);
    assert!(deposed(&old.add(&[Add(2)])));
    let kept = *old.leadership.lock();
    assert!(deposed(
        &old.pool.with(|session| old.election.renew(kept.unwrap(), session))
    ));
    assert!(deposed(&old.election.while_leading(&old.pool, first, |_| Ok(()))));
    new.add(&[Add(3)]).unwrap();
    new.election.while_leading(&new.pool, second, |_| Ok(())).unwrap();
    assert_eq!(old.numbers(), [1, 3]);
}

#[test]
fn a_batch_whose_commit_was_not_answered_is_written_once() {
    // Given again it would be refused as a duplicate of itself, or counted twice.
    if !wanted() {
        return;
    }
    let toy = Toy::on(&Server::shared().database());
    toy.seize();
    let before = *toy.leadership.lock();
    toy.add(&[Add(1)]).unwrap();
    // The commit came through, and nothing was heard of it.
    *toy.leadership.lock() = before;
    toy.add(&[Add(1)]).unwrap();
    *toy.leadership.lock() = before;
    toy.add(&[Add(2)]).unwrap();
    assert_eq!(toy.numbers(), [1, 2]);
}

#[test]
fn a_database_that_freezes_or_dies_costs_nothing() {
    if !wanted() {
        return;
    }
    let mut server = Server::start(&[]);
    let toy = Arc::new(Toy::on(&server.database()));
    toy.seize();
    let (tell, told) = mpsc::channel();
    let adding = toy.clone();
    let writer = Writer::start(
        move |adds: &[Add]| adding.add(adds),
        move |durable| drop(tell.send(durable)),
    )
    .unwrap();
    let mut last = 0;
    let mut push = |n: u64| {
        for _ in 0..n {
            last += 1;
            writer.push(Seq(last), vec![Add(last)]);
        }
        Seq(last)
    };
    let await_durable = |upto: Seq| {
        while !matches!(told.recv_timeout(Duration::from_secs(60)).unwrap(), Durable::UpTo(seq) if seq >= upto) {}
    };
    await_durable(push(20));
    push(20);
    server.signal(Signal::STOP);
    push(20);
    sleep(Duration::from_millis(300));
    server.signal(Signal::CONT);
    await_durable(push(1));
    push(20);
    server.end("kill");
    push(20);
    let patience = Instant::now() + Duration::from_secs(60);
    while writer.trouble().is_none() {
        assert!(Instant::now() < patience, "nobody was told");
        sleep(Duration::from_millis(10));
    }
    server.start_again();
    await_durable(push(1));
    assert_eq!(writer.trouble(), None);
    assert_eq!(toy.numbers(), (1..=102).collect::<Vec<_>>());
}

#[test]
fn a_piece_has_one_worker_and_a_frozen_one_applies_nothing() {
    if !wanted() {
        return;
    }
    let toy = Toy::on(&Server::shared().database());
    let leases = Leases::new(WORK);
    let take = |life: u64| {
        let life = Duration::from_secs(life);
        toy.pool.with(|session| leases.take(session, "a", life)).unwrap()
    };
    let confirm = |lease: &Lease| {
        let apply = |session: &mut Session| leases.confirm(session, lease);
        toy.pool.with(|session| session.transaction("BEGIN", apply))
    };
    let frozen = take(0).unwrap();
    sleep(Duration::from_millis(5));
    let second = take(60).unwrap();
    assert!(second.term > frozen.term && take(60).is_none());
    assert!(deposed(&confirm(&frozen)));
    let renew = |lease| {
        toy.pool
            .with(|session| leases.renew(session, lease, Duration::from_secs(60)))
    };
    assert!(deposed(&renew(&frozen)));
    renew(&second).unwrap();
    // While its result is applied it cannot be taken, even if its term ends meanwhile.
    toy.pool
        .with(|session| {
            leases.renew(session, &second, Duration::ZERO)?;
            session.transaction("BEGIN", |session| {
                leases.confirm(session, &second)?;
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| take(60));
                    sleep(Duration::from_millis(200));
                    assert!(!other.is_finished(), "taken in the middle");
                    session.run("COMMIT; BEGIN")?;
                    assert!(other.join().unwrap().unwrap().term > second.term);
                    Ok(())
                })
            })
        })
        .unwrap();
    assert!(deposed(&confirm(&second)));
}

#[test]
fn deferred_statements_run_in_order_or_not_at_all() {
    if !wanted() {
        return;
    }
    let toy = Toy::on(&Server::shared().database());
    let number = |n: i32| vec![Box::new(n) as Owned];
    let insert = "INSERT INTO later VALUES ($1)";
    let count = "SELECT count(*) FROM later";
    let counted = |session: &mut Session| Ok(session.row(count, &[])?.unwrap().get::<_, i64>(0));
    toy.pool
        .with(|session| session.run("CREATE TABLE later (n integer PRIMARY KEY)"))
        .unwrap();
    let transaction = |work: &dyn Fn(&mut Session) -> Result<i64, StoreError>| {
        toy.pool.with(|session| session.transaction("BEGIN", work))
    };
    // More than wait at once; a query sees all that came before it.
    let many = transaction(&|session| {
        for n in 0..100 {
            session.execute_later(insert, number(n))?;
        }
        counted(session)
    });
    assert_eq!(many.unwrap(), 100);
    // Nothing but later statements: they are sent with the end of the transaction.
    let alone = transaction(&|session| session.execute_later(insert, number(100)).map(|()| 0));
    alone.unwrap();
    assert_eq!(toy.pool.with(|session| session.snapshot(counted)).unwrap(), 101);
    // A failed statement is reported at the end, and nothing stays.
    let twice = transaction(&|session| {
        session.execute_later(insert, number(200))?;
        session.execute_later(insert, number(200)).map(|()| 0)
    });
    assert!(!twice.unwrap_err().is_passing());
    // A refusal leaves nothing of the queued statements.
    let refused = transaction(&|session| {
        session.execute_later(insert, number(300))?;
        Err(StoreError::LeadershipLost)
    });
    assert!(matches!(refused, Err(StoreError::LeadershipLost)));
    // Neither does a reader leave anything for the next user of its session.
    let unread = |session: &mut Session| {
        let n = counted(session)?;
        session.execute_later(insert, number(400)).map(|()| n)
    };
    assert_eq!(toy.pool.with(|session| session.snapshot(unread)).unwrap(), 101);
    assert_eq!(toy.pool.with(counted).unwrap(), 101);
    for _ in 0..3 {
        assert_eq!(toy.pool.with(|session| session.snapshot(counted)).unwrap(), 101);
    }
    assert_eq!(transaction(&|_| Ok(7)).unwrap(), 7);
}

#[test]
fn a_node_alone_has_a_long_term_that_others_see() {
    // A scheduler that believes to be alone would copy on without the database, and a new one would copy the same.
    if !wanted() {
        return;
    }
    let database = Server::shared().database();
    let (one, two) = (Toy::on(&database), Toy::on(&database));
    let node = |id| Node {
        id: Uuid::from_u128(id),
        url: "https://node".into(),
        role: "any".into(),
        slots: 1,
        epoch: 0,
    };
    let left = || {
        let text = "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM nodes ORDER BY node";
        let rows = one.members.with(|session| session.query(text, &[])).unwrap();
        rows.iter().map(|row| row.get::<_, f64>(0)).collect::<Vec<_>>()
    };
    let (short, long) = (TERM.as_secs_f64(), TERM_ALONE.as_secs_f64());
    assert_eq!(one.members.pulse(&node(1), &[], None).unwrap().term, TERM_ALONE);
    assert!(left()[0] > short && left()[0] <= long);
    assert_eq!(two.members.pulse(&node(2), &[], None).unwrap().term, TERM);
    assert!(
        left()[0] > short,
        "it may not know of the other yet, and counts on its time"
    );
    assert_eq!(one.members.pulse(&node(1), &[], None).unwrap().term, TERM);
    assert!(left().iter().all(|left| *left <= short), "{:?}", left());
    two.members.leave(Uuid::from_u128(2)).unwrap();
    let renamed = one.members.pulse(&node(3), &[1, 2].map(Uuid::from_u128), None).unwrap();
    assert_eq!((renamed.term, left().len()), (TERM_ALONE, 1));
}

#[test]
fn doors_hear_what_the_newest_scheduler_holds() {
    // They would ask it for each job, or take jobs that it has no room for.
    if !wanted() {
        return;
    }
    let store = Toy::on(&Server::shared().database());
    let says = |id, epoch, holds| {
        let node = Node {
            id: Uuid::from_u128(id),
            url: "https://node".into(),
            role: "any".into(),
            slots: 1,
            epoch,
        };
        store.members.pulse(&node, &[], holds).unwrap().holds
    };
    assert_eq!(says(1, 1, Some("old")), None);
    assert_eq!(says(2, 1, None).as_deref(), Some("old"));
    says(3, 2, Some("new"));
    assert_eq!(says(2, 1, None).as_deref(), Some("new"));
    says(3, 2, None);
    says(1, 2, None);
    assert_eq!(says(2, 2, None), None);
}
