//! The identity of a chain of certificates.

use std::time::SystemTime;

use super::error::X509Error;
use super::voms::VomsAttributes;

/// The identity of a verified chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The end entity's name in slash form, without the parts that its proxies add: `/DC=ch/DC=cern/CN=Somebody`.
    pub subject: String,
    /// The name of the authority that vouches for the end entity, in slash form.
    pub issuer: String,
    /// When the first certificate of the chain ends.
    pub not_after: SystemTime,
    /// Proxies between the end entity and the client; 0 if the client holds the end entity's own key.
    pub n_proxies: usize,
    /// Whether one of them is limited: such a client may move data, but neither start nor delegate work.
    pub is_limited: bool,
    /// The verified VOMS attributes of the end entity; the primary VO first. Empty without VOMS attributes.
    pub voms: Vec<VomsAttributes>,
    /// The end entity's certificate in DER.
    pub certificate: Vec<u8>,
}

impl Identity {
    /// The primary VO.
    pub fn vo(&self) -> Option<&str> {
        self.voms.first().map(|attributes| attributes.vo.as_str())
    }

    /// All groups and roles, the primary one first, as the VOMS servers wrote them.
    pub fn fqans(&self) -> impl Iterator<Item = &str> {
        self.voms
            .iter()
            .flat_map(|attributes| attributes.fqans.iter().map(String::as_str))
    }

    /// Refuses a limited proxy: for requests that start or delegate work.
    ///
    /// # Errors
    /// [`X509Error::Limited`].
    pub fn require_full(&self) -> Result<(), X509Error> {
        if self.is_limited {
            return Err(X509Error::Limited {
                subject: self.subject.clone(),
            });
        }
        Ok(())
    }
}
