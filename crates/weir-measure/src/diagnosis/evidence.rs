//! The figures that a statement follows from.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_world::{Place, Wait};

use super::reference::{Key, References};
use super::statement::Evidence;
use super::view::View;

/// Figures of one statement.
const SHOWN: usize = 5;
/// Transfers that must wait longer than usual, so that the wait is shown.
const LEAST: f64 = 0.1;

/// The waits that grew most on these links, failed attempts, and what was injected; and the places whose slots were waited for.
pub(super) fn evidence(
    view: &View<'_>,
    usual: &References<'_>,
    links: &[usize],
    bins: &Range<usize>,
) -> (Vec<Evidence>, Vec<Place>) {
    let seconds = bins.len().max(1) as f64 * view.bin_s;
    let mut waits: BTreeMap<Key<'_>, (f64, f64)> = BTreeMap::new();
    let mut failed: BTreeMap<String, f64> = BTreeMap::new();
    let (mut asked, mut injected) = (0.0, 0.0);
    for number in links {
        let link = &view.links[*number];
        let sum = link.sum(bins.clone());
        asked += sum.asked;
        injected += sum.injected;
        for waited in &link.waits {
            let key = (waited.wait, waited.place);
            let sums = waits.entry(key).or_default();
            sums.0 += waited.sum(bins.clone());
            sums.1 += usual.usual(view, *number, key, sum.achieved);
        }
        for failure in &link.failures {
            let party = failure
                .party
                .map_or_else(String::new, |party| format!(", at the {party}"));
            *failed.entry(format!("failed: {}{party}", failure.class)).or_default() += failure.sum(bins.clone());
        }
    }
    let mut grown: Vec<(Key<'_>, (f64, f64))> = waits
        .into_iter()
        .filter(|(_, (now, usual))| now - usual > LEAST * seconds)
        .collect();
    grown.sort_by(|one, other| (other.1.0 - other.1.1).total_cmp(&(one.1.0 - one.1.1)));
    let via = grown
        .iter()
        .filter(|((wait, _), _)| matches!(wait, Wait::Slots | Wait::Optimiser | Wait::BandwidthLimit));
    let via: Vec<Place> = via.filter_map(|((_, place), _)| place.cloned()).take(1).collect();
    let of_wait = |((wait, place), (now, usual)): (Key<'_>, (f64, f64))| Evidence {
        signal: wait.to_string(),
        place: place.cloned(),
        value: rounded(now / seconds),
        usual: usual.is_finite().then(|| rounded(usual / seconds)),
        unit: "transfers waiting".to_owned(),
    };
    let mut evidence: Vec<Evidence> = grown.into_iter().take(SHOWN).map(of_wait).collect();
    let of_failure = |(signal, value): (String, f64)| Evidence {
        signal,
        place: None,
        value,
        usual: None,
        unit: "attempts".to_owned(),
    };
    evidence.extend(failed.into_iter().filter(|(_, count)| *count > 0.0).map(of_failure));
    if injected < 0.95 * asked {
        evidence.push(Evidence {
            signal: "injected".to_owned(),
            place: None,
            value: rounded(injected / seconds),
            usual: Some(rounded(asked / seconds)),
            unit: "bit/s".to_owned(),
        });
    }
    (evidence, via)
}

/// Two digits behind the point.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
