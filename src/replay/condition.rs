//! What makes a replay fail: `refused > 1%`, `refused[tier=pro] > 0`.
//!
//! A quantity, perhaps of one tier, route or limit only, a comparison, and a number of requests or a share of those that
//! were decided (of that tier, route or limit). `unreadable` is a share of the lines.

use std::fmt;
use std::str::FromStr;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Accepted,
    Refused,
    Rejected,
    Held,
    Unreadable,
    NewlyRefused,
    Freed,
}

const QUANTITIES: [(&str, Quantity); 7] = [
    ("accepted", Quantity::Accepted),
    ("refused", Quantity::Refused),
    ("rejected", Quantity::Rejected),
    ("held", Quantity::Held),
    ("unreadable", Quantity::Unreadable),
    ("newly_refused", Quantity::NewlyRefused),
    ("freed", Quantity::Freed),
];

/// Of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    All,
    Tier(String),
    Route(String),
    Limit(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

const COMPARISONS: [(&str, Comparison); 4] =
    [(">=", Comparison::AtLeast), ("<=", Comparison::AtMost), (">", Comparison::Above), ("<", Comparison::Below)];

/// A condition, as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    pub quantity: Quantity,
    pub part: Part,
    comparison: Comparison,
    bound: f64,
    is_share: bool,
}

impl Condition {
    /// Whether it holds for `count` of `whole`. A share of nothing is 0.
    pub fn holds(&self, count: u64, whole: u64) -> bool {
        let value = match (self.is_share, whole) {
            (true, 0) => 0.0,
            (true, _) => count as f64 * 100.0 / whole as f64,
            (false, _) => count as f64,
        };
        match self.comparison {
            Comparison::Above => value > self.bound,
            Comparison::AtLeast => value >= self.bound,
            Comparison::Below => value < self.bound,
            Comparison::AtMost => value <= self.bound,
        }
    }

    /// Whether it can only be told against another policy.
    pub fn needs_comparison(&self) -> bool {
        matches!(self.quantity, Quantity::NewlyRefused | Quantity::Freed)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The name in brackets may hold anything, `>` too.
        let after_part = text.rfind(']').map_or(0, |end| end + 1);
        let found = COMPARISONS.iter().find_map(|(sign, comparison)| {
            let place = text[after_part..].find(sign)? + after_part;
            Some((&text[..place], *comparison, &text[place + sign.len()..]))
        });
        let (left, comparison, right) =
            found.ok_or("write a comparison, such as `refused > 1%` or `refused[tier=pro] > 0`")?;
        let (name, part) = match left.trim().split_once('[') {
            Some((name, rest)) => (name.trim(), part(rest)?),
            None => (left.trim(), Part::All),
        };
        let quantity = QUANTITIES.iter().find(|(known, _)| *known == name).map(|(_, quantity)| *quantity);
        let quantity = quantity.ok_or_else(|| {
            let known = QUANTITIES.map(|(name, _)| name).join(", ");
            format!("`{name}` is not counted; there are {known}")
        })?;
        let is_whole =
            matches!(quantity, Quantity::Unreadable | Quantity::Held | Quantity::NewlyRefused | Quantity::Freed);
        if is_whole && part != Part::All {
            return Err(format!("`{name}` is counted of all requests only"));
        }
        let right = right.trim();
        let number = right.strip_suffix('%').unwrap_or(right).trim();
        let bound: f64 = number.parse().map_err(|_| format!("`{number}` is not a number"))?;
        if !(bound.is_finite() && bound >= 0.0) {
            return Err(format!("`{number}` is not a number of requests"));
        }
        Ok(Self { text: text.trim().into(), quantity, part, comparison, bound, is_share: right.ends_with('%') })
    }
}

fn part(text: &str) -> Result<Part, String> {
    let inside = text.trim_end().strip_suffix(']').ok_or("a `[` is not closed")?;
    let (kind, name) = inside.split_once('=').ok_or_else(|| format!("`{inside}` is not tier=, route= or limit="))?;
    match kind.trim() {
        "tier" => Ok(Part::Tier(name.trim().into())),
        "route" => Ok(Part::Route(name.trim().into())),
        "limit" => Ok(Part::Limit(name.trim().into())),
        kind => Err(format!("`{kind}` is not tier, route or limit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn holds(text: &str, count: u64, whole: u64) -> bool {
        text.parse::<Condition>().unwrap_or_else(|reason| panic!("{text}: {reason}")).holds(count, whole)
    }

    #[test]
    fn shares_and_numbers_are_compared_as_written() {
        assert!(holds("refused > 1%", 11, 1000) && !holds("refused > 1%", 10, 1000) && holds("refused>=1 %", 10, 1000));
        assert!(holds("accepted < 5", 4, 9) && !holds("accepted<=0.5%", 1, 100) && !holds("refused > 0%", 0, 0));
        let scoped: Condition = "refused[route=GET /a>b] > 2".parse().unwrap();
        assert_eq!(scoped.part, Part::Route("GET /a>b".into()));
        assert!("freed > 0".parse::<Condition>().unwrap().needs_comparison());
    }

    #[test]
    fn what_is_no_condition_is_refused_with_the_reason() {
        let vectors = [
            ("refused", "write a comparison"),
            ("denied > 1", "`denied` is not counted"),
            ("refused > x", "`x` is not a number"),
            ("refused > -1", "not a number of requests"),
            ("refused[tier=a > 1", "a `[` is not closed"),
            ("refused[tier] > 1", "is not tier="),
            ("refused[key=a] > 1", "is not tier, route or limit"),
            ("unreadable[tier=a] > 1", "of all requests only"),
        ];
        for (text, reason) in vectors {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
