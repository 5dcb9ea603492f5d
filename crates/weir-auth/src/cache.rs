//! Tokens that were verified a moment ago, so that a token used for ten thousand files is verified once.
//!
//! Bounded twice: at most [`Cache::CAPACITY`] tokens, and [`Cache::BYTES`] of claims in memory. There are two generations
//! of half that size; one that is full replaces the one before it, and a hit in the older one moves the token to the
//! younger. A usual token takes some 1.5 kB, so 8192 of them 12 MB. The key is the SHA-256 of the token: the token itself,
//! which would be worth stealing, is not kept.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;

use crate::token::Token;

/// The SHA-256 of a token.
pub(crate) type TokenHash = [u8; 32];

/// A token, and the key that its signature was checked with: the entry is good while the issuer still publishes it.
#[derive(Debug, Clone)]
pub(crate) struct CachedToken {
    pub(crate) token: Arc<Token>,
    pub(crate) issuer: usize,
    pub(crate) key: [u8; 32],
}

#[derive(Debug, Default)]
struct Generation {
    entries: HashMap<TokenHash, CachedToken>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Generations {
    young: Generation,
    old: Generation,
}

/// A bounded map from token hashes to verified tokens.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    generations: Mutex<Generations>,
}

impl Cache {
    /// Most tokens kept.
    pub(crate) const CAPACITY: usize = 8192;
    /// Most bytes that the claims of the kept tokens take, by [`Token::memory`].
    pub(crate) const BYTES: usize = 32 * 1024 * 1024;
    /// Largest claims kept: no token pushes out more than a few dozen others.
    const ENTRY_MAX: usize = Self::BYTES / 128;

    pub(crate) fn hash(token: &str) -> TokenHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        hash
    }

    pub(crate) fn get(&self, hash: &TokenHash) -> Option<CachedToken> {
        let mut generations = self.generations.lock();
        if let Some(found) = generations.young.entries.get(hash) {
            return Some(found.clone());
        }
        let found = generations.old.entries.remove(hash)?;
        generations.old.bytes -= found.token.memory();
        generations.put(*hash, found.clone());
        Some(found)
    }

    pub(crate) fn put(&self, hash: TokenHash, verified: CachedToken) {
        if verified.token.memory() <= Self::ENTRY_MAX {
            self.generations.lock().put(hash, verified);
        }
    }

    pub(crate) fn remove(&self, hash: &TokenHash) {
        let mut generations = self.generations.lock();
        generations.young.remove(hash);
        generations.old.remove(hash);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let generations = self.generations.lock();
        generations.young.entries.len() + generations.old.entries.len()
    }
}

impl Generations {
    fn put(&mut self, hash: TokenHash, verified: CachedToken) {
        let memory = verified.token.memory();
        let full = self.young.entries.len() >= Cache::CAPACITY / 2 || self.young.bytes + memory > Cache::BYTES / 2;
        if full {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.remove(&hash);
        self.young.bytes += memory;
        self.young.entries.insert(hash, verified);
    }
}

impl Generation {
    fn remove(&mut self, hash: &TokenHash) {
        if let Some(gone) = self.entries.remove(hash) {
            self.bytes -= gone.token.memory();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use super::*;

    fn entry(scope: &str) -> CachedToken {
        CachedToken {
            token: Arc::new(crate::token::tests::token(scope)),
            issuer: 0,
            key: [0; 32],
        }
    }

    fn small() -> CachedToken {
        entry("storage.read:/")
    }

    fn hash(number: usize) -> TokenHash {
        Cache::hash(&number.to_string())
    }

    #[test]
    fn neither_number_nor_size_grows_without_bound() {
        // Many tokens, or a few huge ones, would fill the memory.
        let cache = Cache::default();
        let usual = small();
        for number in 0..3 * Cache::CAPACITY {
            cache.put(hash(number), usual.clone());
        }
        assert!(cache.len() <= Cache::CAPACITY);
        let large = entry(&"storage.read:/a/b/c/d/e/f ".repeat(200));
        for number in 0..3 * Cache::CAPACITY {
            cache.put(hash(number), large.clone());
        }
        assert!(cache.len() <= Cache::BYTES / large.token.memory(), "{}", cache.len());
        let huge = entry(&"storage.read:/a/b/c/d/e/f ".repeat(5000));
        let before = cache.len();
        cache.put(hash(usize::MAX), huge);
        assert!(cache.len() == before && cache.get(&hash(usize::MAX)).is_none());
    }

    #[test]
    fn a_used_entry_stays() {
        // A busy token would be verified again and again while others pass by.
        let cache = Cache::default();
        cache.put(hash(0), small());
        for number in 1..3 * Cache::CAPACITY {
            cache.put(hash(number), small());
            assert!(cache.get(&hash(0)).is_some(), "after {number}");
        }
        assert!(cache.get(&hash(1)).is_none());
    }

    #[test]
    fn a_removed_entry_is_gone_from_both_generations() {
        // A withdrawn token would come back.
        let cache = Cache::default();
        for number in 0..=Cache::CAPACITY / 2 {
            cache.put(hash(number), small());
        }
        cache.remove(&hash(0));
        cache.remove(&hash(Cache::CAPACITY / 2));
        assert!(cache.get(&hash(0)).is_none());
        assert!(cache.get(&hash(Cache::CAPACITY / 2)).is_none());
        assert!(cache.get(&hash(1)).is_some());
    }
}
