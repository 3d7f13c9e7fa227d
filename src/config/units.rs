//! Values with units: spans, sizes, rates, costs, networks.
//!
//! Every function here is pure: a text goes in, an exact integer or a [`Complaint`] comes out. Nothing passes through
//! a float, nothing is rounded, and a number without a unit is never taken for a span.

use super::model::Rate;
use super::problem::{Complaint, nearest, quote};
use crate::algorithm::{MAX_COUNT, UNIT, Units, Window};
use crate::time::Millis;
use ipnet::{IpNet, Ipv4Net};
use std::net::IpAddr;

const DAY_MS: i64 = 86_400_000;

/// The longest window of a rate: ten years.
pub const MAX_WINDOW: Millis = Millis(3650 * DAY_MS);

/// The prefix of the network of IPv4-mapped addresses (`::ffff:0:0/96`, RFC 4291 section 2.5.5.2).
const MAPPED_PREFIX: u8 = 96;

/// The most a route may cost.
pub const MAX_COST: Units = 1_000_000_000 * UNIT;

/// Units of time and their length in milliseconds.
const SPAN_UNITS: &[(&str, i64)] = &[("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000), ("day", DAY_MS)];

/// What other programs call the units of time.
const SPAN_SYNONYMS: &[(&str, &str)] = &[
    ("millisecond", "ms"),
    ("milliseconds", "ms"),
    ("msec", "ms"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("m", "min"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("d", "day"),
    ("days", "day"),
    ("mo", "month"),
    ("months", "month"),
    ("y", "year"),
    ("years", "year"),
];

/// Units of size and their length in bytes.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Splits `15min` into `15` and `min`.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn unit_named(unit: &str) -> Option<&'static str> {
    let lower = unit.to_lowercase();
    let exact = SPAN_UNITS.iter().map(|(name, _)| *name).chain(["month", "year"]).find(|name| *name == lower);
    exact.or_else(|| SPAN_SYNONYMS.iter().find(|(synonym, _)| *synonym == lower).map(|(_, name)| *name))
}

/// A span such as `"30s"`: a whole number and `ms`, `s`, `min`, `h` or `day`.
pub fn span(text: &str) -> Result<Millis, Complaint> {
    let expected = "expected a span: a whole number and `ms`, `s`, `min`, `h` or `day`, such as \"30s\"";
    let (digits, unit) = split_number(text);
    let complaint = || Complaint::new(format!("{expected}, not {}", quote(text)));
    if digits.is_empty() {
        return Err(match text.strip_prefix('-') {
            Some(positive) if span(positive).is_ok() => complaint().hint("a span is never negative"),
            _ => complaint(),
        });
    }
    if unit.is_empty() {
        return Err(complaint().hint(format!("a bare number is never a span; seconds are \"{digits}s\"")));
    }
    let Some((_, length)) = SPAN_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(match unit_named(unit) {
            Some("month" | "year") => complaint().hint("months and years are windows of a rate only"),
            Some(name) => complaint().hint(format!("did you mean \"{digits}{name}\"?")),
            None if unit.starts_with('.') => complaint().hint("write a fraction in a smaller unit: \"1500ms\""),
            None => complaint(),
        });
    };
    let number = digits.parse::<i64>().ok().and_then(|number| number.checked_mul(*length));
    number.map(Millis).ok_or_else(|| Complaint::new(format!("the span {} is too long", quote(text))))
}

/// A size such as `"32KiB"`: a whole number of bytes, or of `KB`, `KiB`, `MB`, `MiB`, `GB` or `GiB`.
pub fn size(text: &str) -> Result<u64, Complaint> {
    let (digits, unit) = split_number(text);
    let complaint = || {
        Complaint::new(format!(
            "expected a size: a whole number and `B`, `KB`, `KiB`, `MB`, `MiB`, `GB` or `GiB`, such as \"32KiB\", not {}",
            quote(text)
        ))
    };
    if digits.is_empty() {
        return Err(complaint());
    }
    let unit = if unit.is_empty() { "B" } else { unit };
    let Some((_, length)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) else {
        let meant = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        return Err(match meant {
            Some((name, _)) => complaint().hint(format!("did you mean \"{digits}{name}\"?")),
            None => complaint(),
        });
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(*length));
    bytes.ok_or_else(|| Complaint::new(format!("the size {} is too large", quote(text))))
}

/// A rate such as `"100/min"` or `"900/15min"`.
pub fn rate(text: &str) -> Result<Rate, Complaint> {
    let Some((count, window_text)) = text.split_once('/') else {
        return Err(Complaint::new(format!("expected \"<count>/<window>\", such as \"100/min\", not {}", quote(text)))
            .hint("the window is `s`, `min`, `h`, `day`, `month`, `year`, or a span such as `15min`"));
    };
    let window = window(window_text).map_err(|complaint| Complaint {
        message: format!("{} has no valid window: {}", quote(text), complaint.message),
        hint: complaint.hint,
    });
    let count = self::count(text, count, window_text);
    // Both are looked at, so that the count is the first to be complained of.
    Ok(Rate { count: count?, window: window?, window_text: window_text.to_owned() })
}

fn count(rate: &str, count: &str, window: &str) -> Result<i64, Complaint> {
    let whole = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    if whole && count.bytes().all(|byte| byte == b'0') {
        return Err(Complaint::new(format!("{} grants nothing: the count is a whole number from 1", quote(rate)))
            .hint(
                "to refuse all requests use `deny` in [client_ip], `tiers` of the route, or write no route for them",
            ));
    }
    if whole {
        return count
            .parse()
            .ok()
            .filter(|count| *count <= MAX_COUNT)
            .ok_or_else(|| Complaint::new(format!("the count of {} is above 1000000000000 (1e12)", quote(rate))));
    }
    let complaint =
        Complaint::new(format!("the count of {} is not a whole number from 1 to 1000000000000", quote(rate)));
    Err(match slower(count, window) {
        Some(rate) => complaint.hint(format!("a count is never a fraction; write \"{rate}\"")),
        None if count.contains('.') => complaint.hint("a count is never a fraction; make the window longer: \"1/2s\""),
        None => complaint.hint("write digits only, without sign, blanks or separators"),
    })
}

/// The same rate with a whole count: `0.5` and `s` are `1/2s`.
fn slower(count: &str, window: &str) -> Option<String> {
    let (whole, fraction) = count.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 6 || whole.len() > 6 {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let number = format!("{whole}{fraction}").parse::<u64>().ok().filter(|number| *number > 0)?;
    let (digits, unit) = split_number(window);
    let length =
        if digits.is_empty() { 1 } else { digits.parse::<u64>().ok().filter(|length| *length <= 1_000_000)? };
    SPAN_UNITS.iter().find(|(name, _)| *name == unit)?;
    let (mut a, mut b) = (number, scale * length);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    let rate = format!("{}/{}{unit}", number / a, scale * length / a);
    self::rate(&rate).is_ok().then_some(rate)
}

/// The part of a rate after its `/`.
fn window(text: &str) -> Result<Window, Complaint> {
    match text {
        "month" => return Ok(Window::Month),
        "year" => return Ok(Window::Year),
        _ => {}
    }
    if let Some((_, length)) = SPAN_UNITS.iter().find(|(name, _)| *name == text && text != "ms") {
        return Ok(Window::Span(Millis(*length)));
    }
    let (digits, unit) = split_number(text);
    let complaint = || {
        Complaint::new(format!(
            "expected `s`, `min`, `h`, `day`, `month`, `year` or a span such as `15min`, not {}",
            quote(text)
        ))
    };
    let meant = unit_named(unit).or_else(|| nearest(unit, ["month", "year", "day", "min"]));
    match (digits.is_empty(), meant) {
        (true, Some("ms")) => return Err(complaint().hint("did you mean `1ms`?")),
        (true, Some(name)) => return Err(complaint().hint(format!("did you mean `{name}`?"))),
        (false, Some(name @ ("month" | "year"))) => {
            return Err(complaint().hint(format!("a calendar window is one `{name}`; longer ones are spans of `day`")));
        }
        (true, None) => return Err(complaint()),
        (false, _) if unit.is_empty() => {
            return Err(complaint().hint(format!("a bare number is never a span; seconds are `{text}s`")));
        }
        (false, _) => {}
    }
    match span(text)? {
        Millis(0) => Err(Complaint::new(format!("{} has no length", quote(text))).hint("the shortest window is `1ms`")),
        long if long > MAX_WINDOW => Err(Complaint::new(format!("{} is longer than ten years (3650day)", quote(text)))),
        length => Ok(Window::Span(length)),
    }
}

/// A cost as TOML writes a number, in thousandths: `5`, `0.25`. Exact, so never by way of a float.
pub fn cost(text: &str) -> Result<Units, Complaint> {
    let complaint = |what: &str| {
        Complaint::new(format!("a cost is a number from 0 to 1000000000 with at most 3 decimals; `{text}` {what}"))
    };
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if unsigned.starts_with('-') {
        return Err(complaint("is negative"));
    }
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(complaint("is not written in plain digits"));
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 3 {
        return Err(complaint("has more"));
    }
    let units = format!("{whole}{fraction:0<3}").parse::<Units>().ok().filter(|units| *units <= MAX_COST);
    units.ok_or_else(|| complaint("is above that"))
}

/// A network such as `10.0.0.0/8`, or one address. IPv4 written as IPv6 (`::ffff:10.0.0.0/104`) is IPv4, as it is in
/// requests.
pub fn network(text: &str) -> Result<IpNet, Complaint> {
    let written = match text.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => {
                let complaint = Complaint::new(format!(
                    "expected a network such as \"10.0.0.0/8\" or an address, not {}",
                    quote(text)
                ));
                return Err(match text.split_once('/') {
                    Some((address, _)) if address.parse::<IpAddr>().is_ok() => {
                        complaint.hint("the prefix is 0 to 32 for IPv4, 0 to 128 for IPv6")
                    }
                    _ => complaint,
                });
            }
        },
    };
    let network = unmapped(written);
    if network.addr() != network.network() {
        return Err(Complaint::new(format!("{} has bits set beyond its prefix", quote(text))).hint(format!(
            "the network is \"{}\"; the one address is \"{}\"",
            network.trunc(),
            network.addr()
        )));
    }
    Ok(network)
}

/// A network of IPv4-mapped addresses as the IPv4 network that it is; any other as it is.
pub fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    match (v6.addr().to_ipv4_mapped(), v6.prefix_len().checked_sub(MAPPED_PREFIX)) {
        (Some(address), Some(length)) => Ipv4Net::new(address, length).map_or(network, IpNet::V4),
        _ => network,
    }
}

#[cfg(test)]
mod tests;
