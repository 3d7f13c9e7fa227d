//! Plots over time as inline SVG: bars, one a span, stacked. Every text in it is escaped by [`escaped`].

use super::report::Times;
use crate::algorithm::calendar::rfc3339;
use crate::time::Timestamp;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;

/// One colour of a stack.
pub struct Layer<'a> {
    /// A class of the page's style sheet.
    pub class: &'a str,
    pub name: &'a str,
    /// One number a span.
    pub values: Vec<u64>,
}

/// A plot of `height` units with a title for those who do not see it.
pub fn stacked(times: &Times, title: &str, layers: &[Layer<'_>], height: f64) -> String {
    let spans = times.spans.len();
    let sum = |span: usize| layers.iter().map(|layer| layer.values[span]).sum::<u64>();
    let highest = (0..spans).map(sum).max().unwrap_or(0).max(1);
    let mut out = String::new();
    let title = escaped(title);
    // Writing to a string does not fail, here and below.
    let _ = write!(out, "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">");
    let base = height - BOTTOM;
    for (share, value) in [(0.0, 0), (0.5, highest / 2), (1.0, highest)] {
        let y = base - share * (base - TOP);
        let _ = write!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        let _ =
            write!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, y + 4.0, short(value));
    }
    let step = (WIDTH - LEFT) / spans.max(1) as f64;
    for span in 0..spans {
        let mut y = base;
        let x = LEFT + step * span as f64;
        let at = rfc3339(start_of(times, span));
        for layer in layers.iter().filter(|layer| layer.values[span] > 0) {
            let value = layer.values[span];
            let tall = value as f64 / highest as f64 * (base - TOP);
            y -= tall;
            let _ = write!(
                out,
                "<rect class=\"{}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{tall:.2}\">\
                 <title>{at}: {} {value}</title></rect>",
                layer.class,
                (step * 0.9).max(0.5),
                escaped(layer.name),
            );
        }
    }
    for (share, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        let x = LEFT + share * (WIDTH - LEFT);
        let at = rfc3339(start_of(times, (share * spans as f64) as usize));
        let _ = write!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{at}</text>", height - 6.0);
    }
    out.push_str("</svg>");
    out
}

fn start_of(times: &Times, span: usize) -> Timestamp {
    let seconds = times.span_seconds.saturating_mul(i64::try_from(span).unwrap_or(i64::MAX));
    Timestamp(times.start.saturating_add(seconds).saturating_mul(1000))
}

/// A number in few characters.
fn short(value: u64) -> String {
    match value {
        0..10_000 => value.to_string(),
        10_000..10_000_000 => format!("{}k", value / 1000),
        _ => format!("{}M", value / 1_000_000),
    }
}

/// A text that is nothing but text in HTML, within an attribute too.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("<a href='x' b=\"&\">\n"), "&lt;a href=&#39;x&#39; b=&quot;&amp;&quot;&gt;\u{fffd}");
    }

    #[test]
    fn an_empty_log_has_an_empty_plot() {
        let times = Times { start: 0, span_seconds: 1, limits: Vec::new(), spans: Vec::new() };
        let plot = stacked(&times, "t", &[Layer { class: "a", name: "a", values: Vec::new() }], 100.0);
        assert!(plot.starts_with("<svg") && plot.ends_with("</svg>") && !plot.contains("NaN"), "{plot}");
    }
}
