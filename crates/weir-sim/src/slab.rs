//! A table whose entries keep their place; keys of removed entries are recognised.

/// The key of an entry: its place, and the generation of the entry there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    place: u32,
    generation: u32,
}

impl Key {
    pub(crate) fn place(self) -> usize {
        self.place as usize
    }
}

/// A table of entries; see the module.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<(u32, Option<T>)>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, entry: T) -> Key {
        if let Some(place) = self.vacant.pop() {
            let (generation, slot) = &mut self.entries[place as usize];
            *generation += 1;
            *slot = Some(entry);
            return Key {
                place,
                generation: *generation,
            };
        }
        self.entries.push((0, Some(entry)));
        Key {
            place: (self.entries.len() - 1) as u32,
            generation: 0,
        }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let (generation, entry) = self.entries.get(key.place())?;
        entry.as_ref().filter(|_| *generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (generation, entry) = self.entries.get_mut(key.place())?;
        entry.as_mut().filter(|_| *generation == key.generation)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        self.vacant.push(key.place);
        self.entries[key.place()].1.take()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.vacant.len()
    }

    /// Goes through the entries in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.entries.iter().zip(0..).filter_map(|((generation, entry), place)| {
            let key = Key {
                place,
                generation: *generation,
            };
            entry.as_ref().map(|entry| (key, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    /// An event about an attempt that is over would be taken for one about the attempt in its place.
    #[test]
    fn old_keys_find_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(first.place(), second.place());
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&"second")));
        assert_eq!(slab.remove(first), None);
        assert_eq!((slab.len(), slab.iter().count()), (1, 1));
    }
}
