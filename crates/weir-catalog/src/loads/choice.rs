//! The files of a cycle: they lie at the source, not at the destination, and no rule of the load held them lately.

use weir_database::{Row, Session, values};
use weir_rules::{ids::DidId, loads::Choice};
use weir_store::StoreError;
use weir_units::Bytes;

use super::Load;

/// Files that are looked at for one cycle at most: a transaction stays short even where all files lie at the destination already.
const LOOKS_MAX: u64 = 20_000;

/// Files that are read together.
const PAGE: u64 = 2_000;

/// The files of one cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) files: Vec<DidId>,
    /// Where the next cycle goes on.
    pub(super) place: DidId,
}

/// The condition on a replica `p`; `$2` is the destination, `$3` the load.
const FITS: &str = "p.state = 'A' AND p.tombstone IS NULL
    AND NOT EXISTS (SELECT 1 FROM replicas o WHERE o.did_id = p.did_id AND o.rse_id = $2)
    AND NOT EXISTS (SELECT 1 FROM contents c JOIN load_cycles k ON k.dataset = c.parent WHERE c.child = p.did_id AND k.load_id = $3)";

fn statement(load: &Load) -> String {
    match load.plan.data {
        None => format!(
            "SELECT p.did_id, p.bytes, {FITS} FROM replicas p WHERE p.rse_id = $1 AND p.did_id > $4 ORDER BY p.did_id LIMIT $5"
        ),
        Some(data) => format!(
            "WITH RECURSIVE below (id) AS (SELECT CAST({} AS BIGINT) UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id
             JOIN dids d ON d.did_id = c.child WHERE d.type <> 'F')
             SELECT DISTINCT p.did_id, p.bytes, {FITS} FROM below b JOIN contents m ON m.parent = b.id
             JOIN replicas p ON p.did_id = m.child AND p.rse_id = $1 WHERE m.child > $4 ORDER BY 1 LIMIT $5",
            data.0
        ),
    }
}

/// Chooses the files of a cycle, from the place on where the last one stopped, and from the beginning again at the end.
pub(super) fn choose(session: &mut dyn Session, load: &Load, choice: &mut Choice) -> Result<Chosen, StoreError> {
    let text = statement(load);
    let mut chosen = Chosen {
        files: Vec::new(),
        place: load.place,
    };
    let (mut from, mut has_wrapped, mut n_looks) = (load.place, false, 0);
    while !choice.is_full() && n_looks < LOOKS_MAX {
        let plan = &load.plan;
        let keys = values![plan.source.0, plan.destination.0, load.id, from.0, PAGE];
        let rows = session.query_by_index(&text, &keys)?;
        let is_last = (rows.len() as u64) < PAGE;
        n_looks += rows.len() as u64;
        let mut page = rows.iter().map(candidate).collect::<Result<Vec<_>, _>>()?;
        if has_wrapped {
            page.retain(|(id, ..)| *id <= load.place);
        }
        let end = page.last().map(|(id, ..)| *id);
        page.retain(|(.., fits)| *fits);
        if load.plan.settings.big_first {
            page.sort_by_key(|(_, size, _)| std::cmp::Reverse(*size));
        }
        take(choice, &page, &mut chosen);
        if choice.is_full() {
            break;
        }
        chosen.place = end.unwrap_or(chosen.place);
        match end {
            Some(end) if !is_last => from = end,
            // Around once, and not further than where it began.
            _ if !has_wrapped && load.place.0 > 0 => {
                has_wrapped = true;
                from = DidId(0);
            }
            _ => break,
        }
    }
    Ok(chosen)
}

fn candidate(row: &Row) -> Result<(DidId, Bytes, bool), StoreError> {
    Ok((DidId(row.size(0)?), Bytes(row.size(1)?), row.bool(2)?))
}

fn take(choice: &mut Choice, page: &[(DidId, Bytes, bool)], chosen: &mut Chosen) {
    for (id, size, _) in page {
        if choice.is_full() {
            break;
        }
        if choice.offer(*size) {
            chosen.files.push(*id);
            chosen.place = *id;
        }
    }
}
