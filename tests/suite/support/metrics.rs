//! The Prometheus text format, read back.

use std::collections::BTreeMap;

/// One line of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// A metrics page.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub text: String,
    pub samples: Vec<Sample>,
}

impl Metrics {
    pub fn parse(text: String) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines.map(|line| parse_line(line).unwrap_or_else(|| panic!("bad line {line:?}"))).collect();
        Self { text, samples }
    }

    /// The sum of all series of that name that have these labels; 0 when there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|(label, value)| sample.labels.get(*label).is_some_and(|has| has == value))
        };
        self.samples.iter().filter(fits).map(|sample| sample.value).sum()
    }

    /// Whether the page names this metric, be it only in a `TYPE` line.
    pub fn names(&self, name: &str) -> bool {
        self.text.lines().any(|line| line.starts_with(&format!("# TYPE {name} ")))
            || self.samples.iter().any(|sample| sample.name == name)
    }
}

fn parse_line(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, rest)) = series.split_once('{') else {
        return Some(Sample { name: series.to_string(), labels: BTreeMap::new(), value });
    };
    let mut labels = BTreeMap::new();
    let mut rest = rest.strip_suffix('}')?;
    while let Some((label, after)) = rest.split_once("=\"") {
        let end = closing_quote(after)?;
        let text = after[..end].replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\");
        labels.insert(label.trim_start_matches(',').to_string(), text);
        rest = &after[end + 1..];
    }
    Some(Sample { name: name.to_string(), labels, value })
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(index, letter)| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends.then_some(index)
    })
}
