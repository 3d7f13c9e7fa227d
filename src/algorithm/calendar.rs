//! Civil dates, UTC: where a window begins and ends, and how an instant is written.
//!
//! The day arithmetic is Howard Hinnant's `days_from_civil` and `civil_from_days` (chrono-Compatible Low-Level Date
//! Algorithms, <https://howardhinnant.github.io/date_algorithms.html>): proleptic Gregorian, exact, without tables
//! or loops. A dependency would bring time zones and parsing, of which nothing is wanted here. Leap seconds do not
//! exist, as in Unix time.

use super::{HORIZON_MS, Window};
use crate::time::{Millis, Timestamp};

const DAY_MS: i64 = 86_400_000;
const DAY_S: i64 = 86_400;
/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const FIRST_SECOND: i64 = -62_167_219_200;
const LAST_SECOND: i64 = 253_402_300_799;
/// Days from 0000-03-01, where Hinnant's eras begin, to 1970-01-01.
const EPOCH_SHIFT_DAYS: i64 = 719_468;
const DAYS_PER_ERA: i64 = 146_097;

/// The aligned window that holds an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Start of the window before, which need not be as long as this one.
    pub previous: Timestamp,
    /// First instant of the window.
    pub start: Timestamp,
    /// First instant after it.
    pub end: Timestamp,
}

impl Frame {
    /// The window of this kind that holds `instant`; instants beyond [`HORIZON_MS`] count as the horizon.
    pub fn containing(window: Window, instant: Timestamp) -> Self {
        let instant = instant.0.clamp(-HORIZON_MS, HORIZON_MS);
        match window {
            Window::Span(Millis(span)) => {
                let start = instant - instant.rem_euclid(span);
                Self { previous: Timestamp(start - span), start: Timestamp(start), end: Timestamp(start + span) }
            }
            Window::Month => Self::of_months(instant, 1),
            Window::Year => Self::of_months(instant, 12),
        }
    }

    /// A window of one month or of the twelve months of a year: `months` divides 12.
    fn of_months(instant: i64, months: i64) -> Self {
        let (year, month, _) = civil_from_days(instant.div_euclid(DAY_MS));
        let counted = year * 12 + i64::from(month) - 1;
        let first = counted - counted.rem_euclid(months);
        let start_of = |month: i64| {
            let in_year = u32::try_from(month.rem_euclid(12)).expect("a remainder of 12 is below 12");
            Timestamp(days_from_civil(month.div_euclid(12), in_year + 1, 1) * DAY_MS)
        };
        Self { previous: start_of(first - months), start: start_of(first), end: start_of(first + months) }
    }

    /// Its length.
    pub fn length(&self) -> Millis {
        self.end - self.start
    }

    /// The length of the window before.
    pub fn previous_length(&self) -> Millis {
        self.start - self.previous
    }
}

/// Days from 1970-01-01 to a date; `month` 1 to 12, `day` 1 to 31, years before 1 counted astronomically.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    // The year begins in March, so that the leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_SHIFT_DAYS
}

/// Year, month (1 to 12) and day (1 to 31) of a count of days from 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + EPOCH_SHIFT_DAYS;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let small = |value: i64| u32::try_from(value).expect("months and days are small and positive");
    (year, small(month), small(day))
}

