//! TOML's times as instants.
//!
//! Only a time with an offset is an instant; a local one would mean something else on every host.

use super::problem::Complaint;
use crate::algorithm::calendar::days_from_civil;
use crate::time::Timestamp;
use toml::value::{Datetime, Offset};

/// The instant of an offset date-time, to the millisecond.
pub(super) fn timestamp(datetime: Datetime) -> Result<Timestamp, Complaint> {
    let (Some(date), Some(time), Some(offset)) = (datetime.date, datetime.time, datetime.offset) else {
        let complaint = Complaint::new(format!("{datetime} is not an instant: it has no date, no time or no offset"));
        return Err(complaint.hint(match (datetime.date, datetime.time) {
            (Some(date), None) => format!("write {date}T00:00:00Z"),
            (Some(_), Some(_)) => format!("write {datetime}Z"),
            _ => "write 2026-01-01T00:00:00Z".to_owned(),
        }));
    };
    let offset_min = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_from_civil(i64::from(date.year), u32::from(date.month), u32::from(date.day));
    let seconds = i64::from(time.second.unwrap_or(0));
    let minutes = days * 1440 + i64::from(time.hour) * 60 + i64::from(time.minute) - offset_min;
    let millis = i64::from(time.nanosecond.unwrap_or(0) / 1_000_000);
    Ok(Timestamp((minutes * 60 + seconds) * 1000 + millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_times_are_instants_and_local_ones_are_not() {
        let vectors = [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-01-01T00:00:00Z", 1_767_225_600_000),
            ("2024-02-29T12:30:45.250Z", 1_709_209_845_250),
            ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2000-03-01T00:00:00Z", 951_868_800_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ];
        for (text, millis) in vectors {
            assert_eq!(timestamp(text.parse().unwrap()), Ok(Timestamp(millis)), "{text}");
        }
        for (text, hint) in [
            ("2026-01-01T00:00:00", "2026-01-01T00:00:00Z"),
            ("2026-01-01", "2026-01-01T00:00:00Z"),
            ("07:32:00", "2026-01-01T00:00:00Z"),
        ] {
            let complaint = timestamp(text.parse().unwrap()).unwrap_err();
            assert!(complaint.hint.unwrap().contains(hint), "{text}");
        }
    }
}
