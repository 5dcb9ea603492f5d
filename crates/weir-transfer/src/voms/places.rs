//! How many are served at once: each costs a TLS connection, and servers that do not answer keep it for long.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All places.
pub(super) const ALL: usize = 8;

/// Of which one user may have so many: whose servers do not answer keeps nobody else waiting.
const OF_ONE: usize = 2;

/// How long somebody waits for a place.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    /// Of those who have a place or wait for one.
    users: Mutex<BTreeMap<String, Weak<Semaphore>>>,
}

/// Held as long as somebody is served.
#[derive(Debug)]
pub(super) struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL)),
            users: Mutex::default(),
        }
    }

    /// A place for this user, as soon as there is one; none if that lasts too long.
    pub(super) async fn enter(&self, user: &str) -> Option<Place> {
        self.within(PATIENCE, user).await
    }

    async fn within(&self, patience: Duration, user: &str) -> Option<Place> {
        // The user's own first: who waits for that must not stand before others.
        let both = async {
            Some(Place {
                _own: self.of(user).acquire_owned().await.ok()?,
                _all: self.all.clone().acquire_owned().await.ok()?,
            })
        };
        tokio::time::timeout(patience, both).await.ok()?
    }

    fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, own| own.strong_count() > 0);
        if let Some(own) = users.get(user).and_then(Weak::upgrade) {
            return own;
        }
        let own = Arc::new(Semaphore::new(OF_ONE));
        users.insert(user.to_owned(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    async fn all_of(places: &Places, user: &str) -> Vec<Place> {
        let mut held = Vec::new();
        while let Some(place) = places.within(SHORT, user).await {
            held.push(place);
        }
        held
    }

    /// One user could keep all others out, or a place would be lost.
    #[tokio::test]
    async fn nobody_takes_all_places_and_all_come_back() {
        let places = Places::new();
        let mut held = Vec::new();
        for user in ["a", "b", "c", "d"] {
            let own = all_of(&places, user).await;
            assert_eq!(own.len(), OF_ONE, "{user}");
            held.extend(own);
        }
        assert_eq!(held.len(), ALL);
        assert!(places.within(SHORT, "e").await.is_none());
        // One place that comes back is for whoever may have it, and those who wait for their own do not stand before.
        let (mine, theirs) = tokio::join!(places.within(SHORT, "d"), async {
            held.remove(0);
            places.within(SHORT, "e").await
        });
        assert!(mine.is_none() && theirs.is_some());
        drop((held, theirs));
        assert_eq!(places.all.available_permits(), ALL);
        assert_eq!(all_of(&places, "a").await.len(), OF_ONE);
        assert_eq!(places.users.lock().unwrap().len(), 1, "users who left are forgotten");
    }
}
