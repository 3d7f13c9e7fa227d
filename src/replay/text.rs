//! A report for people: short tables, the widest first.

use super::report::{CallerRow, ChangeRows, DifferenceRows, First, LimitRow, Report, Row};
use std::fmt::Write;

/// Routes and limits that are listed; the JSON has all of them.
const MAX_ROWS: usize = 40;

/// The report as text.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    head(&mut out, report);
    let hit = |limits: &[LimitRow]| limits.iter().any(|limit| limit.shadow);
    out.push_str(&limits_table(&report.limits, hit(&report.limits)));
    rows_table(&mut out, "tier", &report.tiers);
    rows_table(&mut out, "route", &report.routes);
    let callers = &report.callers;
    if !callers.hardest_hit.is_empty() {
        let title = format!("caller ({} of {} refused)", callers.refused, callers.seen);
        callers_table(&mut out, &title, &callers.hardest_hit);
    }
    if let (Some(compared), Some(old)) = (&report.compared, &report.compared_with) {
        difference(&mut out, &format!("Compared with {old}"), compared);
    }
    if let Some(recorded) = &report.recorded {
        difference(&mut out, "Compared with what the log recorded", recorded);
    }
    foot(&mut out, report);
    out
}

fn head(out: &mut String, report: &Report) {
    let total = &report.total;
    let (from, to) = (report.from.as_deref().unwrap_or("-"), report.to.as_deref().unwrap_or("-"));
    line(out, &format!("{} on {} lines, {from} to {to}", report.configuration, report.read.lines));
    let part = |name: &str, count: u64| format!("{name} {count} ({})", percent(count, total.requests));
    let parts = [part("accepted", total.accepted), part("refused", total.refused), part("rejected", total.rejected)];
    line(out, &parts.join(", "));
    if report.held > 0 {
        line(out, &format!("held {} of the accepted, for {} ms at most", report.held, report.longest_hold_ms));
    }
    if !report.rejections.is_empty() {
        let reasons: Vec<_> = report.rejections.iter().map(|(word, count)| format!("{word} {count}")).collect();
        line(out, &format!("rejected for other reasons than a limit: {}", reasons.join(", ")));
    }
}

fn limits_table(limits: &[LimitRow], has_shadow: bool) -> String {
    let mut rows: Vec<&LimitRow> = limits.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.over, row.asked)));
    let mut header = vec!["limit", "layer", "rate", "asked", "over", "refused", "lowest left", "first over", "by"];
    if has_shadow {
        header.insert(3, "mode");
    }
    let cells = |row: &&LimitRow| {
        let lowest = row.lowest_left.map_or("-".into(), |left| format!("{left} of {}", row.capacity));
        let mut cells = vec![
            row.name.clone(),
            row.layer.into(),
            row.rate.clone(),
            row.asked.to_string(),
            row.over.to_string(),
            row.refused.to_string(),
            lowest,
            row.first_over.clone().unwrap_or("-".into()),
            row.first_caller.clone().unwrap_or("-".into()),
        ];
        if has_shadow {
            cells.insert(3, if row.shadow { "shadow" } else { "enforce" }.into());
        }
        cells
    };
    table(&header, rows.iter().take(MAX_ROWS).map(cells), rows.len())
}

fn rows_table(out: &mut String, title: &str, rows: &[Row]) {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.requests > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.refused, row.requests)));
    let header = [title, "requests", "accepted", "refused", "share", "rejected", "first refused", "by limit"];
    let cells = |row: &&Row| {
        let [at, limit] = first(row.first_refused.as_ref());
        let share = percent(row.refused, row.requests);
        let numbers = [row.requests, row.accepted, row.refused].map(|number| number.to_string());
        let mut cells = vec![row.name.clone()];
        cells.extend(numbers);
        cells.extend([share, row.rejected.to_string(), at, limit]);
        cells
    };
    out.push_str(&table(&header, rows.iter().take(MAX_ROWS).map(cells), rows.len()));
}

fn callers_table(out: &mut String, title: &str, callers: &[CallerRow]) {
    let header = [title, "tier", "requests", "refused", "first refused", "by limit", "most by"];
    let cells = |row: &CallerRow| {
        let mut cells = changed_cells(row);
        cells.insert(2, row.requests.to_string());
        cells
    };
    out.push_str(&table(&header, callers.iter().map(cells), callers.len()));
}

