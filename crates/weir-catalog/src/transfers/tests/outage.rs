//! An hour without a transfer service, in virtual time.

use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::{clock::Clock, evaluator, testing::NOW};

on_both!(MIGRATIONS;
    an_hour_without_a_service_loses_nothing_and_ends_without_a_storm
    requests_go_out_within_seconds_of_the_issuers_return
);

/// The standing work of a catalogue, under a manual clock.
struct Standing {
    database: Database,
    at: Arc<AtomicI64>,
    transfers: Transfers,
}

impl Standing {
    fn new(database: &Database, url: &str) -> Self {
        Self::with(database, submitter(database, url))
    }

    fn with(database: &Database, mut transfers: Transfers) -> Self {
        let at = Arc::new(AtomicI64::new(NOW));
        transfers.clock = Clock::Set(at.clone());
        transfers.config.poll = Duration::from_secs(30);
        Self {
            database: database.clone(),
            at,
            transfers,
        }
    }

    /// Lets so many seconds pass, and works each of them in which something may be due.
    async fn pass(&mut self, seconds: i64, step: i64) {
        for _ in 0..seconds / step {
            self.at.fetch_add(step * 1000, Ordering::Relaxed);
            while evaluator::round(&self.database, &self.transfers.clock).await {}
            while self.transfers.pass().await {}
        }
    }
}

/// Requests at an RSE, by state.
async fn at_rse(database: &Database, rse: RseId) -> BTreeMap<String, usize> {
    let read = move |session: &mut dyn Session| {
        let text = "SELECT state, count(*), max(n_failures) FROM requests WHERE rse_id = $1 GROUP BY state";
        let rows = session.query(text, &values![rse.0])?;
        rows.iter()
            .map(|row| {
                assert_eq!(row.size(2)?, 0, "an outage is no request's failure");
                Ok((row.text(0)?.to_owned(), row.size(1)? as usize))
            })
            .collect()
    };
    database.read(read).await.unwrap()
}

/// Files of the service's jobs by destination: how many in which state.
fn files_to(service: &Service, host: &str) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for file in service.files() {
        let to = file["sent"]["destinations"][0].as_str().unwrap().to_owned();
        if to.contains(host) {
            *states
                .entry(file["file_state"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    states
}

fn counts<const N: usize>(all: [(&str, usize); N]) -> BTreeMap<String, usize> {
    all.into_iter().map(|(state, n)| (state.to_owned(), n)).collect()
}

async fn an_hour_without_a_service_loses_nothing_and_ends_without_a_storm(database: Database) {
    let (service, url, _server) = serve();
    let [_, a, b] = with_rule(&database, 40).await;
    let mut standing = Standing::new(&database, &url);
    standing.pass(10, 10).await;
    assert_eq!(at_rse(&database, a).await, counts([("S", 40)]));

    // The service goes down, and still copies its files. Two rules come meanwhile, of which one ends before it is back.
    service.set(Mood::Down);
    service.end("FINISHED", |_| true);
    standing.pass(60, 10).await;
    let short = rules::RuleTerms {
        expires: Some(NOW + 1_800_000),
        ..wish("B")
    };
    done(&database, adding("r2", "d", short)).await;
    done(&database, adding("r3", "f00000", wish("B"))).await;
    let n_calls = || *service.n_calls.lock();
    let before = n_calls();
    standing.pass(1_200, 10).await;
    let waiting = at_rse(&database, b).await;
    assert_eq!(waiting.values().sum::<usize>(), 40, "the queue keeps: {waiting:?}");
    standing.pass(2_400, 10).await;
    let asked = n_calls() - before;
    assert!(asked < 20, "a service that is down was called {asked} times in an hour");
    let rules = texts(&database, "SELECT uid FROM rules ORDER BY uid").await;
    assert_eq!(rules, ["r1", "r3"], "the rule's end came during the outage");

    // It comes back: each file is submitted once, in few calls, and a file whose rule ended meanwhile is not.
    service.set(Mood::Good);
    let before = n_calls();
    standing.pass(1_200, 10).await;
    let asked = n_calls() - before;
    assert!(
        asked < 60,
        "a service that is back was called {asked} times in 20 minutes"
    );
    let to_b = files_to(&service, "b.example.org");
    let live = to_b.get("SUBMITTED").copied().unwrap_or_default();
    let cancelled = to_b.get("CANCELED").copied().unwrap_or_default();
    assert_eq!((live, to_b.len() - usize::from(cancelled > 0)), (1, 1), "{to_b:?}");
    assert_eq!(files_to(&service, "a.example.org"), counts([("FINISHED", 40)]));
    assert_eq!(rule(&database).await.state, RuleState::Ok);
    assert_eq!(at_rse(&database, b).await, counts([("S", 1)]));

    service.end("FINISHED", |_| true);
    standing.pass(60, 10).await;
    let states = texts(&database, "SELECT state FROM rules").await;
    assert_eq!(
        (states, super::states(&database).await),
        (vec!["O".to_owned(); 2], vec![])
    );
}

async fn requests_go_out_within_seconds_of_the_issuers_return(database: Database) {
    let (service, url, _server) = serve();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let tokens = TokensConfig {
        file: Some(token.clone()),
        ..TokensConfig::default()
    };
    let come = || {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(&token, "a token\n").unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    come();
    let mut standing = Standing::with(&database, submitter_with(&database, &url, &tokens));
    let [_, a, b] = with_rule(&database, 3).await;
    standing.pass(10, 10).await;
    assert_eq!(at_rse(&database, a).await, counts([("S", 3)]));
    std::fs::remove_file(&token).unwrap();
    done(&database, adding("r2", "d", wish("B"))).await;
    standing.pass(10, 10).await;
    assert_eq!(at_rse(&database, b).await, counts([("Q", 3)]));
    let reasons = texts(&database, "SELECT reason FROM requests WHERE state = 'Q'").await;
    assert!(
        reasons.iter().all(|reason| reason.contains("no token for a job")),
        "{reasons:?}"
    );

    come();
    standing.pass(10, 10).await;
    assert_eq!((service.n_jobs(), at_rse(&database, b).await), (2, counts([("S", 3)])));
}
