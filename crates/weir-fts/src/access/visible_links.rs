//! The links that a caller may see: those on which its VO ever had a transfer. Full administrators see all of them.

use weir_sched::{Link, Names, Reason, Scheduler};

use crate::access::caller::Caller;

/// The VO whose links are shown.
#[derive(Debug, Clone)]
pub(crate) struct VisibleLinks(Option<String>);

impl VisibleLinks {
    pub(crate) fn of(caller: &Caller) -> Self {
        Self((!caller.is_admin()).then(|| caller.vo.clone()))
    }

    /// Whether this link is shown.
    pub(crate) fn covers(&self, core: &Scheduler, names: &Names, link: Link) -> bool {
        let uses = |vo: &String| names.find_vo(vo).is_some_and(|vo| core.uses(vo, link));
        self.0.as_ref().is_none_or(uses)
    }

    /// The same by the names of its ends.
    pub(crate) fn covers_named(&self, core: &Scheduler, names: &Names, (from, to): (&str, &str)) -> bool {
        let ends = names.find_se(from).zip(names.find_se(to));
        self.0.is_none()
            || ends.is_some_and(|(source, destination)| self.covers(core, names, Link { source, destination }))
    }

    /// The reasons that hold the link back: for this VO's transfers only.
    pub(crate) fn reasons(&self, core: &Scheduler, names: &Names, link: Link) -> Vec<Reason> {
        let vo = self.0.as_ref().and_then(|vo| names.find_vo(vo));
        let mut reasons = vo.map_or_else(|| core.why_link(link), |vo| core.why_link_for(vo, link));
        self.hide(core, names, &mut reasons);
        reasons
    }

    /// Leaves out the links of others where reasons say which ones hold the slots.
    pub(crate) fn hide(&self, core: &Scheduler, names: &Names, reasons: &mut [Reason]) {
        for reason in reasons {
            if let Reason::Full { holders, .. } = reason {
                holders.retain(|holder| self.covers(core, names, holder.link));
            }
        }
    }
}
