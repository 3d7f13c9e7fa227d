//! A report as one page that needs nothing else: style and plots inline, no script, nothing loaded.
//!
//! Names, paths and addresses come from logs that anybody may write to, so every text goes through
//! [`super::plot::escaped`], and the page's own policy forbids scripts and loading besides.

use super::plot::{Layer, escaped, stacked};
use super::report::{
    CallerRow, CallerRows, ChangeRows, DifferenceRows, First, LimitRow, NamedCount, Report, Row, Times,
};
use super::text::percent;
use std::fmt::Write;

/// Limits that have a plot of their own.
const MAX_PLOTS: usize = 8;

const STYLE: &str = "
:root{color-scheme:light dark;--ok:#0072b2;--bad:#d55e00;--other:#7f7f7f}
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
svg{width:100%;height:auto;font:11px system-ui,sans-serif}svg text{fill:currentColor}
.grid{stroke:#8886;stroke-width:1}.ok{fill:var(--ok)}.bad{fill:var(--bad)}.other{fill:var(--other)}
.key span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
span.ok{background:var(--ok)}span.bad{background:var(--bad)}span.other{background:var(--other)}
.failed{border-left:.4rem solid var(--bad);padding-left:1rem}
";

/// The page.
pub fn page(report: &Report) -> String {
    let mut out = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
    );
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        out,
        "<title>Replay of {}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        escaped(&report.configuration)
    );
    head(&mut out, report);
    plots(&mut out, &report.timeline);
    limits(&mut out, &report.limits);
    rows(&mut out, "By tier", "tier", &report.tiers);
    rows(&mut out, "By route", "route", &report.routes);
    callers(&mut out, "Callers hit hardest", &report.callers);
    if let (Some(compared), Some(old)) = (&report.compared, &report.compared_with) {
        difference(&mut out, &format!("Compared with {old}"), compared);
    }
    if let Some(recorded) = &report.recorded {
        difference(&mut out, "Compared with what the log recorded", recorded);
    }
    unreadable(&mut out, report);
    out.push_str("</body>\n</html>\n");
    out
}

fn head(out: &mut String, report: &Report) {
    let total = &report.total;
    let _ = writeln!(out, "<h1>{} on {} lines</h1>", escaped(&report.configuration), report.read.lines);
    let logs: Vec<_> = report.logs.iter().map(|log| escaped(log)).collect();
    let (from, to) = (report.from.as_deref().unwrap_or("-"), report.to.as_deref().unwrap_or("-"));
    let _ = write!(out, "<p>{}<br>{from} to {to}</p>\n<p>", logs.join(", "));
    for (name, count) in [("accepted", total.accepted), ("refused", total.refused), ("rejected", total.rejected)] {
        let _ = write!(out, "{name} <b>{count}</b> ({}) ", escaped(&percent(count, total.requests)));
    }
    out.push_str("</p>\n");
    for failed in &report.failed {
        let _ = writeln!(out, "<p class=\"failed\">failed: {}</p>", escaped(failed));
    }
    for note in &report.notes {
        let _ = writeln!(out, "<p>{}</p>", escaped(note));
    }
}

fn plots(out: &mut String, times: &Times) {
    out.push_str("<h2>Requests over time</h2>\n<p class=\"key\">");
    for (class, name) in [("ok", "accepted"), ("bad", "refused by a limit"), ("other", "rejected for another reason")] {
        let _ = write!(out, "<span class=\"{class}\"></span>{name}");
    }
    let _ = writeln!(out, " (each bar: {} s)</p>", times.span_seconds);
    let of = |value: fn(&super::timeline::Bucket) -> u64| times.spans.iter().map(value).collect();
    let layers = [
        Layer { class: "bad", name: "refused", values: of(|bucket| bucket.refused) },
        Layer { class: "other", name: "rejected", values: of(|bucket| bucket.rejected) },
        Layer { class: "ok", name: "accepted", values: of(|bucket| bucket.accepted) },
    ];
    out.push_str(&stacked(times, "Requests over time", &layers, 260.0));
    let values = |series: usize| -> Vec<u64> {
        times.spans.iter().map(|bucket| bucket.by_limit.get(series).copied().unwrap_or(0)).collect()
    };
    let mut series: Vec<(u64, usize)> =
        (0..times.limits.len()).map(|series| (values(series).iter().sum(), series)).collect();
    series.sort_unstable_by_key(|(sum, series)| (std::cmp::Reverse(*sum), *series));
    for (sum, series) in series.into_iter().take(MAX_PLOTS) {
        let name = &times.limits[series];
        let _ = writeln!(out, "<h2>Refused by {} ({sum})</h2>", escaped(name));
        let layer = Layer { class: "bad", name, values: values(series) };
        out.push_str(&stacked(times, &format!("Refused by {name} over time"), &[layer], 130.0));
    }
}

/// A cell and whether it is a number.
type Cell = (String, bool);

fn words(text: &str) -> Cell {
    (text.to_owned(), false)
}

