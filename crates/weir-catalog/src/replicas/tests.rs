#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_model::catalog::AccountType;

use super::*;
use crate::{
    accounts,
    database::{Database, Work, testing::on_both},
    rses,
    schema::MIGRATIONS,
    testing::{NOW, attempt, done},
};

on_both!(MIGRATIONS;
    replicas_bring_their_files
    a_file_is_the_same_everywhere
    locked_replicas_have_no_tombstone
    thousands_are_registered_at_once
);

fn file(name: &str) -> New {
    New {
        did: format!("mc:{name}").parse().unwrap(),
        bytes: 10,
        adler32: Some("0a1b2c3d".into()),
        md5: None,
        path: None,
        is_coming: false,
        meta: "{}".into(),
    }
}

fn alice() -> AccountName {
    "alice".parse().unwrap()
}

/// Two RSEs and a scope.
async fn prepared(database: &Database) -> [RseId; 2] {
    let work = |session: &mut dyn Session| {
        accounts::add(session, &alice(), AccountType::User, None, NOW)?;
        accounts::scopes::add(session, &"mc".parse().unwrap(), &alice(), NOW)?;
        let mut make = |name: &str| rses::add(session, (&name.parse().unwrap(), name), &rses::Traits::default(), NOW);
        Ok([make("A")?, make("B")?])
    };
    done(database, work).await
}

fn adding(rse: RseId, files: Vec<New>) -> impl Work<()> {
    move |session: &mut dyn Session| add(session, rse, &files, &alice(), NOW)
}

async fn replicas_bring_their_files(database: Database) {
    let [a, b] = prepared(&database).await;
    assert_eq!(attempt(&database, adding(a, vec![file("f1"), file("f2")])).await, None);
    assert_eq!(attempt(&database, adding(b, vec![file("f2")])).await, None);
    let read = |session: &mut dyn Session| {
        let (f1, f2) = (
            dids::get(session, &file("f1").did)?,
            dids::get(session, &file("f2").did)?,
        );
        Ok((of(session, &[f1.id, f2.id])?, f1, f2))
    };
    let (found, f1, f2) = database.read(read).await.unwrap();
    let places = found
        .iter()
        .map(|one| (one.file, one.rse, one.rse_name.as_str()))
        .collect::<Vec<_>>();
    assert_eq!(places, [(f1.id, a, "A"), (f2.id, a, "A"), (f2.id, b, "B")]);
    assert!(
        found
            .iter()
            .all(|one| one.state == ReplicaState::Available && one.n_locks == 0 && one.bytes == 10)
    );
    assert_eq!(
        (f1.bytes, f1.adler32.as_deref(), f1.kind),
        (Some(10), Some("0a1b2c3d"), DidType::File)
    );
    let known = adding(a, vec![file("f1"), file("f2")]);
    assert_eq!(attempt(&database, known).await, None, "registered again");
    assert_eq!(
        attempt(&database, adding(b, vec![file("f3"), file("f3")])).await,
        Some(Class::Duplicate)
    );
    let none = |session: &mut dyn Session| dids::get(session, &file("f3").did).map(drop);
    assert_eq!(attempt(&database, none).await, Some(Class::DidNotFound), "all or none");
}

async fn a_file_is_the_same_everywhere(database: Database) {
    let [a, b] = prepared(&database).await;
    assert_eq!(attempt(&database, adding(a, vec![file("f")])).await, None);
    let other_size = New { bytes: 11, ..file("f") };
    let other_sum = New {
        adler32: Some("ffffffff".into()),
        ..file("f")
    };
    for other in [other_size, other_sum] {
        assert_eq!(
            attempt(&database, adding(b, vec![other])).await,
            Some(Class::FileConsistencyMismatch)
        );
    }
    let elsewhere = New {
        did: "no:f".parse().unwrap(),
        ..file("f")
    };
    assert_eq!(
        attempt(&database, adding(b, vec![elsewhere])).await,
        Some(Class::ScopeNotFound)
    );
    // A checksum that is left out contradicts nothing.
    let silent = New {
        adler32: None,
        ..file("f")
    };
    assert_eq!(attempt(&database, adding(b, vec![silent])).await, None);
}

async fn locked_replicas_have_no_tombstone(database: Database) {
    let [a, b] = prepared(&database).await;
    assert_eq!(attempt(&database, adding(a, vec![file("f")])).await, None);
    let set = move |rse: RseId| {
        move |session: &mut dyn Session| {
            let f = dids::get(session, &file("f").did)?.id;
            set_tombstone(session, (f, rse), NOW, NOW)
        }
    };
    assert_eq!(attempt(&database, set(a)).await, None);
    assert_eq!(attempt(&database, set(b)).await, Some(Class::ReplicaNotFound));
    let lock = |session: &mut dyn Session| session.execute("UPDATE replicas SET n_locks = 1", &[]).map(drop);
    assert_eq!(attempt(&database, lock).await, None);
    assert_eq!(attempt(&database, set(a)).await, Some(Class::ReplicaIsLocked));
    let bad = move |session: &mut dyn Session| {
        let f = dids::get(session, &file("f").did)?.id;
        set_states(session, a, &[(f, ReplicaState::Bad)].into(), NOW)?;
        Ok(of(session, &[f])?[0].state)
    };
    assert_eq!(done(&database, bad).await, ReplicaState::Bad);
}

async fn thousands_are_registered_at_once(database: Database) {
    let [a, _] = prepared(&database).await;
    let files = (0..1200).map(|n| file(&format!("f{n}"))).collect::<Vec<_>>();
    assert_eq!(attempt(&database, adding(a, files)).await, None);
    let read = |session: &mut dyn Session| {
        let ids = session.query("SELECT did_id FROM dids WHERE type = 'F'", &[])?;
        let ids = ids
            .iter()
            .map(|row| Ok(DidId(row.size(0)?)))
            .collect::<Result<Vec<_>, StoreError>>()?;
        of(session, &ids)
    };
    assert_eq!(database.read(read).await.unwrap().len(), 1200);
}
