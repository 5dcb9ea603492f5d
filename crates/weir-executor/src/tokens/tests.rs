//! The refresher with a scripted issuer.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use weir_auth::{Secret, TrustedIssuer, Verifier, VerifierConfig, ca::CertificateAuthority};
use weir_http::{Client, ClientConfig, TrustRoots};
use weir_service::metrics::Page;
use weir_world::{Party, Phase, Retry};

use super::{Rules, Scene, TokenRefresher, hash_of};
use weir_service::time;

use crate::{
    config::{IssuerConfig, TokensConfig},
    job::{NewJob, cred_id},
    memory::Memory,
    orders::Orders as _,
};

use super::granter::{AT_ONCE, Form, Granter, NEVER, Reply, refusal, unsigned};
use base64::Engine as _;

/// An issuer, with a service that trusts it.
struct Issuer {
    granter: Granter,
    client: Client,
    directory: tempfile::TempDir,
}

impl std::ops::Deref for Issuer {
    type Target = Granter;

    fn deref(&self) -> &Granter {
        &self.granter
    }
}

impl Issuer {
    fn start(said: impl FnMut(&Form) -> Reply + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::create(&directory.path().join("ca")).unwrap();
        Self {
            granter: Granter::start(&authority, said),
            client: Client::new(ClientConfig::new(TrustRoots::file(authority.file()))).unwrap(),
            directory,
        }
    }

    fn refresher(&self, store: &Arc<Memory>) -> Arc<TokenRefresher> {
        self.refresher_with(store, |_| {})
    }

    fn refresher_with(&self, store: &Arc<Memory>, change: impl FnOnce(&mut TokensConfig)) -> Arc<TokenRefresher> {
        let path = self.directory.path().join("secret");
        weir_auth::files::write_private(&path, b"the client's own secret").unwrap();
        let issuer = IssuerConfig {
            client_id: Some("fts".into()),
            secret_file: Some(path),
            ..IssuerConfig::new(&self.url, "vo")
        };
        let mut tokens = TokensConfig {
            request_timeout: Duration::from_secs(2),
            issuer_pause: Duration::from_secs(60),
            ..TokensConfig::default()
        };
        change(&mut tokens);
        let verifier = VerifierConfig {
            issuers: vec![TrustedIssuer::new(&self.url)],
            ..VerifierConfig::default()
        };
        let verifier = Verifier::new(verifier, self.client.clone());
        let rules = Rules {
            issuers: &[issuer],
            brokers: &[],
            tokens: &tokens,
        };
        TokenRefresher::new(&self.client, verifier, store.clone(), rules).unwrap()
    }
}

fn turning() -> impl FnMut(&Form) -> Reply + Send {
    super::granter::turning(3600)
}

fn source() -> Scene {
    Scene::new(Party::Source, Phase::Preparation)
}

/// A store that knows this token.
fn knowing(tokens: &[&Secret]) -> Arc<Memory> {
    Arc::new(Memory::knowing(tokens))
}

async fn fresh(refresher: &Arc<TokenRefresher>, token: &Secret) -> String {
    refresher
        .fresh(source(), token, true)
        .await
        .unwrap()
        .expose()
        .to_owned()
}

#[tokio::test]
async fn a_token_that_lives_is_used_as_it_is() {
    // A token of ten hours would become one of one hour, and every transfer would wait for the issuer.
    let issuer = Issuer::start(|_| panic!("nobody should ask"));
    let refresher = issuer.refresher(&knowing(&[]));
    let long = issuer.token("a", 3600);
    for token in [long, Secret::new("opaque"), Secret::new("a.b.c")] {
        assert_eq!(fresh(&refresher, &token).await, token.expose());
    }
    // About to expire, and not the submitter's own.
    let short = issuer.token("a", 100);
    let got = refresher.fresh(source(), &short, false).await.unwrap();
    assert_eq!(got.expose(), short.expose());
    let over = issuer.token("a", -10);
    let failure = refresher.fresh(source(), &over, false).await.unwrap_err();
    assert_eq!((failure.party, failure.retry), (Party::Source, Retry::Never));
    assert!(issuer.asked().is_empty());
}

#[tokio::test]
async fn many_transfers_with_one_token_make_one_request() {
    let issuer = Issuer::start(turning());
    let token = issuer.token("a", 100);
    let refresher = issuer.refresher(&knowing(&[&token]));
    let all = (0..64).map(|_| fresh(&refresher, &token));
    let all = futures_util::future::join_all(all).await;
    assert_eq!(all, vec!["access-1"; 64]);
    assert_eq!(fresh(&refresher, &token).await, "access-1");
    assert_eq!(issuer.asked(), ["token-exchange"]);
    let form = issuer.forms()[0].clone();
    assert_eq!(form["scope"], "storage.read:/a offline_access");
    assert_eq!(form["audience"], "https://storage");
}

