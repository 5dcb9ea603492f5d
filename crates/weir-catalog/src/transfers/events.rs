//! Messages of transfer services about jobs, by webhook or over a broker. A message is not believed: it has its job asked for at once.

use serde::Deserialize;
use tokio::sync::Notify;
use uuid::Uuid;
use weir_database::{Database, Session};
use weir_events::Subscription;

use crate::requests::outgoing;

/// A message as FTS3 sends it, alone or within a webhook's array.
#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    data: Option<Box<Message>>,
    /// Of `complete`: the job is behind the last `__`.
    #[serde(default)]
    tr_id: Option<String>,
    /// Of `state`.
    #[serde(default)]
    job_id: Option<Uuid>,
}

impl Message {
    fn job(&self) -> Option<Uuid> {
        if let Some(data) = &self.data {
            return data.job();
        }
        let by_transfer = || self.tr_id.as_deref()?.rsplit("__").next()?.parse().ok();
        self.job_id.or_else(by_transfer)
    }
}

/// The job that a message is about.
pub fn job_of(message: &[u8]) -> Option<Uuid> {
    serde_json::from_slice::<Message>(message).ok()?.job()
}

/// Has jobs asked for at once.
///
/// # Errors
/// The database fails.
pub async fn told(database: &Database, mut jobs: Vec<Uuid>, wake: &Notify) -> Result<(), weir_store::StoreError> {
    jobs.sort_unstable();
    jobs.dedup();
    if !jobs.is_empty() {
        database
            .write(move |session: &mut dyn Session| outgoing::to_poll_now(session, &jobs))
            .await?;
        wake.notify_one();
    }
    Ok(())
}

/// Listens to a broker, until it is dropped.
pub(crate) async fn listen(subscription: &Subscription, database: &Database, wake: &Notify) {
    let heard = |message: Vec<u8>| {
        async move {
            let jobs = job_of(&message).into_iter().collect();
            if let Err(error) = told(database, jobs, wake).await {
                // The job is polled all the same, later.
                tracing::debug!(error = weir_auth::error_chain(&error), "a message was heard in vain");
            }
        }
    };
    subscription.listen(heard).await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn messages_name_their_jobs() {
        let job = "9c2e0c2e-0000-5000-8000-000000000001";
        let complete = format!(r#"{{"tr_id": "2026-11-26-0501__a__b__42__{job}", "t_final_transfer_state": "Ok"}} "#);
        assert_eq!(job_of(complete.as_bytes()).unwrap().to_string(), job);
        let hook = format!(r#"{{"type": "complete", "vo": "x", "data": {complete}}}"#);
        assert_eq!(job_of(hook.as_bytes()).unwrap().to_string(), job);
        assert_eq!(
            job_of(format!(r#"{{"job_id": "{job}"}}"#).as_bytes())
                .unwrap()
                .to_string(),
            job
        );
        for none in ["", "{}", "[1]", r#"{"tr_id": "x__y"}"#, "\u{0}"] {
            assert_eq!(job_of(none.as_bytes()), None);
        }
    }
}
