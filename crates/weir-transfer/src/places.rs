//! How much is done at once: each operation holds a connection, a listing much memory besides.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// All places.
const ALL: usize = 16;

/// Of which one user may have so many: who asks a storage that does not answer takes only their own time.
const OF_ONE: usize = ALL / 2;

/// A listing keeps up to some 80 MiB, until the client has it: four at once.
pub(super) const LISTING: usize = 4;

/// Who holds how many.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(Arc<Mutex<BTreeMap<String, usize>>>);

impl Places {
    /// Takes places for a user, as long as there are some for this one.
    pub(super) fn enter(&self, user: &str, places: usize) -> Option<Place> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.get(user).copied().unwrap_or_default() + places;
        if own > OF_ONE || held.values().sum::<usize>() + places > ALL {
            return None;
        }
        held.insert(user.to_owned(), own);
        Some(Place {
            all: self.clone(),
            user: user.to_owned(),
            places,
        })
    }
}

/// Held as long as an operation lasts.
#[derive(Debug)]
pub(crate) struct Place {
    all: Places,
    user: String,
    places: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.user) {
            *own -= self.places;
            if *own == 0 {
                held.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One user could keep all others out, or a place would be lost with every error.
    #[test]
    fn nobody_takes_all_places_and_all_come_back() {
        let places = Places::default();
        let of = |user: &str, each: usize| std::iter::from_fn(|| places.enter(user, each)).collect::<Vec<_>>();
        let ada = of("ada", 1);
        assert_eq!(ada.len(), OF_ONE);
        let bob = of("bob", LISTING);
        assert_eq!(bob.len(), OF_ONE / LISTING);
        assert!(places.enter("eve", 1).is_none());
        drop(bob);
        assert_eq!(of("eve", LISTING).len(), OF_ONE / LISTING);
        drop(ada);
        assert!(places.0.lock().is_ok_and(|held| held.is_empty()));
    }
}
