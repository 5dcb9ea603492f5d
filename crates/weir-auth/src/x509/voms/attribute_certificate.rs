//! Reads VOMS attribute certificates: RFC 5755 in the shape that VOMS gives them (OGF GFD.182).

use x509_parser::asn1_rs::Oid;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;

use crate::x509::der::{BIT_STRING, Der, Element, INTEGER, OCTET_STRING, OID, SEQUENCE, SET};
use crate::x509::name::slash_form_of_der;

const BOOLEAN: u32 = 1;
/// Where VOMS keeps its attributes: GFD.182 section 3.4.1.
const FQANS: &str = "1.3.6.1.4.1.8005.100.100.4";
/// The chain of the server that signed.
const SERVER_CHAIN: &str = "1.3.6.1.4.1.8005.100.100.10";
/// Generic attributes, names with values; nothing here uses them.
const TAGS: &str = "1.3.6.1.4.1.8005.100.100.11";
const TARGETS: &str = "2.5.29.55";
const NO_REVOCATION: &str = "2.5.29.56";
const AUTHORITY_KEY: &str = "2.5.29.35";
/// Attribute certificates of one proxy: a user asks one VO, or a few.
pub(crate) const CERTIFICATES_MAX: usize = 16;
/// FQANs of one certificate: a user is in some dozens of groups.
const FQANS_MAX: usize = 512;

/// The content of an attribute certificate; none of it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttributeCertificate<'a> {
    /// The part that is signed.
    pub(crate) signed: &'a [u8],
    /// The signature's algorithm, a dotted number.
    pub(crate) algorithm: String,
    pub(crate) signature: &'a [u8],
    /// Names, in slash form, of the issuer of the certificate that the attributes belong to, or of its subject.
    pub(crate) holder_names: Vec<String>,
    /// Its serial number.
    pub(crate) holder_serial: &'a [u8],
    /// Names of the server, in slash form.
    pub(crate) issuers: Vec<String>,
    pub(crate) serial: &'a [u8],
    /// Unix seconds.
    pub(crate) not_before: i64,
    /// Unix seconds.
    pub(crate) not_after: i64,
    /// Of the authority `vo://host:port`.
    pub(crate) vo: String,
    pub(crate) host: String,
    /// As the server wrote them, the primary one first.
    pub(crate) fqans: Vec<String>,
    /// The server's certificate and perhaps its issuers', in DER.
    pub(crate) server_chain: Vec<&'a [u8]>,
    /// Hosts that may take the certificate; none: all may.
    pub(crate) targets: Option<Vec<String>>,
}

/// The attribute certificates in a proxy's extension: `SEQUENCE { SEQUENCE OF AttributeCertificate }`, each with its
/// own result.
///
/// # Errors
/// The expected element, if the extension itself cannot be read.
pub(crate) fn in_extension(value: &[u8]) -> Result<Vec<Result<AttributeCertificate<'_>, &'static str>>, &'static str> {
    let mut outer = Der::new(value)
        .expect(SEQUENCE, "a list of attribute certificates")?
        .inside();
    let list = outer.expect(SEQUENCE, "a list of attribute certificates")?;
    let certificates = list.inside().all("an attribute certificate")?;
    if certificates.len() > CERTIFICATES_MAX {
        return Err("at most 16 attribute certificates");
    }
    Ok(certificates.iter().map(read).collect())
}

/// One attribute certificate and nothing behind it.
///
/// # Errors
/// The expected element.
pub(crate) fn parse(der: &[u8]) -> Result<AttributeCertificate<'_>, &'static str> {
    let mut row = Der::new(der);
    let certificate = row.expect(SEQUENCE, "an attribute certificate")?;
    if !row.is_empty() {
        return Err("one attribute certificate");
    }
    read(&certificate)
}

