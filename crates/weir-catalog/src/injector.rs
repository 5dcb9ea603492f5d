//! The injector: does the steps of loads that are due, one load after the other.

use std::time::Duration;

use weir_database::{Database, Session};
use weir_store::StoreError;

use crate::{clock::Clock, door::uid, evaluator::Wakes, loads, refusal::Refusal};

/// How often loads that are due are looked for: a cycle begins at most so much late.
const EVERY: Duration = Duration::from_millis(500);

/// Loads that are read together.
const LOADS: usize = 100;

/// Injects until it is aborted.
pub(crate) async fn run(database: Database, wakes: Wakes, clock: Clock) {
    loop {
        let n_done = round(&database, &clock).await;
        if n_done > 0 {
            // Rules were made, or are to end.
            wakes.evaluator.notify_one();
            wakes.transfers.notify_one();
        }
        if n_done < LOADS {
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// Does the steps that are due, at most so many as are read together: how many were done.
pub(crate) async fn round(database: &Database, clock: &Clock) -> usize {
    let now = clock.now();
    let due = move |session: &mut dyn Session| loads::due(session, now, LOADS);
    let due = match database.read(due).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(error = weir_auth::error_chain(&error), "loads cannot be read");
            return 0;
        }
    };
    let mut n_done = 0;
    for load in due {
        match step(database, load, clock).await {
            Ok(()) => n_done += 1,
            Err(error) => tracing::warn!(
                load,
                error = weir_auth::error_chain(&error),
                "a load cannot inject; it is tried again"
            ),
        }
    }
    n_done
}

async fn step(database: &Database, load: u64, clock: &Clock) -> Result<(), StoreError> {
    let (now, rule) = (clock.now(), uid()?);
    let again = rule.clone();
    let work = move |session: &mut dyn Session| loads::step(session, load, (&rule, None), now);
    let Err(error) = database.write(work).await else {
        return Ok(());
    };
    let Some(refusal) = error.refusal::<Refusal>().cloned() else {
        return Err(error);
    };
    let work = move |session: &mut dyn Session| loads::step(session, load, (&again, Some(&refusal)), now);
    database.write(work).await
}
