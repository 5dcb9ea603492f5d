//! The order in which the copy modes are tried, for each pair of endpoints and kind of credential.
//!
//! Pull comes first, then push, then the copy through this service. A mode is given up only when a storage refuses the
//! mode itself ([`crate::copying::thirdparty::Cause::Mode`]). An absent storage, a full disk or a timeout is no evidence about
//! the mode, and neither is a mode that a job demands. After a while ([`Modes::new`]) one transfer at a time tries the
//! better mode again.
//!
//! Endpoints without any third-party copies are remembered too ([`crate::endpoints`]), for all pairs.
//!
//! The knowledge lives as long as the process; with several nodes each learns by itself.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_world::CopyMode;

use crate::{
    copying::endpoints::{Endpoints, Refusal, is_web_server},
    requests::wire::Side,
};
use weir_service::time::{self, Millis};

/// Pairs remembered; beyond that all are forgotten, and learnt again in one transfer each.
const PAIRS_MAX: usize = 100_000;

/// From best to worst: in the first two the bytes do not pass through this service.
const ALL: [CopyMode; 3] = [CopyMode::Pull, CopyMode::Push, CopyMode::Streamed];

/// The credential that a copy is made with: a storage may take one kind for a mode and not the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CredentialKind {
    Token,
    Proxy,
    None,
}

impl CredentialKind {
    /// For the answer of `/why/link`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Proxy => "proxy",
            Self::None => "none",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Path {
    source: End,
    destination: End,
    credential: CredentialKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct End {
    endpoint: String,
    /// The storage element, which has no port.
    se: String,
}

impl End {
    fn of(side: &Side) -> Self {
        Self {
            endpoint: side.surl.endpoint(),
            se: side.surl.se(),
        }
    }
}

/// A mode that a storage refused.
#[derive(Debug, Clone)]
struct GivenUp {
    mode: CopyMode,
    at: Millis,
    /// By which status; none: in the last line of a copy.
    status: Option<u16>,
    /// When a transfer may try it again.
    again: Instant,
    /// One tries it now.
    probed: bool,
}

/// A mode that is given up, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// `https://host:port`.
    pub source: String,
    /// `https://host:port`.
    pub destination: String,
    /// None: with every kind.
    pub credential: Option<CredentialKind>,
    pub mode: CopyMode,
    pub at: Millis,
    /// Names no file: that may be another VO's.
    pub reason: String,
    /// How long until it is tried again; zero: with the next transfer.
    pub again_in: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Modes {
    patience: Duration,
    given_up: Mutex<HashMap<Path, Vec<GivenUp>>>,
    endpoints: Mutex<Endpoints>,
}

impl Default for Modes {
    fn default() -> Self {
        Self::new(Duration::from_secs(900))
    }
}

impl Modes {
    /// Modes that are tried again so long after they were refused.
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            given_up: Mutex::default(),
            endpoints: Mutex::default(),
        }
    }

