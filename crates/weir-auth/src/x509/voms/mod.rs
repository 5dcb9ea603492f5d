//! VOMS attributes: a VO's statements about a user, in attribute certificates inside the user's proxy; and their
//! requests ([`client`]).

pub(crate) mod answer;
pub(crate) mod attribute_certificate;
pub(crate) mod client;
pub(crate) mod lsc;
pub(crate) mod request;
pub(crate) mod vomses;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Verifier;
use x509_parser::asn1_rs::{Oid, oid};
use x509_parser::prelude::X509Certificate;

use self::attribute_certificate::{AttributeCertificate, in_extension, parse};
use self::lsc::Servers;
use super::authorities::{Authorities, unix};
use super::name::slash_form;

/// The extension of a proxy with attribute certificates (GFD.182 section 3.1).
pub(crate) const ATTRIBUTE_CERTIFICATES: Oid<'static> = oid!(1.3.6.1.4.1.8005.100.100.5);
/// Largest difference between the clock of a VOMS server and ours: the limit of VOMS itself.
pub(crate) const CLOCK_SKEW: i64 = 300;

/// The verified statements of a VO about the holder of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VomsAttributes {
    /// The VO.
    pub vo: String,
    /// Groups and roles as the server wrote them, the primary one first: `/vo/group/Role=NULL/Capability=NULL`.
    pub fqans: Vec<String>,
    /// When they end.
    pub not_after: SystemTime,
    /// The server's name, in slash form.
    pub issuer: String,
    /// `host` of the server's `vo://host:port`.
    pub host: String,
    /// The attribute certificate's serial number, in hexadecimal.
    pub serial: String,
}

/// The trusted servers of VOs, and our own names.
#[derive(Clone, Copy)]
pub(crate) struct Trust<'a> {
    pub(crate) authorities: &'a Authorities,
    pub(crate) servers: &'a Servers,
    /// Our names, for certificates that are meant for certain hosts only.
    pub(crate) host_names: &'a [String],
}

