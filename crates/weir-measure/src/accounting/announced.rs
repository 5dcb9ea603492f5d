//! Injections whose transfers have not ended: a diagnosis while the run goes on needs them.

use std::time::Duration;

use super::Accounting;
use crate::spread::Bins;

impl Accounting {
    /// Some files of one size were injected on a link. Their transfers are accounted for when they have ended; until then, only
    /// a diagnosis of the moment counts them.
    pub fn announce(&mut self, link: usize, (files, size): (u64, u64), (from, to): (Duration, Duration)) {
        self.make_room(to);
        let new = || vec![Bins::new(self.width); self.spec.links.len()];
        let (bytes, counts) = self.announced.get_or_insert_with(|| (new(), new()));
        bytes[link].add(files * size, from, to);
        counts[link].add(files, from, to);
    }

    /// The same with all that was announced as injected, whether its transfers have ended or not.
    pub(crate) fn with_announced(mut self) -> Self {
        if let Some((bytes, files)) = self.announced.take() {
            (self.injected_bins, self.injected_files) = (bytes, files);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]

    use weir_plan::{Challenge, Overrides, TEMPLATE};

    use super::*;
    use crate::Spec;

    #[test]
    fn injections_count_before_their_transfers_have_ended() {
        let challenge = Challenge::parse(TEMPLATE, "two-sites.toml".as_ref()).unwrap();
        let plan = challenge.resolve(&Overrides::default()).unwrap();
        let mut accounting = Accounting::new(Spec::of(&plan));
        let name = accounting.spec().links[0].name();
        let second = Duration::from_secs;
        accounting.announce(0, (3, 1_000), (second(1), second(2)));
        let of = |accounting: Accounting| {
            let link = accounting.finish().0.series.links[&name].clone();
            let files: u64 = link.injected_files.iter().sum();
            let bits: u64 = link.injected_bps.iter().flatten().map(|rate| rate.0).sum();
            (files, bits > 0)
        };
        assert_eq!(of(accounting.clone()), (0, false));
        assert_eq!(of(accounting.with_announced()), (3, true));
    }
}
