//! Compares the replicas that the catalogue lists with the files that the storages hold.

use weir_measure::crosscheck::{Apart, Counted, TOLERANCE, check};
use weir_measure::report::CrossCheck;

use crate::services::storage::StorageDoor;
use crate::verify::counted::Reading;

/// Compares the bytes of replicas in the catalogue with the bytes of files at each storage. `catalogued` and `leaving` have an entry for each
/// door; a copy that is being deleted may be gone from one of the two alone.
pub(crate) fn compare(
    doors: &[StorageDoor],
    catalogued: &Result<Vec<u64>, String>,
    stored: &Reading,
    leaving: &[u64],
) -> Vec<CrossCheck> {
    let row = |(index, door): (usize, &StorageDoor)| {
        let counters = stored.get(&index)?;
        let note = match (catalogued, counters) {
            (Err(error), _) | (_, Err(error)) => Some(error.clone()),
            _ if leaving[index] > 0 => Some(format!("{} bytes were being deleted", leaving[index])),
            _ => None,
        };
        let counted = Counted {
            subject: door.name.clone(),
            quantity: "bytes there after the drain".to_owned(),
            receiving_storage: counters.as_ref().ok().map(|counters| counters.there),
            catalogue: catalogued.as_ref().ok().map(|bytes| bytes[index]),
            apart: Apart {
                unseen: leaving[index],
                ..Apart::default()
            },
            note,
            ..Counted::default()
        };
        Some(check(counted, TOLERANCE))
    };
    doors.iter().enumerate().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::engine::tests::door;
    use crate::services::storage::Counters;

    #[test]
    fn replicas_of_the_catalogue_are_at_the_storages() {
        // Wrong: a catalogue that lists files which no storage has, or a storage full of files that no catalogue knows, passes.
        let stored = |there: u64| -> Reading {
            let counters = Counters {
                there,
                ..Counters::default()
            };
            [(0, Ok(counters))].into_iter().collect()
        };
        let pass = |catalogued: u64, there_is: u64, leaving: u64| {
            let checks = compare(&[door("a")], &Ok(vec![catalogued]), &stored(there_is), &[leaving]);
            checks[0].pass
        };
        assert_eq!(pass(1_000_000, 1_000_000, 0), Some(true));
        assert_eq!(pass(1_000_000, 900_000, 0), Some(false));
        assert_eq!(pass(900_000, 1_000_000, 0), Some(false));
        assert_eq!(pass(900_000, 1_000_000, 100_000), None, "it was being deleted");
        let unknown = compare(&[door("a")], &Err("gone".to_owned()), &stored(1), &[0]);
        assert_eq!((unknown[0].pass, unknown[0].note.as_deref()), (None, Some("gone")));
    }
}