/// The verified attributes of a chain, leaf first, whose end entity stands at `place`.
///
/// They come from the proxy nearest to the leaf that has some. An invalid attribute certificate is left out with a line
/// in the log, and its holder goes on without it.
pub(crate) fn attributes(
    chain: &[X509Certificate<'_>],
    place: usize,
    trust: Trust<'_>,
    now: SystemTime,
) -> Vec<VomsAttributes> {
    let (proxies, rest) = chain.split_at(place.min(chain.len()));
    let Some(holder) = rest.first() else { return Vec::new() };
    let refused = |reason: &str| {
        tracing::warn!(subject = %slash_form(holder.subject()), "VOMS attributes left out: {reason}");
    };
    let found = proxies.iter().find_map(|proxy| {
        let mut extensions = proxy.extensions().iter();
        extensions.find(|extension| extension.oid == ATTRIBUTE_CERTIFICATES)
    });
    let Some(extension) = found else { return Vec::new() };
    let certificates = match in_extension(extension.value) {
        Ok(certificates) => certificates,
        Err(wanted) => {
            refused(&format!("the extension should hold {wanted}"));
            return Vec::new();
        }
    };
    let mut verified = Vec::new();
    for certificate in certificates {
        let outcome = certificate
            .map_err(|wanted| format!("the attribute certificate should hold {wanted}"))
            .and_then(|certificate| verify(&certificate, holder, trust, unix(now)));
        match outcome {
            Ok(attributes) => verified.push(attributes),
            Err(reason) => refused(&reason),
        }
    }
    verified
}

/// The attributes of one attribute certificate for its holder, the end entity of a chain; or the reason why it is
/// refused.
pub(crate) fn judge(
    certificate: &[u8],
    holder: &X509Certificate<'_>,
    trust: Trust<'_>,
    now: SystemTime,
) -> Result<VomsAttributes, String> {
    let certificate = parse(certificate).map_err(|wanted| format!("the attribute certificate should hold {wanted}"))?;
    verify(&certificate, holder, trust, unix(now))
}

/// `/atlas/Role=production/Capability=NULL` without its empty parts: `/atlas/Role=production`.
pub fn short_fqan(fqan: &str) -> &str {
    let fqan = fqan.strip_suffix("/Capability=NULL").unwrap_or(fqan);
    fqan.strip_suffix("/Role=NULL").unwrap_or(fqan)
}

fn verify(
    certificate: &AttributeCertificate<'_>,
    holder: &X509Certificate<'_>,
    trust: Trust<'_>,
    now: i64,
) -> Result<VomsAttributes, String> {
    let AttributeCertificate { vo, host, .. } = certificate;
    // The standard has the holder's issuer here; vomsd, and with it most of the grid, writes the holder's own name.
    let names = [slash_form(holder.issuer()), slash_form(holder.subject())];
    let named = names.iter().any(|name| certificate.holder_names.contains(name));
    if !named || certificate.holder_serial != holder.raw_serial() {
        return Err("they belong to another certificate".to_owned());
    }
    if now > certificate.not_after.saturating_add(CLOCK_SKEW) {
        return Err(format!("they expired {} s ago", now - certificate.not_after));
    }
    if now < certificate.not_before.saturating_sub(CLOCK_SKEW) {
        return Err(format!("they begin in {} s", certificate.not_before - now));
    }
    if let Some(targets) = &certificate.targets
        && !trust
            .host_names
            .iter()
            .any(|name| targets.contains(&name.to_ascii_lowercase()))
    {
        return Err(format!("they are for {} only", targets.join(", ")));
    }
    if !trust.servers.know(vo, host) {
        return Err(format!("there is no {vo}/{host}.lsc"));
    }
    let server = signer(certificate, trust, now)?;
    Ok(VomsAttributes {
        vo: vo.clone(),
        fqans: certificate.fqans.clone(),
        not_after: UNIX_EPOCH + Duration::from_secs(certificate.not_after.max(0).unsigned_abs()),
        issuer: server,
        host: host.clone(),
        serial: certificate.serial.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

/// Checks the signer; returns the server's name.
fn signer(certificate: &AttributeCertificate<'_>, trust: Trust<'_>, now: i64) -> Result<String, String> {
    if certificate.server_chain.is_empty() {
        return Err("the server's certificate is not in them".to_owned());
    }
    let now = UNIX_EPOCH + Duration::from_secs(now.max(0).unsigned_abs());
    let verified = trust.authorities.verify_server(&certificate.server_chain, now);
    let verified = verified.map_err(|error| format!("their server: {}", crate::error_chain(&error)))?;
    let parsed = verified.parsed().map_err(|error| error.to_string())?;
    let names: Vec<String> = parsed.iter().map(|one| slash_form(one.subject())).collect();
    let (vo, host) = (&certificate.vo, &certificate.host);
    if !trust.servers.allow(vo, host, &names) {
        return Err(format!("{vo}/{host}.lsc does not name {} and its issuer", names[0]));
    }
    if !certificate.issuers.contains(&names[0]) {
        return Err(format!("they name another issuer than {}", names[0]));
    }
    let signed = is_signed(certificate, parsed[0].public_key().raw);
    if signed != Some(true) {
        return Err("their signature does not match".to_owned());
    }
    Ok(names.into_iter().next().unwrap_or_default())
}

/// Whether the key made the signature; `None` for an unsupported kind.
fn is_signed(certificate: &AttributeCertificate<'_>, key: &[u8]) -> Option<bool> {
    let digest = match certificate.algorithm.as_str() {
        // RSA and ECDSA, with SHA-256, SHA-384 and SHA-512.
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => MessageDigest::sha256(),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => MessageDigest::sha384(),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => MessageDigest::sha512(),
        _ => return None,
    };
    let key = PKey::public_key_from_der(key).ok()?;
    let mut verifier = Verifier::new(digest, &key).ok()?;
    verifier.verify_oneshot(certificate.signature, certificate.signed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Empty parts would make two groups of one.
    #[test]
    fn fqans_have_a_short_form() {
        let check = |fqan: &str, short: &str| assert_eq!(short_fqan(fqan), short);
        check("/dune/Role=NULL/Capability=NULL", "/dune");
        check("/dune/prod/Role=pilot/Capability=NULL", "/dune/prod/Role=pilot");
        check("/dune/Role=NULL", "/dune");
        check("/dune/Role=pilot", "/dune/Role=pilot");
        check("/dune", "/dune");
    }
}
