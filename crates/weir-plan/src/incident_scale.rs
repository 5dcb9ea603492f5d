//! An incident made small enough for one machine: the same shape in less time, with less data.
//!
//! Rates, times and sizes are divided so that every ratio stays: files under way, transfers in a queue, the part of a period
//! in which a fault is on. Numbers of transfers and shares are not touched.

use std::time::Duration;

use weir_units::{BitRate, Bytes};

use crate::fault::{Amount, Fault, Shape};
use crate::incident::{Expect, Incident};
use crate::spec::{Challenge, WorkloadSpec};

/// The divisors of rates, times and sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smaller {
    /// Rates are divided by this.
    pub rates: u64,
    /// Times are divided by this; sizes by both.
    pub times: u32,
}

/// The least drain and the least pause before a retry: real services need them, however small the rest is.
const DRAIN_MIN: Duration = Duration::from_secs(6);
const RETRY_MIN: Duration = Duration::from_secs(1);

impl Smaller {
    /// The incident, smaller.
    pub fn incident(self, incident: &Incident) -> Incident {
        Incident {
            challenge: self.challenge(&incident.challenge),
            mended: self.challenge(&incident.mended),
            expect: self.expect(&incident.expect),
            ..incident.clone()
        }
    }

    /// A rate, smaller.
    pub fn rate(self, rate: BitRate) -> BitRate {
        BitRate((rate.0 / self.rates).max(1))
    }

    /// A time, shorter.
    pub fn time(self, time: Duration) -> Duration {
        time / self.times
    }

    fn size(self, size: Bytes) -> Bytes {
        Bytes((size.0 / (self.rates * u64::from(self.times))).max(1))
    }

    fn challenge(self, challenge: &Challenge) -> Challenge {
        let mut small = challenge.clone();
        small.phases.ramp = self.time(small.phases.ramp);
        small.phases.hold = self.time(small.phases.hold);
        small.phases.drain = self.time(small.phases.drain).max(DRAIN_MIN);
        small.grid.transfer.retry_delay = self.time(small.grid.transfer.retry_delay).max(RETRY_MIN);
        for workload in &mut small.workloads {
            self.workload(workload);
        }
        small.faults = small.faults.iter().map(|fault| self.fault(fault)).collect();
        small
    }

    fn workload(self, workload: &mut WorkloadSpec) {
        match workload {
            WorkloadSpec::Rates(rates) => {
                rates
                    .rates
                    .iter_mut()
                    .for_each(|asked| asked.rate = self.rate(asked.rate));
                (rates.sizes.min, rates.sizes.max) = (self.size(rates.sizes.min), self.size(rates.sizes.max));
                rates.cycle = self.time(rates.cycle);
                rates.lifetime = self.time(rates.lifetime);
                rates.start = self.time(rates.start);
                rates.length = rates.length.map(|length| self.time(length));
            }
            WorkloadSpec::Matrix(matrix) => matrix.sizes.iter_mut().for_each(|size| *size = self.size(*size)),
            WorkloadSpec::Ramp(ramp) => ramp.file_size = self.size(ramp.file_size),
        }
    }

    fn fault(self, fault: &Fault) -> Fault {
        let mut small = fault.clone();
        small.at = self.time(small.at);
        small.length = small.length.map(|length| self.time(length));
        small.amount = match small.amount {
            Amount::Rate(rate) => Amount::Rate(self.rate(rate)),
            Amount::Delay(delay) => Amount::Delay(self.time(delay)),
            Amount::Size(size) => Amount::Size(self.size(size)),
            other => other,
        };
        small.shape = match small.shape {
            Shape::Step => Shape::Step,
            Shape::Ramp(rise) => Shape::Ramp(self.time(rise)),
            Shape::Periodic(period, on) => Shape::Periodic(self.time(period), on),
            Shape::Flapping(period) => Shape::Flapping(self.time(period)),
        };
        let details = &mut small.details;
        details.above = details.above.map(|size| self.size(size));
        details.rate = details.rate.map(|rate| self.rate(rate));
        details.delay = details.delay.map(|delay| self.time(delay));
        small
    }

    fn expect(self, expect: &Expect) -> Expect {
        Expect {
            begins: self.time(expect.begins),
            from: self.time(expect.from),
            until: self.time(expect.until),
            held: expect.held.map(|rate| self.rate(rate)),
            ..expect.clone()
        }
    }
}
