//! The rule for which tokens are renewed. Pure.
//!
//! Tokens of files travel: in a third-party copy each storage sees that of the other. If every token were renewed, one
//! minute of it would become weeks, and the fresh ones would go to any host that the submitter names.

use std::collections::BTreeMap;

use crate::{
    config::{BrokerConfig, IssuerConfig},
    job::{NewJob, cred_id},
};

/// The submitters, and the tokens that are renewed for them.
#[derive(Debug)]
pub(super) struct Owners {
    /// The VO of each issuer.
    vos: BTreeMap<String, String>,
    brokers: Vec<BrokerConfig>,
}

impl Owners {
    pub(super) fn new(issuers: &[IssuerConfig], brokers: &[BrokerConfig]) -> Self {
        let vos = issuers.iter().map(|issuer| (issuer.url.clone(), issuer.vo.clone()));
        Self {
            vos: vos.collect(),
            brokers: brokers.to_vec(),
        }
    }

    /// Whether a token that says this of itself is renewed for a job: it is of the job's VO, and its submitter's or a broker's.
    pub(super) fn may_renew(&self, job: &NewJob, issuer: &str, subject: &str) -> bool {
        let of_the_vo = self.vos.get(issuer).is_some_and(|vo| *vo == job.vo);
        of_the_vo && (is_by(job, issuer, subject) || self.brokers.iter().any(|broker| is_broker(broker, job)))
    }
}

/// Whether this user submitted the job with a token. The delegation id is a short hash over issuer and subject: with the subject
/// being the same, it tells issuers apart, and these come from the configuration.
fn is_by(job: &NewJob, issuer: &str, subject: &str) -> bool {
    !job.params.certificate && job.user_dn == subject && job.cred_id == cred_id(issuer, subject)
}

fn is_broker(broker: &BrokerConfig, job: &NewJob) -> bool {
    match (&broker.issuer, &broker.subject, &broker.dn) {
        (Some(issuer), Some(subject), None) => is_by(job, issuer, subject),
        (None, None, Some(dn)) => job.params.certificate && job.user_dn == *dn,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATLAS: &str = "https://atlas";
    const OTHER: &str = "https://other";

    fn job(issuer: &str, subject: &str) -> NewJob {
        let mut job = crate::memory::job();
        (job.vo, job.user_dn, job.cred_id) = ("atlas".into(), subject.into(), cred_id(issuer, subject));
        job
    }

    #[test]
    fn a_token_is_renewed_for_its_owner_and_for_brokers() {
        // A finder of a token would have it renewed, and get the fresh ones.
        let issuer = |url: &str, vo: &str| IssuerConfig::new(url, vo);
        let issuers = [
            issuer(ATLAS, "atlas"),
            issuer("https://atlas2", "atlas"),
            issuer(OTHER, "other"),
        ];
        let dn = "/DC=ch/CN=Robot";
        let brokers = [
            BrokerConfig::by_token(ATLAS, "rucio"),
            BrokerConfig {
                dn: Some(dn.into()),
                ..BrokerConfig::default()
            },
        ];
        let owners = Owners::new(&issuers, &brokers);
        let alice = job(ATLAS, "alice");
        assert!(owners.may_renew(&alice, ATLAS, "alice"));
        for (issuer, subject) in [
            (ATLAS, "bob"),
            (ATLAS, "rucio"),
            (ATLAS, ""),
            ("https://atlas2", "alice"),
            (OTHER, "alice"),
            ("https://unknown", "alice"),
        ] {
            assert!(!owners.may_renew(&alice, issuer, subject), "{issuer} {subject}");
        }
        for broker in [job(ATLAS, "rucio"), {
            let mut robot = job(ATLAS, dn);
            robot.params.certificate = true;
            robot
        }] {
            assert!(owners.may_renew(&broker, ATLAS, "bob"));
            assert!(
                !owners.may_renew(&broker, OTHER, "bob"),
                "a broker of one VO, a token of another"
            );
        }
        // A user with the broker's name from another issuer, or with its certificate's name as a subject.
        assert!(!owners.may_renew(&job("https://atlas2", "rucio"), ATLAS, "bob"));
        assert!(!owners.may_renew(&job(ATLAS, dn), ATLAS, "bob"));
    }
}
