//! Map from transfer ids to rows.
//!
//! A store numbers transfers one after the other, files of one job together; they end roughly in that order. So ids are
//! kept in chunks of 64 neighbours: four bytes each, and ids that are looked up together lie together. A plain hash
//! table needs twice the memory and a cache miss for every lookup. Ids far from all others cost a chunk each: correct,
//! but not small.

use hashbrown::HashTable;
use weir_world::TransferId;

/// Neighbours in a chunk.
const WIDTH: usize = 64;
/// No row.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Chunk {
    base: u64,
    used: u32,
    rows: [u32; WIDTH],
}

/// Rows by transfer id.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    chunks: Vec<Chunk>,
    vacant: Vec<u32>,
    by_base: HashTable<u32>,
    len: usize,
}

/// Spreads bases over the index (the finaliser of SplitMix64: Steele, Lea, Flood, OOPSLA 2014). The store assigns ids,
/// not clients, so ids cannot be chosen to collide.
fn spread(base: u64) -> u64 {
    let mut word = base.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

fn split(id: TransferId) -> (u64, usize) {
    (id.0 / WIDTH as u64, (id.0 % WIDTH as u64) as usize)
}

impl Ids {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn chunk(&self, base: u64) -> Option<u32> {
        let is_it = |chunk: &u32| self.chunks[*chunk as usize].base == base;
        self.by_base.find(spread(base), is_it).copied()
    }

    pub(crate) fn get(&self, id: TransferId) -> Option<u32> {
        let (base, place) = split(id);
        let row = self.chunks[self.chunk(base)? as usize].rows[place];
        (row != NONE).then_some(row)
    }

    /// Notes the row of an id that has none.
    pub(crate) fn insert(&mut self, id: TransferId, row: u32) {
        let (base, place) = split(id);
        let chunk = self.chunk(base).unwrap_or_else(|| self.new_chunk(base));
        let chunk = &mut self.chunks[chunk as usize];
        chunk.rows[place] = row;
        chunk.used += 1;
        self.len += 1;
    }

    fn new_chunk(&mut self, base: u64) -> u32 {
        let chunk = Chunk {
            base,
            used: 0,
            rows: [NONE; WIDTH],
        };
        let number = if let Some(number) = self.vacant.pop() {
            self.chunks[number as usize] = chunk;
            number
        } else {
            self.chunks.push(chunk);
            (self.chunks.len() - 1) as u32
        };
        let chunks = &self.chunks;
        let hash = |other: &u32| spread(chunks[*other as usize].base);
        self.by_base.insert_unique(spread(base), number, hash);
        number
    }

    /// Forgets an id.
    pub(crate) fn remove(&mut self, id: TransferId) {
        let (base, place) = split(id);
        let Some(number) = self.chunk(base) else { return };
        let chunk = &mut self.chunks[number as usize];
        if std::mem::replace(&mut chunk.rows[place], NONE) == NONE {
            return;
        }
        chunk.used -= 1;
        self.len -= 1;
        if chunk.used == 0 {
            if let Ok(entry) = self.by_base.find_entry(spread(base), |other| *other == number) {
                entry.remove();
            }
            self.vacant.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    proptest::proptest! {
        /// An index that differs from a map loses transfers, or mistakes one for another.
        #[test]
        fn behaves_as_a_map(moves in proptest::collection::vec((proptest::bool::ANY, 0..300u64, 0..4u64), 0..300)) {
            let (mut ids, mut model) = (Ids::default(), BTreeMap::new());
            for (row, (insert, low, high)) in moves.into_iter().enumerate() {
                let id = TransferId(low + (high << 60));
                if insert && !model.contains_key(&id) {
                    ids.insert(id, row as u32);
                    model.insert(id, row as u32);
                } else if !insert {
                    ids.remove(id);
                    model.remove(&id);
                }
                assert_eq!((ids.get(id), ids.len()), (model.get(&id).copied(), model.len()));
            }
            for (id, row) in &model {
                assert_eq!(ids.get(*id), Some(*row));
            }
        }
    }
}
