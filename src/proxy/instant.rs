//! An instant as bodies tell it: RFC 3339, UTC, whole seconds.

use crate::time::Timestamp;

/// The last second that four digits of a year can tell: 9999-12-31T23:59:59Z.
const LAST_SECOND: i64 = 253_402_300_799;

/// `2026-12-01T03:25:24Z`, rounded down. An instant before 1970 or after the year 9999 is told as the nearest within.
pub fn rfc3339(at: Timestamp) -> String {
    let seconds = at.seconds().clamp(0, LAST_SECOND);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, so that the leap day is their last (H. Hinnant, "chrono-compatible low-level date
    // algorithms", civil_from_days).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_told_in_utc() {
        let vectors = [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_796_095_524, "2026-12-01T03:25:24Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST_SECOND, "9999-12-31T23:59:59Z"),
            (LAST_SECOND + 1, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, text) in vectors {
            assert_eq!(rfc3339(Timestamp(seconds * 1000)), text, "{seconds}");
        }
        assert_eq!(rfc3339(Timestamp(1_796_095_524_999)), "2026-12-01T03:25:24Z");
    }
}
