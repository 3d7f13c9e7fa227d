//! The text for a few charges of counters that lie in strings: `lua/acquire_straight.lua` written out for just their algorithms.

use super::inline::Inliner;
use super::join::{Definition, closing, definitions, files_of, is_code, reached, twins_with, words};
use super::{CALENDAR_BIT, MAX_STRAIGHT, Place, Shape, TWINS, twin_index};
use crate::algorithm::Window;
use crate::charge::Charge;

const TEMPLATE: &str = include_str!("../../../../lua/acquire_straight.lua");

/// Months and years are for few limits, and long: these stay functions.
const KEPT: &[&str] = &["floor_div", "days_from_civil", "civil_from_days", "start_of_month"];

/// The algorithms of such a decision, in order, and which of them share a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Straight {
    /// For each row the number of its algorithm and that of its group, counted from 0.
    rows: [(u8, u8); MAX_STRAIGHT],
    count: u8,
    calendar: bool,
}

impl Straight {
    /// Absent where the text for any charges has to serve: for many charges, for a log, for a counter named twice, and
    /// where the charges of one string are not next to each other.
    pub fn of(charges: &[Charge<'_>], places: &[Place]) -> Option<Self> {
        if charges.is_empty() || charges.len() > MAX_STRAIGHT {
            return None;
        }
        let mut straight = Self { rows: [(0, 0); MAX_STRAIGHT], count: charges.len() as u8, calendar: false };
        let mut next = 0;
        for (index, (charge, place)) in charges.iter().zip(places).enumerate() {
            let begins = place.key == next;
            if TWINS[twin_index(charge.meter.algorithm)].is_log
                || places[..index].contains(place)
                || !(begins || place.key + 1 == next)
            {
                return None;
            }
            next += usize::from(begins);
            straight.rows[index] = (twin_index(charge.meter.algorithm) as u8, place.key as u8);
            straight.calendar |= !matches!(charge.meter.quota.window, Window::Span(_));
        }
        Some(straight)
    }

    fn rows(&self) -> Vec<Row> {
        let row = |(index, (algorithm, group)): (usize, &(u8, u8))| Row {
            number: index + 1,
            algorithm: usize::from(*algorithm),
            group: usize::from(*group) + 1,
        };
        self.rows[..usize::from(self.count)].iter().enumerate().map(row).collect()
    }

    fn shape(&self) -> Shape {
        let algorithms = self.rows().iter().fold(0, |bits, row| bits | 1 << row.algorithm);
        Shape(algorithms | if self.calendar { CALENDAR_BIT } else { 0 })
    }

    /// The text.
    pub fn join(&self, records: &str) -> String {
        let mut all = files_of(self.shape(), &[records]);
        let rows = self.rows();
        let mut inliner = Inliner::new(&all, KEPT, rows.iter().map(|row| format!("p_{}", row.number)));
        let constants: Vec<Definition> =
            definitions(TEMPLATE).into_iter().filter(|definition| !definition.constants.is_empty()).collect();
        let is_main = |line: &&str| {
            let marks = line.trim_start().starts_with("--:");
            (marks || is_code(line)) && !constants.iter().any(|constant| constant.text == *line)
        };
        let main: Vec<&str> = TEMPLATE.lines().filter(is_main).collect();
        let main = inliner.write_out(&repeat(&main, &rows));
        all.extend(constants);
        all.push(Definition::nameless(main));
        inliner.spread(&reached(all))
    }
}

/// A charge of the text.
#[derive(Clone, Copy)]
struct Row {
    number: usize,
    algorithm: usize,
    group: usize,
}

/// Writes the template out for these rows.
fn repeat(lines: &[&str], rows: &[Row]) -> String {
    let (mut text, mut rest) = (String::new(), lines);
    while let Some((line, after)) = rest.split_first() {
        let Some(what) = line.trim().strip_prefix("--: each ") else {
            text += &listed(line, rows);
            text.push('\n');
            rest = after;
            continue;
        };
        let end = end_of(after);
        let (block, after) = (&after[..end], &after[end + 1..]);
        if what == "group" {
            for number in 1..=rows.iter().map(|row| row.group).max().unwrap_or_default() {
                let of_group: Vec<Row> = rows.iter().filter(|row| row.group == number).copied().collect();
                let repeated = repeat(block, &of_group);
                let repeated = repeated.replace("number_group", &number.to_string());
                text += &numbered(&repeated.replace("rows_group", &of_group.len().to_string()), "_group", number);
            }
        } else {
            let needed = what.strip_prefix("row with ");
            for row in rows.iter().filter(|row| needed.is_none_or(|name| row.has(name))) {
                text += &row.written(&repeat(block, rows));
            }
        }
        rest = after;
    }
    text
}

/// Where the block that is open at the beginning ends.
fn end_of(lines: &[&str]) -> usize {
    let mut depth = 1;
    let ends = |line: &&str| {
        depth += i32::from(line.trim().starts_with("--: each ")) - i32::from(line.trim() == "--: end");
        depth == 0
    };
    lines.iter().position(ends).expect("the shipped template is closed")
}

/// Lists of a line written out: `each_row(…)`, and `{…}` in a string.
fn listed(line: &str, rows: &[Row]) -> String {
    let mut line = line.to_owned();
    while let Some(start) = line.find("each_row(") {
        let open = start + "each_row(".len();
        let close = open + closing(&line[open..]);
        let parts: Vec<String> = rows.iter().map(|row| row.written(&line[open..close])).collect();
        line = format!("{}{}{}", &line[..start], parts.join(", "), &line[close + 1..]);
    }
    let written = |(index, piece): (usize, &str)| match piece.split_once('{') {
        Some((before, after)) if index % 2 == 1 => {
            let (repeated, after) = after.split_once('}').expect("the shipped template is closed");
            format!("{before}{}{after}", repeated.repeat(rows.len()))
        }
        _ => piece.to_owned(),
    };
    line.split('\'').enumerate().map(written).collect::<Vec<String>>().join("'")
}

/// The text with that number for the ending of words.
fn numbered(text: &str, ending: &str, number: usize) -> String {
    let named = |word: &str| match word.strip_suffix(ending) {
        Some(name) if !name.is_empty() => format!("{name}{}_{number}", if ending == "_group" { "_of" } else { "" }),
        _ => word.to_owned(),
    };
    words(text).map(named).collect()
}

impl Row {
    /// The text for this row: its number, and the names of its algorithm's functions.
    fn written(&self, text: &str) -> String {
        let own = |word: &str| {
            let defined = ["at", "remaining", "wait", "delay", "charge", "reset", "fresh_at"].contains(&word);
            if defined { format!("{}_{word}", TWINS[self.algorithm].prefix) } else { word.to_owned() }
        };
        words(&numbered(text, "_row", self.number)).map(own).collect()
    }

    fn has(&self, name: &str) -> bool {
        twins_with(Shape(1 << self.algorithm), name).len() == 1
    }
}
