//! The names that an authority may sign: Globus's `*.signing_policy` files, as the IGTF distributes them.
//!
//! ```text
//! access_id_CA   X509    '/C=XY/O=Grid/CN=Authority'
//! pos_rights     globus  CA:sign
//! cond_subjects  globus  '"/C=XY/O=Grid/*" "/DC=xy/DC=grid/*"'
//! ```

use std::collections::BTreeMap;

use super::name::usual_form;

/// The names that authorities may sign, under the authorities' own.
#[derive(Debug, Default)]
pub(crate) struct SigningPolicies {
    patterns: BTreeMap<String, Vec<String>>,
}

impl SigningPolicies {
    /// Adds the entries of a file. Entries of other forms are ignored.
    pub(crate) fn add(&mut self, text: &str) {
        let mut authority = None;
        for line in text.lines() {
            let line = line.trim();
            let (key, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let value = rest
                .trim()
                .split_once(char::is_whitespace)
                .map(|(_, value)| value.trim());
            match (key, value, &authority) {
                ("access_id_CA", Some(name), _) => authority = Some(usual_form(unquoted(name))),
                ("cond_subjects", Some(patterns), Some(authority)) => {
                    let known = self.patterns.entry(authority.clone()).or_default();
                    known.extend(split(unquoted(patterns)).map(usual_form));
                }
                _ => {}
            }
        }
    }

    /// Whether the authority may sign the name, both in slash form; one without a policy may sign any.
    pub(crate) fn allow(&self, authority: &str, subject: &str) -> bool {
        let Some(patterns) = self.patterns.get(&usual_form(authority)) else {
            return true;
        };
        let subject = usual_form(subject);
        patterns.iter().any(|pattern| fits(pattern, &subject))
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    ['\'', '"']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(text)
}

/// The patterns of a condition: each in double quotes, or a single one without.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.contains('"');
    text.split('"')
        .enumerate()
        .filter(move |(place, _)| !quoted || place % 2 == 1)
        .map(|(_, pattern)| pattern.trim())
        .filter(|pattern| !pattern.is_empty())
}

/// Whether a name fits a pattern, in which `*` stands for any text. Case counts: the names of authorities are exact.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|start| name.strip_prefix(start)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
# A comment
access_id_CA   X509    '/C=XY/O=Grid/CN=Authority'
pos_rights     globus  CA:sign
cond_subjects  globus  '"/C=XY/O=Grid/*" "/DC=xy/*/CN=*"'

 access_id_CA  X509  "/C=XY/O=Mail/Email=ca@example.org"
 pos_rights    globus CA:sign
 cond_subjects globus '/C=XY/O=Mail/*'
"#;

    /// An authority could sign names of another's users, or its own users would be refused.
    #[test]
    fn an_authority_signs_the_names_of_its_policy_only() {
        let mut policies = SigningPolicies::default();
        policies.add(POLICY);
        let check = |authority, subject, allowed| assert_eq!(policies.allow(authority, subject), allowed, "{subject}");
        check("/C=XY/O=Grid/CN=Authority", "/C=XY/O=Grid/CN=A", true);
        check("/C=XY/O=Grid/CN=Authority", "/C=XY/O=Gri/CN=A", false);
        check("/C=XY/O=Grid/CN=Authority", "/C=ZZ/C=XY/O=Grid/CN=A", false);
        check("/C=XY/O=Grid/CN=Authority", "/DC=xy/OU=b/CN=A", true);
        check("/C=XY/O=Grid/CN=Authority", "/DC=xy/OU=b", false);
        check("/C=XY/O=Mail/emailAddress=ca@example.org", "/C=XY/O=Mail/CN=A", true);
        check("/C=XY/O=Mail/emailAddress=ca@example.org", "/C=XY/O=Grid/CN=A", false);
        check("/CN=Without policy", "/anything", true);
    }
}