    /// The modes for one attempt. A mode that the job demands stands alone.
    pub(crate) fn choose(
        &self,
        forced: Option<&str>,
        source: &Side,
        destination: &Side,
        credential: CredentialKind,
    ) -> Choice<'_> {
        let path = Path {
            source: End::of(source),
            destination: End::of(destination),
            credential,
        };
        if let Some(mode) = forced.and_then(CopyMode::parse) {
            return Choice {
                modes: self,
                path,
                order: vec![mode],
                learns: false,
                probe: None,
            };
        }
        let (mut order, mut probe) = (self.open_to(&path), None);
        if let Some(given_up) = self.given_up.lock().get_mut(&path) {
            let rank = |mode: CopyMode| given_up.iter().any(|one| one.mode == mode);
            order.sort_by_key(|mode| rank(*mode));
            let now = Instant::now();
            let open = order.clone();
            let better = ALL.iter().filter(|mode| open.contains(mode));
            let better = better.take_while(|mode| order.first() != Some(mode));
            let due = better.filter_map(|mode| given_up.iter().position(|one| one.mode == *mode));
            let due = due
                .filter(|place| !given_up[*place].probed && given_up[*place].again <= now)
                .min();
            if let Some(place) = due {
                given_up[place].probed = true;
                let mode = given_up[place].mode;
                order.sort_by_key(|other| *other != mode);
                probe = Some(mode);
            }
        }
        Choice {
            modes: self,
            path,
            order,
            learns: true,
            probe,
        }
    }

    /// The modes that no endpoint's nature excludes.
    fn open_to(&self, path: &Path) -> Vec<CopyMode> {
        let mut endpoints = self.endpoints.lock();
        let mut order = ALL.to_vec();
        if !endpoints.may_pull(&path.destination.endpoint, Instant::now()) {
            order.retain(|mode| *mode != CopyMode::Pull);
        }
        if endpoints.refusal(&path.source.endpoint).is_some() {
            order.retain(|mode| *mode != CopyMode::Push);
        }
        order
    }

    /// The modes that are given up between two storage elements.
    pub fn given_up(&self, source: &str, destination: &str) -> Vec<Shown> {
        let now = Instant::now();
        let all = self.given_up.lock();
        let paths = all
            .iter()
            .filter(|(path, _)| path.source.se == source && path.destination.se == destination);
        let mut shown: Vec<Shown> = paths
            .flat_map(|(path, given_up)| {
                given_up.iter().map(|one| Shown {
                    source: path.source.endpoint.clone(),
                    destination: path.destination.endpoint.clone(),
                    credential: Some(path.credential),
                    mode: one.mode,
                    at: one.at,
                    reason: reason(one.status),
                    again_in: one.again.saturating_duration_since(now),
                })
            })
            .collect();
        drop(all);
        let endpoints = self.endpoints.lock();
        let no_copies = |mode, source: &str, destination: &str, refusal: &Refusal| Shown {
            source: source.to_owned(),
            destination: destination.to_owned(),
            credential: None,
            mode,
            at: refusal.at,
            reason: format!(
                "the storage makes no third-party copies: it answered COPY with HTTP {}",
                refusal.status
            ),
            again_in: refusal.again.saturating_duration_since(now),
        };
        let pulls = endpoints.refusals_of(destination);
        shown.extend(pulls.map(|(endpoint, refusal)| no_copies(CopyMode::Pull, source, endpoint, refusal)));
        let pushes = endpoints.refusals_of(source);
        shown.extend(pushes.map(|(endpoint, refusal)| no_copies(CopyMode::Push, endpoint, destination, refusal)));
        shown.sort_by_key(|one| (one.credential.map_or("", CredentialKind::as_str), one.at));
        shown
    }

    /// The reason why this source is not ordered to push, if there is one. It is known to make no third-party copies,
    /// or its server (the `Server` header) is one that would take the order for a copy within itself.
    pub(crate) fn why_no_push(&self, source: &Side, server: Option<&str>) -> Option<String> {
        let endpoint = source.surl.endpoint();
        let endpoints = self.endpoints.lock();
        if let Some(refusal) = endpoints.refusal(&endpoint) {
            return Some(format!("it answered COPY with HTTP {} before", refusal.status));
        }
        let server = server.filter(|server| is_web_server(server) && !endpoints.copies(&endpoint))?;
        Some(format!("its server is {server}"))
    }

    /// Whether this endpoint has carried out a third-party copy.
    pub(crate) fn has_copied(&self, side: &Side) -> bool {
        self.endpoints.lock().copies(&side.surl.endpoint())
    }
}

fn reason(status: Option<u16>) -> String {
    match status {
        Some(status) => format!("a storage answered COPY with HTTP {status}"),
        None => "a storage ended COPY with the word that it does not support this".to_owned(),
    }
}

/// The modes of one attempt, and its observations about them.
pub(crate) struct Choice<'a> {
    modes: &'a Modes,
    path: Path,
    order: Vec<CopyMode>,
    /// Whether the order was free.
    learns: bool,
    /// The mode that this attempt tries again, until it has.
    probe: Option<CopyMode>,
}

