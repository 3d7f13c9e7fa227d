//! The pages, checked: their configurations are accepted, their links lead somewhere.
//!
//! What the commands of the README print is compared in `cli`, with the demo running.

use crate::support::program;
use crate::tidy::{assert_none, files};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub use crate::tidy::{read, root};

/// What a block that shows a part of a configuration is completed with.
const REST: [(&str, &str); 2] = [
    ("[upstreams.", "\n[upstreams.api]\nservers = [\"127.0.0.1:9000\"]\n"),
    ("[[routes]]", "\n[[routes]]\nmatch = \"*\"\n"),
];

pub fn pages() -> Vec<PathBuf> {
    let mut pages = files("docs", &["md"]);
    pages.push(root().join("README.md"));
    pages
}

/// The blocks of code of a page: language and text.
pub fn blocks(page: &str) -> Vec<(&str, &str)> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

/// Commands with curl, each with the printed text that the page shows next.
pub fn commands_with_answers(page: &str) -> Vec<(&str, &str)> {
    let blocks = blocks(page);
    let pairs = blocks.windows(2).filter_map(|pair| match pair {
        [("sh", commands), ("text", answer)] if commands.contains("curl ") => Some((*commands, *answer)),
        _ => None,
    });
    pairs.collect()
}

/// The first line of a shortened sample that is missing from what was printed, in the sample's order. `…` stands for
/// any text, digits for any digits.
pub fn first_line_not_printed<'s>(sample: &'s str, printed: &str) -> Option<&'s str> {
    let printed = digits_masked(printed);
    let mut lines = printed.lines();
    sample.lines().find(|line| !lines.any(|printed| matches(&digits_masked(line), printed)))
}

/// Every run of digits as one `0`.
fn digits_masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '0'..='9' if masked.ends_with('0') => {}
            '0'..='9' => masked.push('0'),
            letter => masked.push(letter),
        }
    }
    masked
}

fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut ends_open = false;
    for part in parts {
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
        ends_open = part.is_empty();
    }
    ends_open || rest.is_empty()
}

#[test]
fn a_shortened_sample_matches_what_was_printed_and_nothing_else() {
    let printed = "HTTP/1.1 200 OK\nx: 1\nratelimit-limit: 60\n\n{\"a\":1,\"b\":2}\n";
    assert_eq!(first_line_not_printed("HTTP/1.1 200 OK\n…\nratelimit-limit: 5\n…\n{\"a\":7,…}\n", printed), None);
    assert_eq!(first_line_not_printed("HTTP/1.1 200 OK\nRateLimit-Limit: 5\n", printed), Some("RateLimit-Limit: 5"));
    assert_eq!(first_line_not_printed("ratelimit-limit: 5\nx: 1\n", printed), Some("x: 1"));
    assert_eq!(first_line_not_printed("{\"b\":…}\n", printed), Some("{\"b\":…}"));
}

/// What `check` says of a block, beside the keys file of its page.
fn check(block: &str, keys: &str) -> program::Finished {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let mut text = block.to_string();
    if !block.starts_with("# complete\n") {
        text.extend(REST.iter().filter(|(table, _)| !block.contains(table)).map(|(_, rest)| *rest));
    }
    fs::write(directory.path().join("keys.toml"), keys).expect("the directory is ours");
    fs::write(directory.path().join("sluicegate.toml"), text).expect("the directory is ours");
    program::run(directory.path(), &["check", "-c", "sluicegate.toml"])
}

#[test]
fn every_configuration_of_the_pages_passes_the_check() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        let toml = blocks(&text).into_iter().filter_map(|(language, block)| (language == "toml").then_some(block));
        let (keys, mains): (Vec<&str>, Vec<&str>) = toml.partition(|block| block.starts_with("# keys.toml\n"));
        assert!(keys.len() <= 1, "{}: which keys file belongs to which block?", page.display());
        let keys = keys.first().copied().unwrap_or_default();
        let mut keys_are_read = keys.is_empty();
        for block in mains {
            let checked = check(block, keys);
            keys_are_read |= checked.stdout.contains(" 1 consumer,");
            if checked.code != Some(0) || checked.output().contains("warning:") {
                wrong.push(format!("{}: {}", page.display(), checked.output()));
            }
        }
        if !keys_are_read {
            wrong.push(format!("{}: no block reads the keys file that is shown", page.display()));
        }
    }
    assert_none("blocks that do not pass", wrong);
}

#[test]
fn the_main_examples_are_complete_and_come_with_their_keys() {
    for page in ["README.md", "docs/configuration.md"] {
        let text = read(&root().join(page));
        for first_line in ["# complete\n", "# keys.toml\n"] {
            let is_there =
                blocks(&text).iter().any(|(language, block)| *language == "toml" && block.starts_with(first_line));
            assert!(is_there, "{page} has no block that begins with {first_line}");
        }
    }
}

/// What is at the other end of a link within a page, as GitHub names headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let outside_code = page.split("\n```").step_by(2);
    let headings = outside_code.flat_map(str::lines).filter(|line| line.starts_with('#'));
    let slug = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            letter => letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()),
        });
        kept.collect()
    };
    headings.map(slug).collect()
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    let mut broken = Vec::new();
    let mut followed = 0;
    for page in pages() {
        let text = read(&page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !target.contains("://")) {
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let directory = page.parent().expect("a page is in a directory");
            let file = if file.is_empty() { page.clone() } else { directory.join(file) };
            if !file.exists() || !(anchor.is_empty() || has_anchor(&file, anchor)) {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(followed > 40, "only {followed} links were found");
    assert_none("links that lead nowhere", broken);
}

fn has_anchor(file: &Path, anchor: &str) -> bool {
    anchors(&read(file)).contains(anchor)
}
