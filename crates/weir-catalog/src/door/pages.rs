//! Memory of a streamed answer: one page, and the numbers of the files still to come.
//!
//! A reader that stops keeps both, beside the buffers of its connection. Pages are therefore cut by their bytes, and
//! numbers are packed.

use weir_rules::ids::DidId;

/// Rows of a first page: it is to be there at once.
pub(super) const FIRST: usize = 100;

/// Rows of a page at most: one transaction reads them.
const ROWS_MAX: usize = 1000;
const ROWS_MIN: usize = 10;

/// Bytes of a page, about: as long as its rows are as long as those of the page before.
const PAGE_BYTES: usize = 32 * 1024;

/// How many rows the next page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageSize(usize);

impl PageSize {
    /// The size of a first page.
    pub(super) fn first() -> Self {
        Self(FIRST)
    }

    /// In rows.
    pub(super) fn rows(self) -> usize {
        self.0
    }

    /// The size of the page after one that took so many bytes for its rows.
    pub(super) fn after(self, bytes: usize) -> Self {
        // Rows that a filter left out may be followed by rows that it does not.
        let fit = PAGE_BYTES * self.0 / bytes.max(1);
        Self(fit.min(4 * self.0).clamp(ROWS_MIN, ROWS_MAX))
    }
}

/// Numbers of DIDs in an order of their own, as differences: a byte or two for each where they were made one after the other.
#[derive(Debug, Default)]
pub(super) struct PackedIds {
    bytes: Vec<u8>,
    last: u64,
}

/// A place among packed numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    at: usize,
    last: u64,
}

impl PackedIds {
    fn push(&mut self, id: DidId) {
        let difference = id.0.wrapping_sub(self.last).cast_signed();
        self.last = id.0;
        // Zigzag and LEB128, as Protocol Buffers write signed numbers.
        let mut rest = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    /// Packs numbers, and keeps no more memory than they need.
    pub(super) fn of(ids: &[DidId]) -> Self {
        let mut packed = Self::default();
        ids.iter().for_each(|id| packed.push(*id));
        packed.bytes.shrink_to_fit();
        packed
    }

    /// At most so many numbers from a place on, and the place after them; none at the end.
    pub(super) fn read(&self, from: Place, most: usize) -> (Vec<DidId>, Place) {
        let (mut place, mut ids) = (from, Vec::new());
        while ids.len() < most && place.at < self.bytes.len() {
            let (mut rest, mut shift) = (0, 0);
            loop {
                let byte = self.bytes[place.at];
                place.at += 1;
                rest |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let difference = (rest >> 1) ^ (rest & 1).wrapping_neg();
            place.last = place.last.wrapping_add(difference);
            ids.push(DidId(place.last));
        }
        (ids, place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_out_as_they_went_in(ids in proptest::collection::vec(any::<u64>(), 0..200), most in 1..50_usize) {
            // Another file would be listed than was asked for.
            let ids: Vec<DidId> = ids.into_iter().map(DidId).collect();
            let packed = PackedIds::of(&ids);
            let (mut read, mut place) = (Vec::new(), Place::default());
            loop {
                let (page, next) = packed.read(place, most);
                prop_assert!(page.len() <= most);
                if page.is_empty() {
                    break;
                }
                read.extend(page);
                place = next;
            }
            prop_assert_eq!(read, ids);
        }
    }

    #[test]
    fn files_of_a_dataset_take_two_bytes_each() {
        let ids: Vec<DidId> = (0..100_000).map(|number| DidId(5_000_000_000 + 60 * number)).collect();
        assert!(PackedIds::of(&ids).bytes.len() < 200_010);
    }

    #[test]
    fn pages_are_as_long_as_their_bytes_allow() {
        let after = |rows, bytes| PageSize(rows).after(bytes).rows();
        assert_eq!(after(100, 80_000), 40);
        assert_eq!(after(100, 10_000), 327);
        assert_eq!(after(100, 0), 400, "a filter left all out");
        assert_eq!((after(10, 1 << 20), after(1000, 100)), (10, 1000));
    }
}