/// An instant as RFC 3339 writes it, in whole seconds, rounded down: `2026-12-01T03:25:24Z`. The standard has four
/// digits for a year, so an instant outside the years 0 to 9999 is told as the nearest within.
pub fn rfc3339(instant: Timestamp) -> String {
    let seconds = instant.seconds().clamp(FIRST_SECOND, LAST_SECOND);
    let (year, month, day) = civil_from_days(seconds.div_euclid(DAY_S));
    let second = seconds.rem_euclid(DAY_S);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(window: Window, instant: i64) -> (i64, i64, i64) {
        let frame = Frame::containing(window, Timestamp(instant));
        (frame.previous.0, frame.start.0, frame.end.0)
    }

    fn date(year: i64, month: u32, day: u32) -> i64 {
        days_from_civil(year, month, day) * DAY_MS
    }

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        let mut expected = (1200, 1, 1);
        for days in days_from_civil(1200, 1, 1)..days_from_civil(2800, 1, 1) {
            assert_eq!(civil_from_days(days), expected, "day {days}");
            assert_eq!(days_from_civil(expected.0, expected.1, expected.2), days);
            expected = day_after(expected);
        }
    }

    /// Independent of the algorithm under test: the calendar as it is taught.
    fn day_after((year, month, day): (i64, u32, u32)) -> (i64, u32, u32) {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (day == length, month == 12) {
            (false, _) => (year, month, day + 1),
            (true, false) => (year, month + 1, 1),
            (true, true) => (year + 1, 1, 1),
        }
    }

    #[test]
    fn spans_are_aligned_to_the_epoch_on_both_sides_of_it() {
        let window = Window::Span(Millis(10));
        assert_eq!(frame(window, 0), (-10, 0, 10));
        assert_eq!(frame(window, 9), (-10, 0, 10));
        assert_eq!(frame(window, 10), (0, 10, 20));
        assert_eq!(frame(window, -1), (-20, -10, 0));
        assert_eq!(frame(window, -10), (-20, -10, 0));
        assert_eq!(frame(window, -11), (-30, -20, -10));
    }

    #[test]
    fn months_have_their_own_lengths() {
        let march = (date(2024, 2, 1), date(2024, 3, 1), date(2024, 4, 1));
        assert_eq!(frame(Window::Month, date(2024, 3, 1)), march);
        assert_eq!(frame(Window::Month, date(2024, 4, 1) - 1), march);
        let frame = Frame::containing(Window::Month, Timestamp(date(2024, 3, 17)));
        assert_eq!((frame.previous_length().0, frame.length().0), (29 * DAY_MS, 31 * DAY_MS));
    }

    #[test]
    fn months_and_years_turn_over_at_new_year() {
        let instant = date(2026, 12, 31);
        assert_eq!(frame(Window::Month, instant), (date(2026, 11, 1), date(2026, 12, 1), date(2027, 1, 1)));
        assert_eq!(frame(Window::Year, instant), (date(2025, 1, 1), date(2026, 1, 1), date(2027, 1, 1)));
        assert_eq!(frame(Window::Year, date(1969, 12, 31)), (date(1968, 1, 1), date(1969, 1, 1), 0));
    }

    #[test]
    fn instants_are_written_as_rfc_3339() {
        let vectors = [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (1_796_095_524_999, "2026-12-01T03:25:24Z"),
            (date(2024, 2, 29) + 86_399_000, "2024-02-29T23:59:59Z"),
            (date(2000, 3, 1) - 1, "2000-02-29T23:59:59Z"),
            (date(2100, 3, 1), "2100-03-01T00:00:00Z"),
            (date(0, 1, 1), "0000-01-01T00:00:00Z"),
            (date(0, 1, 1) - 1, "0000-01-01T00:00:00Z"),
            (date(10_000, 1, 1) - 1, "9999-12-31T23:59:59Z"),
            (date(10_000, 1, 1), "9999-12-31T23:59:59Z"),
        ];
        for (instant, text) in vectors {
            assert_eq!(rfc3339(Timestamp(instant)), text);
        }
    }

    #[test]
    fn no_instant_is_too_far_away() {
        for instant in [i64::MIN, -HORIZON_MS, HORIZON_MS, i64::MAX] {
            assert!(rfc3339(Timestamp(instant)).ends_with('Z'));
            for window in [Window::Span(Millis(1)), Window::Month, Window::Year] {
                let frame = Frame::containing(window, Timestamp(instant));
                assert!(frame.previous < frame.start && frame.start < frame.end);
            }
        }
    }
}
