//! The usual throughput of a transfer of a lane.

use super::sample::Sample;

/// Transfers of a lane after which its usual throughput is known; rounds of all its transfers for which it is
/// remembered.
const FAMILIAR: f64 = 8.0;

const MEMORY: f64 = 16.0;

/// The usual throughput of one transfer of a lane, in bytes per second of slot time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usual {
    rate: f64,
    /// Transfers that were heard of.
    voices: f64,
}

impl Usual {
    /// The expected value of a sample, from all before it; the first one is its own expectation. While the gate makes a
    /// trial, the usual throughput is frozen: the trial is judged by it.
    pub(crate) fn expect(&mut self, sample: &Sample, active: u32, trial: bool) -> f64 {
        let rate = sample.bytes / sample.seconds;
        let usual = if self.voices > 0.0 { self.rate } else { rate };
        if !trial || self.voices < FAMILIAR {
            self.voices = (self.voices + sample.weight).min(MEMORY * f64::from(active.max(1)));
            self.rate += (rate - self.rate) * (sample.weight / self.voices.max(1e-9)).min(1.0);
        }
        usual
    }
}
