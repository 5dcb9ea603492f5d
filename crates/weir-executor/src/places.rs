//! Limits on concurrent work for users, so that no user blocks the others.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

/// So many places, of which one user may have some.
#[derive(Debug, Clone)]
pub struct Places {
    all: usize,
    of_one: usize,
    /// Number of slots by holder.
    held: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Places {
    /// So many in all, and so many of one user.
    pub fn new(all: usize, of_one: usize) -> Self {
        Self {
            all,
            of_one,
            held: Arc::default(),
        }
    }

    /// Takes places for a user, as long as there are some for this one.
    pub fn enter(&self, user: &str, places: usize) -> Option<Place> {
        let mut held = self.held.lock();
        let own = held.get(user).copied().unwrap_or_default() + places;
        if own > self.of_one || held.values().sum::<usize>() + places > self.all {
            return None;
        }
        held.insert(user.to_owned(), own);
        Some(Place {
            held: self.held.clone(),
            user: user.to_owned(),
            places,
        })
    }
}

/// Held as long as an operation lasts.
#[derive(Debug)]
pub struct Place {
    held: Arc<Mutex<BTreeMap<String, usize>>>,
    user: String,
    places: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.held.lock();
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
    fn no_client_takes_all_places_and_all_come_back() {
        let places = Places::new(16, 8);
        let of = |user: &str, each: usize| std::iter::from_fn(|| places.enter(user, each)).collect::<Vec<_>>();
        let ada = of("ada", 1);
        assert_eq!(ada.len(), 8);
        let bob = of("bob", 4);
        assert_eq!(bob.len(), 2);
        assert!(places.enter("eve", 1).is_none());
        drop(bob);
        assert_eq!(of("eve", 4).len(), 2);
        drop(ada);
        assert!(places.held.lock().is_empty());
    }
}