/// Callers of whom only the requests that fare otherwise are known.
fn changed_table(out: &mut String, title: &str, callers: &[CallerRow]) {
    let header = [title, "tier", "requests", "first", "by limit", "most by"];
    out.push_str(&table(&header, callers.iter().map(changed_cells), callers.len()));
}

fn changed_cells(row: &CallerRow) -> Vec<String> {
    let [at, limit] = first(row.first_refused.as_ref());
    let most = row.by_limit.first().map_or("-".into(), |most| format!("{} ({})", most.name, most.requests));
    vec![row.name.clone(), row.tier.clone().unwrap_or("-".into()), row.refused.to_string(), at, limit, most]
}

fn difference(out: &mut String, title: &str, difference: &DifferenceRows) {
    line(out, "");
    let share = |change: &ChangeRows| percent(change.requests, difference.compared);
    let (newly, freed) = (&difference.newly_refused, &difference.freed);
    line(out, &format!("{title}, {} requests:", difference.compared));
    for (name, change) in [("newly refused", newly), ("freed", freed)] {
        let limits: Vec<_> = change.by_limit.iter().map(|each| format!("{} {}", each.name, each.requests)).collect();
        let limits = if limits.is_empty() { String::new() } else { format!(": {}", limits.join(", ")) };
        line(out, &format!("  {name} {} ({}){limits}", change.requests, share(change)));
    }
    if difference.other_limit > 0 {
        line(out, &format!("  refused by another limit {}", difference.other_limit));
    }
    for (name, change) in [("newly refused caller", newly), ("freed caller", freed)] {
        if !change.callers.hardest_hit.is_empty() {
            changed_table(out, name, &change.callers.hardest_hit);
        }
    }
}

fn foot(out: &mut String, report: &Report) {
    let read = &report.read;
    if read.unreadable > 0 {
        line(out, "");
        line(out, &format!("{} of {} lines could not be read:", read.unreadable, read.lines));
        for example in &read.examples {
            let text: String = example.text.chars().map(|each| if each.is_control() { '?' } else { each }).collect();
            line(out, &format!("  {}:{}: {}: {text}", example.log, example.line, example.reason));
        }
    }
    for note in &report.notes {
        line(out, &format!("note: {note}"));
    }
    for failed in &report.failed {
        line(out, &format!("failed: {failed}"));
    }
}

fn first(first: Option<&First>) -> [String; 2] {
    first.map_or(["-".into(), "-".into()], |first| [first.at.clone(), first.limit.clone()])
}

/// A share in percent, with as many decimals as tell it from none.
pub fn percent(count: u64, whole: u64) -> String {
    if whole == 0 || count == 0 {
        return "0 %".into();
    }
    let share = count as f64 * 100.0 / whole as f64;
    if share < 0.01 { "< 0.01 %".into() } else { format!("{share:.2} %") }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// Columns as wide as their widest cell; numbers to the right. Controls, which a name may have, are not written.
fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>, total: usize) -> String {
    let clean = |cell: String| cell.chars().map(|each| if each.is_control() { '?' } else { each }).collect::<String>();
    let rows: Vec<Vec<String>> = rows.map(|row| row.into_iter().map(clean).collect()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(header[column].chars().count())
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let is_number = |column: usize| {
        let mut letters = rows.iter().flat_map(|row| row[column].chars());
        letters.all(|letter| letter.is_ascii_digit() || ".<% ".contains(letter))
    };
    let numeric: Vec<bool> = (0..header.len()).map(|column| column > 0 && is_number(column)).collect();
    let mut out = String::from("\n");
    let mut write_row = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, cell) in cells.enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let width = widths[column];
            // Writing to a string does not fail.
            let _ =
                if numeric[column] { write!(text, "{gap}{cell:>width$}") } else { write!(text, "{gap}{cell:<width$}") };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    write_row(&mut header.iter().copied());
    for row in &rows {
        write_row(&mut row.iter().map(String::as_str));
    }
    if total > rows.len() {
        let _ = writeln!(out, "… and {} more", total - rows.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_controls_are_not_written() {
        let rows = [vec!["a\u{1b}".to_owned(), "5".into()], vec!["long".into(), "12".into()]];
        assert_eq!(table(&["name", "n"], rows.into_iter(), 3), "\nname   n\na?     5\nlong  12\n… and 1 more\n");
    }

    #[test]
    fn a_share_is_never_rounded_to_none() {
        let shares = [percent(0, 5), percent(1, 1_000_000), percent(1, 3)];
        assert_eq!(shares, ["0 %", "< 0.01 %", "33.33 %"]);
    }
}
