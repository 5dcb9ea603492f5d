//! Callers: authentication and rights.

use std::{sync::Arc, time::SystemTime};

use axum::extract::FromRequestParts;
use http::{HeaderValue, StatusCode, header, request::Parts};
use weir_auth::{
    Access, AuthError, Secret, Token,
    x509::{Identity, X509Error, delegation::delegation_id, short_fqan},
};

use crate::messages::answer::ApiError;
use weir_executor::job::{Job, cred_id, owner};
use weir_service::time;
use weir_transfer::config::{AdminConfig, Level};

use crate::state::Door;

use crate::{access::callers::Callers, jobs::submission::Submitter};

/// A caller whose token or certificate was verified.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) user_dn: String,
    /// FTS3's delegation id: the first 16 hex digits of SHA-1 over issuer and subject, or over the certificate's name
    /// and FQANs. It marks the owner of a job.
    pub(crate) cred_id: String,
    pub(crate) vo: String,
    /// The level that `[[admin]]` gives this caller; `Private`: no administrator.
    pub(crate) level: Level,
    /// The jobs that this caller sees, changes and cancels; not less than `level`.
    pub(crate) reach: Level,
    pub(crate) by: By,
}

/// The kind of credential of a caller.
#[derive(Debug, Clone)]
pub(crate) enum By {
    /// A token, until it ends.
    Token(Secret, SystemTime),
    /// A certificate.
    Certificate(Arc<Identity>),
    /// One or the other, at another node, which passed the request on.
    Elsewhere {
        /// The kind of the credential: a certificate, or a token.
        certificate: bool,
    },
}

/// Marks a request from another node: with the caller that the node identified, or none if the node asks for itself.
#[derive(Debug, Clone)]
pub(crate) struct Relayed(pub(crate) Option<Caller>);

impl By {
    pub(crate) fn is_certificate(&self) -> bool {
        matches!(self, Self::Certificate(_) | Self::Elsewhere { certificate: true })
    }
}

impl Caller {
    /// Whether this caller may see all jobs and the settings.
    pub(crate) fn is_admin(&self) -> bool {
        self.level == Level::All
    }

    /// Whether this is an administrator of this VO.
    pub(crate) fn manages(&self, vo: &str) -> bool {
        self.is_admin() || self.level == Level::Vo && self.vo == vo
    }

    pub(crate) fn may_see(&self, job: &Job) -> bool {
        let of_vo = match self.reach {
            Level::All => true,
            Level::Vo => self.vo == job.spec.vo,
            Level::Private => false,
        };
        of_vo || self.owns(job)
    }

    /// Whether a job belongs to the caller, by VO and full name. For two issuers of one VO with the same subject, and
    /// for a certificate and a subject that read alike, the kind of credential and the delegation id decide. Groups and
    /// roles of a certificate are in its delegation id, and may change from day to day: they do not count.
    pub(crate) fn owns(&self, job: &Job) -> bool {
        let spec = &job.spec;
        let certificate = self.by.is_certificate();
        spec.vo == self.vo
            && spec.user_dn == self.user_dn
            && spec.params.certificate == certificate
            && (certificate || spec.cred_id == self.cred_id)
    }

    /// The key of this caller's stored data.
    pub(crate) fn owner(&self) -> String {
        owner(&self.cred_id, &self.vo, &self.user_dn)
    }

    pub(crate) fn require_admin(&self) -> Result<(), ApiError> {
        if self.is_admin() {
            Ok(())
        } else {
            Err(ApiError::forbidden("Only administrators of this service may do this"))
        }
    }

    /// The certificate, where only users with one have business.
    pub(crate) fn certificate(&self) -> Result<&Arc<Identity>, ApiError> {
        match &self.by {
            By::Certificate(identity) => Ok(identity),
            By::Token(..) | By::Elsewhere { .. } => Err(ApiError::forbidden(
                "This is for users with a certificate; you came with a token",
            )),
        }
    }

