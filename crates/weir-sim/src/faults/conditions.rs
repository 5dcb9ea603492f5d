//! What faults do to services and workloads.

use std::time::Duration;

use weir_plan::fault::{Amount, FaultKind, Service, WorkloadCondition};

use super::scene_fault::SceneFault;
use crate::spec::TokenModel;

/// Exchanges that an issuer makes at once.
const EXCHANGES: f64 = 8.0;
/// Tokens that an attempt needs where the world has no token service: one for either end.
const TOKENS: u32 = 2;

/// Services and workloads, with the faults that are on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conditions {
    /// Pause between two decisions of the transfer service.
    pub(crate) decisions: Option<Duration>,
    /// The transfer service is down.
    pub(crate) no_transfer: bool,
    /// The catalogue is down.
    pub(crate) no_catalog: bool,
    /// The issuer is down.
    pub(crate) no_issuer: bool,
    /// Time that is added to each commit.
    pub(crate) commit: Duration,
    /// Time that is added to each token.
    pub(crate) token: Duration,
    /// Share of tokens that is refused.
    pub(crate) refused: f64,
    /// A token is good for so long from the request of its transfer.
    pub(crate) token_lifetime: Option<Duration>,
    /// Each request is handed over so much later.
    pub(crate) submission: Duration,
    /// Each request takes so long to be handed over.
    pub(crate) per_request: Duration,
    /// Each copy is deleted so much later.
    pub(crate) deletion: Duration,
    /// Each workload.
    pub(crate) workloads: Vec<WorkloadCondition>,
}

impl Conditions {
    pub(crate) fn of(faults: &[SceneFault], n_workloads: usize) -> Self {
        let mut now = Self {
            workloads: vec![WorkloadCondition::default(); n_workloads],
            ..Self::default()
        };
        for on in faults.iter().filter(|on| on.is_on()) {
            now.add(on);
            for workload in &on.workloads {
                now.workloads[*workload].add(&on.fault, on.level);
            }
        }
        now
    }

    fn add(&mut self, on: &SceneFault) {
        let level = on.level;
        match (on.fault.kind, on.fault.amount) {
            (FaultKind::LateDecisions, Amount::Delay(delay)) => self.decisions = Some(delay.mul_f64(level)),
            (FaultKind::SlowStore, Amount::Delay(delay)) => self.commit += delay.mul_f64(level),
            (FaultKind::SlowIssuer, Amount::Delay(delay)) => self.token += delay.mul_f64(level),
            (FaultKind::FailingIssuer, Amount::Share(share)) => self.refused = share * level,
            (FaultKind::TokenLifetime, Amount::Delay(life)) => self.token_lifetime = Some(life.mul_f64(1.0 / level)),
            (FaultKind::LateSubmission, Amount::Delay(delay)) => self.submission += delay.mul_f64(level),
            (FaultKind::SlowSubmission, Amount::Delay(delay)) => self.per_request += delay.mul_f64(level),
            (FaultKind::LateDeletion, Amount::Delay(delay)) => self.deletion += delay.mul_f64(level),
            (FaultKind::Outage, _) => {
                self.no_transfer |= on.is_at(FaultKind::Outage, Service::Transfer);
                self.no_catalog |= on.is_at(FaultKind::Outage, Service::Catalog);
                self.no_issuer |= on.is_at(FaultKind::Outage, Service::Issuer);
            }
            _ => {}
        }
    }

    /// The token service of the world with its faults.
    pub(crate) fn tokens(&self, base: Option<TokenModel>) -> Option<TokenModel> {
        if self.token.is_zero() {
            return base;
        }
        let rate = EXCHANGES / self.token.as_secs_f64();
        Some(match base {
            Some(base) => TokenModel {
                rate: base.rate.min(rate),
                latency: base.latency + self.token,
                ..base
            },
            None => TokenModel {
                rate,
                latency: self.token,
                per_attempt: TOKENS,
            },
        })
    }

    /// The share of attempts that get no token.
    pub(crate) fn without_token(&self, tokens: Option<TokenModel>) -> f64 {
        let per_attempt = tokens.map_or(TOKENS, |tokens| tokens.per_attempt);
        1.0 - libm::pow(1.0 - self.refused, f64::from(per_attempt))
    }
}
