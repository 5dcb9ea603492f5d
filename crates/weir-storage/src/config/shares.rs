//! The `[[limit]]` tables: shares of the endpoint.

use serde::{Deserialize, Serialize};
use weir_units::BitRate;

use super::{Invalid, wrong};

/// Matches every member of a kind, each with a share of its own.
const EACH: &str = "*";

/// The share of a VO, a client or an area in the endpoint's limits. A limit that is left out does not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// A VO, or `*`: every VO by itself. One of `vo`, `client` and `area` is given.
    pub vo: Option<String>,
    /// A token's subject or a certificate's name, or where neither is shown the address; or `*`: every client by itself.
    pub client: Option<String>,
    /// An area's name, or `*`: every area by itself.
    pub area: Option<String>,
    /// GETs and PUTs at one time.
    pub transfers: Option<usize>,
    /// Third-party copies at one time.
    pub copies: Option<usize>,
    /// Third-party copies that wait for their turn.
    pub copies_queued: Option<usize>,
    /// Bytes of files in a second, of all kinds of transfers and in both directions together.
    pub bandwidth: Option<BitRate>,
}

/// The share of one by name, or else the one for each.
pub(crate) fn share_of<'a>(shares: &'a [Share], kind: ShareKind, name: &str) -> Option<&'a Share> {
    let of = |wanted| shares.iter().find(move |share| share.of() == Some((kind, wanted)));
    of(Some(name)).or_else(|| of(None))
}

/// The kind of a share's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ShareKind {
    Vo,
    Client,
    Area,
}

impl Share {
    /// The owner of the share, by kind and name; `None`: each one's.
    pub(crate) fn of(&self) -> Option<(ShareKind, Option<&str>)> {
        let named = [
            (ShareKind::Vo, &self.vo),
            (ShareKind::Client, &self.client),
            (ShareKind::Area, &self.area),
        ];
        let mut named = named
            .into_iter()
            .filter_map(|(kind, name)| Some((kind, name.as_deref()?)));
        let (kind, name) = named.next()?;
        if named.next().is_some() {
            return None;
        }
        Some((kind, (name != EACH).then_some(name)))
    }

    pub(super) fn check(&self) -> Result<(), Invalid> {
        if self.of().is_none() {
            return Err(wrong(
                "limit".into(),
                "whose share is it?".into(),
                "name one of vo, client and area",
            ));
        }
        if [self.transfers, self.copies].contains(&Some(0)) {
            return Err(wrong("limit".into(), "0 lets nothing through".into(), "set at least 1"));
        }
        if self.bandwidth == Some(BitRate(0)) {
            return Err(wrong(
                "limit.bandwidth".into(),
                "0 lets nothing through".into(),
                "give a rate",
            ));
        }
        let places = [self.transfers, self.copies, self.copies_queued];
        if places.iter().all(Option::is_none) && self.bandwidth.is_none() {
            let remedy = "give transfers, copies, copies_queued or bandwidth";
            return Err(wrong("limit".into(), "limits nothing".into(), remedy));
        }
        Ok(())
    }
}
