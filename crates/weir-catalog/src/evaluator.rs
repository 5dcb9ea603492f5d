//! The evaluator brings the locks of rules up to date, releases ended rules, repairs stuck ones, ends DIDs, and adds up the
//! usage of accounts, one part after the other.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use weir_database::{Database, Session};
use weir_rules::ids::RuleId;
use weir_service::time::Millis;
use weir_store::StoreError;

use crate::{
    accounts::limits::add_up as add_up_usage,
    clock::Clock,
    dids::ending,
    rules::{self, evaluate, evaluate::Progress, repair},
};

/// How often rules that are due are looked for.
const EVERY: Duration = Duration::from_secs(1);

/// The least time between two looks: clients that add rules one after the other wake it for each.
const AT_MOST_EVERY: Duration = Duration::from_millis(50);

/// Changes of usage that are added up together.
const CHANGES: u64 = 10_000;

/// Rules that are looked at together.
const RULES: usize = 100;

/// A rule whose rows cannot be read is evaluated again after this time, in milliseconds.
const PAUSE: i64 = 600_000;

/// Tell tasks that there is something to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wakes {
    /// Rules are to be evaluated.
    pub(crate) evaluator: Arc<Notify>,
    /// There may be requests.
    pub(crate) transfers: Arc<Notify>,
}

/// Evaluates rules until it is aborted.
pub(crate) async fn run(database: Database, wakes: Wakes, clock: Clock) {
    loop {
        let has_more = round(&database, &clock).await;
        wakes.transfers.notify_one();
        if !has_more {
            tokio::time::sleep(AT_MOST_EVERY).await;
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = wakes.evaluator.notified() => {}
            }
        }
    }
}

/// Does a part of all that is to be done; whether there is more to do at once.
pub(crate) async fn round(database: &Database, clock: &Clock) -> bool {
    let evaluated = pass(database, clock).await;
    evaluated | repair(database, clock.now()).await | end(database, clock.now()).await | add_up(database).await
}

/// Evaluates a part of each rule that is due; whether there is more to do at once.
async fn pass(database: &Database, clock: &Clock) -> bool {
    let now = clock.now();
    let due = move |session: &mut dyn Session| evaluate::due(session, now, RULES);
    let due = match database.read(due).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(
                error = weir_auth::error_chain(&error),
                "rules that are due cannot be read"
            );
            return false;
        }
    };
    let is_full = due.len() == RULES;
    let (mut has_more, mut n_done) = (false, 0);
    for rule in due {
        if let Some(progress) = one(database, rule, clock.now()).await {
            n_done += 1;
            has_more |= progress == Progress::More;
        }
    }
    // While none can be evaluated, the next ones wait for the pause.
    has_more || is_full && n_done > 0
}

/// Repairs rules that are stuck; whether there is more to do at once.
async fn repair(database: &Database, now: Millis) -> bool {
    let due = database
        .read(move |session: &mut dyn Session| repair::due(session, now, RULES))
        .await;
    let mut has_more = false;
    for rule in told(due, "stuck rules cannot be read").unwrap_or_default() {
        let part = move |session: &mut dyn Session| repair::part(session, rule, now);
        has_more |= told(database.write(part).await, "a stuck rule cannot be repaired").unwrap_or_default();
    }
    has_more
}

/// Ends DIDs whose time has come; returns whether there is more to do at once.
async fn end(database: &Database, now: Millis) -> bool {
    let due = database
        .read(move |session: &mut dyn Session| ending::due(session, now, RULES))
        .await;
    let mut has_more = false;
    for did in told(due, "DIDs that end cannot be read").unwrap_or_default() {
        let part = move |session: &mut dyn Session| ending::part(session, did, now);
        has_more |= told(database.write(part).await, "a DID cannot be ended").is_some();
    }
    has_more
}

/// Adds up changes of usage; whether there is more to do at once.
async fn add_up(database: &Database) -> bool {
    let part = |session: &mut dyn Session| add_up_usage(session, CHANGES);
    told(database.write(part).await, "usage of accounts cannot be added up").unwrap_or_default()
}

/// The result of a transaction; a failure is logged.
fn told<T>(outcome: Result<T, StoreError>, failed: &str) -> Option<T> {
    outcome
        .inspect_err(|error| tracing::warn!(error = weir_auth::error_chain(error), failed))
        .ok()
}

/// Evaluates a part of a rule; `None` if that failed. The rule is then put off, so that it delays no other.
async fn one(database: &Database, rule: RuleId, now: Millis) -> Option<Progress> {
    let part = move |session: &mut dyn Session| evaluate::part(session, rule, now);
    let error = match database.write(part).await {
        Ok(progress) => return Some(progress),
        Err(error) => error,
    };
    let reason = weir_auth::error_chain(&error);
    tracing::warn!(
        rule = rule.0,
        reason,
        "a rule cannot be evaluated; it is tried again later"
    );
    if !error.is_passing() {
        let postpone = move |session: &mut dyn Session| rules::postpone(session, rule, &reason, now + PAUSE);
        if let Err(error) = database.write(postpone).await {
            tracing::warn!(error = weir_auth::error_chain(&error), "a rule cannot be put off");
        }
    }
    None
}
