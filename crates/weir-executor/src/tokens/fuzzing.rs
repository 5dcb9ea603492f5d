//! A fuzz target for issuers' grants.

use weir_auth::{
    Secret,
    client::{Granted, Wanted},
};

use super::{
    claims::{Claims, lacking},
    renewal,
};
use weir_service::time;
use weir_store::Sealer;

use crate::{config::TokensConfig, job::hash_of};

/// The answer to an exchange or a refresh: an accepted token must fit into a header, be stored unchanged, and never be
/// used after its expiry.
pub(crate) fn fuzz(data: &[u8]) {
    let Some(granted) = Granted::read(data) else { return };
    let tokens = [&granted.access, &granted.refresh];
    assert!(tokens.iter().any(|token| token.is_some()));
    for token in tokens.into_iter().flatten() {
        assert!(!token.expose().is_empty() && token.expose().bytes().all(|byte| byte.is_ascii_graphic()));
    }
    let access = granted.access.clone().unwrap_or_else(|| Secret::new("none"));
    let wanted = Claims::read(&access).map_or_else(Wanted::default, |claims| claims.wanted);
    // It cannot lack its own claims.
    assert_eq!(lacking(&access, granted.scope.as_deref(), &wanted), None);
    let all = Wanted {
        scope: "storage.read:/a openid".into(),
        audience: "https://storage".into(),
    };
    if let Some(lost) = lacking(&access, granted.scope.as_deref(), &all) {
        assert!(
            lost.contains("storage.read:/a") || lost.contains("https://storage"),
            "{lost}"
        );
    }
    let kept = renewal(&TokensConfig::default(), Some(&granted), granted.refresh.clone());
    assert!(kept.good_until <= kept.expires);
    // Of a token that has not expired some life is left to be used.
    let now = time::now();
    assert!(kept.expires <= now + 1000 || kept.good_until > now, "{kept:?}");
    // On its own a token is packed before it is sealed.
    let (sealer, name) = (Sealer::ephemeral(), hash_of("submitted"));
    let sealed = sealer.seal(name, &access);
    let text = |token: &Option<Secret>| token.as_ref().map(|token| token.expose().to_owned());
    assert_eq!(text(&sealer.open(name, &sealed)), text(&Some(access)));
}
