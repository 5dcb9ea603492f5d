#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use super::*;
use crate::on_both;

/// A refusal of the work itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Refusal(&'static str);

const TABLES: &[&str] = &[
    "CREATE TABLE counts (name TEXT PRIMARY KEY, n BIGINT NOT NULL); CREATE TABLE rows (id ID PRIMARY KEY, word TEXT)",
];

on_both!(TABLES;
    transactions_side_by_side_lose_nothing
    a_refusal_leaves_no_trace_and_harms_no_neighbour
    a_panic_harms_no_neighbour
    rows_come_back_as_they_went
    many_queries_answer_in_their_order
    a_reader_sees_one_state
    a_statement_that_fails_is_no_trouble_of_the_database
);

async fn count(database: &Database, name: &'static str) -> i64 {
    let read = move |session: &mut dyn Session| {
        let row = session.row("SELECT n FROM counts WHERE name = $1", &values![name])?;
        row.map_or(Ok(0), |row| row.int(0))
    };
    database.read(read).await.unwrap()
}

fn add(name: &'static str) -> impl Work<()> {
    move |session: &mut dyn Session| {
        let text = "INSERT INTO counts VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = counts.n + 1";
        session.execute(text, &values![name]).map(drop)
    }
}

async fn transactions_side_by_side_lose_nothing(database: Database) {
    let all = (0..100).map(|n| {
        let database = database.clone();
        // The last four wait for each other's rows if they come at the wrong time: a deadlock, which the server finds after a second.
        let (one, other) = match n {
            ..96 => ("a", "b"),
            96 | 97 => ("c", "d"),
            _ => ("d", "c"),
        };
        tokio::spawn(async move {
            let both = move |session: &mut dyn Session| {
                add(one)(session)?;
                add(other)(session)
            };
            database.write(both).await
        })
    });
    for done in all.collect::<Vec<_>>() {
        done.await.unwrap().unwrap();
    }
    for (name, expected) in [("a", 96), ("b", 96), ("c", 4), ("d", 4)] {
        assert_eq!(count(&database, name).await, expected, "{name}");
    }
}

async fn a_refusal_leaves_no_trace_and_harms_no_neighbour(database: Database) {
    let refusal = || Refusal("it is there");
    let refused = move |session: &mut dyn Session| -> Result<(), StoreError> {
        add("a")(session)?;
        Err(StoreError::refused(refusal()))
    };
    let (refused, done) = futures_util::join!(database.write(refused), database.write(add("b")));
    assert_eq!(refused.unwrap_err().refusal::<Refusal>(), Some(&refusal()));
    done.unwrap();
    assert_eq!((count(&database, "a").await, count(&database, "b").await), (0, 1));
}

async fn a_panic_harms_no_neighbour(database: Database) {
    let panics = |session: &mut dyn Session| -> Result<(), StoreError> {
        add("a")(session)?;
        panic!("as a defect would");
    };
    let (panicked, done) = futures_util::join!(database.write(panics), database.write(add("b")));
    assert!(matches!(panicked, Err(StoreError::Broken(_))));
    done.unwrap();
    for _ in 0..20 {
        let panics = |_: &mut dyn Session| -> Result<(), StoreError> { panic!("as a defect would") };
        assert!(matches!(database.read(panics).await, Err(StoreError::Broken(_))));
    }
    assert_eq!((count(&database, "a").await, count(&database, "b").await), (0, 1));
}

async fn rows_come_back_as_they_went(database: Database) {
    let words = ["it's", "\"quoted\"", "𝔘", "a\\b", "%_"];
    let write = move |session: &mut dyn Session| {
        let many = words.map(|word| values![word].to_vec());
        assert_eq!(session.execute_many("INSERT INTO rows (word) VALUES ($1)", &many)?, 5);
        let row = session.row(
            "INSERT INTO rows (word) VALUES ($1) RETURNING id",
            &values![Option::<&str>::None],
        )?;
        row.unwrap().int(0)
    };
    let last = database.write(write).await.unwrap();
    let text = "SELECT word, id, id > 3 FROM rows ORDER BY id FOR UPDATE";
    let read = move |session: &mut dyn Session| session.query(text, &[]);
    let rows = database.write(read).await.unwrap();
    let found = rows
        .iter()
        .map(|row| row.optional(0, Row::text).unwrap())
        .collect::<Vec<_>>();
    assert_eq!(found, words.map(Some).into_iter().chain([None]).collect::<Vec<_>>());
    assert_eq!(rows.last().unwrap().int(1).unwrap(), last);
    assert!(rows[4].bool(2).unwrap() && !rows[0].bool(2).unwrap());
}

async fn many_queries_answer_in_their_order(database: Database) {
    let write = |session: &mut dyn Session| {
        let many = (1..=30_i64).map(|id| values![id, format!("w{}", id % 3)].to_vec());
        session.execute_many("INSERT INTO rows (id, word) VALUES ($1, $2)", &many.collect::<Vec<_>>())
    };
    assert_eq!(database.write(write).await.unwrap(), 30);
    // Few are asked one by one, many in one statement.
    for n in [3, 25] {
        let ask = move |session: &mut dyn Session| {
            let text =
                "SELECT r.id, r.word FROM rows r WHERE r.id <= $1 AND r.word = $2 ORDER BY r.id DESC FOR UPDATE OF r";
            let keys = (0..n).rev().map(|id| values![i64::from(id), "w0"].to_vec());
            session.query_many(text, &keys.collect::<Vec<_>>())
        };
        let found = database.write(ask).await.unwrap();
        let found = found.iter().map(|row| row.int(0).unwrap()).collect::<Vec<_>>();
        let below = |top: i64| (1..=top).rev().filter(|id| id % 3 == 0);
        let expected = (0..n).rev().flat_map(|top| below(top.into())).collect::<Vec<_>>();
        assert_eq!(found, expected, "{n} keys");
    }
}

async fn a_reader_sees_one_state(database: Database) {
    database.write(add("a")).await.unwrap();
    let other = database.clone();
    let runtime = tokio::runtime::Handle::current();
    let read = move |session: &mut dyn Session| {
        let n = |session: &mut dyn Session| session.row("SELECT n FROM counts", &[])?.unwrap().int(0);
        let before = n(session)?;
        runtime.block_on(other.write(add("a")))?;
        Ok((before, n(session)?))
    };
    assert_eq!(database.read(read).await.unwrap(), (1, 1));
    assert_eq!(count(&database, "a").await, 2);
}

async fn a_statement_that_fails_is_no_trouble_of_the_database(database: Database) {
    let twice = |session: &mut dyn Session| {
        session.execute("INSERT INTO counts VALUES ('a', 1)", &[])?;
        session.execute("INSERT INTO counts VALUES ('a', 1)", &[])
    };
    assert!(!database.write(twice).await.unwrap_err().is_passing());
    assert_eq!(count(&database, "a").await, 0);
    database.write(add("a")).await.unwrap();
}
