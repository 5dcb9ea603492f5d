//! Work on every processor.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does the same with each of a list, on every processor; gives the results in its order.
pub(super) fn parallel<T: Sync, R: Send>(of: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(of.len())));
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(of.len().max(1));
    let one = || {
        while let Some((at, item)) = take(of, &next) {
            let result = work(item);
            done.lock().expect("nobody panics with it").push((at, result));
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(one)).collect();
        running
            .into_iter()
            .for_each(|worker| worker.join().expect("the work does not panic"));
    });
    let mut done = done.into_inner().expect("nobody panics with it");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

fn take<'t, T>(of: &'t [T], next: &AtomicUsize) -> Option<(usize, &'t T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, of.get(at)?))
}