    pub(crate) fn submitter(&self) -> Submitter {
        Submitter {
            user_dn: self.user_dn.clone(),
            cred_id: self.cred_id.clone(),
            vo: self.vo.clone(),
            token: match &self.by {
                By::Token(token, _) => Some(token.clone()),
                By::Certificate(_) | By::Elsewhere { .. } => None,
            },
        }
    }
}

impl FromRequestParts<Arc<Door>> for Caller {
    type Rejection = ApiError;

    /// A token decides alone; without one the certificate does.
    async fn from_request_parts(parts: &mut Parts, service: &Arc<Door>) -> Result<Self, ApiError> {
        if let Some(Relayed(caller)) = parts.extensions.get() {
            return caller.clone().ok_or_else(|| refuse(&AuthError::Missing));
        }
        let caller = match bearer(parts) {
            Some(text) => by_token(service, text).await?,
            None => by_certificate(service, parts)?,
        };
        if let Some(message) = service.settings.door().banned_user(&caller.user_dn) {
            return Err(ApiError::forbidden(format!("The user is banned. {message}").trim_end()));
        }
        Ok(caller)
    }
}

async fn by_token(service: &Door, text: &str) -> Result<Caller, ApiError> {
    let callers = service.callers.get();
    let verified = callers.verifier.verify(text, time::system()).await;
    let token = verified.map_err(|error| refuse(&error))?;
    if let Some(scope) = &callers.required_scope
        && !token.has_scope(scope)
    {
        return Err(ApiError::forbidden(format!(
            "The token lacks the scope '{scope}', which this service asks for"
        )));
    }
    let Some(vo) = callers.vos.get(&token.issuer) else {
        return Err(ApiError::forbidden("The token's issuer belongs to no VO here"));
    };
    let level = level(&callers, |admin| fits(admin, &token));
    Ok(Caller {
        cred_id: cred_id(&token.issuer, &token.subject),
        user_dn: token.subject.clone(),
        vo: vo.clone(),
        level,
        reach: level.max(callers.user_level.of_tokens()),
        by: By::Token(Secret::new(text), token.expires),
    })
}

fn by_certificate(service: &Door, parts: &Parts) -> Result<Caller, ApiError> {
    let callers = service.callers.get();
    let Some(certificates) = &callers.certificates else {
        return Err(refuse(&AuthError::Missing));
    };
    let identity = certificates.clients.identity(&parts.extensions, time::system());
    let Some(identity) = identity.map_err(|error| not_taken(&error))? else {
        let mut answer = refuse(&AuthError::Missing);
        answer.message = "the request carries neither a token nor a certificate".into();
        return Err(answer);
    };
    if !parts.method.is_safe() {
        identity.require_full().map_err(|error| not_taken(&error))?;
    }
    let Some(vo) = certificates.vo(&identity) else {
        return Err(ApiError::forbidden(format!(
            "{} belongs to no VO here: no VOMS attributes that are known, and no entry in the grid-mapfile",
            identity.subject
        )));
    };
    let level = level(&callers, |admin| fits_certificate(admin, &identity));
    Ok(Caller {
        cred_id: delegation_id(&identity.subject, identity.fqans()),
        user_dn: identity.subject.clone(),
        vo,
        level,
        reach: level.max(callers.user_level),
        by: By::Certificate(identity),
    })
}

/// The error of a certificate, with its remedy.
pub(crate) fn not_taken(error: &X509Error) -> ApiError {
    let text = format!("{}; {}", weir_auth::error_chain(error), error.remedy());
    let status = StatusCode::from_u16(error.status().as_u16()).unwrap_or(StatusCode::UNAUTHORIZED);
    ApiError::new(status, text)
}

fn bearer(parts: &Parts) -> Option<&str> {
    let value = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn refuse(error: &AuthError) -> ApiError {
    let status = StatusCode::from_u16(error.status().as_u16()).unwrap_or(StatusCode::UNAUTHORIZED);
    let mut answer = ApiError::new(status, error.to_string());
    if status == StatusCode::UNAUTHORIZED {
        let challenge = if *error == AuthError::Missing {
            "Bearer"
        } else {
            "Bearer error=\"invalid_token\""
        };
        answer
            .headers
            .push((header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge)));
    }
    answer
}

