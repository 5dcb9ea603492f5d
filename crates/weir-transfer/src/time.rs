//! Times as FTS3 writes them, and the one clock of this crate.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Milliseconds since the Unix epoch, UTC: how the store keeps times.
pub(crate) type Millis = i64;

/// Of what passes, this part at most is added or left out until the wall clock is met again.
const PACE: u64 = 10;

/// What this crate takes for the time: never steps, whatever is done to the wall clock, and goes after it by six minutes in an hour.
///
/// An hour that the wall clock jumps is an hour in which nobody waited, copied or let a token grow old. It begins as the wall
/// clock does: a restart believes it at once.
#[derive(Debug, Clone, Copy)]
struct Told {
    nanos: u64,
    at: Instant,
    /// Wall clock less this one, in nanoseconds.
    ahead: i64,
}

static TOLD: Mutex<Option<Told>> = Mutex::new(None);

/// One step of the clock.
fn follow(told: u64, elapsed: Duration, wall: u64) -> u64 {
    let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX / 4);
    let even = told.saturating_add(elapsed);
    wall.clamp(even - elapsed / PACE, even.saturating_add(elapsed / PACE))
}

fn tell() -> Told {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let (at, wall) = (Instant::now(), SystemTime::now());
    let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX / 4);
    let nanos = told.map_or(wall, |told| follow(told.nanos, at.duration_since(told.at), wall));
    *told.insert(Told {
        nanos,
        at,
        ahead: wall.cast_signed().saturating_sub(nanos.cast_signed()),
    })
}

/// The time. Only drivers, doors and the executor ask for it; decisions are given the time.
pub(crate) fn now() -> Millis {
    (nanos() / 1_000_000) as Millis
}

/// The same in nanoseconds.
pub(crate) fn nanos() -> u64 {
    tell().nanos
}

/// The same, to be compared with what certificates and tokens say.
pub(crate) fn system() -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos())
}

/// By how many seconds the wall clock is ahead of this one.
pub(crate) fn wall_ahead() -> f64 {
    tell().ahead as f64 / 1e9
}

/// `YYYY-MM-DDTHH:MM:SS`, UTC, neither zone nor fraction: clients parse exactly this.
pub(crate) fn format(millis: Millis) -> String {
    let whole = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    whole.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// [`format()`], or JSON null.
pub(crate) fn json(millis: Option<Millis>) -> serde_json::Value {
    millis.map_or(serde_json::Value::Null, |at| format(at).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_time_has_neither_zone_nor_fraction() {
        assert_eq!(format(1_795_259_583_999), "2026-11-21T11:13:03");
    }

    /// The clock after so many seconds of even time, if the wall clock is off by `step` from then on.
    fn after(seconds: u64, step: i64) -> u64 {
        (1..=seconds).fold(100 * HOUR, |told, second| {
            let wall = (100 * HOUR + second * SECOND).saturating_add_signed(step);
            follow(told, Duration::from_secs(1), wall)
        })
    }

    /// A step would fail what runs, empty the queue, or let a retry wait for ever.
    #[test]
    fn a_step_is_followed_slowly_and_to_its_end() {
        let hour = HOUR.cast_signed();
        for step in [hour, -hour, 24 * hour, -24 * hour] {
            let even = 100 * HOUR + 600 * SECOND;
            assert_eq!(after(600, step).abs_diff(even), 60 * SECOND, "{step}");
        }
        let met = |step| after(36_000, step) == (100 * HOUR + 36_000 * SECOND).saturating_add_signed(step);
        assert!(met(hour) && met(-hour) && met(0) && !met(2 * hour));
    }

    #[test]
    fn it_never_goes_back() {
        let mut told = HOUR;
        for (millis, wall) in [(0, 0), (1, 0), (5, 9 * HOUR), (0, HOUR), (100, u64::MAX / 4), (1000, 1)] {
            let next = follow(told, Duration::from_millis(millis), wall);
            assert!(next >= told && next - told <= millis * 1_100_000);
            told = next;
        }
        let first = nanos();
        assert!(nanos() >= first && wall_ahead().abs() < 1.0);
    }
}