fn read<'a>(certificate: &Element<'a>) -> Result<AttributeCertificate<'a>, &'static str> {
    if !certificate.is(SEQUENCE) {
        return Err("an attribute certificate");
    }
    let mut outer = certificate.inside();
    let signed = outer.expect(SEQUENCE, "attribute certificate information")?;
    let algorithm = outer.expect(SEQUENCE, "a signature algorithm")?;
    let signature = outer.expect(BIT_STRING, "a signature")?;
    if !outer.is_empty() {
        return Err("the end behind its signature");
    }

    let mut info = signed.inside();
    let version = info.expect(INTEGER, "a version")?;
    if version.content != [1] {
        return Err("version 2");
    }
    let (holder_names, holder_serial) = holder(info.expect(SEQUENCE, "a holder")?)?;
    let issuers = issuer(&mut info)?;
    if info.expect(SEQUENCE, "a signature algorithm")?.raw != algorithm.raw {
        return Err("one signature algorithm");
    }
    let serial = info.expect(INTEGER, "a serial number")?.content;
    let mut validity = info.expect(SEQUENCE, "a validity")?.inside();
    let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
    let attributes = info.expect(SEQUENCE, "attributes")?;
    let _unique_id = info.next_if(|element| element.is(BIT_STRING));
    let extensions = info.next_if(|element| element.is(SEQUENCE));
    if !info.is_empty() {
        return Err("the end of the attribute certificate");
    }

    let Membership { vo, host, fqans } = membership(attributes)?;
    let mut read = AttributeCertificate {
        signed: signed.raw,
        algorithm: oid(&mut algorithm.inside())?,
        // The first byte counts unused bits: none.
        signature: signature
            .content
            .strip_prefix(&[0])
            .ok_or("a signature of whole bytes")?,
        holder_names,
        holder_serial,
        issuers,
        serial,
        not_before,
        not_after,
        vo,
        host,
        fqans,
        server_chain: Vec::new(),
        targets: None,
    };
    if let Some(extensions) = extensions {
        for extension in extensions.inside().all("an extension")? {
            read.extend(extension)?;
        }
    }
    Ok(read)
}