fn level(callers: &Callers, fits: impl Fn(&AdminConfig) -> bool) -> Level {
    let levels = callers
        .admins
        .iter()
        .filter(|admin| fits(admin))
        .map(|admin| admin.level);
    levels.max().unwrap_or(Level::Private)
}

/// All that an entry names must fit; it names a name or an FQAN, or it is about tokens.
fn fits_certificate(admin: &AdminConfig, identity: &Identity) -> bool {
    let has = |wanted: &String| identity.fqans().any(|fqan| short_fqan(fqan) == short_fqan(wanted));
    admin.kinds().1 && admin.dn.as_ref().is_none_or(|dn| *dn == identity.subject) && admin.fqan.as_ref().is_none_or(has)
}

/// All that an entry names must fit; it names at least one of subject, group and scope, or it is about certificates.
fn fits(admin: &AdminConfig, token: &Token) -> bool {
    if !admin.kinds().0 {
        return false;
    }
    // A token for one download, which storages see, must not give its bearer the rights of the groups that it names.
    let groups = match token.access() {
        Access::Groups(groups) => groups,
        Access::Capabilities(_) => &[],
    };
    admin.issuer.as_ref().is_none_or(|issuer| *issuer == token.issuer)
        && admin.subject.as_ref().is_none_or(|subject| *subject == token.subject)
        && admin
            .group
            .as_ref()
            .is_none_or(|group| groups.iter().any(|has| has.as_str() == group))
        && admin.scope.as_ref().is_none_or(|scope| token.has_scope(scope))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use weir_executor::job::{Counts, JobState};
    use weir_transfer::testing::submission;

    fn caller(vo: &str, name: &str, cred_id: &str, certificate: bool) -> Caller {
        Caller {
            user_dn: name.into(),
            cred_id: cred_id.into(),
            vo: vo.into(),
            level: Level::Private,
            reach: Level::Private,
            by: By::Elsewhere { certificate },
        }
    }

    fn job(vo: &str, name: &str, cred_id: &str, certificate: bool) -> Job {
        let mut spec = submission(1, 1, 1).job;
        (spec.vo, spec.user_dn, spec.cred_id) = (vo.into(), name.into(), cred_id.into());
        spec.params.certificate = certificate;
        Job {
            spec,
            state: JobState::Submitted,
            finished: None,
            reason: None,
            cancelled: false,
            counts: Counts::default(),
        }
    }

    #[test]
    fn users_whose_delegation_ids_are_the_same_do_not_own_each_others_jobs() {
        // Issuer and subject are hashed without a separator: a user of another VO read and cancelled jobs here.
        let (victim, thief) = (("https://i:18600", "alice"), ("https://i:1860", "0alice"));
        let id = cred_id(victim.0, victim.1);
        assert_eq!(id, cred_id(thief.0, thief.1));
        let job = job("atlas", victim.1, &id, false);
        assert!(caller("atlas", victim.1, &id, false).may_see(&job));
        assert!(!caller("othervo", thief.1, &id, false).may_see(&job));
        assert!(!caller("atlas", thief.1, &id, false).may_see(&job));
        assert!(!caller("othervo", victim.1, &id, false).may_see(&job));
        // The same subject, of another issuer of the VO.
        assert!(!caller("atlas", victim.1, &cred_id("https://j", "alice"), false).may_see(&job));
    }

    #[test]
    fn a_certificate_owns_its_jobs_whatever_its_roles_are() {
        let dn = "/DC=ch/CN=ada";
        let job = job("atlas", dn, "01", true);
        assert!(caller("atlas", dn, "02", true).may_see(&job));
        assert!(!caller("cms", dn, "01", true).may_see(&job));
        assert!(!caller("atlas", "/DC=ch/CN=eve", "01", true).may_see(&job));
        assert!(
            !caller("atlas", dn, "01", false).may_see(&job),
            "a subject that reads like a name"
        );
    }
}
