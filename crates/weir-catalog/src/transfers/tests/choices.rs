//! The choice of sources, ways and destinations.

use weir_service::time;

use weir_model::catalog::RequestWait;

use crate::requests::{
    outgoing,
    waiting::{self, OpenRequests},
};

use super::*;

on_both!(MIGRATIONS;
    a_failed_source_is_followed_by_another
    a_full_destination_gets_nothing
    each_request_waits_for_one_thing
    a_large_rule_leaves_room_to_others
    many_full_streams_hold_no_other_back
    a_file_without_a_direct_link_hops_and_leaves_nothing
    sources_of_transfers_are_not_deleted
);

async fn a_failed_source_is_followed_by_another(database: Database) {
    let (service, url, _server) = serve();
    let [s, a, b] = with_rule(&database, 1).await;
    let copy = move |session: &mut dyn Session| {
        crate::replicas::add(session, b, &[file("f00000")], &alice(), 1)?;
        distances::set(session, b, a, 9)
    };
    done(&database, copy).await;
    let mut transfers = submitter(&database, &url);
    let mut sources = Vec::new();
    for _ in 0..3 {
        done(&database, |session: &mut dyn Session| {
            session.execute("UPDATE requests SET not_before = 0", &[])
        })
        .await;
        pass(&mut transfers).await;
        let read = |session: &mut dyn Session| session.row("SELECT source FROM requests", &[])?.unwrap().size(0);
        sources.push(RseId(database.read(read).await.unwrap() as u32));
        service.end("FAILED", |_| true);
        pass(&mut transfers).await;
    }
    assert_eq!(sources, [s, b, s]);
    assert_eq!(service.n_jobs(), 3, "each attempt is another job");
    assert_eq!(rule(&database).await.error.as_deref(), Some("disk on fire"));
}

async fn a_full_destination_gets_nothing(database: Database) {
    let (service, url, _server) = serve();
    let [_, a, _] = with_rule(&database, 3).await;
    let usage = move |session: &mut dyn Session| {
        let usage = space::SpaceUsage {
            source: "storage".into(),
            used: 0,
            free: Some(25),
            files: None,
            updated: time::now(),
        };
        space::set_usage(session, a, &usage)
    };
    done(&database, usage).await;
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    assert_eq!(service.files().len(), 2);
    let reasons = texts(&database, "SELECT reason FROM requests WHERE state = 'Q'").await;
    assert!(
        reasons.len() == 1 && reasons[0].contains("A has no room: 5 bytes"),
        "{reasons:?}"
    );
    let room = database
        .read(move |session: &mut dyn Session| space::room(session, a))
        .await
        .unwrap();
    assert_eq!(room, Some(5));
    let open = open(&database, &transfers).await;
    let waiting = open
        .waiting
        .iter()
        .map(|((rse, wait), all)| (rse.as_str(), *wait, all.requests));
    assert_eq!(waiting.collect::<Vec<_>>(), [("A", RequestWait::Room, 1)]);
    assert_eq!((open.reserved["A"].requests, open.reserved["A"].bytes), (2, 20));
}

/// The requests that have not ended, as metrics and status tell them.
async fn open(database: &Database, transfers: &Transfers) -> OpenRequests {
    let most = transfers.config.in_flight as u64;
    let count = move |session: &mut dyn Session| waiting::count(session, time::now(), most);
    database.read(count).await.unwrap()
}

