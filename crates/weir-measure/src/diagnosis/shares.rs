//! The causes of the bits that some links missed together.

use std::collections::BTreeMap;

use weir_world::{CauseClass, Place};

use super::statement::LinkLedger;

/// The part of one cause in the bits that some links missed.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseShare {
    /// Its class; `None` for bits that nothing explains.
    pub class: Option<CauseClass>,
    /// Its place, where it is known.
    pub place: Option<Place>,
    /// Its part, from 0 to 1.
    pub share: f64,
}

/// The causes of the bits that the links of some ledgers missed, the largest first. Empty where none is missing.
pub fn shares<'l>(ledgers: impl Iterator<Item = &'l LinkLedger>) -> Vec<CauseShare> {
    let mut bits: BTreeMap<(Option<CauseClass>, Option<&Place>), i64> = BTreeMap::new();
    for ledger in ledgers {
        for cause in &ledger.causes {
            *bits.entry((Some(cause.class), cause.place.as_ref())).or_default() += cause.total_bits;
        }
        *bits.entry((None, None)).or_default() += ledger.rest_bits.iter().sum::<i64>();
    }
    // Bits that a link made up for have no cause.
    bits.retain(|_, bits| *bits > 0);
    let sum: i64 = bits.values().sum();
    let of = |((class, place), bits): ((Option<CauseClass>, Option<&Place>), i64)| CauseShare {
        class,
        place: place.cloned(),
        share: bits as f64 / sum as f64,
    };
    let mut shares: Vec<CauseShare> = bits.into_iter().map(of).collect();
    shares.sort_by(|one, other| other.share.total_cmp(&one.share));
    shares
}

/// The part of the missing bits of some links that no cause explains, bin by bin: bits that a link makes up for later explain nothing. `None`
/// where none is missing.
pub fn unexplained(ledgers: &[LinkLedger]) -> Option<f64> {
    let rest = ledgers.iter().flat_map(|ledger| &ledger.rest_bits);
    let rest: i64 = rest.map(|bits| (*bits).max(0)).sum();
    let causes = ledgers.iter().flat_map(|ledger| &ledger.causes);
    let explained: i64 = causes.map(|cause| cause.total_bits).sum();
    (explained + rest > 0).then(|| rest as f64 / (explained + rest) as f64)
}

#[cfg(test)]
mod tests {
    use weir_world::PlaceKind;

    use super::*;
    use crate::diagnosis::CauseSeries;

    #[test]
    fn parts_add_up_to_the_whole_with_what_nothing_explains() {
        let place = |name: &str| Some(Place::new(PlaceKind::RseIn, name));
        let cause = |class, name: &str, total_bits| CauseSeries {
            class,
            place: place(name),
            total_bits,
            bits: Vec::new(),
        };
        let ledger = |causes: Vec<CauseSeries>, rest_bits: Vec<i64>| LinkLedger {
            link: String::new(),
            bin_s: 1.0,
            first_bin: 0,
            asked_bits: Vec::new(),
            achieved_bits: Vec::new(),
            causes,
            rest_bits,
        };
        let both = [
            ledger(vec![cause(CauseClass::Admission, "A", 30)], vec![-5, 15]),
            ledger(
                vec![cause(CauseClass::Admission, "A", 30), cause(CauseClass::Space, "B", 30)],
                vec![-8],
            ),
        ];
        let found = shares(both.iter());
        let part = |class, place, share| CauseShare { class, place, share };
        assert_eq!(found[0], part(Some(CauseClass::Admission), place("A"), 60.0 / 92.0));
        assert_eq!(found[1], part(Some(CauseClass::Space), place("B"), 30.0 / 92.0));
        assert_eq!(found[2], part(None, None, 2.0 / 92.0));
        assert_eq!((unexplained(&both), unexplained(&[])), (Some(15.0 / 105.0), None));
        assert!(shares(std::iter::empty()).is_empty());
    }
}
