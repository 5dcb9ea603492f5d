//! Orders and secrets in memory, for tests that need no store.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use weir_auth::Secret;
use weir_service::time::Millis;
use weir_store::StoreError;

use crate::{
    job::{JobParams, NewJob, TokenHash, hash_of},
    orders::{Due, Journal, Kept, Note, Order, Orders, Pin, Renewal},
};

/// A job of alice's.
pub(crate) fn job() -> NewJob {
    NewJob {
        id: uuid::Uuid::from_u128(1),
        kind: 'N',
        user_dn: "alice".into(),
        cred_id: "cred".into(),
        vo: "testvo".into(),
        submitted: 1000,
        priority: 3,
        source_se: None,
        dest_se: None,
        params: JobParams::default(),
        metadata: None,
    }
}

struct Token {
    secret: Secret,
    due: Option<Millis>,
    renewal: Option<Renewal>,
}

/// Tokens that files name, with their renewed tokens.
#[derive(Default)]
pub(crate) struct Memory(Mutex<BTreeMap<TokenHash, Token>>);

impl Memory {
    /// It knows these tokens, which are due.
    pub(crate) fn knowing(tokens: &[&Secret]) -> Self {
        let known = |secret: &Secret| Token {
            secret: secret.clone(),
            due: Some(0),
            renewal: None,
        };
        let tokens = tokens.iter().map(|token| (hash_of(token.expose()), known(token)));
        Self(Mutex::new(tokens.collect()))
    }
}

impl Orders for Memory {
    fn order(&self, _: u64) -> Result<Option<Order>, StoreError> {
        Ok(None)
    }

    fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        Ok(Vec::new())
    }

    fn kept(&self, _: &str) -> Result<Option<Kept>, StoreError> {
        Ok(None)
    }

    fn renewal(&self, token: TokenHash) -> Result<Option<Renewal>, StoreError> {
        Ok(self.0.lock().get(&token).and_then(|token| token.renewal.clone()))
    }

    fn renewed(&self, outcomes: &[(TokenHash, Option<Renewal>)]) -> Result<(), StoreError> {
        let mut tokens = self.0.lock();
        for (hash, outcome) in outcomes {
            if let Some(token) = tokens.get_mut(hash) {
                token.due = None;
                token.renewal = outcome.clone().or(token.renewal.take());
            }
        }
        Ok(())
    }

    fn due_renewals(&self, now: Millis, skip: usize, limit: usize) -> Result<Vec<Due>, StoreError> {
        let tokens = self.0.lock();
        let due = tokens
            .iter()
            .filter(|(_, token)| token.due.is_some_and(|due| due <= now));
        let due = due.map(|(hash, token)| Due {
            hash: *hash,
            token: Some(token.secret.clone()),
            needed: true,
        });
        Ok(due.skip(skip).take(limit).collect())
    }
}

/// Keeps no note.
pub(crate) struct Forgetful;

impl Journal for Forgetful {
    fn note(&self, _: Note) {}

    fn make_durable(&self, _: Note) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(true))
    }
}
