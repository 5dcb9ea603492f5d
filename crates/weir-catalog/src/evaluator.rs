//! The evaluator: brings the locks of rules up to date, and releases rules that are over, one part after the other.

use std::time::Duration;

use weir_rules::ids::RuleId;
use weir_service::time;

use crate::{
    database::{Database, Session},
    refusal::Refusal,
    rules::{self, evaluate, evaluate::Progress},
};

/// How often rules that are due are looked for.
const EVERY: Duration = Duration::from_secs(1);

/// Rules that are looked at together.
const RULES: usize = 100;

/// A rule that cannot be placed is evaluated again after this time.
const PAUSE: i64 = 600_000;

/// Evaluates rules until it is aborted.
pub(crate) async fn run(database: Database) {
    loop {
        if !pass(&database).await {
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// Evaluates a part of each rule that is due; whether there may be more to do.
async fn pass(database: &Database) -> bool {
    let due = |session: &mut dyn Session| evaluate::due(session, time::now(), RULES);
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
    let mut has_more = due.len() == RULES;
    for rule in due {
        has_more |= one(database, rule).await;
    }
    has_more
}

async fn one(database: &Database, rule: RuleId) -> bool {
    let part = move |session: &mut dyn Session| evaluate::part(session, rule, time::now());
    let error = match database.write(part).await {
        Ok(progress) => return progress == Progress::More,
        Err(error) => error,
    };
    let reason = match error.refusal::<Refusal>() {
        Some(refusal) => refusal.message.clone(),
        None => weir_auth::error_chain(&error),
    };
    tracing::warn!(
        rule = rule.0,
        reason,
        "a rule cannot be evaluated; it is tried again later"
    );
    let postpone = move |session: &mut dyn Session| rules::postpone(session, rule, &reason, time::now() + PAUSE);
    if let Err(error) = database.write(postpone).await {
        tracing::warn!(error = weir_auth::error_chain(&error), "a rule cannot be put off");
    }
    false
}
