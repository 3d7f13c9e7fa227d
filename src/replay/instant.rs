//! The times that logs write, as instants: RFC 3339, the `10/Oct/2000:13:55:36 -0700` of nginx and Apache, and seconds,
//! milliseconds or microseconds since the epoch.
//!
//! A time without an offset is taken for UTC. What is not a time is none; nothing is guessed from its neighbours.

use crate::algorithm::calendar::days_from_civil;
use crate::time::Timestamp;

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Numbers from here on are milliseconds, and from the second on microseconds: as seconds they would lie thousands of
/// years ahead.
const FIRST_MILLIS: f64 = 1e11;
const FIRST_MICROS: f64 = 1e14;

/// The instant of a text.
pub fn parse(text: &str) -> Option<Timestamp> {
    let bytes =
        text.trim_matches(|letter: char| letter.is_ascii_whitespace() || matches!(letter, '[' | ']')).as_bytes();
    if bytes.len() >= 20 && bytes[2] == b'/' && bytes[6] == b'/' {
        return common(bytes);
    }
    if bytes.len() >= 19 && bytes[4] == b'-' && bytes[7] == b'-' {
        return rfc3339(bytes);
    }
    std::str::from_utf8(bytes).ok()?.parse().ok().and_then(from_number)
}

/// The instant of a number since the epoch.
pub fn from_number(number: f64) -> Option<Timestamp> {
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    let millis = match number {
        _ if number < FIRST_MILLIS => number * 1000.0,
        _ if number < FIRST_MICROS => number,
        _ => number / 1000.0,
    };
    // Beyond 2^53 a double is no longer whole milliseconds, and no log is from then.
    (millis < 9e15).then(|| Timestamp(millis.round() as i64))
}

fn rfc3339(bytes: &[u8]) -> Option<Timestamp> {
    let date = (number(&bytes[..4])?, number(&bytes[5..7])?, number(&bytes[8..10])?);
    if !matches!(bytes[10], b'T' | b't' | b' ') {
        return None;
    }
    let (millis, rest) = fraction(&bytes[19..])?;
    let rest = if rest.first() == Some(&b' ') { &rest[1..] } else { rest };
    let offset_min = match rest {
        b"" | b"Z" | b"z" => 0,
        _ => offset(rest)?,
    };
    instant(date, &bytes[11..19], millis, offset_min)
}

fn common(bytes: &[u8]) -> Option<Timestamp> {
    let month = MONTHS.iter().position(|name| name.as_slice() == &bytes[3..6])?;
    let month = i64::try_from(month).ok()? + 1;
    if bytes[11] != b':' {
        return None;
    }
    let date = (number(&bytes[7..11])?, month, number(&bytes[..2])?);
    let (millis, rest) = fraction(&bytes[20..])?;
    let offset_min = if rest.is_empty() { 0 } else { offset(rest.strip_prefix(b" ")?)? };
    instant(date, &bytes[12..20], millis, offset_min)
}

fn instant((year, month, day): (i64, i64, i64), clock: &[u8], millis: i64, offset_min: i64) -> Option<Timestamp> {
    if clock[2] != b':' || clock[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (number(&clock[..2])?, number(&clock[3..5])?, number(&clock[6..])?);
    let is_sane = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !is_sane {
        return None;
    }
    let days = days_from_civil(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?);
    let minutes = days * 1440 + hour * 60 + minute - offset_min;
    Some(Timestamp((minutes * 60 + second) * 1000 + millis))
}

/// Milliseconds of `.123456`, cut and not rounded, and what follows.
fn fraction(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.' | b',', rest)) = bytes.split_first() else { return Some((0, bytes)) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let kept = number(&rest[..digits.min(3)])?;
    let scale = [100, 10, 1][digits.min(3) - 1];
    Some((kept * scale, &rest[digits..]))
}

/// Minutes of `+01:00` or `-0700`.
fn offset(bytes: &[u8]) -> Option<i64> {
    let (sign, rest) = bytes.split_first()?;
    let sign = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = match rest.len() {
        4 => (number(&rest[..2])?, number(&rest[2..])?),
        5 if rest[2] == b':' => (number(&rest[..2])?, number(&rest[3..])?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_every_form_are_instants() {
        let vectors = [
            ("2026-12-01T13:38:17.213Z", 1_796_132_297_213),
            ("2026-12-01T14:38:17.2139+01:00", 1_796_132_297_213),
            ("2026-12-01 13:38:17,2", 1_796_132_297_200),
            ("2026-12-01 13:38:17 +0000", 1_796_132_297_000),
            ("[01/Dec/2026:06:38:17 -0700]", 1_796_132_297_000),
            ("01/Dec/2026:13:38:17.5 +0000", 1_796_132_297_500),
            ("1796132297.213", 1_796_132_297_213),
            ("1796132297213", 1_796_132_297_213),
            ("1796132297213000", 1_796_132_297_213),
            ("10/Oct/2000:13:55:36 -0700", 971_211_336_000),
            ("1970-01-01T00:00:00Z", 0),
        ];
        for (text, millis) in vectors {
            assert_eq!(parse(text), Some(Timestamp(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        let vectors = [
            "",
            "-",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2026-12-01T25:00:00Z",
            "2026-12-01T00:00:00+1",
            "2026-12-01T00:00:00.Z",
            "2026-12-01X00:00:00Z",
            "01/Foo/2026:13:38:17 +0000",
            "01/Dec/2026:13:38:17+0000",
            "-5",
            "nan",
            "inf",
            "1e40",
            "2026-12-0ä T00:00:00Z..",
        ];
        for text in vectors {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