#[tokio::test]
async fn a_granted_token_is_used_by_the_next_process() {
    // A restart would ask for everything at once.
    let issuer = Issuer::start(turning());
    let token = issuer.token("a", 100);
    let store = knowing(&[&token]);
    let refresher = issuer.refresher(&store);
    assert_eq!(fresh(&refresher, &token).await, "access-1");
    refresher.close().await;
    issuer.says(|_| panic!("nobody should ask"));
    assert_eq!(fresh(&issuer.refresher(&store), &token).await, "access-1");
}

#[tokio::test]
async fn refresh_tokens_that_are_turned_stay_in_step() {
    // The shown refresh token is void; showing it again revokes all.
    let issuer = Issuer::start(turning());
    let token = issuer.token("a", 100);
    let store = knowing(&[&token]);
    // Granted for an hour, good for no time at all.
    let config = |config: &mut TokensConfig| config.refresh_margin = Duration::from_secs(7200);
    let mut got = Vec::new();
    for _ in 0..4 {
        let refresher = issuer.refresher_with(&store, config);
        got.push(fresh(&refresher, &token).await);
        refresher.close().await;
        let mut kept = store.renewal(hash_of(token.expose())).unwrap().unwrap();
        kept.good_until = 0;
        store.renewed(&[(hash_of(token.expose()), Some(kept))]).unwrap();
    }
    assert_eq!(got, ["access-1", "access-2", "access-3", "access-4"]);
    assert_eq!(issuer.asked()[1..], ["refresh_token"; 3]);
    // Out of step, while the submitted token still lives: from the beginning.
    let mut lost = store.renewal(hash_of(token.expose())).unwrap().unwrap();
    lost.refresh = Some(Secret::new("refresh-1"));
    store.renewed(&[(hash_of(token.expose()), Some(lost))]).unwrap();
    assert_eq!(fresh(&issuer.refresher(&store), &token).await, "access-5");
    assert_eq!(issuer.asked()[4..], ["refresh_token", "token-exchange"]);
}

#[tokio::test]
async fn a_refusal_names_scope_audience_and_issuer_and_is_final() {
    for error in ["invalid_scope", "invalid_target", "invalid_grant"] {
        let issuer = Issuer::start(move |_| refusal(error));
        let alive = issuer.token("a", 100);
        let store = knowing(&[&alive]);
        let refresher = issuer.refresher(&store);
        assert_eq!(fresh(&refresher, &alive).await, alive.expose(), "it still lives");
        // Once more, when it has expired: the issuer's word is remembered.
        let failure = refresher.renewed_or_failure(&alive).await;
        assert_eq!((failure.party, failure.retry), (Party::Issuer, Retry::Never), "{error}");
        for part in [
            error,
            "scope \"storage.read:/a\"",
            "audience \"https://storage\"",
            &issuer.url,
            "is not yours",
        ] {
            assert!(failure.message.contains(part), "{part} in {}", failure.message);
        }
        assert_eq!(issuer.asked().len(), 1, "{error}");
    }
}

impl TokenRefresher {
    /// The failure of a token that has expired meanwhile.
    async fn renewed_or_failure(self: &Arc<Self>, token: &Secret) -> weir_world::Failure {
        let (issuer, claims) = self.issuer_of(token).unwrap();
        let trouble = self.renewed(&issuer, claims, token).await.unwrap_err();
        trouble.failure(source(), (issuer.url(), &issuer.figures.waits))
    }
}

type Fault = Box<dyn Fn() -> Reply + Send>;

/// The faults of the issuer, each with a word of the reason.
fn faults() -> Vec<(&'static str, Fault)> {
    vec![
        ("did not answer", Box::new(|| (200, String::new(), NEVER))),
        ("503", Box::new(|| (503, "busy".into(), AT_ONCE))),
        ("429", Box::new(|| (429, "{}".into(), AT_ONCE))),
        (
            "holds no bearer token",
            Box::new(|| (200, "<html>garbage".into(), AT_ONCE)),
        ),
        ("could not read", Box::new(|| (200, "x".repeat(1 << 20), AT_ONCE))),
        (
            "invalid_client",
            Box::new(|| (401, json!({ "error": "invalid_client" }).to_string(), AT_ONCE)),
        ),
    ]
}

