//! Every policy on one plan, beside the optimum.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::compare::{Comparison, SiteCause, compare};
use weir_sim::world::Probe;
use weir_world::CauseClass;

/// A long name of everything, and two sites of which one cannot take what is asked.
const RATES: &str = include_str!("compare.toml");

fn plan(text: &str) -> SimPlan {
    let challenge = Challenge::parse(text, "c.toml".as_ref()).unwrap_or_else(|problems| panic!("{problems:?}"));
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

fn compared(text: &str) -> Comparison {
    let comparison = compare(&plan(text), |_| Probe::default());
    let violations = comparison.policies.iter().flat_map(|policy| &policy.violations);
    assert_eq!(violations.count(), 0);
    comparison
}

/// A site would be said to be held back by another thing than what is narrow there.
#[test]
fn a_narrow_limit_holds_a_site_back() {
    let comparison = compared(RATES);
    let cause = |policy: &str, site: &str| {
        let at = comparison
            .policies
            .iter()
            .position(|other| other.policy == policy)
            .unwrap();
        let site = comparison.sites.iter().find(|other| other.site == site).unwrap();
        site.policies[at].cause
    };
    assert_eq!(cause("weir", "A-STORAGE-ELEMENT-WITH-A-LONG-NAME"), None);
    assert_eq!(
        cause("weir", "NARROW"),
        Some(SiteCause::Class(CauseClass::SharedCapacity))
    );
    assert_eq!(cause("weir", "GROUPED"), Some(SiteCause::Possible));
    assert_eq!(
        cause("fixed", "A-STORAGE-ELEMENT-WITH-A-LONG-NAME"),
        Some(SiteCause::Class(CauseClass::SchedulerPolicy))
    );
}

/// Two comparisons of one seed would differ.
#[test]
fn same_seed_same_data() {
    let [one, other] = [RATES, RATES].map(|text| serde_json::to_string(&compared(text)).unwrap());
    assert!(one == other);
}

/// A reader would take numbers that somebody set for measured ones, or limits that differ for the same.
#[test]
fn a_comparison_says_what_it_rests_on() {
    let told = compared(RATES);
    assert_eq!(
        told.limits,
        "All policies run under the same limits on transfers at once."
    );
    assert!(told.assumed.is_empty());
    let other = RATES.replacen(
        "[sim]\n",
        "[sim]\nassumed = [\"round trips\"]\nfts = { link_max = 3, url_copy_max = 50 }\n",
        1,
    );
    assert_ne!(other, RATES);
    let told = compared(&other);
    assert_eq!(told.assumed, ["round trips"]);
    assert!(
        told.limits
            .starts_with("The limits of fts-imitation are others than Weir's: at most 3 on ")
            && told.limits.ends_with("; at most 50 in all."),
        "{}",
        told.limits
    );
}
