//! Tests of the places.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use super::*;

fn party(vo: &str) -> Party {
    Party {
        vo: Some(vo.to_owned()),
        client: "me".to_owned(),
        area: "data".to_owned(),
    }
}

fn admission(limits: &Limits, share: &[Share]) -> Admission {
    Admission::new(limits, share, Budget::new(1 << 30))
}

fn one_at_a_time() -> Limits {
    Limits {
        transfers: 1,
        copies: 1,
        copies_queued: 3,
        ..Limits::default()
    }
}

/// A burst that is over in a moment would cost a client a retry after seconds.
#[tokio::test(start_paused = true)]
async fn a_place_that_comes_free_soon_is_waited_for() {
    let admission = admission(&one_at_a_time(), &[]);
    let held = admission.enter(Work::Transfer, party("a")).await.unwrap();
    let waiting = tokio::spawn({
        let admission = admission.clone();
        async move { admission.enter(Work::Transfer, party("b")).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(admission.waiting(Work::Transfer), 1);
    drop(held);
    let place = waiting.await.unwrap().unwrap();
    let refusal = admission.enter(Work::Transfer, party("a")).await.err().unwrap();
    assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(admission.waiting(Work::Transfer), 0);
    drop(place);
    assert!(matches!(
        admission.line_up(Work::Transfer, party("a")).unwrap(),
        Turn::Now(_)
    ));
}

/// A VO that queues thousands of copies would have the endpoint for itself.
#[tokio::test(start_paused = true)]
async fn one_vo_does_not_starve_another() {
    let admission = admission(&one_at_a_time(), &[]);
    let held = admission.line_up(Work::Copy, party("many")).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for vo in ["many", "many", "few"] {
        let (turn, order) = (admission.line_up(Work::Copy, party(vo)).unwrap(), order.clone());
        tasks.push(tokio::spawn(async move {
            let place = turn.come().await;
            order.lock().push(vo);
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(place);
        }));
    }
    let refusal = admission.line_up(Work::Copy, party("few")).err().unwrap();
    assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(held);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock(), ["many", "few", "many"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_beyond_its_share_is_told_so_and_others_go_on() {
    let share = Share {
        vo: Some("*".to_owned()),
        copies: Some(1),
        copies_queued: Some(1),
        transfers: Some(1),
        ..Share::default()
    };
    let limits = Limits {
        copies: 10,
        ..Limits::default()
    };
    let admission = admission(&limits, &[share]);
    let _first = admission.enter(Work::Transfer, party("a")).await.unwrap();
    let refusal = admission.enter(Work::Transfer, party("a")).await.err().unwrap();
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    admission.enter(Work::Transfer, party("b")).await.unwrap();
    let _copy = admission.line_up(Work::Copy, party("a")).unwrap();
    let _queued = admission.line_up(Work::Copy, party("a")).unwrap();
    let refusal = admission.line_up(Work::Copy, party("a")).err().unwrap();
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(matches!(
        admission.line_up(Work::Copy, party("b")).unwrap(),
        Turn::Now(_)
    ));
}

/// A client that queues much would have all of its VO refused.
#[tokio::test]
async fn a_clients_share_of_the_queue_is_its_own() {
    let share = Share {
        client: Some("*".to_owned()),
        copies_queued: Some(1),
        ..Share::default()
    };
    let admission = admission(&one_at_a_time(), &[share]);
    let of = |client: &str| Party {
        client: client.to_owned(),
        ..party("vo")
    };
    let _running = admission.line_up(Work::Copy, of("fts")).unwrap();
    let _queued = admission.line_up(Work::Copy, of("fts")).unwrap();
    assert!(admission.line_up(Work::Copy, of("fts")).is_err());
    assert!(admission.line_up(Work::Copy, of("me")).is_ok());
}

/// A higher limit would take effect only at the next end; a new share would not count the slots taken before it.
#[tokio::test(start_paused = true)]
async fn limits_change_under_those_who_have_places_and_those_who_wait() {
    let admission = admission(&one_at_a_time(), &[]);
    let first = admission.line_up(Work::Copy, party("a")).unwrap();
    let waiting = admission.line_up(Work::Copy, party("a")).unwrap();
    let two = Limits {
        copies: 2,
        ..one_at_a_time()
    };
    admission.adjust(&two, &[]);
    let second = waiting.come().await;
    assert_eq!(admission.waiting(Work::Copy), 0);
    let share = Share {
        vo: Some("*".to_owned()),
        copies: Some(2),
        ..Share::default()
    };
    let many = Limits {
        copies: 10,
        ..one_at_a_time()
    };
    admission.adjust(&many, &[share]);
    let Turn::Later(third) = admission.line_up(Work::Copy, party("a")).unwrap() else {
        panic!("those who were there before do not count")
    };
    drop(first);
    drop(second);
    let third = Turn::Later(third).come().await;
    // All are given back to where they were taken.
    drop(third);
    admission.adjust(&one_at_a_time(), &[]);
    assert!(matches!(
        admission.line_up(Work::Copy, party("a")).unwrap(),
        Turn::Now(_)
    ));
}

/// Copies that wait for memory would wait for ever while others come and go, or the others while copies do.
#[tokio::test(start_paused = true)]
async fn memory_goes_to_whoever_waits_for_whatever_work() {
    let limits = Limits {
        patience: Duration::from_secs(60),
        ..Limits::default()
    };
    let memory = Budget::new(2 * crate::memory::FLOOR);
    let admission = Admission::new(&limits, &[], memory.clone());
    let client = |number: usize| Party {
        client: number.to_string(),
        ..party("a")
    };
    let mut held = vec![
        admission.enter(Work::Transfer, client(7)).await.unwrap(),
        admission.enter(Work::Transfer, client(8)).await.unwrap(),
    ];
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..6 {
        let work = if number < 3 { Work::Transfer } else { Work::Copy };
        let (turn, order) = (admission.line_up(work, client(number)).unwrap(), order.clone());
        tasks.push(tokio::spawn(async move {
            let place = turn.come().await;
            order.lock().push(work);
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(place);
        }));
    }
    // A later request does not pass the waiting ones.
    let late = admission.line_up(Work::Listing, party("a")).unwrap();
    assert!(matches!(late, Turn::Now(_)), "a listing needs none");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(memory.figures().2, 6);
    assert!(matches!(
        admission.line_up(Work::Transfer, party("b")).unwrap(),
        Turn::Later(_)
    ));
    held.pop();
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock();
    let copies = |range: std::ops::Range<usize>| order[range].iter().filter(|work| **work == Work::Copy).count();
    assert!((1..=3).contains(&copies(0..4)), "{order:?}");
    assert_eq!((order.len(), copies(0..6)), (6, 3));
    assert_eq!(memory.figures(), (2 * crate::memory::FLOOR, crate::memory::FLOOR, 0));
}

/// A client with many slow transfers would keep all others from the memory that is left, or wait for ever once its own have gone.
#[tokio::test(start_paused = true)]
async fn a_client_that_holds_its_share_of_memory_waits_for_its_own() {
    let limits = Limits {
        patience: Duration::from_secs(5),
        ..Limits::default()
    };
    let memory = Budget::new(8 * crate::memory::FLOOR);
    let admission = Admission::new(&limits, &[], memory);
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(admission.enter(Work::Transfer, party("a")).await.unwrap());
    }
    let refused = admission.enter(Work::Transfer, party("a")).await.err().unwrap();
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    let waiting = tokio::spawn({
        let admission = admission.clone();
        async move { admission.enter(Work::Transfer, party("a")).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = Party {
        client: "other".to_owned(),
        ..party("a")
    };
    let Turn::Now(other) = admission.line_up(Work::Copy, other).unwrap() else {
        panic!("another client of the same VO waits behind it");
    };
    drop(held.pop());
    let first = waiting.await.unwrap();
    assert!(
        first.is_err(),
        "one less of its own, and one of another's: the share has become smaller"
    );
    drop(other);
    let waiting = tokio::spawn({
        let admission = admission.clone();
        async move { admission.enter(Work::Transfer, party("a")).await }
    });
    assert!(waiting.await.unwrap().is_ok());
}

/// A client that goes away while it waits must leave nothing behind, at whichever moment.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_loses_no_place() {
    let admission = admission(&one_at_a_time(), &[]);
    let held = admission.line_up(Work::Copy, party("a")).unwrap();
    let leaving = admission.line_up(Work::Copy, party("b")).unwrap();
    let patient = admission.line_up(Work::Copy, party("c")).unwrap();
    drop(leaving);
    assert_eq!(admission.waiting(Work::Copy), 1);
    drop(held);
    // Its turn has come, and it leaves before it knows.
    drop(patient);
    assert!(matches!(
        admission.line_up(Work::Copy, party("a")).unwrap(),
        Turn::Now(_)
    ));
}

/// With room for four times as many copies as begin at once.
fn spacious() -> (Limits, usize) {
    let limits = Limits {
        copies_per_core: 4,
        ..Limits::default()
    };
    let first = limits.copies_at_first();
    let copies = 4 * first;
    (Limits { copies, ..limits }, first)
}

fn waiting_and_running(admission: &Admission, count: usize) -> (Vec<Turn>, Vec<Turn>) {
    let turns = (0..count).map(|_| admission.line_up(Work::Copy, party("a")).unwrap());
    turns.partition(|turn| matches!(turn, Turn::Later(_)))
}

/// A network-bound copy would wait for its turn too; a CPU-bound one would slow all others down.
#[tokio::test(start_paused = true)]
async fn copies_beyond_the_first_begin_as_the_processors_have_time() {
    let (limits, first) = spacious();
    let admission = admission(&limits, &[]);
    let (waiting, mut running) = waiting_and_running(&admission, 3 * first);
    let waits = || admission.waiting(Work::Copy);
    assert_eq!((running.len(), waits()), (first, 2 * first));
    assert!(admission.0.looked(true), "somebody waits");
    assert_eq!(waits(), 2 * first, "there is no time for more");
    drop(running.pop());
    assert_eq!(waits(), 2 * first - 1, "one takes the place of another");
    assert!(admission.0.looked(false));
    assert_eq!(waits(), first - 1, "as many again");
    drop((running, waiting));
    assert!(!admission.0.looked(false), "there is nothing more to look for");
    assert!(!admission.0.state.lock().watched);
}

/// A burst on an idle machine would be refused, though there are places for all of it.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_time_alone_is_not_in_the_queue() {
    let (limits, first) = spacious();
    let limits = Limits {
        copies_queued: 1,
        ..limits
    };
    let share = Share {
        vo: Some("a".to_owned()),
        copies: Some(2 * first),
        copies_queued: Some(3),
        ..Share::default()
    };
    let alone = admission(&limits, &[]);
    let _held = waiting_and_running(&alone, 4 * first + 1);
    let refusal = alone.line_up(Work::Copy, party("a")).err().unwrap();
    assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
    let shared = admission(&limits, &[share]);
    let _held = waiting_and_running(&shared, 2 * first + 3);
    let refusal = shared.line_up(Work::Copy, party("a")).err().unwrap();
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(shared.line_up(Work::Copy, party("b")).is_ok());
}

/// Copies that began because memory came free would fill the first places, and all others wait though the machine is idle.
#[tokio::test(start_paused = true)]
async fn the_processors_are_watched_however_copies_begin() {
    let (limits, first) = spacious();
    let one = Limits {
        copies: 1,
        ..limits.clone()
    };
    let admission = admission(&one, &[]);
    let _held = waiting_and_running(&admission, 3 * first);
    assert!(!admission.0.state.lock().watched, "one is none too many");
    admission.adjust(&limits, &[]);
    assert_eq!(admission.waiting(Work::Copy), 2 * first);
    assert!(admission.0.state.lock().watched);
    let few = Limits {
        copies_per_core: 1,
        ..limits
    };
    admission.adjust(&few, &[]);
    assert!(admission.0.looked(true));
    assert!(admission.0.state.lock().ramp.limit() <= first);
}