#[tokio::test]
async fn an_issuer_in_trouble_is_left_alone_and_everybody_waits() {
    // A thousand transfers would each find out by themselves, and pile upon an issuer that is coming back.
    for (word, fault) in faults() {
        let issuer = Issuer::start(move |_| fault());
        let first = issuer.token("first", -10);
        let alive = issuer.token("alive", 100);
        let tokens = [issuer.token("a", 100), issuer.token("b", 100)];
        let refresher = issuer.refresher(&knowing(&[&first, &alive, &tokens[0], &tokens[1]]));
        let failure = refresher.fresh(source(), &tokens[0], true).await;
        assert_eq!(failure.unwrap().expose(), tokens[0].expose(), "{word}: it still lives");
        let begin = Instant::now();
        while refresher.trusted.get().issuers[&issuer.url].shut().is_none() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{word}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for token in [&tokens[1], &alive] {
            let failure = refresher.renewed_or_failure(token).await;
            assert_eq!((failure.party, failure.retry), (Party::Issuer, Retry::Later), "{word}");
            assert!(
                failure.message.contains(word) && failure.message.contains(&issuer.url),
                "{failure}"
            );
            // Other waiters must not learn whose token found the trouble, and for which files.
            assert!(!failure.message.contains("asked for"), "{failure}");
        }
        assert_eq!(issuer.asked().len(), 1, "{word}");
        let mut page = Page::default();
        refresher.show(&mut page);
        let ok = format!("weir_transfer_token_issuer_ok{{issuer=\"{}\"}} 0\n", issuer.url);
        let page = page.text();
        assert!(page.contains(&ok), "{word}: {page}");
    }
}

