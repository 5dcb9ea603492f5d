//! The split of a stream's memory. The sums are in the table of [`super`].

use weir_http::Buffers;

use super::FLOOR;

/// A record that is not whole yet, and connection, task and hashes.
const BESIDE: usize = 64 << 10;

/// Most bytes that are read and not decrypted.
const AHEAD: usize = 128 << 10;

/// The first of these sizes, from large to small, that is not above `most`, or the last; with its place among them. A floor is
/// never given up in part.
pub(crate) fn most_that_fits(sizes: impl Iterator<Item = usize>, most: usize) -> (usize, usize) {
    let mut last = (0, FLOOR);
    for (place, size) in sizes.enumerate() {
        last = (place, size.max(FLOOR));
        if size <= most {
            break;
        }
    }
    last
}

/// How a stream that comes in uses its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// Bytes gathered before they are written.
    pub(crate) batch: usize,
    /// Whether the next ones are gathered while they are.
    pub(crate) ahead: bool,
}

impl Incoming {
    /// From the best to the least. Single batches come before double ones of half their size. Other streams use the
    /// time in which this one waits, but twice as many disk accesses are a cost for all.
    const ALL: [Self; 6] = [
        Self::new(1 << 20, true),
        Self::new(512 << 10, true),
        Self::new(256 << 10, true),
        Self::new(256 << 10, false),
        Self::new(128 << 10, false),
        Self::LEAST,
    ];

    /// Where every stream begins: a file of 64 KiB needs no more.
    pub(crate) const LEAST: Self = Self::new(64 << 10, false);

    const fn new(batch: usize, ahead: bool) -> Self {
        Self { batch, ahead }
    }

    /// Bound of the connection's buffer. The best portion has none: a bound costs a pass over the buffer.
    pub(crate) fn connection(self) -> usize {
        if self == Self::ALL[0] {
            return Buffers::MOST;
        }
        (self.batch / 4).max(Buffers::LEAST)
    }

    /// Bytes of memory, with one more copy where durable files use direct writes.
    fn size(self, durable: bool) -> usize {
        let batches = if self.ahead { 2 } else { 1 };
        let aligned = usize::from(durable && self != Self::LEAST);
        self.batch * (batches + aligned) + self.connection() + self.connection().min(AHEAD) + BESIDE
    }

    /// The sizes of all, in their order.
    pub(crate) fn sizes(durable: bool) -> impl Iterator<Item = usize> + Clone {
        Self::ALL.into_iter().map(move |portion| portion.size(durable))
    }

    /// The one at this place, with a batch of at most so much.
    pub(crate) fn at(place: usize) -> Self {
        Self::ALL[place]
    }

    /// The places from which batches have at most so many bytes.
    pub(crate) fn first_within(batch: usize) -> usize {
        let place = Self::ALL.iter().position(|portion| portion.batch <= batch);
        place.unwrap_or(Self::ALL.len() - 1)
    }
}

/// How a stream that goes out uses its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// Bytes read at once; the connection seals as many ahead.
    pub(crate) block: usize,
    /// Bytes read and not yet taken by the connection.
    pub(crate) under_way: usize,
}

impl Outgoing {
    const ALL: [Self; 4] = [
        Self::new(256 << 10, 3),
        Self::new(128 << 10, 3),
        Self::new(64 << 10, 3),
        Self::LEAST,
    ];

    /// Where every stream begins.
    pub(crate) const LEAST: Self = Self::new(32 << 10, 2);

    const fn new(block: usize, blocks: usize) -> Self {
        Self {
            block,
            under_way: block * blocks,
        }
    }

    const fn size(self) -> usize {
        self.under_way + self.block + BESIDE
    }

    /// The sizes of all, in their order.
    pub(crate) fn sizes() -> impl Iterator<Item = usize> + Clone {
        Self::ALL.into_iter().map(Self::size)
    }

    /// The one at this place.
    pub(crate) fn at(place: usize) -> Self {
        Self::ALL[place]
    }
}

/// Blocks of checksum readers, from the best to the least.
pub(crate) const READING: [usize; 4] = [1 << 20, 512 << 10, 256 << 10, 128 << 10];

#[cfg(test)]
mod tests {
    use super::*;

    /// A least size above the floor would be held and not counted.
    #[test]
    fn the_least_of_all_is_within_the_floor() {
        assert!(Incoming::LEAST.size(true) <= FLOOR && Incoming::LEAST.size(false) <= FLOOR);
        assert!(Outgoing::LEAST.size() <= FLOOR);
        assert!(READING[READING.len() - 1] <= FLOOR);
        for sizes in [
            Incoming::sizes(true).collect::<Vec<_>>(),
            Incoming::sizes(false).collect(),
            Outgoing::sizes().collect(),
        ] {
            assert!(sizes.is_sorted_by(|more, less| more > less), "{sizes:?}");
            assert!(sizes[0] < 4 << 20);
        }
    }

    #[test]
    fn the_largest_fitting_size_is_found() {
        let sizes: [usize; 3] = [9 * FLOOR, 7 * FLOOR, FLOOR / 2];
        let check = |most, place: usize| {
            let size = sizes[place].max(FLOOR);
            assert_eq!(most_that_fits(sizes.into_iter(), most), (place, size));
        };
        check(100 * FLOOR, 0);
        check(8 * FLOOR, 1);
        check(7 * FLOOR, 1);
        check(FLOOR, 2);
        check(0, 2);
    }
}
