//! The clock of a service, and times as FTS3 writes them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// Milliseconds since the Unix epoch, UTC: how the store keeps times.
pub type Millis = i64;

/// Largest fraction of elapsed time that is added or left out until the clock agrees with the wall clock again.
const PACE: u64 = 10;

/// The clock of a service: it never steps, whatever happens to the wall clock, and follows it by six minutes in an
/// hour.
///
/// An hour that the wall clock jumps is an hour in which no request waited, no file was copied and no token aged. The
/// clock begins at the wall clock: a restart accepts it at once.
#[derive(Debug, Clone, Copy)]
struct Told {
    nanos: u64,
    at: Instant,
    /// Wall clock less this one, in nanoseconds.
    ahead: i64,
    wall: u64,
    /// When the wall clock stepped last, unless that is long ago.
    stepped: Option<Instant>,
}

/// A jump of the wall clock that is more than the correction of a clock that goes wrong.
const STEP: Duration = Duration::from_secs(60);

/// A wall clock that has gone evenly for so long after a step is believed where something expires.
const BELIEVED: Duration = Duration::from_secs(300);

impl Told {
    /// The next look at the clocks.
    fn next(told: Option<Self>, at: Instant, wall: u64) -> Self {
        let Some(told) = told else {
            return Self {
                nanos: wall,
                at,
                ahead: 0,
                wall,
                stepped: None,
            };
        };
        let elapsed = at.duration_since(told.at);
        let nanos = follow(told.nanos, elapsed, wall);
        let even = told
            .wall
            .saturating_add(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX / 4));
        let stepped = if u128::from(wall.abs_diff(even)) > STEP.as_nanos() {
            Some(at)
        } else {
            told.stepped.filter(|stepped| at.duration_since(*stepped) < BELIEVED)
        };
        Self {
            nanos,
            at,
            ahead: wall.cast_signed().saturating_sub(nanos.cast_signed()),
            wall,
            stepped,
        }
    }

    /// The time for expiries: this clock, or the wall clock if it is ahead, and has been for a while.
    fn latest(self) -> u64 {
        match self.stepped {
            None => self.nanos.max(self.wall),
            Some(_) => self.nanos,
        }
    }
}

static TOLD: Mutex<Option<Told>> = Mutex::new(None);

/// One step of the clock.
fn follow(told: u64, elapsed: Duration, wall: u64) -> u64 {
    let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX / 4);
    let even = told.saturating_add(elapsed);
    wall.clamp(even - elapsed / PACE, even.saturating_add(elapsed / PACE))
}

fn tell() -> Told {
    let mut told = TOLD.lock();
    let (at, wall) = (Instant::now(), SystemTime::now());
    let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX / 4);
    let next = Told::next(*told, at, wall);
    *told.insert(next)
}

/// The time. Only drivers, doors and the executor ask for it; decisions are given the time.
pub fn now() -> Millis {
    (nanos() / 1_000_000) as Millis
}

/// The same in nanoseconds.
pub fn nanos() -> u64 {
    tell().nanos
}

/// The time for expiries of tokens, proxies and certificates.
///
/// On a machine that was suspended, or began with an old clock, [`now()`] would accept expired ones while it follows
/// the wall clock. So where the wall clock is ahead, and has run evenly for five minutes, it counts here. Where it is
/// behind it does not: setting a clock back revives nothing expired.
pub fn latest() -> Millis {
    (tell().latest() / 1_000_000) as Millis
}

/// As [`latest()`], to be compared with times in certificates and tokens.
pub fn system() -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(tell().latest())
}

/// By how many seconds the wall clock is ahead of this one.
pub fn wall_ahead() -> f64 {
    tell().ahead as f64 / 1e9
}

/// `YYYY-MM-DDTHH:MM:SS`, UTC, neither zone nor fraction: clients parse exactly this.
pub fn format(millis: Millis) -> String {
    let whole = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    whole.strftime(FORMAT).to_string()
}

/// The same read back. `None`: it is no time of this form.
pub fn parse(text: &str) -> Option<Millis> {
    let civil = jiff::civil::DateTime::strptime(FORMAT, text).ok()?;
    let utc = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(utc.timestamp().as_millisecond())
}

const FORMAT: &str = "%Y-%m-%dT%H:%M:%S";

/// [`format()`], or JSON null.
pub fn json(millis: Option<Millis>) -> serde_json::Value {
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
        assert_eq!(parse("2026-11-21T11:13:03"), Some(1_795_259_583_000));
        assert_eq!(parse("2026-11-21 11:13"), None);
    }

    /// The clock after so many seconds of even time, if the wall clock is off by `step` from then on.
    fn after(seconds: u64, step: i64) -> u64 {
        (1..=seconds).fold(100 * HOUR, |told, second| {
            let wall = (100 * HOUR + second * SECOND).saturating_add_signed(step);
            follow(told, Duration::from_secs(1), wall)
        })
    }

    /// A step would fail running transfers, empty the queue, or let a retry wait for ever.
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

    /// The error of the time for expiries, so many seconds after a step of the wall clock.
    fn judged(step: i64, seconds: u64) -> i64 {
        let begin = Instant::now();
        let look = |told, second: u64, step| {
            let wall = (100 * HOUR + second * SECOND).saturating_add_signed(step);
            Some(Told::next(told, begin + Duration::from_secs(second), wall))
        };
        let told = (0..10).fold(None, |told, second| look(told, second, 0));
        let told = (10..=10 + seconds).fold(told, |told, second| look(told, second, step));
        let even = 100 * HOUR + (10 + seconds) * SECOND;
        (told.map_or(0, Told::latest).cast_signed() - even.cast_signed()) / SECOND.cast_signed()
    }

    #[test]
    fn an_expired_transfer_stays_expired() {
        // A machine that was suspended for ten hours would take tokens that were stolen, or given back, for a hundred more.
        let hours = 10 * HOUR.cast_signed();
        assert_eq!(judged(hours, 600), 36_000);
        assert!(
            judged(hours, 60) <= 6,
            "a step that is taken back at once expires nothing"
        );
        assert_eq!(judged(0, 600), 0);
        let back = judged(-hours, 600);
        assert!((-60..=0).contains(&back), "{back}");
    }

    #[test]
    fn a_clock_that_steps_again_is_believed_later() {
        let begin = Instant::now();
        let mut told = None;
        for second in 0..1200 {
            let step = if second < 200 { 0 } else { 1 + second / 200 } * HOUR;
            let next = Told::next(
                told,
                begin + Duration::from_secs(second),
                100 * HOUR + second * SECOND + step,
            );
            assert!(next.latest() < 101 * HOUR, "at {second} s");
            told = Some(next);
        }
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
