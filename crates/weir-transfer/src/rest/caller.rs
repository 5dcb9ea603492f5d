//! Who is calling, and what may they do.

use std::{sync::Arc, time::SystemTime};

use axum::extract::FromRequestParts;
use http::{HeaderValue, StatusCode, header, request::Parts};
use weir_auth::{Access, AuthError, Secret, Token};

use super::answer::ApiError;
use crate::{
    config::AdminConfig,
    model::{Job, hex},
    nodes::Relayed,
    service::Service,
    submission::Submitter,
};

/// A caller whose token was verified.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) user_dn: String,
    /// FTS3's delegation id: the first 16 hex digits of SHA-1 over issuer and subject. Says whose a job is.
    pub(crate) cred_id: String,
    pub(crate) vo: String,
    pub(crate) admin: bool,
    pub(crate) token: Secret,
}

impl Caller {
    pub(crate) fn may_see(&self, job: &Job) -> bool {
        self.admin || job.spec.cred_id == self.cred_id
    }

    pub(crate) fn require_admin(&self) -> Result<(), ApiError> {
        if self.admin {
            Ok(())
        } else {
            Err(ApiError::forbidden("Only administrators of this service may do this"))
        }
    }

    pub(crate) fn submitter(&self) -> Submitter {
        Submitter {
            user_dn: self.user_dn.clone(),
            cred_id: self.cred_id.clone(),
            vo: self.vo.clone(),
            token: self.token.clone(),
        }
    }
}

impl FromRequestParts<Arc<Service>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, ApiError> {
        if let Some(Relayed(caller)) = parts.extensions.get() {
            return caller.clone().ok_or_else(|| refuse(&AuthError::Missing));
        }
        let text = bearer(parts).ok_or_else(|| refuse(&AuthError::Missing))?;
        let token = service
            .verifier
            .verify(text, SystemTime::now())
            .await
            .map_err(|error| refuse(&error))?;
        if let Some(scope) = &service.required_scope
            && !token.has_scope(scope)
        {
            return Err(ApiError::forbidden(format!(
                "The token lacks the scope '{scope}', which this service asks for"
            )));
        }
        let Some(vo) = service.vos.get(&token.issuer) else {
            return Err(ApiError::forbidden("The token's issuer belongs to no VO here"));
        };
        if let Some(message) = service.settings.door().banned_user(&token.subject) {
            return Err(ApiError::forbidden(format!("The user is banned. {message}").trim_end()));
        }
        Ok(Self {
            cred_id: cred_id(&token),
            user_dn: token.subject.clone(),
            vo: vo.clone(),
            admin: service.admins.iter().any(|admin| fits(admin, &token)),
            token: Secret::new(text),
        })
    }
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

fn cred_id(token: &Token) -> String {
    let text = format!("{}{}", token.issuer, token.subject);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    hex(&digest.as_ref()[..8])
}

/// All that an entry names must fit; it names at least one of subject, group and scope.
fn fits(admin: &AdminConfig, token: &Token) -> bool {
    let groups = match token.access() {
        Access::Groups(groups) => groups,
        Access::Capabilities(_) => token.groups.as_slice(),
    };
    admin.issuer.as_ref().is_none_or(|issuer| *issuer == token.issuer)
        && admin.subject.as_ref().is_none_or(|subject| *subject == token.subject)
        && admin
            .group
            .as_ref()
            .is_none_or(|group| groups.iter().any(|has| has.as_str() == group))
        && admin.scope.as_ref().is_none_or(|scope| token.has_scope(scope))
}
