//! Evenness of a plan's injection: the coefficient of variation of the bytes injected in a second.
//!
//! The value is that of the schedule alone, as if each file arrived at the moment of its injection. A run can hardly be more even, unless
//! its files take seconds and so fill the gaps between them.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_model::SiteName;

use super::link::LinkState;
use super::places::places;
use crate::plan::Plan;
use crate::spec::Inject;

/// Width of a bin.
const BIN: Duration = Duration::from_secs(1);

/// Bins that are looked at, from the begin of the hold.
/// 600: ten minutes, which is many cycles of everything that repeats.
const BINS_MAX: u64 = 600;

/// Coefficients of variation (standard deviation ÷ mean) of the bytes injected per second of the hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Variation {
    /// Of all bytes; `None` if no rate is asked, or the hold is shorter than two seconds.
    pub total: Option<f64>,
    /// Of those for each site.
    pub sites: BTreeMap<SiteName, f64>,
}

impl Plan {
    /// Computes how even the plan's injection is in the hold.
    pub fn variation(&self) -> Variation {
        let n_bins = (self.phases.hold.as_nanos() / BIN.as_nanos()).min(u128::from(BINS_MAX)) as usize;
        if n_bins < 2 {
            return Variation::default();
        }
        let mut total = vec![0_u64; n_bins];
        let mut sites: BTreeMap<SiteName, Vec<u64>> = BTreeMap::new();
        for (_, rates) in self.rates() {
            let in_batches = rates.inject == Inject::Rules;
            for (rated, place) in rates.links.iter().zip(places(&rates.links, self.seed)) {
                let link = LinkState::new(rated, &rates.phases, rates.cycle, place, in_batches);
                let Some(site) = self.grid.site_of(&rated.link.destination) else {
                    continue;
                };
                let own = sites.entry(site.clone()).or_insert_with(|| vec![0; n_bins]);
                let by = |bin: usize| {
                    let moment = self.phases.ramp + BIN * u32::try_from(bin).unwrap_or(u32::MAX);
                    moment
                        .checked_sub(rates.start)
                        .map_or(0, |elapsed| link.wanted_by(elapsed))
                };
                let mut before = by(0);
                for bin in 0..n_bins {
                    let after = by(bin + 1);
                    let bytes = (after - before) * rated.file_size.0;
                    total[bin] += bytes;
                    own[bin] += bytes;
                    before = after;
                }
            }
        }
        Variation {
            total: coefficient(&total),
            sites: sites
                .into_iter()
                .filter_map(|(site, bins)| Some((site, coefficient(&bins)?)))
                .collect(),
        }
    }
}

/// Standard deviation ÷ mean; `None` of nothing.
fn coefficient(bins: &[u64]) -> Option<f64> {
    let count = bins.len() as f64;
    let mean = bins.iter().map(|bytes| *bytes as f64).sum::<f64>() / count;
    let square = |bytes: &u64| {
        let apart = *bytes as f64 - mean;
        apart * apart
    };
    let variance = bins.iter().map(square).sum::<f64>() / count;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use crate::{Challenge, Overrides, Plan};

    fn plan(catalog: &str, size: &str) -> Plan {
        let text = format!(
            "name = \"t\"\n[phases]\nhold = \"60 s\"\n[grid]\nname = \"g\"\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n\
             [[grid.rse]]\nname = \"C\"\n{catalog}[[workload]]\nkind = \"rates\"\nfile_size_min = \"{size}\"\nfile_size_max = \"{size}\"\n\
             rates = [{{ source = \"A\", destination = \"B\", rate = \"80 Mb/s\" }}, {{ source = \"C\", destination = \"B\", rate = \"80 Mb/s\" }}]\n"
        );
        let challenge = Challenge::parse(&text, "t.toml".as_ref()).unwrap();
        challenge.resolve(&Overrides::default()).unwrap()
    }

    #[test]
    fn files_of_two_seconds_vary_and_those_of_a_part_do_not() {
        // Wrong: a plan promises an evenness that no run can have, or asks for smaller files where they are small enough.
        for catalog in ["", "[grid.catalog]\n"] {
            // Two links, 10 MB/s each: five files a second, in nearly every second.
            let even = plan(catalog, "2 MB").variation();
            assert!(even.total.unwrap() < 0.05, "{even:?}");
            // A file every two seconds on each link: half a cycle apart they make an even second, each alone does not.
            let coarse = plan(catalog, "40 MB").variation();
            assert!(coarse.sites.values().all(|cv| *cv > 0.5), "{coarse:?}");
        }
    }
}
