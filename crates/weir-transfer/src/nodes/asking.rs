//! A node asks the scheduler something, through the database.

use std::{sync::Arc, time::Duration};

use weir_store::blocking;

use super::Membership;
use crate::store::StoreError;

/// How often an answer is looked for even if no notification comes.
const LOOK: Duration = Duration::from_secs(1);

impl Membership {
    /// The scheduler's answer to a request: heading and body. `None`: it has not answered within `patience`, and the request is withdrawn.
    pub async fn ask_scheduler(
        self: &Arc<Self>,
        request: String,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        let store = self.store.clone();
        let number = blocking(move || store.ask(&request, &body)).await?;
        if let Ok(answer) = tokio::time::timeout(patience, self.answer_to(number)).await {
            return answer.map(Some);
        }
        let store = self.store.clone();
        blocking(move || store.withdraw(number)).await?;
        Ok(None)
    }

    async fn answer_to(&self, number: i64) -> Result<(String, Vec<u8>), StoreError> {
        let door = self.bells().door(number);
        loop {
            let store = self.store.clone();
            if let Some(answer) = blocking(move || store.answer_to(number)).await? {
                return Ok(answer);
            }
            tokio::select! {
                () = door.rung() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
