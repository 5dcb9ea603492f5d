//! TLS sessions that a client resumes. A resumed session shows no certificates, so its age is limited.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustls::{
    NamedGroup,
    client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue},
};
use rustls_pki_types::ServerName;

/// How long after its certificates were verified a server is believed by its sessions alone. Within a minute a certificate that
/// has ended is refused, and a burst of connections still costs one whole handshake.
const BELIEVED_FOR: Duration = Duration::from_secs(60);

/// Sessions of the servers that were verified of late.
#[derive(Debug)]
pub(crate) struct Sessions {
    kept: ClientSessionMemoryCache,
    most: usize,
    believed_for: Duration,
    /// When the first session came that was not there because of another: after a whole handshake.
    verified: Mutex<HashMap<ServerName<'static>, Instant>>,
}

impl Sessions {
    /// For about so many servers.
    pub(crate) fn new(most: usize) -> Self {
        Self::believing(most, BELIEVED_FOR)
    }

    fn believing(most: usize, believed_for: Duration) -> Self {
        Self {
            kept: ClientSessionMemoryCache::new(most),
            most,
            believed_for,
            verified: Mutex::default(),
        }
    }

    fn came(&self, name: &ServerName<'static>) {
        let mut verified = self.verified.lock();
        if verified.len() >= self.most {
            verified.retain(|_, at| at.elapsed() < self.believed_for);
        }
        verified.entry(name.clone()).or_insert_with(Instant::now);
    }

    /// Whether the server's sessions are still good; if not, they are forgotten.
    fn is_believed(&self, name: &ServerName<'static>) -> bool {
        let mut verified = self.verified.lock();
        if verified.get(name).is_some_and(|at| at.elapsed() < self.believed_for) {
            return true;
        }
        verified.remove(name);
        drop(verified);
        while self.kept.take_tls13_ticket(name).is_some() {}
        self.kept.remove_tls12_session(name);
        false
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.kept.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.came(&name);
        self.kept.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let believed = self.is_believed(&name.to_owned());
        self.kept.tls12_session(name).filter(|_| believed)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.kept.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.came(&name);
        self.kept.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let believed = self.is_believed(name);
        self.kept.take_tls13_ticket(name).filter(|_| believed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each resumed connection brings the next session: a server whose certificate has ended would stay trusted for as
    /// long as it is called often enough.
    #[test]
    fn sessions_that_come_of_sessions_make_no_server_younger() {
        let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
        let sessions = Sessions::believing(8, Duration::from_millis(50));
        assert!(!sessions.is_believed(&name), "nobody has verified it");
        sessions.came(&name);
        let came = sessions.verified.lock()[&name];
        assert!(sessions.is_believed(&name) || came.elapsed() >= sessions.believed_for);
        while came.elapsed() < sessions.believed_for {
            sessions.came(&name);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!sessions.is_believed(&name));
        assert!(
            sessions.verified.lock().is_empty(),
            "the next whole handshake begins anew"
        );
    }
}