fn number(value: impl ToString) -> Cell {
    (value.to_string(), true)
}

fn table(out: &mut String, title: &str, header: &[&str], rows: Vec<Vec<Cell>>) {
    let Some(first) = rows.first() else { return };
    let _ = write!(out, "<h2>{}</h2>\n<div class=\"scroll\"><table><thead><tr>", escaped(title));
    let class = |is_number: bool| if is_number { " class=\"n\"" } else { "" };
    for (name, (_, is_number)) in header.iter().zip(first) {
        let _ = write!(out, "<th scope=\"col\"{}>{name}</th>", class(*is_number));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &rows {
        out.push_str("<tr>");
        for (text, is_number) in row {
            let _ = write!(out, "<td{}>{}</td>", class(*is_number), escaped(text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn limits(out: &mut String, limits: &[LimitRow]) {
    let mut sorted: Vec<&LimitRow> = limits.iter().collect();
    sorted.sort_by_key(|row| std::cmp::Reverse((row.over, row.asked)));
    let header = ["limit", "layer", "rate", "mode", "asked", "over", "refused", "lowest left", "first over", "by"];
    let cells = |row: &LimitRow| {
        vec![
            words(&row.name),
            words(row.layer),
            words(&row.rate),
            words(if row.shadow { "shadow" } else { "enforce" }),
            number(row.asked),
            number(row.over),
            number(row.refused),
            words(&row.lowest_left.map_or("-".into(), |left| format!("{left} of {}", row.capacity))),
            words(row.first_over.as_deref().unwrap_or("-")),
            words(row.first_caller.as_deref().unwrap_or("-")),
        ]
    };
    table(out, "By limit", &header, sorted.into_iter().map(cells).collect());
}

fn rows(out: &mut String, title: &str, noun: &str, rows: &[Row]) {
    let mut sorted: Vec<&Row> = rows.iter().filter(|row| row.requests > 0).collect();
    sorted.sort_by_key(|row| std::cmp::Reverse((row.refused, row.requests)));
    let header = [noun, "requests", "accepted", "refused", "share", "rejected", "first refused", "by limit"];
    let cells = |row: &Row| {
        let [at, limit] = first(row.first_refused.as_ref());
        let share = percent(row.refused, row.requests);
        let counts = [number(row.requests), number(row.accepted), number(row.refused), number(share)];
        let mut cells = vec![words(&row.name)];
        cells.extend(counts);
        cells.extend([number(row.rejected), at, limit]);
        cells
    };
    table(out, title, &header, sorted.into_iter().map(cells).collect());
}

fn callers(out: &mut String, title: &str, callers: &CallerRows) {
    let header = ["caller", "tier", "requests", "refused", "first refused", "by limit", "by limits"];
    let cells = |row: &CallerRow| {
        let mut cells = changed_cells(row);
        cells.insert(2, number(row.requests));
        cells
    };
    table(out, title, &header, callers.hardest_hit.iter().map(cells).collect());
}

/// Of a caller of whom only the requests that fare otherwise are known.
fn changed_cells(row: &CallerRow) -> Vec<Cell> {
    let [at, limit] = first(row.first_refused.as_ref());
    let tier = words(row.tier.as_deref().unwrap_or("-"));
    vec![words(&row.name), tier, number(row.refused), at, limit, words(&listed(&row.by_limit))]
}

fn difference(out: &mut String, title: &str, difference: &DifferenceRows) {
    let _ = writeln!(out, "<h2>{}</h2>\n<p>{} requests compared.</p>", escaped(title), difference.compared);
    for (name, change) in [("Newly refused", &difference.newly_refused), ("Freed", &difference.freed)] {
        self::change(out, name, change, difference.compared);
    }
}

fn change(out: &mut String, name: &str, change: &ChangeRows, compared: u64) {
    let share = percent(change.requests, compared);
    let limits = listed(&change.by_limit);
    let _ = writeln!(out, "<p>{name}: <b>{}</b> ({}) {}</p>", change.requests, escaped(&share), escaped(&limits));
    let header = ["caller", "tier", "requests", "first", "by limit", "by limits"];
    let rows = change.callers.hardest_hit.iter().map(changed_cells).collect();
    table(out, &format!("{name} callers"), &header, rows);
}

fn listed(counts: &[NamedCount]) -> String {
    let counts: Vec<_> = counts.iter().map(|each| format!("{} {}", each.name, each.requests)).collect();
    counts.join(", ")
}

fn unreadable(out: &mut String, report: &Report) {
    let rows =
        report.read.examples.iter().map(|example| {
            vec![words(&example.log), number(example.line), words(example.reason), words(&example.text)]
        });
    let title = format!("{} lines that could not be read", report.read.unreadable);
    table(out, &title, &["log", "line", "reason", "beginning"], rows.collect());
}

fn first(first: Option<&First>) -> [Cell; 2] {
    first.map_or([words("-"), words("-")], |first| [words(&first.at), words(&first.limit)])
}