impl Choice<'_> {
    /// In the order in which they are to be tried.
    pub(crate) fn order(&self) -> Vec<CopyMode> {
        self.order.clone()
    }

    /// This mode worked.
    pub(crate) fn worked(&mut self, mode: CopyMode) {
        if let Some(active) = self.active(mode) {
            self.modes.endpoints.lock().has_copied(&active.endpoint);
        }
        if !self.learns {
            return;
        }
        let mut all = self.modes.given_up.lock();
        if let Some(given_up) = all.get_mut(&self.path) {
            given_up.retain(|one| one.mode != mode);
            if given_up.is_empty() {
                all.remove(&self.path);
            }
        }
        self.probe = self.probe.filter(|probe| *probe != mode);
    }

    /// The end that carries out a copy in this mode; none where the service does.
    fn active(&self, mode: CopyMode) -> Option<&End> {
        match mode {
            CopyMode::Pull => Some(&self.path.destination),
            CopyMode::Push => Some(&self.path.source),
            CopyMode::Streamed => None,
        }
    }

    /// The storage that was ordered to copy in this mode makes no third-party copies: it answered with this status, and the file could be
    /// copied otherwise.
    pub(crate) fn makes_no_copies(&mut self, mode: CopyMode, status: u16) {
        let Some(active) = self.active(mode).filter(|_| self.learns) else {
            return;
        };
        let refusal = Refusal {
            se: active.se.clone(),
            at: time::now(),
            status,
            again: Instant::now() + self.modes.patience,
        };
        self.modes.endpoints.lock().has_refused(&active.endpoint, refusal);
    }

    /// A storage refused this mode for a reason of the mode's own.
    pub(crate) fn refused(&mut self, mode: CopyMode, status: Option<u16>) {
        if !self.learns {
            return;
        }
        let mut all = self.modes.given_up.lock();
        if all.len() >= PAIRS_MAX && !all.contains_key(&self.path) {
            all.clear();
        }
        let given_up = all.entry(self.path.clone()).or_default();
        given_up.retain(|one| one.mode != mode);
        given_up.push(GivenUp {
            mode,
            at: time::now(),
            status,
            again: Instant::now() + self.modes.patience,
            probed: false,
        });
        self.probe = self.probe.filter(|probe| *probe != mode);
    }
}

