#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_database::{Database, Work, on_both};
use weir_model::catalog::AccountType;

use super::*;
use crate::{
    accounts, rses,
    schema::MIGRATIONS,
    testing::{NOW, attempt, done, protocol},
};

on_both!(MIGRATIONS;
    replicas_bring_their_files
    a_file_is_the_same_everywhere
    locked_replicas_have_no_tombstone
    thousands_are_registered_at_once
    a_path_belongs_to_one_file
    doubles_of_an_earlier_version_are_found
);

fn file(name: &str) -> NewReplica {
    NewReplica {
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

fn adding(rse: RseId, files: Vec<NewReplica>) -> impl Work<()> {
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
    let other_size = NewReplica { bytes: 11, ..file("f") };
    let other_sum = NewReplica {
        adler32: Some("ffffffff".into()),
        ..file("f")
    };
    for other in [other_size, other_sum] {
        assert_eq!(
            attempt(&database, adding(b, vec![other])).await,
            Some(Class::FileConsistencyMismatch)
        );
    }
    let elsewhere = NewReplica {
        did: "no:f".parse().unwrap(),
        ..file("f")
    };
    assert_eq!(
        attempt(&database, adding(b, vec![elsewhere])).await,
        Some(Class::ScopeNotFound)
    );
    // A checksum that is left out contradicts nothing.
    let silent = NewReplica {
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

/// `name` at a path of the client's choice.
fn at(name: &str, path: &str) -> NewReplica {
    NewReplica {
        path: Some(path.into()),
        ..file(name)
    }
}

// A second file with the path of another one would have that deleted with its own replica.
async fn a_path_belongs_to_one_file(database: Database) {
    let [a, b] = prepared(&database).await;
    let add = |rse, files: Vec<NewReplica>| attempt(&database, adding(rse, files));
    assert_eq!(add(a, vec![at("v", "victim")]).await, None);
    assert_eq!(add(a, vec![at("q", "victim")]).await, Some(Class::Duplicate));
    assert_eq!(add(a, vec![at("q1", "x"), at("q2", "x")]).await, Some(Class::Duplicate));
    assert_eq!(add(a, vec![at("v", "victim")]).await, None, "registered again");
    assert_eq!(add(a, vec![at("v", "elsewhere")]).await, Some(Class::Duplicate));
    assert_eq!(add(b, vec![at("q", "victim")]).await, None, "another storage");
    // The path that follows from the DID of a file that was registered without one.
    let hashed = paths::hashed(&file("w").did);
    assert_eq!(add(a, vec![file("w")]).await, None);
    assert_eq!(add(a, vec![at("q", &hashed)]).await, Some(Class::Duplicate));
    // Through the folder of another RSE of the same storage.
    let share = move |session: &mut dyn Session| {
        let mut inner = protocol("davs", "SE", 1);
        inner.prefix = "/data/inner/".into();
        rses::protocols::add(session, a, &protocol("davs", "se", 1))?;
        rses::protocols::add(session, b, &inner)
    };
    done(&database, share).await;
    assert_eq!(add(a, vec![at("q", "inner/new")]).await, Some(Class::InvalidPath));
    assert_eq!(add(a, vec![at("i", "innermost")]).await, None);
}

async fn doubles_of_an_earlier_version_are_found(database: Database) {
    let [a, b] = prepared(&database).await;
    let files = vec![
        at("f1", "one"),
        at("f2", "two"),
        at("f3", "three"),
        at("f4", "../four"),
        file("f5"),
    ];
    assert_eq!(attempt(&database, adding(a, files)).await, None);
    let as_before = |session: &mut dyn Session| {
        session.execute("DROP INDEX replicas_by_path", &[])?;
        session.execute("ALTER TABLE replicas DROP COLUMN double_of", &[])?;
        session.execute("UPDATE replicas SET path = 'one' WHERE path IN ('two', 'three')", &[])?;
        for statement in crate::schema::PATHS.split(';').filter(|text| !text.trim().is_empty()) {
            session.execute(statement, &[])?;
        }
        check::paths(session)
    };
    let found = done(&database, as_before).await;
    let told = found.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        told,
        [
            "A: mc:f1, mc:f2, mc:f3 have one path, one: the file is not deleted while more than one of them is there",
            "A: the path of mc:f4, ../four, holds the segment . or ..: it is neither read nor deleted",
        ]
    );
    assert_eq!(
        attempt(&database, adding(a, vec![at("f6", "one")])).await,
        Some(Class::Duplicate)
    );
    let share = move |session: &mut dyn Session| {
        for rse in [a, b] {
            rses::protocols::add(session, rse, &protocol("davs", "se", 1))?;
        }
        check::paths(session)
    };
    let told = done(&database, share).await.last().map(ToString::to_string);
    assert_eq!(
        told.as_deref(),
        Some("A and B share a folder: a file there has a path at both")
    );
}