async fn each_request_waits_for_one_thing(database: Database) {
    // Wrong: an operator sees a queue, and not whether room, a service, a limit or time is what it waits for.
    let (service, url, _server) = serve();
    with_rule(&database, 30).await;
    let mut transfers = submitter(&database, &url);
    transfers.config.in_flight = 10;
    let told = async |transfers: &Transfers| {
        let open = open(&database, transfers).await;
        let all = open.waiting.iter().map(|((_, wait), all)| (*wait, all.requests));
        (all.collect::<Vec<_>>(), open.reserved.get("A").map(|all| all.requests))
    };
    assert_eq!(told(&transfers).await, (vec![(RequestWait::Turn, 30)], None));
    service.set(Mood::Busy(60));
    pass(&mut transfers).await;
    // The job that was handed over is submitted again; the other requests have used up their share.
    let (waits, reserved) = told(&transfers).await;
    assert_eq!(
        (waits, reserved),
        (vec![(RequestWait::Share, 22), (RequestWait::Submission, 8)], Some(8))
    );
    service.set(Mood::Good);
    let mut transfers = submitter(&database, &url);
    transfers.config.in_flight = 10;
    pass(&mut transfers).await;
    assert_eq!(told(&transfers).await, (vec![(RequestWait::Share, 22)], Some(8)));
    service.end("FAILED", |_| true);
    service.set(Mood::Good);
    transfers.config.in_flight = 1;
    pass(&mut transfers).await;
    let (waits, _) = told(&transfers).await;
    assert_eq!(waits, [(RequestWait::Share, 21), (RequestWait::Retry, 8)]);
    let mut elsewhere = submitter(&database, "");
    elsewhere.config.services.clear();
    elsewhere.services.clear();
    service.end("FINISHED", |_| true);
    pass(&mut transfers).await;
    pass(&mut elsewhere).await;
    let waits = told(&elsewhere).await.0;
    assert!(waits.iter().any(|(wait, _)| *wait == RequestWait::Service), "{waits:?}");
}

async fn a_large_rule_leaves_room_to_others(database: Database) {
    // Wrong: the first rule has all that the transfer service takes, and its slow files hold every other rule up.
    let (service, url, _server) = serve();
    let [.., b] = with_rule(&database, 30).await;
    let mut transfers = submitter(&database, &url);
    transfers.config.in_flight = 10;
    pass(&mut transfers).await;
    assert_eq!(service.files().len(), 8, "four fifths for one alone");
    done(&database, adding("r2", "d", wish("B"))).await;
    pass(&mut transfers).await;
    let submitted = "SELECT request_id FROM requests WHERE state = 'S' AND rse_id = $1";
    let read = move |session: &mut dyn Session| Ok(session.query(submitted, &values![b.0])?.len());
    assert_eq!(database.read(read).await.unwrap(), 1, "two are free, and one stays so");
    service.end("FINISHED", |_| true);
    pass(&mut transfers).await;
    pass(&mut transfers).await;
    assert_eq!(database.read(read).await.unwrap(), 1, "it goes on, beside the other");
    assert!(
        service
            .files()
            .iter()
            .filter(|file| file["file_state"] == "SUBMITTED")
            .count()
            <= 10
    );
}

async fn many_full_streams_hold_no_other_back(database: Database) {
    // Wrong: the statement that passes over full streams grows beyond the depth that SQLite takes, and nothing is submitted any more.
    const STREAMS: u64 = 1_500;
    let [_, a, _] = with_rule(&database, 1).await;
    let fill = move |session: &mut dyn Session| {
        let text = "INSERT INTO requests (did_id, rse_id, state, n_failures, cancel, not_before, attempt, activity, priority, account, created,
            updated) VALUES ($1, $2, 'S', 0, $3, 0, 1, $4, 3, 'alice', 0, 0)";
        let row = |n: u64| values![1_000_000 + n, a.0, false, format!("activity {n}").as_str()].to_vec();
        let rows = (0..STREAMS).map(row).collect::<Vec<_>>();
        session.execute_many(text, &rows)
    };
    done(&database, fill).await;
    let next = |session: &mut dyn Session| outgoing::next(session, time::now(), 10, STREAMS + 1);
    let (due, _) = database.read(next).await.unwrap();
    assert_eq!(due.len(), 1, "one more may go out, and it is of a stream that has none");
    let full = |session: &mut dyn Session| outgoing::next(session, time::now(), 10, STREAMS);
    assert_eq!(database.read(full).await.unwrap(), (Vec::new(), false));
}

