#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use parking_lot::Mutex;
use weir_database::on_both;
use weir_http::{Client, ClientConfig, RunningServer, ServerLimits, ServerTls, TrustRoots};

use super::*;
use crate::{
    credentials::TokensConfig,
    replicas,
    rules::tests::{alice, file, prepared},
    schema::MIGRATIONS,
    testing::{done, protocol},
};

on_both!(MIGRATIONS;
    files_that_may_go_are_deleted_once
    a_failed_deletion_is_tried_again_and_delays_nothing
    cached_copies_stay_while_there_is_room
    a_slow_storage_delays_no_other
    a_file_that_another_replica_has_stays
);

/// A storage. Files whose name begins with `stuck` cannot be deleted.
#[derive(Debug, Default)]
struct Store {
    files: Mutex<BTreeSet<String>>,
    n_deletions: AtomicUsize,
}

async fn answer(State(store): State<Arc<Store>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let mut files = store.files.lock();
    match (request.method().as_str(), files.contains(&path)) {
        (_, false) => StatusCode::NOT_FOUND.into_response(),
        ("PROPFIND", true) => {
            let text = format!(
                "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{path}</D:href><D:propstat><D:status>HTTP/1.1 200 OK</D:status><D:prop>\
                 <D:resourcetype/><D:getcontentlength>10</D:getcontentlength></D:prop></D:propstat></D:response></D:multistatus>"
            );
            (StatusCode::MULTI_STATUS, text).into_response()
        }
        ("DELETE", true) if path.contains("stuck") => (StatusCode::INTERNAL_SERVER_ERROR, "no").into_response(),
        ("DELETE", true) => {
            files.remove(&path);
            store.n_deletions.fetch_add(1, Ordering::Relaxed);
            StatusCode::NO_CONTENT.into_response()
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

/// A storage with these files of the scope `mc`, which are registered at the RSE B and may go since the beginning of time plus their place.
async fn with_files(database: &Database, names: &[&str]) -> (Arc<Store>, RseId, RunningServer) {
    let store = Arc::new(Store::default());
    let router = Router::new().fallback(answer).with_state(store.clone());
    let listener = weir_http::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = weir_http::serve(listener, ServerTls::default(), ServerLimits::default(), router).unwrap();
    let [_, _, b] = prepared(database, 0).await;
    let new = names.iter().map(|name| file(name)).collect::<Vec<_>>();
    for one in &new {
        store.files.lock().insert(format!("/data/{}", paths::hashed(&one.did)));
    }
    let work = move |session: &mut dyn Session| {
        let mut protocol = protocol("dav", "127.0.0.1", 1);
        protocol.endpoint.port = port;
        protocols::add(session, b, &protocol)?;
        replicas::add(session, b, &new, &alice(), 1)?;
        session.execute("UPDATE replicas SET tombstone = did_id", &[])
    };
    done(database, work).await;
    (store, b, server)
}

fn reaper(database: &Database, greedy: bool) -> Reaper {
    let client = Client::new(ClientConfig::new(TrustRoots::default())).unwrap();
    let credentials = Credentials::new(&TokensConfig::default(), &client).unwrap();
    let config = DeletionConfig { greedy, parallel: 4 };
    Reaper::new(database.clone(), client, credentials, &config)
}

async fn n_replicas(database: &Database) -> u64 {
    let count = |session: &mut dyn Session| session.row("SELECT count(*) FROM replicas", &[])?.unwrap().size(0);
    database.read(count).await.unwrap()
}

async fn files_that_may_go_are_deleted_once(database: Database) {
    let names = (0..120).map(|n| format!("f{n}")).collect::<Vec<_>>();
    let names = names.iter().map(String::as_str).collect::<Vec<_>>();
    let (store, rse, _server) = with_files(&database, &names).await;
    // Another program was faster with one.
    store.files.lock().pop_first();
    let reaper = reaper(&database, true);
    let turns = [
        reaper.turn(rse).await.unwrap(),
        reaper.turn(rse).await.unwrap(),
        reaper.turn(rse).await.unwrap(),
    ];
    assert_eq!(
        turns.map(|turn| (turn.n_deleted, turn.n_failed)),
        [(100, 0), (20, 0), (0, 0)]
    );
    assert_eq!(
        (n_replicas(&database).await, store.n_deletions.load(Ordering::Relaxed)),
        (0, 119)
    );
    assert!(store.files.lock().is_empty());
}

async fn a_failed_deletion_is_tried_again_and_delays_nothing(database: Database) {
    let (store, rse, _server) = with_files(&database, &["a", "stuck", "z"]).await;
    let reaper = reaper(&database, true);
    let turn = reaper.turn(rse).await.unwrap();
    assert_eq!((turn.n_deleted, turn.n_failed), (2, 1));
    // Not at once, and not as long as there is nothing else.
    assert_eq!(reaper.turn(rse).await.unwrap().n_failed, 0);
    let due = |session: &mut dyn Session| deletion::rses(session, time::now());
    assert!(!database.read(due).await.unwrap().contains(&rse));
    let later = |session: &mut dyn Session| session.execute("UPDATE replicas SET updated = 1", &[]);
    done(&database, later).await;
    assert!(database.read(due).await.unwrap().contains(&rse));
    assert_eq!(reaper.turn(rse).await.unwrap().n_failed, 1);
    assert_eq!((n_replicas(&database).await, store.files.lock().len()), (1, 1));
}

async fn cached_copies_stay_while_there_is_room(database: Database) {
    let (_store, rse, _server) = with_files(&database, &["c1", "c2", "c3", "c4"]).await;
    let reaper = reaper(&database, false);
    assert_eq!(reaper.turn(rse).await.unwrap().n_deleted, 0);
    // Purged: it goes in any case.
    let purge = |session: &mut dyn Session| {
        session.execute(
            "UPDATE replicas SET tombstone = 0 WHERE did_id = (SELECT max(did_id) FROM replicas)",
            &[],
        )
    };
    done(&database, purge).await;
    assert_eq!(reaper.turn(rse).await.unwrap().n_deleted, 1);
    let report = move |session: &mut dyn Session| {
        space::set_limit(session, rse, "MinFreeSpace", 100)?;
        let usage = space::SpaceUsage {
            source: "storage".into(),
            used: 30,
            free: Some(85),
            files: None,
            updated: 1,
        };
        space::set_usage(session, rse, &usage)
    };
    done(&database, report).await;
    // Files of ten bytes: two are enough, and are counted as free from then on.
    assert_eq!(reaper.turn(rse).await.unwrap().n_deleted, 2);
    let usage = database
        .read(move |session: &mut dyn Session| space::usage(session, rse))
        .await
        .unwrap();
    assert_eq!((usage[0].free, usage[0].used), (Some(105), 10));
    assert_eq!(reaper.turn(rse).await.unwrap().n_deleted, 0);
    assert_eq!(n_replicas(&database).await, 1);
}

async fn a_slow_storage_delays_no_other(database: Database) {
    let (fast, _, _server) = with_files(&database, &["q1", "q2", "q3"]).await;
    // At another RSE each answer takes twenty seconds.
    let router = Router::new().fallback(|| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        StatusCode::NOT_FOUND
    });
    let listener = weir_http::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let _slow = weir_http::serve(listener, ServerTls::default(), ServerLimits::default(), router).unwrap();
    let at_slow = move |session: &mut dyn Session| {
        let slow = rses::get(session, &"A".parse().unwrap())?.id;
        let mut protocol = protocol("dav", "127.0.0.1", 1);
        protocol.endpoint.port = port;
        protocols::add(session, slow, &protocol)?;
        let files = ["s1", "s2"].map(file);
        replicas::add(session, slow, &files, &alice(), 1)?;
        session.execute("UPDATE replicas SET tombstone = 1 WHERE tombstone IS NULL", &[])?;
        Ok(slow)
    };
    let slow = done(&database, at_slow).await;
    let term = Arc::new(Term::new());
    term.renew(std::time::Instant::now() + Duration::from_secs(60));
    let running = tokio::spawn(reaper(&database, true).run(term));
    let gone = async {
        while !fast.files.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .expect("the slow storage delays the fast one");
    let left = move |session: &mut dyn Session| {
        let text = "SELECT count(*) FROM replicas WHERE rse_id = $1 AND state = 'B'";
        session.row(text, &weir_database::values![slow.0])?.unwrap().size(0)
    };
    // The slow one is asked once, and its files are marked as long as that takes.
    let marked = async {
        while database.read(left).await.unwrap() != 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), marked)
        .await
        .expect("the slow storage is not worked on");
    running.abort();
}

// Two files of an earlier version have one path: the first deletion would take the other's file away. A path that leads elsewhere is not asked for.
async fn a_file_that_another_replica_has_stays(database: Database) {
    let (store, rse, _server) = with_files(&database, &["one", "two", "out"]).await;
    let [one, two] = ["one", "two"].map(|name| format!("/data/{}", paths::hashed(&file(name).did)));
    let share = |session: &mut dyn Session| {
        let text = "UPDATE replicas SET path = $1, double_of = did_id WHERE did_id IN (SELECT did_id FROM dids WHERE name IN ('one', 'two'))";
        session.execute(text, &weir_database::values![paths::hashed(&file("one").did)])?;
        session.execute(
            "UPDATE replicas SET path = '../x' WHERE did_id = (SELECT did_id FROM dids WHERE name = 'out')",
            &[],
        )?;
        session.execute(
            "UPDATE replicas SET tombstone = NULL WHERE did_id = (SELECT did_id FROM dids WHERE name = 'two')",
            &[],
        )
    };
    done(&database, share).await;
    let reaper = reaper(&database, true);
    let turn = reaper.turn(rse).await.unwrap();
    assert_eq!((turn.n_deleted, turn.n_failed), (1, 1));
    assert_eq!(n_replicas(&database).await, 2);
    assert!(store.files.lock().contains(&one), "the other replica has it");
    let release =
        |session: &mut dyn Session| session.execute("UPDATE replicas SET tombstone = 1 WHERE path <> '../x'", &[]);
    done(&database, release).await;
    assert_eq!(reaper.turn(rse).await.unwrap().n_deleted, 1);
    let left = store.files.lock().iter().cloned().collect::<Vec<_>>();
    assert!(!left.contains(&one) && left.contains(&two), "{left:?}");
}