impl<'a> AttributeCertificate<'a> {
    fn extend(&mut self, extension: Element<'a>) -> Result<(), &'static str> {
        let mut fields = extension.inside();
        let id = oid(&mut fields)?;
        let critical = fields.next_if(|field| field.is(BOOLEAN));
        let critical = critical.is_some_and(|field| field.content != [0]);
        let value = fields.expect(OCTET_STRING, "the value of an extension")?.inside();
        match id.as_str() {
            SERVER_CHAIN => {
                let mut value = value;
                let mut outer = value.expect(SEQUENCE, "the server's certificates")?.inside();
                let list = outer.expect(SEQUENCE, "the server's certificates")?;
                let certificates = list.inside().all("a certificate of the server")?;
                self.server_chain = certificates.iter().map(|certificate| certificate.raw).collect();
            }
            TARGETS => self.targets = Some(targets(value)?),
            AUTHORITY_KEY | NO_REVOCATION | TAGS => {}
            _ if critical => return Err("no unknown critical extension"),
            _ => {}
        }
        Ok(())
    }
}

/// `Holder ::= SEQUENCE { baseCertificateID [0] IssuerSerial OPTIONAL, … }`. VOMS always names the certificate; a holder
/// by name alone is not taken.
fn holder(holder: Element<'_>) -> Result<(Vec<String>, &[u8]), &'static str> {
    let mut fields = holder.inside();
    let base = fields.next_if(|field| field.is_context(0));
    let mut base = base.ok_or("the holder's certificate")?.inside();
    let names = directory_names(base.expect(SEQUENCE, "the holder's issuer")?)?;
    let serial = base.expect(INTEGER, "the holder's serial number")?;
    Ok((names, serial.content))
}

/// `AttCertIssuer ::= CHOICE { v1Form GeneralNames, v2Form [0] SEQUENCE { issuerName GeneralNames OPTIONAL, … } }`.
fn issuer(info: &mut Der<'_>) -> Result<Vec<String>, &'static str> {
    let form = info.next_if(|field| field.is_context(0) || field.is(SEQUENCE));
    let form = form.ok_or("an issuer")?;
    if form.is(SEQUENCE) {
        return directory_names(form);
    }
    directory_names(form.inside().expect(SEQUENCE, "the issuer's name")?)
}

/// The directory names (`[4]`) among general names, in slash form.
fn directory_names(names: Element<'_>) -> Result<Vec<String>, &'static str> {
    let mut found = Vec::new();
    for name in names.inside().all("a general name")? {
        if name.is_context(4) {
            found.push(slash_form_of_der(name.content).ok_or("a directory name")?);
        }
    }
    Ok(found)
}

/// A GeneralizedTime, in Unix seconds.
fn time(fields: &mut Der<'_>) -> Result<i64, &'static str> {
    let element = fields.next().ok_or("a time")?;
    let (_, time) = ASN1Time::from_der(element.raw).map_err(|_| "a time")?;
    Ok(time.timestamp())
}

fn oid(fields: &mut Der<'_>) -> Result<String, &'static str> {
    let id = fields.expect(OID, "an object identifier")?;
    Ok(Oid::new(id.content.into()).to_id_string())
}

struct Membership {
    vo: String,
    host: String,
    fqans: Vec<String>,
}

/// The VOMS attribute: `SEQUENCE { type, SET OF IetfAttrSyntax }`, exactly one with one value.
fn membership(attributes: Element<'_>) -> Result<Membership, &'static str> {
    let mut found = None;
    for attribute in attributes.inside().all("an attribute")? {
        let mut fields = attribute.inside();
        if oid(&mut fields)? != FQANS {
            continue;
        }
        let values = fields.expect(SET, "attribute values")?;
        for value in values.inside().all("an attribute value")? {
            if found.replace(ietf_attribute(value)?).is_some() {
                return Err("one VOMS attribute");
            }
        }
    }
    found.ok_or("a VOMS attribute")
}

/// `IetfAttrSyntax ::= SEQUENCE { policyAuthority [0] GeneralNames OPTIONAL, values SEQUENCE OF OCTET STRING }`; the
/// authority is a URI (`[6]`), `vo://host:port`.
fn ietf_attribute(value: Element<'_>) -> Result<Membership, &'static str> {
    let mut fields = value.inside();
    let authority = fields.next_if(|field| field.is_context(0));
    let mut names = authority.ok_or("a policy authority")?.inside();
    let uri = names.next_if(|name| name.is_context(6)).ok_or("the authority's URI")?;
    let (vo, host) = server(uri.content).ok_or("an authority vo://host:port")?;
    let values = fields.expect(SEQUENCE, "FQANs")?.inside().all("an FQAN")?;
    if values.len() > FQANS_MAX {
        return Err("at most 512 FQANs");
    }
    let mut fqans = Vec::with_capacity(values.len());
    for value in values {
        let text = std::str::from_utf8(value.content).map_err(|_| "an FQAN")?;
        if !value.is(OCTET_STRING) || !is_fqan(text, &vo) {
            return Err("an FQAN of the VO");
        }
        fqans.push(text.to_owned());
    }
    Ok(Membership { vo, host, fqans })
}

fn server(uri: &[u8]) -> Option<(String, String)> {
    let (vo, rest) = std::str::from_utf8(uri).ok()?.split_once("://")?;
    let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
    let fine = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    };
    (fine(vo) && fine(host)).then(|| (vo.to_owned(), host.to_owned()))
}

/// An FQAN is a path below its VO: a server speaks only for its own groups. Its characters are fit for a log line.
fn is_fqan(text: &str, vo: &str) -> bool {
    let below = text.strip_prefix('/').and_then(|text| text.strip_prefix(vo));
    let printable = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
    printable && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `Targets ::= SEQUENCE OF Target`, each a general name in one tag or two; VOMS writes one list into another. At any
/// nesting, the hosts are the URIs (`[6]`) and DNS names (`[2]`) inside.
fn targets(value: Der<'_>) -> Result<Vec<String>, &'static str> {
    let mut hosts = Vec::new();
    let mut open = vec![(value, 0)];
    while let Some((row, depth)) = open.pop() {
        for element in row.all("a target")? {
            let is_name = element.is_context(6) || element.is_context(2);
            if let (true, Ok(text)) = (is_name, std::str::from_utf8(element.content)) {
                let host = text.rsplit_once("://").map_or(text, |(_, host)| host);
                hosts.push(host.to_ascii_lowercase());
            } else if depth < 4 {
                open.push((element.inside(), depth + 1));
            }
        }
    }
    Ok(hosts)
}
