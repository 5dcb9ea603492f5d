//! A cache of issuers' recent answers, by the hash of the submitted token: in memory, bounded. The store holds the
//! tokens that must not be lost.

use std::collections::HashMap;

use weir_auth::Secret;
use weir_service::time::Millis;

use crate::job::TokenHash;

/// Entries of one generation: some 2 KB each, so that two generations are 40 MB.
const GENERATION: usize = 10_000;

/// For so long a refusal is not asked for again.
const REFUSED: Millis = 600_000;

/// The cached answer about a token.
#[derive(Debug, Clone)]
pub(super) enum CachedAnswer {
    /// A fresh one, handed out until then.
    Fresh(Secret, Millis),
    /// It was refused for good, for this reason.
    Refused(String, Millis),
    /// The store holds nothing for it.
    Nothing,
}

/// Two generations: used entries stay, unused ones are dropped with the older generation.
#[derive(Debug, Default)]
pub(super) struct AnswerCache {
    young: HashMap<TokenHash, CachedAnswer>,
    old: HashMap<TokenHash, CachedAnswer>,
}

impl AnswerCache {
    pub(super) fn get(&mut self, token: TokenHash, now: Millis) -> Option<CachedAnswer> {
        if let Some(known) = self.old.remove(&token) {
            self.put_as_is(token, known);
        }
        let known = self.young.get(&token)?.clone();
        let holds = match &known {
            CachedAnswer::Fresh(_, until) | CachedAnswer::Refused(_, until) => now < *until,
            CachedAnswer::Nothing => true,
        };
        holds.then_some(known)
    }

    pub(super) fn refuse(&mut self, token: TokenHash, why: String, now: Millis) {
        self.put(token, CachedAnswer::Refused(why, now + REFUSED));
    }

    pub(super) fn put(&mut self, token: TokenHash, known: CachedAnswer) {
        self.old.remove(&token);
        self.put_as_is(token, known);
    }

    fn put_as_is(&mut self, token: TokenHash, known: CachedAnswer) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(token, known);
    }

    /// Fresh tokens in memory.
    pub(super) fn fresh(&self, now: Millis) -> usize {
        let all = self.young.values().chain(self.old.values());
        all.filter(|known| matches!(known, CachedAnswer::Fresh(_, until) if now < *until))
            .count()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let token = |n: usize| crate::job::hash_of(&n.to_string());
        let mut held = AnswerCache::default();
        held.put(token(0), CachedAnswer::Fresh(Secret::new("used"), 100));
        for n in 1..=5 * GENERATION {
            held.put(token(n), CachedAnswer::Nothing);
            assert!(held.get(token(0), 99).is_some(), "{n}");
        }
        assert!(held.young.len() + held.old.len() <= 2 * GENERATION);
        assert_eq!((held.fresh(99), held.fresh(100)), (1, 0));
        assert!(held.get(token(0), 100).is_none() && held.get(token(1), 0).is_none());
        held.refuse(token(0), "no".into(), 0);
        assert!(matches!(held.get(token(0), REFUSED - 1), Some(CachedAnswer::Refused(why, _)) if why == "no"));
        assert!(held.get(token(0), REFUSED).is_none());
    }
}
