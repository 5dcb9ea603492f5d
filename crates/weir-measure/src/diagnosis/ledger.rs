//! The ledger: of each link that was held back, the bits that were asked for and did not come, by bin and cause.

use std::collections::BTreeMap;

use super::cause::Cause;
use super::groups::Explained;
use super::statement::{CauseSeries, LinkLedger};
use super::view::View;

/// The ledgers of the links with stretches.
pub(super) fn ledgers<'e>(view: &View<'_>, explained: impl Iterator<Item = &'e Explained<'e>>) -> Vec<LinkLedger> {
    let mut links: BTreeMap<usize, Vec<&Explained<'_>>> = BTreeMap::new();
    for one in explained {
        links.entry(one.stretch.link).or_default().push(one);
    }
    links
        .into_iter()
        .map(|(link, stretches)| ledger(view, link, &stretches))
        .collect()
}

fn ledger(view: &View<'_>, number: usize, stretches: &[&Explained<'_>]) -> LinkLedger {
    let link = &view.links[number];
    let (first, n_bins) = (view.hold.start, view.hold.len());
    let bits = |of: fn(&super::coarse::Bits) -> f64| -> Vec<i64> {
        link.bits[view.hold.clone()]
            .iter()
            .map(|bits| of(bits).round() as i64)
            .collect()
    };
    let (asked, achieved) = (bits(|bits| bits.asked), bits(|bits| bits.achieved));
    let mut rest: Vec<i64> = asked
        .iter()
        .zip(&achieved)
        .map(|(asked, achieved)| asked - achieved)
        .collect();
    let mut causes: BTreeMap<&Cause, Vec<i64>> = BTreeMap::new();
    for one in stretches {
        for bin in one.stretch.bins.clone() {
            let missing = rest[bin - first].max(0);
            for (cause, part) in &one.parts.causes {
                let part = (missing as f64 * part / one.stretch.missing.max(1.0)).floor() as i64;
                let part = part.clamp(0, rest[bin - first].max(0));
                causes.entry(cause).or_insert_with(|| vec![0; n_bins])[bin - first] += part;
                rest[bin - first] -= part;
            }
        }
    }
    let of = |(cause, bits): (&Cause, Vec<i64>)| CauseSeries {
        class: cause.class,
        place: cause.place.clone(),
        total_bits: bits.iter().sum(),
        bits,
    };
    let mut causes: Vec<CauseSeries> = causes
        .into_iter()
        .map(of)
        .filter(|series| series.total_bits > 0)
        .collect();
    causes.sort_by_key(|series| std::cmp::Reverse(series.total_bits));
    LinkLedger {
        link: link.name.to_owned(),
        bin_s: view.bin_s,
        first_bin: first as u64,
        asked_bits: asked,
        achieved_bits: achieved,
        causes,
        rest_bits: rest,
    }
}