#[tokio::test]
async fn an_issuer_that_comes_back_is_asked_by_one_first() {
    let issuer = Issuer::start(|_| (503, String::new(), AT_ONCE));
    let tokens = (0..20).map(|n| issuer.token(&n.to_string(), 100)).collect::<Vec<_>>();
    let refresher = issuer.refresher_with(&knowing(&tokens.iter().collect::<Vec<_>>()), |config| {
        config.issuer_pause = Duration::from_millis(300);
    });
    let _waits = refresher.renewed_or_failure(&tokens[0]).await;
    let ask_all = || futures_util::future::join_all(tokens.iter().map(|token| fresh(&refresher, token)));
    tokio::time::sleep(Duration::from_millis(350)).await;
    ask_all().await;
    assert_eq!(issuer.asked().len(), 2, "one tried");
    issuer.says(turning());
    tokio::time::sleep(Duration::from_millis(350)).await;
    let begin = Instant::now();
    while !ask_all().await.iter().all(|token| token.starts_with("access-")) {
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(issuer.asked().len(), 22, "each once");
}

#[tokio::test]
async fn an_issuer_that_wants_to_be_left_alone_is() {
    let issuer = Issuer::start(|_| (429, String::new(), AT_ONCE));
    issuer.shared.wait.store(5, std::sync::atomic::Ordering::SeqCst);
    let token = issuer.token("a", 100);
    let refresher = issuer.refresher_with(&knowing(&[&token]), |config| {
        config.issuer_pause = Duration::from_millis(50);
    });
    refresher.renewed_or_failure(&token).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    refresher.renewed_or_failure(&token).await;
    assert_eq!(issuer.asked().len(), 1);
}

#[tokio::test]
async fn a_secret_that_was_replaced_is_found() {
    // Otherwise replacing it would need a restart of the service, with all its transfers.
    let mut granted = turning();
    let issuer = Issuer::start(move |form: &Form| {
        let known = "Basic ".to_owned() + &base64::engine::general_purpose::STANDARD.encode("fts:another-one");
        if form["authorization"] == known {
            return granted(form);
        }
        (401, json!({ "error": "invalid_client" }).to_string(), AT_ONCE)
    });
    let token = issuer.token("a", 100);
    let refresher = issuer.refresher_with(&knowing(&[&token]), |config| {
        config.issuer_pause = Duration::from_millis(50);
    });
    refresher.renewed_or_failure(&token).await;
    weir_auth::files::write_private(&issuer.directory.path().join("secret"), b"another-one").unwrap();
    let begin = Instant::now();
    while fresh(&refresher, &token).await != "access-1" {
        assert!(begin.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_slow_issuer_holds_nobody_up_and_few_ask_at_once() {
    // Transfers with good tokens would wait for slots of those that wait. The delay is long beside the time that a slow
    // machine needs for the rest.
    let slow = Duration::from_secs(6);
    let issuer = Issuer::start(move |_| {
        (
            200,
            json!({ "access_token": "late", "expires_in": 3600 }).to_string(),
            slow,
        )
    });
    let tokens = (0..1000).map(|n| issuer.token(&n.to_string(), 100)).collect::<Vec<_>>();
    let refresher = issuer.refresher_with(&knowing(&tokens.iter().collect::<Vec<_>>()), |config| {
        config.request_timeout = 3 * slow;
    });
    // Its request is the first to be sent.
    let _waits = refresher.renewed_or_failure(&tokens[0]).await;
    let begin = Instant::now();
    let waits = futures_util::future::join_all(tokens.iter().map(|token| refresher.renewed_or_failure(token))).await;
    assert!(begin.elapsed() < slow, "{:?}", begin.elapsed());
    assert!(waits.iter().all(|failure| failure.retry == Retry::Later));
    let begin = Instant::now();
    futures_util::future::join_all(tokens[..50].iter().map(|token| refresher.renewed_or_failure(token))).await;
    assert!(begin.elapsed() < slow / 2, "{:?}", begin.elapsed());
    let good = issuer.token("good", 3600);
    let begin = Instant::now();
    assert_eq!(fresh(&refresher, &good).await, good.expose());
    assert!(begin.elapsed() < slow / 2, "{:?}", begin.elapsed());
    // The requested token is stored, though no caller waits for it.
    let begin = Instant::now();
    while fresh(&refresher, &tokens[0]).await != "late" {
        assert!(begin.elapsed() < Duration::from_secs(120));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(issuer.at_once() <= 8);
}

#[tokio::test]
async fn an_issuer_that_is_gone_costs_no_time() {
    let issuer = Issuer::start(turning());
    let token = issuer.token("a", 100);
    let refresher = issuer.refresher(&knowing(&[&token]));
    drop(issuer);
    let failure = refresher.renewed_or_failure(&token).await;
    assert_eq!(failure.retry, Retry::Later, "{failure}");
}

#[tokio::test]
async fn a_token_that_lost_a_right_is_not_used() {
    let issuer = Issuer::start(turning());
    let less = unsigned(
        &json!({ "iss": issuer.url, "exp": time::now() / 1000 + 3600, "scope": "openid", "aud": "https://storage" }),
    );
    issuer.says(move |_| (200, json!({ "access_token": less.expose() }).to_string(), AT_ONCE));
    let token = issuer.token("a", 100);
    let store = knowing(&[&token]);
    // Nor by the next process, or by another node.
    for _ in 0..2 {
        let refresher = issuer.refresher(&store);
        let failure = refresher.renewed_or_failure(&token).await;
        assert!(failure.message.contains("lacks scope \"storage.read:/a\""), "{failure}");
        assert_eq!(failure.retry, Retry::Never);
        refresher.close().await;
    }
}

#[tokio::test]
async fn a_token_that_an_issuer_cannot_take_shuts_it_for_nobody() {
    // One user with a token of some megabytes once blocked the renewal of all tokens.
    let issuer = Issuer::start(|form: &Form| {
        let shown = form.get("subject_token").map_or(0, String::len);
        if shown > 1000 {
            (413, "<html>".into(), AT_ONCE)
        } else {
            (200, json!({ "access_token": "new" }).to_string(), AT_ONCE)
        }
    });
    let of_size =
        |n: usize| issuer.sign(&json!({ "iss": issuer.url, "exp": time::now() / 1000 + 100, "pad": "x".repeat(n) }));
    let (large, huge, other) = (of_size(2000), of_size(100_000), issuer.token("a", 100));
    let refresher = issuer.refresher(&knowing(&[&large, &huge, &other]));
    assert_eq!(refresher.renewed_or_failure(&large).await.retry, Retry::Never);
    assert!(refresher.issuer_of(&huge).is_none(), "nobody issues such a token");
    assert_eq!(fresh(&refresher, &other).await, "new");
}

#[tokio::test]
async fn a_secret_in_an_issuers_answer_is_not_passed_on() {
    let issuer = Issuer::start(|form: &Form| {
        let shown = form.get("refresh_token").cloned().unwrap_or_default();
        (
            400,
            json!({ "error": "invalid_grant", "error_description": format!("no: {shown}") }).to_string(),
            AT_ONCE,
        )
    });
    let token = issuer.token("a", -5);
    let store = knowing(&[&token]);
    let kept = crate::orders::Renewal {
        access: None,
        expires: 0,
        good_until: 0,
        refresh: Some(Secret::new("opaque-refresh-token")),
    };
    store.renewed(&[(hash_of(token.expose()), Some(kept))]).unwrap();
    let failure = issuer
        .refresher(&store)
        .fresh(source(), &token, true)
        .await
        .unwrap_err();
    assert!(failure.message.contains("no: ***"), "{failure}");
    assert_eq!(failure.retry, Retry::Never);
}

#[tokio::test]
async fn tokens_that_wait_are_exchanged_before_they_expire() {
    // An expired token cannot be exchanged: everything that waits for hours would fail.
    let issuer = Issuer::start(turning());
    let (alive, over, other) = (
        issuer.token("a", 1000),
        issuer.token("b", -1),
        unsigned(&json!({ "iss": "x", "exp": 1 })),
    );
    let store = knowing(&[&alive, &over, &other]);
    let refresher = issuer.refresher(&store);
    refresher.look().await;
    assert_eq!(issuer.asked(), ["token-exchange"]);
    let kept = store.renewal(hash_of(alive.expose())).unwrap().unwrap();
    assert_eq!(kept.refresh.unwrap().expose(), "refresh-1");
    assert!(
        store.due_renewals(i64::MAX, 0, 10).unwrap().is_empty(),
        "what cannot be exchanged is not asked for again"
    );
    assert_eq!(
        fresh(&refresher, &alive).await,
        alive.expose(),
        "it lives: it is used as it is"
    );
}

#[tokio::test]
async fn a_failed_exchange_is_tried_again() {
    let issuer = Issuer::start(|_| (503, String::new(), AT_ONCE));
    let tokens = (0..600).map(|n| issuer.token(&n.to_string(), 1000)).collect::<Vec<_>>();
    let store = knowing(&tokens.iter().collect::<Vec<_>>());
    let refresher = issuer.refresher_with(&store, |config| config.issuer_pause = Duration::from_millis(100));
    refresher.look().await;
    assert!(issuer.asked().len() < 20, "an issuer in trouble is left alone");
    issuer.says(turning());
    tokio::time::sleep(Duration::from_millis(150)).await;
    let begin = Instant::now();
    while !store.due_renewals(i64::MAX, 0, 1).unwrap().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        refresher.look().await;
    }
    assert!(issuer.at_once() <= 4);
}

#[test]
fn only_tokens_of_managed_issuers_are_expected() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let issuer = Issuer::start(turning());
    let refresher = issuer.refresher(&knowing(&[]));
    let (long, short) = (issuer.token("alice", 36_000), issuer.token("alice", 600));
    let (mut job, mut tokens) = (crate::memory::job(), BTreeMap::new());
    job.submitted = time::now();
    job.vo = "vo".into();
    (job.user_dn, job.cred_id) = ("alice".into(), cred_id(&issuer.url, "alice"));
    let stolen = issuer.token("bob", 600);
    for token in [
        &long,
        &short,
        &stolen,
        &Secret::new("opaque"),
        &unsigned(&json!({ "iss": "https://other", "exp": 1e10 })),
    ] {
        tokens.insert(hash_of(token.expose()), token.clone());
    }
    let expected = refresher.expiring(&job, &tokens).unwrap();
    let ahead = |token: &Secret| {
        let expiring = expected[&hash_of(token.expose())];
        (expiring.expires - expiring.due + 500) / 1000
    };
    assert_eq!(expected.len(), 2);
    assert_eq!(ahead(&long), 3600);
    assert!((299..=301).contains(&ahead(&short)), "{}", ahead(&short));
    let may = |job: &NewJob, token: &Secret| refresher.may_renew(job, token);
    assert!(may(&job, &short) && !may(&job, &stolen) && !may(&job, &Secret::new("opaque")));
    let mut unmanaged = job.clone();
    unmanaged.params.unmanaged_tokens = true;
    assert!(refresher.expiring(&unmanaged, &tokens).unwrap().is_empty() && !may(&unmanaged, &short));
    // A finder of an expired token would get the owner's renewed one.
    for token in [issuer.token("alice", -1), issuer.token("bob", -1)] {
        let mut late = tokens.clone();
        late.insert(hash_of(token.expose()), token);
        assert!(refresher.expiring(&unmanaged, &late).unwrap_err().contains(&issuer.url));
    }
}

#[tokio::test]
async fn a_forged_token_is_not_shown_to_its_issuer() {
    // It would be refused there, and count as a fault of this service's.
    let issuer = Issuer::start(|_| panic!("nobody should ask"));
    let mut forged = issuer.token("a", 100).expose().to_owned();
    forged.truncate(forged.rfind('.').unwrap());
    let forged = Secret::new(forged + ".c2ln");
    let store = knowing(&[&forged]);
    for _ in 0..2 {
        let failure = issuer.refresher(&store).renewed_or_failure(&forged).await;
        assert_eq!((failure.party, failure.retry), (Party::Issuer, Retry::Never));
        assert!(failure.message.contains("signature"), "{failure}");
    }
}
