//! What issuers gave for tokens.

use super::Tables;
use crate::{
    model::TokenHash,
    store::{Due, Renewal, Sealer, StoreError, Submission},
    time::Millis,
};

#[derive(Debug, Default, Clone)]
pub(super) struct Row {
    expires: Millis,
    due: Option<Millis>,
    sealed: Option<Vec<u8>>,
}

impl Tables {
    pub(super) fn expect_renewals(&mut self, submission: &Submission) {
        for (hash, expiring) in &submission.expiring {
            let row = self.renewals.entry(*hash).or_default();
            row.expires = expiring.expires;
            row.due = row.sealed.is_none().then_some(expiring.due);
        }
    }

    pub(super) fn renewal(&self, token: TokenHash, sealer: &Sealer) -> Result<Option<Renewal>, StoreError> {
        let sealed = self.renewals.get(&token).and_then(|row| row.sealed.as_ref());
        sealed.map(|sealed| Renewal::open(token, sealed, sealer)).transpose()
    }

    pub(super) fn renewed(&mut self, outcomes: &[(TokenHash, Option<Renewal>)], sealer: &Sealer) {
        for (token, renewal) in outcomes {
            if !self.tokens.contains_key(token) {
                continue;
            }
            let row = self.renewals.entry(*token).or_default();
            row.due = None;
            if let Some(renewal) = renewal {
                row.sealed = Some(renewal.seal(*token, sealer));
            }
        }
    }

    pub(super) fn due_renewals(&self, now: Millis, (skip, limit): (usize, usize), sealer: &Sealer) -> Vec<Due> {
        let due = self
            .renewals
            .iter()
            .filter(|(_, row)| row.due.is_some_and(|due| due <= now));
        let mut due = due.map(|(hash, row)| (row.expires, *hash)).collect::<Vec<_>>();
        due.sort_unstable();
        let open = |hash: TokenHash| {
            let token = sealer.open(hash, &self.tokens.get(&hash)?.0);
            let mut live = self.files.values().filter(|row| row.file.finished.is_none());
            let needed = live.any(|row| {
                let spec = &row.file.spec;
                [spec.source_token, spec.destination_token].contains(&Some(hash))
            });
            Some(Due { hash, token, needed })
        };
        due.into_iter()
            .skip(skip)
            .take(limit)
            .filter_map(|(_, hash)| open(hash))
            .collect()
    }
}
