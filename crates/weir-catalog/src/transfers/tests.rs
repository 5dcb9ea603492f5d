#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use axum::{
    Json, Router,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
    routing::{delete, get, post},
};
use http::{StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;
use weir_database::{Row, on_both, values};
use weir_http::{RunningServer, ServerLimits, ServerTls};
use weir_model::catalog::{LockState, RequestState, RuleState};
use weir_rules::ids::RseId;

use super::*;
use crate::{
    credentials::TokensConfig,
    places,
    rses::{self, distances, space},
    rules::{self, evaluate, tests::*},
    schema::MIGRATIONS,
    testing::{done, protocol},
};

mod choices;
mod outage;

on_both!(MIGRATIONS;
    requests_go_out_as_jobs_and_rules_become_ok
    a_submission_whose_answer_is_lost_is_the_same_job
    a_busy_service_is_left_alone_as_long_as_it_asks
    a_file_that_is_refused_holds_no_other_back
    a_request_that_no_rule_wants_is_cancelled
    rules_that_end_while_the_service_is_down_leave_nothing_behind
    a_webhook_has_its_job_asked_for_at_once
    what_is_told_while_a_job_is_handed_over_or_asked_for_is_heard
    a_url_without_a_transfer_service_is_told
    a_transfer_reads_and_writes_the_paths_of_its_own_file
);

const VO: Uuid = Uuid::from_u128(77);

/// The answer of a transfer service to a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mood {
    #[default]
    Good,
    /// It takes the job, and its answer is lost.
    Forgetful,
    /// Too much to do, for so many seconds.
    Busy(u64),
    /// It takes no job with a file of this name.
    Picky(&'static str),
    Down,
}

/// A scripted transfer service.
#[derive(Default)]
struct Service {
    mood: Mutex<Mood>,
    n_calls: Mutex<usize>,
    jobs: Mutex<BTreeMap<Uuid, Value>>,
    /// The database of a catalogue that is told of ends. While it waits for an answer, a file ends.
    told: Mutex<Option<Database>>,
}

type Shared = Arc<Service>;

impl Service {
    fn n_jobs(&self) -> usize {
        self.jobs.lock().len()
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    fn mood(&self) -> Mood {
        *self.n_calls.lock() += 1;
        *self.mood.lock()
    }

    /// Ends the files of which this is true.
    fn end(&self, state: &str, is_one: impl Fn(&Value) -> bool) {
        for job in self.jobs.lock().values_mut() {
            for file in job["files"].as_array_mut().unwrap() {
                if file["file_state"] == "SUBMITTED" && is_one(file) {
                    file["file_state"] = state.into();
                }
            }
        }
    }

    /// A file ends and the catalogue is told, if it wants that, before it has the answer to its call.
    async fn tell(&self) {
        let Some(database) = self.told.lock().clone() else {
            return;
        };
        let open = self.files().into_iter().find(|file| file["file_state"] == "SUBMITTED");
        self.end("FINISHED", |file| Some(file) == open.as_ref());
        let jobs = self.jobs.lock().keys().copied().collect();
        events::told(&database, jobs, &Notify::new()).await.unwrap();
    }

    fn files(&self) -> Vec<Value> {
        let jobs = self.jobs.lock();
        jobs.values()
            .flat_map(|job| job["files"].as_array().unwrap().clone())
            .collect()
    }
}

fn down() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response()
}

async fn submit(State(service): State<Shared>, Json(job): Json<Value>) -> Response {
    let mood = service.mood();
    let id = Uuid::new_v5(&VO, job["params"]["sid"].as_str().unwrap().as_bytes());
    let name = |file: &Value| file["metadata"]["name"].as_str().unwrap().to_owned();
    let all = job["files"].as_array().unwrap();
    match mood {
        Mood::Down => return down(),
        Mood::Busy(seconds) => {
            let headers = [(header::RETRY_AFTER, seconds.to_string())];
            return (
                StatusCode::TOO_MANY_REQUESTS,
                headers,
                r#"{"message": "the queue is full"}"#,
            )
                .into_response();
        }
        Mood::Picky(refused) if all.iter().any(|file| name(file) == refused) => {
            return (StatusCode::BAD_REQUEST, r#"{"message": "I do not like this file"}"#).into_response();
        }
        _ => {}
    }
    if service.jobs.lock().contains_key(&id) {
        return (StatusCode::CONFLICT, r#"{"message": "the job is known"}"#).into_response();
    }
    let file = |(at, file): (usize, &Value)| {
        json!({
            "file_id": at + 1, "file_state": "SUBMITTED", "file_metadata": file["metadata"], "reason": "disk on fire", "sent": file,
        })
    };
    let files = all.iter().enumerate().map(file).collect::<Vec<_>>();
    service.jobs.lock().insert(id, json!({ "job_id": id, "params": job["params"], "job_state": "ACTIVE", "http_status": "200 Ok", "files": files }));
    if mood == Mood::Forgetful {
        return down();
    }
    service.tell().await;
    Json(json!({ "job_id": id })).into_response()
}

async fn look(State(service): State<Shared>, Path(ids): Path<String>) -> Response {
    if service.mood() == Mood::Down {
        return down();
    }
    let job = |id: &str| {
        let known = service.jobs.lock().get(&id.parse().unwrap()).cloned();
        known.unwrap_or_else(|| json!({ "job_id": id, "http_status": "404 Not Found" }))
    };
    let found = ids.split(',').map(job).collect::<Vec<_>>();
    service.tell().await;
    Json(found).into_response()
}

async fn cancel(State(service): State<Shared>, Path((id, files)): Path<(Uuid, String)>) -> Response {
    if service.mood() == Mood::Down {
        return down();
    }
    let files = files
        .split(',')
        .map(|id| id.parse::<u64>().unwrap())
        .collect::<Vec<_>>();
    let mut jobs = service.jobs.lock();
    for file in jobs.get_mut(&id).unwrap()["files"].as_array_mut().unwrap() {
        if files.contains(&file["file_id"].as_u64().unwrap()) && file["file_state"] == "SUBMITTED" {
            file["file_state"] = "CANCELED".into();
        }
    }
    Json(json!({})).into_response()
}

/// A service that runs, and its URL.
fn serve() -> (Shared, String, RunningServer) {
    let service = Shared::default();
    let router = Router::new()
        .route("/whoami", get(|| async { Json(json!({ "vos_id": [VO] })) }))
        .route("/jobs", post(submit))
        .route("/jobs/{id}", get(look))
        .route("/jobs/{id}/files/{files}", delete(cancel))
        .with_state(service.clone());
    let listener = weir_http::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = weir_http::serve(listener, ServerTls::default(), ServerLimits::default(), router).unwrap();
    (service, url, server)
}

/// A submitter, as after a start.
fn submitter(database: &Database, url: &str) -> Transfers {
    submitter_with(database, url, &TokensConfig::default())
}

/// The same with tokens from here.
fn submitter_with(database: &Database, url: &str, tokens: &TokensConfig) -> Transfers {
    let client = Client::new(weir_http::ClientConfig::new(weir_http::TrustRoots::default())).unwrap();
    let credentials = Credentials::new(tokens, &client).unwrap();
    let config = TransfersConfig {
        services: vec![url.to_owned()],
        poll: Duration::ZERO,
        ..TransfersConfig::default()
    };
    Transfers::new(database.clone(), &client, &credentials, &config, Tag::new(9))
}

/// The three RSEs of [`prepared`] with protocols and links, and a rule on the dataset of so many files.
async fn with_rule(database: &Database, n_files: u64) -> [RseId; 3] {
    let all = prepared(database, n_files).await;
    let work = move |session: &mut dyn Session| {
        let names = ["S", "A", "B"];
        for (rse, name) in all.iter().zip(names) {
            rses::protocols::add(
                session,
                *rse,
                &protocol("davs", &format!("{}.example.org", name.to_lowercase()), 1),
            )?;
            for other in all.iter().filter(|other| *other != rse) {
                distances::set(session, *rse, *other, 1)?;
            }
        }
        Ok(())
    };
    done(database, work).await;
    done(database, adding("r1", "d", wish("A"))).await;
    all
}

/// The rule is over, and its locks are released.
fn over(session: &mut dyn Session) -> Result<evaluate::Progress, StoreError> {
    rules::set_end(session, "r1", Some(1), 1)?;
    let rule = rules::get(session, "r1")?;
    evaluate::part(session, rule.id, 1)
}

/// Waits until the clock has moved: a job is not polled twice in a millisecond.
async fn pass(transfers: &mut Transfers) {
    tokio::time::sleep(Duration::from_millis(2)).await;
    transfers.pass().await;
}

async fn rule(database: &Database) -> rules::Rule {
    database
        .read(|session: &mut dyn Session| rules::get(session, "r1"))
        .await
        .unwrap()
}

async fn texts(database: &Database, text: &'static str) -> Vec<String> {
    let read = move |session: &mut dyn Session| {
        let rows = session.query(text, &[])?;
        rows.iter()
            .map(|row| Ok(row.optional(0, Row::text)?.unwrap_or_default().to_owned()))
            .collect()
    };
    database.read(read).await.unwrap()
}

/// The states of the requests that there are.
async fn states(database: &Database) -> Vec<RequestState> {
    let texts = texts(database, "SELECT state FROM requests ORDER BY request_id").await;
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

async fn requests_go_out_as_jobs_and_rules_become_ok(database: Database) {
    let (service, url, _server) = serve();
    with_rule(&database, 3).await;
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    let files = service.files();
    assert_eq!((service.n_jobs(), files.len()), (1, 3));
    let sent = &files[0]["sent"];
    assert!(
        sent["sources"][0]
            .as_str()
            .unwrap()
            .starts_with("davs://s.example.org:8443/data/mc/")
    );
    let paths = ["sources", "destinations"].map(|key| {
        sent[key][0]
            .as_str()
            .unwrap()
            .split("/data/")
            .nth(1)
            .unwrap()
            .to_owned()
    });
    assert_eq!((&paths[0], paths[0].starts_with("mc/")), (&paths[1], true));
    assert_eq!(
        (&sent["filesize"], &sent["metadata"]["dst_rse"]),
        (&json!(10), &json!("A"))
    );
    let params = service.jobs.lock().values().next().unwrap()["params"].clone();
    assert_eq!(
        (&params["overwrite"], &params["job_metadata"]["issuer"]),
        (&json!(true), &json!("rucio"))
    );
    // Nothing happens until the service says something new.
    pass(&mut transfers).await;
    assert_eq!(states(&database).await, [RequestState::Submitted; 3]);
    service.end("FINISHED", |file| file["file_id"] != 2);
    pass(&mut transfers).await;
    let half = rule(&database).await;
    assert_eq!(
        (half.counts.ok, half.counts.replicating, half.state),
        (2, 1, RuleState::Replicating)
    );
    service.end("FINISHED", |_| true);
    pass(&mut transfers).await;
    assert_eq!(rule(&database).await.state, RuleState::Ok);
    assert_eq!(states(&database).await, []);
    let kept = texts(&database, "SELECT state FROM request_history").await;
    assert_eq!(kept, ["D", "D", "D"]);
}

async fn a_submission_whose_answer_is_lost_is_the_same_job(database: Database) {
    let (service, url, _server) = serve();
    with_rule(&database, 3).await;
    service.set(Mood::Forgetful);
    pass(&mut submitter(&database, &url)).await;
    assert_eq!(
        (service.n_jobs(), states(&database).await),
        (1, vec![RequestState::Submitting; 3])
    );
    let reasons = texts(&database, "SELECT reason FROM requests").await;
    assert!(
        reasons.iter().all(|reason| reason.contains("out of order")),
        "{reasons:?}"
    );
    service.set(Mood::Good);
    // As after a kill: another process resumes the begun submissions.
    pass(&mut submitter(&database, &url)).await;
    assert_eq!(
        (service.n_jobs(), states(&database).await),
        (1, vec![RequestState::Submitted; 3])
    );
    assert_eq!(rule(&database).await.counts.replicating, 3);
}

async fn a_busy_service_is_left_alone_as_long_as_it_asks(database: Database) {
    let (service, url, _server) = serve();
    with_rule(&database, 3).await;
    service.set(Mood::Busy(3600));
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    let n_calls = *service.n_calls.lock();
    for _ in 0..5 {
        pass(&mut transfers).await;
    }
    assert_eq!(*service.n_calls.lock(), n_calls);
    let reasons = texts(&database, "SELECT reason FROM requests").await;
    assert!(
        reasons.iter().all(|reason| reason.contains("429: the queue is full")),
        "{reasons:?}"
    );
    // No party had failed.
    assert_eq!(rule(&database).await.error, None);
    // Jobs that it has already are polled all the same.
    let theirs = |session: &mut dyn Session| {
        session.execute(
            "UPDATE requests SET state = 'S', job = $1 WHERE request_id = (SELECT min(request_id) FROM requests)",
            &values![VO.to_string()],
        )
    };
    done(&database, theirs).await;
    pass(&mut transfers).await;
    assert!(*service.n_calls.lock() > n_calls);
    done(&database, |session: &mut dyn Session| {
        session.execute("UPDATE requests SET not_before = 0, state = 'Q', job = NULL", &[])
    })
    .await;
    service.set(Mood::Good);
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    assert_eq!(states(&database).await, [RequestState::Submitted; 3]);
}

async fn a_file_that_is_refused_holds_no_other_back(database: Database) {
    let (service, url, _server) = serve();
    with_rule(&database, 3).await;
    service.set(Mood::Picky("f00001"));
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    assert_eq!(states(&database).await, [RequestState::Queued; 3]);
    done(&database, |session: &mut dyn Session| {
        session.execute("UPDATE requests SET not_before = 0", &[])
    })
    .await;
    pass(&mut transfers).await;
    let expected = [RequestState::Submitted, RequestState::Failed, RequestState::Submitted];
    assert_eq!((service.n_jobs(), states(&database).await), (2, expected.to_vec()));
    let rule = rule(&database).await;
    assert_eq!((rule.state, rule.counts.stuck), (RuleState::Stuck, 1));
    assert!(rule.error.unwrap().contains("400: I do not like this file"));
}

async fn a_request_that_no_rule_wants_is_cancelled(database: Database) {
    let (service, url, _server) = serve();
    let [_, a, _] = with_rule(&database, 3).await;
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    service.end("FINISHED", |file| file["file_id"] == 1);
    done(&database, over).await;
    pass(&mut transfers).await;
    pass(&mut transfers).await;
    let files = service.files();
    let mut ended = files
        .iter()
        .map(|file| file["file_state"].as_str().unwrap())
        .collect::<Vec<_>>();
    ended.sort_unstable();
    assert_eq!(ended, ["CANCELED", "CANCELED", "FINISHED"]);
    assert_eq!(states(&database).await, []);
    // The file that arrived all the same is unneeded, and partial files of the others are deleted.
    let left = move |session: &mut dyn Session| {
        let rows = session.query(
            "SELECT state, tombstone FROM replicas WHERE rse_id = $1 ORDER BY did_id",
            &values![a.0],
        )?;
        rows.iter()
            .map(|row| Ok((row.text(0)?.to_owned(), row.optional(1, Row::int)?)))
            .collect::<Result<Vec<_>, StoreError>>()
    };
    let left = database.read(left).await.unwrap();
    assert_eq!(
        left.iter().map(|(state, _)| state.as_str()).collect::<String>().len(),
        3
    );
    assert!(
        left.iter()
            .all(|(state, tombstone)| state == "B" || *tombstone == Some(0)),
        "{left:?}"
    );
}

async fn rules_that_end_while_the_service_is_down_leave_nothing_behind(database: Database) {
    let (service, url, _server) = serve();
    with_rule(&database, 3).await;
    service.set(Mood::Down);
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    assert_eq!(states(&database).await, [RequestState::Submitting; 3]);
    done(&database, over).await;
    service.set(Mood::Good);
    // A job that may have reached the service is submitted once more, and cancelled there.
    let mut transfers = submitter(&database, &url);
    for _ in 0..3 {
        pass(&mut transfers).await;
    }
    assert_eq!((service.n_jobs(), states(&database).await), (1, vec![]));
    assert!(service.files().iter().all(|file| file["file_state"] == "CANCELED"));
}

async fn a_webhook_has_its_job_asked_for_at_once(database: Database) {
    use tower::ServiceExt as _;
    let (service, url, _server) = serve();
    with_rule(&database, 1).await;
    let mut transfers = submitter(&database, &url);
    transfers.config.poll = Duration::from_secs(3600);
    pass(&mut transfers).await;
    service.end("FINISHED", |_| true);
    pass(&mut transfers).await;
    assert_eq!(
        rule(&database).await.state,
        RuleState::Replicating,
        "it is not time to ask"
    );
    let tasks = crate::door::Tasks {
        evaluator: Arc::default(),
        transfers: Arc::default(),
        webhook: Some(weir_auth::Secret::new("a hook")),
        tag: transfers.tag,
        services: ServiceStates::default(),
        in_flight: 10,
    };
    let woken = tasks.transfers.clone();
    let router = crate::door::router(database.clone(), tasks, crate::logins::Logins::default());
    let job = *service.jobs.lock().keys().next().unwrap();
    let tell = |token: &'static str| {
        let message = json!([{ "type": "complete", "vo": "x", "data": { "tr_id": format!("t__a__b__1__{job}") } }]);
        let request =
            http::Request::post("/.well-known/weir/transfers").header("authorization", format!("Bearer {token}"));
        let request = request.body(axum::body::Body::from(message.to_string())).unwrap();
        let router = router.clone();
        async move { router.oneshot(request).await.unwrap().status() }
    };
    assert_eq!(tell("another").await, StatusCode::UNAUTHORIZED);
    pass(&mut transfers).await;
    assert_eq!(rule(&database).await.state, RuleState::Replicating);
    assert_eq!(tell("a hook").await, StatusCode::OK);
    tokio::time::timeout(Duration::from_secs(5), woken.notified())
        .await
        .unwrap();
    pass(&mut transfers).await;
    assert_eq!(rule(&database).await.state, RuleState::Ok);
}

async fn what_is_told_while_a_job_is_handed_over_or_asked_for_is_heard(database: Database) {
    // Wrong: a file that ends within a call is noticed at the next regular poll, so that its rule waits for up to `poll`.
    let (service, url, _server) = serve();
    with_rule(&database, 3).await;
    let mut transfers = submitter(&database, &url);
    transfers.config.poll = Duration::from_secs(3600);
    *service.told.lock() = Some(database.clone());
    // The first file ends within the submission, each of the others within a look.
    for n_open in [3, 2, 1, 0] {
        pass(&mut transfers).await;
        assert_eq!(states(&database).await.len(), n_open);
    }
    assert_eq!(rule(&database).await.state, RuleState::Ok);
    let n_calls = *service.n_calls.lock();
    pass(&mut transfers).await;
    assert_eq!(*service.n_calls.lock(), n_calls, "nothing is left to ask for");
}

async fn a_url_without_a_transfer_service_is_told(database: Database) {
    with_rule(&database, 1).await;
    let (service, url, _server) = serve();
    let shown = ServiceStates::default();
    let mut transfers = submitter(&database, &format!("{url}/wrong")).shown_as(shown.clone());
    pass(&mut transfers).await;
    assert_eq!(service.n_jobs(), 0);
    let states = shown.lock().clone();
    let (reason, _) = states[0].pause.as_ref().expect("the service counts as in use");
    assert!(reason.contains("/wrong answered 404"), "{reason}");
}

// A transfer would overwrite a file that another DID has registered at the path, or read a path that leads out of the folder.
async fn a_transfer_reads_and_writes_the_paths_of_its_own_file(database: Database) {
    let (service, url, _server) = serve();
    let [s, a, _] = with_rule(&database, 3).await;
    let prepare = move |session: &mut dyn Session| {
        let holder = crate::replicas::NewReplica {
            path: Some("elsewhere".into()),
            ..file("holder")
        };
        session.execute("UPDATE rses SET deterministic = FALSE WHERE rse_id = $1", &values![a.0])?;
        crate::replicas::add(session, a, &[holder], &alice(), 1)?;
        let path = crate::paths::hashed(&file("f00001").did);
        session.execute("UPDATE replicas SET path = $1 WHERE path = 'elsewhere'", &values![path])?;
        let text = "UPDATE replicas SET path = '../out' WHERE rse_id = $1 AND did_id = (SELECT did_id FROM dids WHERE name = 'f00002')";
        session.execute(text, &values![s.0])
    };
    done(&database, prepare).await;
    let mut transfers = submitter(&database, &url);
    pass(&mut transfers).await;
    let names = service
        .files()
        .iter()
        .map(|file| file["file_metadata"]["name"].clone())
        .collect::<Vec<_>>();
    assert_eq!(names, ["f00000"]);
    let expected = [RequestState::Submitted, RequestState::NoSources, RequestState::Queued];
    assert_eq!(states(&database).await, expected);
    let rule = rule(&database).await;
    assert_eq!((rule.state, rule.counts.stuck), (RuleState::Stuck, 1));
    let reason = "mc:f00001 cannot be written at A: its path there is that of mc:holder";
    assert_eq!(rule.error.as_deref(), Some(reason));
}
