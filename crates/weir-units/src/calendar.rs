//! The Gregorian calendar: days since 1970-01-01, and their dates.

/// Gives the days from the epoch to a date; the reverse of [`date`].
///
/// `None` before the epoch, after the year 9999, and for a month outside of 1 to 12 or a day outside of 1 to 31. A day
/// that the month does not have is one of the next month.
pub fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if year > 9_999 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year_from_march = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (year_from_march / 400, year_from_march % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

/// Gives year, month (1 to 12) and day (1 to 31) of a day since the epoch.
///
/// Counts in eras of 400 years = 146,097 days, each year beginning in March so that the leap day comes last.
pub fn date(days_since_epoch: u64) -> (u64, u64, u64) {
    let days = days_since_epoch.saturating_add(719_468); // days from 0000-03-01 to 1970-01-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        // Wrong: a date a day off around a leap day, the end of a year or of a century.
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(day), expected);
        }
        for day in 0..150_000 {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), Some(day));
        }
        for (year, month, day) in [
            (1969, 12, 31),
            (2024, 0, 1),
            (2024, 13, 1),
            (2024, 1, 0),
            (2024, 1, 32),
            (u64::MAX, 1, 1),
        ] {
            assert_eq!(days(year, month, day), None, "{year}-{month}-{day}");
        }
        assert!(date(u64::MAX).0 > 9_999);
    }
}
