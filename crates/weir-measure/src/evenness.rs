//! How even a run was, second by second: the part `evenness` of a report.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_plan::Variation;

/// Width of the bins.
pub(crate) const BIN: Duration = Duration::from_secs(1);

/// How much the rate of the seconds of the hold varies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evenness {
    /// Of all verified bytes.
    pub total: Cv,
    /// Coefficients of variation of the traffic into each site.
    pub sites: BTreeMap<String, Cv>,
}

/// Coefficients of variation: standard deviation ÷ mean; `null` where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cv {
    /// Of the rate achieved.
    pub achieved: Option<f64>,
    /// Of the bytes injected, as the plan has them, if nothing held them back: a run is hardly more even.
    pub planned: Option<f64>,
}

impl Evenness {
    /// Combines the achieved and the planned variation.
    pub(crate) fn of(total: Option<f64>, sites: BTreeMap<String, Option<f64>>, planned: &Variation) -> Self {
        let site = |(name, achieved): (String, Option<f64>)| {
            let of = planned.sites.iter().find(|(site, _)| site.as_str() == name);
            let planned = of.map(|(_, planned)| *planned);
            (name, Cv { achieved, planned })
        };
        Self {
            total: Cv {
                achieved: total,
                planned: planned.total,
            },
            sites: sites.into_iter().map(site).collect(),
        }
    }

    /// The achieved value of a site.
    pub(crate) fn site(&self, name: &str) -> Option<f64> {
        self.sites.get(name)?.achieved
    }
}