impl Drop for Choice<'_> {
    /// If the mode was not tried, whatever the reason, the next transfer tries it.
    fn drop(&mut self) {
        let Some(probe) = self.probe else { return };
        if let Some(given_up) = self.modes.given_up.lock().get_mut(&self.path) {
            for one in given_up.iter_mut().filter(|one| one.mode == probe) {
                one.probed = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_world::Party;

    use super::*;
    use crate::surl::Surl;
    use CopyMode::{Pull, Push, Streamed};
    use CredentialKind::{Proxy, Token};

    const PATIENCE: Duration = Duration::from_secs(900);

    fn side(party: Party, url: &str) -> Side {
        Side {
            party,
            surl: Surl::parse(url).unwrap(),
            token: None,
            right: crate::Right::default(),
        }
    }

    fn sides() -> (Side, Side) {
        (
            side(Party::Source, "https://a/f"),
            side(Party::Destination, "https://b/f"),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_mode_is_given_up_for_its_own_reasons_and_tried_again() {
        let (modes, (a, b)) = (Modes::new(PATIENCE), sides());
        let order = |credential| modes.choose(None, &a, &b, credential).order();
        assert_eq!(order(Token), [Pull, Push, Streamed]);
        let mut first = modes.choose(None, &a, &b, Token);
        first.refused(Pull, Some(405));
        first.worked(Push);
        drop(first);
        assert_eq!(order(Token), [Push, Streamed, Pull]);
        assert_eq!(order(Proxy), [Pull, Push, Streamed], "another kind of credential");
        assert_eq!(
            modes.choose(None, &b, &a, Token).order(),
            [Pull, Push, Streamed],
            "the other way"
        );
        let shown = modes.given_up("https://a", "https://b");
        assert_eq!(
            (shown.len(), shown[0].mode, shown[0].reason.as_str()),
            (1, Pull, "a storage answered COPY with HTTP 405")
        );
        assert_eq!(shown[0].again_in, PATIENCE);

        tokio::time::advance(PATIENCE).await;
        let probe = modes.choose(None, &a, &b, Token);
        assert_eq!(probe.order(), [Pull, Push, Streamed]);
        assert_eq!(order(Token), [Push, Streamed, Pull], "one at a time tries it");
        // It came to nothing: a storage was away.
        drop(probe);
        let mut probe = modes.choose(None, &a, &b, Token);
        assert_eq!(probe.order(), [Pull, Push, Streamed]);
        probe.refused(Pull, None);
        drop(probe);
        assert_eq!(order(Token), [Push, Streamed, Pull]);
        tokio::time::advance(PATIENCE).await;
        let mut probe = modes.choose(None, &a, &b, Token);
        probe.worked(Pull);
        drop(probe);
        assert_eq!(order(Token), [Pull, Push, Streamed]);
        assert!(modes.given_up("https://a", "https://b").is_empty());
    }

    #[test]
    fn a_storage_that_makes_no_copies_is_asked_by_no_pair() {
        // Every source would ask an Apache for pulls, and a push would have it copy within itself.
        let (modes, (a, b)) = (Modes::new(PATIENCE), sides());
        let mut first = modes.choose(None, &a, &b, Token);
        first.makes_no_copies(Pull, 404);
        first.worked(Push);
        drop(first);
        let c = side(Party::Source, "https://c/f");
        for other in [&a, &c] {
            assert_eq!(modes.choose(None, other, &b, Proxy).order(), [Push, Streamed]);
            assert_eq!(modes.choose(None, &b, other, Token).order(), [Pull, Streamed]);
        }
        let shown = modes.given_up("https://c", "https://b");
        assert_eq!((shown.len(), shown[0].mode, shown[0].credential), (1, Pull, None));
        assert_eq!(modes.given_up("https://b", "https://c")[0].mode, Push);
        assert!(modes.has_copied(&a) && !modes.has_copied(&b));
        // It has learned to: every pair uses it again.
        modes.choose(Some("pull"), &a, &b, Token).worked(Pull);
        assert_eq!(modes.choose(None, &c, &b, Token).order(), [Pull, Push, Streamed]);
    }

    #[test]
    fn a_web_server_is_not_ordered_to_push_until_it_has_copied() {
        let (modes, (a, b)) = (Modes::new(PATIENCE), sides());
        let apache = Some("Apache/2.4.71 (Debian)");
        assert!(modes.why_no_push(&a, apache).unwrap().contains("Apache/2.4.71"));
        assert_eq!(modes.why_no_push(&a, Some("XrootD/v5.5.3")), None);
        assert_eq!(modes.why_no_push(&a, None), None);
        // It is the proxy of a storage that copies.
        modes.choose(None, &b, &a, Token).worked(Pull);
        assert_eq!(modes.why_no_push(&a, apache), None);
    }

    #[test]
    fn a_mode_that_a_job_demands_teaches_nothing() {
        // One user's job would make all others of the link pass through this service.
        let (modes, (a, b)) = (Modes::new(PATIENCE), sides());
        let mut forced = modes.choose(Some("streamed"), &a, &b, Token);
        assert_eq!(forced.order(), [Streamed]);
        forced.worked(Streamed);
        let mut refused = modes.choose(Some("pull"), &a, &b, Token);
        refused.refused(Pull, Some(405));
        drop((forced, refused));
        assert_eq!(modes.choose(None, &a, &b, Token).order(), [Pull, Push, Streamed]);
    }

    #[test]
    fn where_all_are_given_up_all_are_tried() {
        let (modes, (a, b)) = (Modes::new(PATIENCE), sides());
        let mut choice = modes.choose(None, &a, &b, Token);
        for mode in [Pull, Push, Streamed] {
            choice.refused(mode, Some(501));
        }
        drop(choice);
        assert_eq!(modes.choose(None, &a, &b, Token).order(), [Pull, Push, Streamed]);
    }
}
