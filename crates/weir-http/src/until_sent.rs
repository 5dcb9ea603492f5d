//! Values that must live until an answer is with the kernel: a body ends when hyper has its last bytes, which may be
//! long before that.

use std::{
    any::Any,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

type Thing = Box<dyn Any + Send>;

/// Keeps things until the answer to the request at hand has left, or its connection ends. Clones mean the same connection.
#[derive(Clone, Default)]
pub struct UntilSent(Arc<Values>);

#[derive(Default)]
struct Values {
    /// Whether anything is here: asked about with every write.
    any: AtomicBool,
    things: Mutex<Things>,
}

#[derive(Default)]
struct Things {
    /// Of the answer that is being made.
    current: Vec<Thing>,
    /// Of answers that are complete and may still wait to be sent.
    complete: Vec<Thing>,
}

impl UntilSent {
    /// Drops `thing` when the answer to the request at hand is with the kernel.
    pub fn keep(&self, thing: impl Any + Send) {
        self.things(|things| things.current.push(Box::new(thing)));
        self.0.any.store(true, Ordering::Release);
    }

    /// The answer's body has ended.
    pub(crate) fn answered(&self) {
        if self.0.any.load(Ordering::Acquire) {
            self.things(|things| things.complete.append(&mut things.current));
        }
    }

    /// All that was written is with the kernel.
    pub(crate) fn sent(&self) {
        if !self.0.any.load(Ordering::Acquire) {
            return;
        }
        let gone = self.things(|things| {
            self.0.any.store(!things.current.is_empty(), Ordering::Release);
            std::mem::take(&mut things.complete)
        });
        // Outside of the lock: dropping them may have side effects.
        drop(gone);
    }

    fn things<T>(&self, work: impl FnOnce(&mut Things) -> T) -> T {
        work(&mut self.0.things.lock())
    }
}

impl fmt::Debug for UntilSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UntilSent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot that is returned while its bytes still wait here admits more than the counted memory; one that is kept
    /// for ever blocks the server.
    #[test]
    fn a_thing_goes_when_its_own_answer_has_left() {
        let kept = UntilSent::default();
        let (first, second) = (Arc::new(()), Arc::new(()));
        let alive = |thing: &Arc<()>| Arc::strong_count(thing) > 1;
        kept.keep(first.clone());
        kept.sent();
        assert!(alive(&first), "its answer is not complete");
        kept.answered();
        assert!(alive(&first), "nothing was flushed since");
        // The next request has come before the flush.
        kept.keep(second.clone());
        kept.sent();
        assert!(!alive(&first) && alive(&second));
        kept.answered();
        kept.sent();
        assert!(!alive(&second));
        kept.keep(first.clone());
        drop(kept);
        assert!(!alive(&first), "the connection has ended");
    }
}
