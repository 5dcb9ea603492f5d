//! Takes delivered files away again when their lifetime is over.

use super::{Deleted, Delivered, Engine};
use crate::inject::injection::InjectionDoor;

impl<D: InjectionDoor> Engine<D> {
    pub(super) fn delete_due(&mut self) {
        let now = self.clock.now();
        while self.live.first().is_some_and(|file| file.due <= now) {
            let file = self.live.pop_first().expect("there is a first");
            self.delete(file, 1);
        }
    }

    fn delete(&mut self, file: Delivered, attempts: u32) {
        let door = self.doors[file.door].clone();
        let slots = self.deletion_slots[file.door].clone();
        self.deletions.spawn(async move {
            let _slot = slots.acquire_owned().await.expect("the slots are never closed");
            let outcome = door.delete(&file.path).await;
            Deleted {
                file,
                attempts,
                outcome,
            }
        });
    }

    pub(super) fn take_deleted(&mut self, deleted: Deleted) {
        let Deleted {
            file,
            attempts,
            outcome,
        } = deleted;
        match outcome {
            Ok(was_there) => {
                self.made.deleted(&self.doors[file.door].name, &file.path);
                self.held[file.door] -= file.size;
                self.deleted_files += u64::from(was_there);
                if !was_there {
                    self.folder.log(&format!(
                        "{} was gone from {} before its time",
                        file.path, self.doors[file.door].name
                    ));
                }
            }
            Err(error) if attempts < 3 => {
                tracing::debug!(error = %weir_auth::error_chain(&error), "a deletion is tried again");
                self.delete(file, attempts + 1);
            }
            Err(error) => {
                self.deletion_failures += 1;
                self.folder.log(&weir_auth::error_chain(&error));
            }
        }
    }

    /// Makes every delivered file due for deletion, those kept for the audit too, but at doors where files stay. Rules are deleted, so that the
    /// catalogue deletes theirs.
    pub(crate) fn expire_all(&mut self, stays: &dyn Fn(usize) -> bool) {
        let live = std::mem::take(&mut self.live);
        for file in live.into_iter().filter(|file| !stays(file.door)) {
            self.delete(file, 1);
        }
        self.end_rules(stays);
    }

    /// Returns whether deletions are under way.
    pub(crate) fn is_deleting(&self) -> bool {
        !self.deletions.is_empty() || self.is_ending_rules()
    }
}
