//! Waiting in tests.

use std::{fmt::Debug, time::Duration};

/// Limit of one wait, many times what a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until the result is enough, and returns it. `what` names the awaited thing.
///
/// # Panics
/// After five minutes; the message holds `what` and the last result.
pub async fn until<T: Debug, F: Future<Output = T>>(
    what: &str,
    mut look: impl FnMut() -> F,
    mut is_enough: impl FnMut(&T) -> bool,
) -> T {
    let mut last = None;
    let looks = tokio::time::timeout(PATIENCE, async {
        loop {
            let seen = look().await;
            if is_enough(&seen) {
                return seen;
            }
            last = Some(seen);
            tokio::time::sleep(PAUSE).await;
        }
    });
    let found = looks.await.ok();
    found.unwrap_or_else(|| panic!("waited in vain: {what}; seen last: {last:#?}"))
}
