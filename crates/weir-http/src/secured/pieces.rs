//! Bytes in several places.

use std::io::IoSlice;

/// The remaining pieces.
pub(super) struct Pieces<'a> {
    slices: &'a [IoSlice<'a>],
    /// Of the first slice.
    taken: usize,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(slices: &'a [IoSlice<'a>]) -> Self {
        Self { slices, taken: 0 }
    }

    /// The next bytes, if they lie in one place.
    pub(super) fn together(&mut self, length: usize) -> Option<&'a [u8]> {
        while self.slices.first().is_some_and(|first| first.len() == self.taken) {
            self.slices = &self.slices[1..];
            self.taken = 0;
        }
        let next = self.slices.first()?.get(self.taken..)?.get(..length)?;
        self.taken += length;
        Some(next)
    }

    /// Copies the next bytes, and tells how many there were: less than `into` has room for only if no more are left.
    pub(super) fn copy(&mut self, into: &mut [u8]) -> usize {
        let mut copied = 0;
        while let (Some(first), true) = (self.slices.first(), copied < into.len()) {
            let rest = &first[self.taken..];
            let now = rest.len().min(into.len() - copied);
            into[copied..copied + now].copy_from_slice(&rest[..now]);
            copied += now;
            self.taken += now;
            if now == rest.len() {
                self.slices = &self.slices[1..];
                self.taken = 0;
            }
        }
        copied
    }
}