async fn a_file_without_a_direct_link_hops_and_leaves_nothing(database: Database) {
    let (service, url, _server) = serve();
    let [s, a, b] = with_rule(&database, 1).await;
    let only_over_b = move |session: &mut dyn Session| {
        distances::remove(session, s, a)?;
        rses::attributes::set(session, b, "available_for_multihop", "True")
    };
    done(&database, only_over_b).await;
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    let files = service.files();
    let urls = files.iter().map(|file| {
        let end = |key: &str| {
            file["sent"][key][0]
                .as_str()
                .unwrap()
                .split('.')
                .next()
                .unwrap()
                .to_owned()
        };
        (end("sources"), end("destinations"))
    });
    let host = |name: &str| format!("davs://{name}");
    assert_eq!(
        urls.collect::<Vec<_>>(),
        [(host("s"), host("b")), (host("b"), host("a"))]
    );
    let params = service.jobs.lock().values().next().unwrap()["params"].clone();
    assert_eq!(params["multihop"], true);
    let at_b = move |session: &mut dyn Session| {
        let row = session.row("SELECT state FROM replicas WHERE rse_id = $1", &values![b.0])?;
        row.map(|row| Ok(row.text(0)?.to_owned())).transpose()
    };
    assert_eq!(database.read(at_b).await.unwrap().as_deref(), Some("C"));
    // The first hop fails: the second never has its turn.
    service.end("FAILED", |file| file["file_id"] == 1);
    service.end("NOT_USED", |_| true);
    pass(&mut transfers).await;
    assert_eq!(rule(&database).await.error.as_deref(), Some("disk on fire"));
    assert_eq!(database.read(at_b).await.unwrap().as_deref(), Some("B"));
    // Once that is deleted the next attempt goes the same way.
    let again = move |session: &mut dyn Session| {
        session.execute("DELETE FROM replicas WHERE rse_id = $1", &values![b.0])?;
        session.execute("UPDATE requests SET not_before = 0", &[])
    };
    done(&database, again).await;
    pass(&mut transfers).await;
    assert_eq!(service.n_jobs(), 2);
    service.end("FINISHED", |_| true);
    pass(&mut transfers).await;
    assert_eq!(rule(&database).await.state, RuleState::Ok);
    assert_eq!(database.read(at_b).await.unwrap().as_deref(), Some("B"));
}

async fn sources_of_transfers_are_not_deleted(database: Database) {
    use crate::replicas::deletion;
    let (_service, url, _server) = serve();
    let [s, a, _] = with_rule(&database, 2).await;
    let obsolete =
        |session: &mut dyn Session| session.execute("UPDATE replicas SET tombstone = 0 WHERE n_locks = 0", &[]);
    done(&database, obsolete).await;
    let mark =
        move |session: &mut dyn Session| deletion::mark(session, s, weir_rules::deletion::Goal::Greedy, time::now(), 1);
    assert_eq!(done(&database, mark).await.len(), 1);
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    // One file goes out; the source of the other is marked, and there is no other.
    assert_eq!(
        states(&database).await,
        [RequestState::NoSources, RequestState::Submitted]
    );
    assert_eq!(done(&database, mark).await, []);
    let held = move |session: &mut dyn Session| {
        let all = session.query(
            "SELECT did_id, rse_id FROM replicas WHERE rse_id = $1 ORDER BY did_id",
            &values![a.0],
        )?;
        let all = all.iter().map(places::at).collect::<Result<Vec<_>, StoreError>>()?;
        let places = places::read(session, &all)?;
        Ok(places
            .values()
            .map(weir_rules::place::Place::lock_state)
            .collect::<Vec<_>>())
    };
    let held = done(&database, held).await;
    assert_eq!(held, [LockState::Stuck, LockState::Replicating]);
}
