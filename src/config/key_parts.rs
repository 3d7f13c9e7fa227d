//! A large keys file in parts, so that a million consumers need no tree of all of them at once.
//!
//! A file is cut before lines that open a consumer's table, and each part is read as a file of its own. That is done only where
//! it cannot change the meaning: without multi-line strings a line that begins with `[consumers.` is a table's header wherever
//! it stands, for inside a list it would be no value. Whatever is not plain (a problem of any kind, a consumer in two parts) makes the
//! caller read the file as a whole, which then says what is wrong.

use std::ops::Range;

/// Bytes that a part has at least; a smaller file is read as a whole.
const PART_BYTES: usize = 1 << 20;

/// What begins a consumer's table.
const HEADER: &str = "[consumers.";

/// The parts of a text, in order and without a gap; none when it should be read as a whole.
pub(super) fn parts(text: &str) -> Option<Vec<Range<usize>>> {
    parts_of(text, PART_BYTES)
}

fn parts_of(text: &str, least: usize) -> Option<Vec<Range<usize>>> {
    if text.len() <= least || text.contains("\"\"\"") || text.contains("'''") {
        return None;
    }
    let mut parts = Vec::new();
    let (mut begin, mut at, mut is_preface) = (0, 0, true);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        if trimmed.starts_with(HEADER) {
            if !is_preface && at - begin >= least {
                parts.push(begin..at);
                begin = at;
            }
            is_preface = false;
        } else if is_preface && !trimmed.is_empty() && !trimmed.starts_with('#') {
            // What stands before the first table may be about all of them.
            return None;
        }
        at += line.len();
    }
    parts.push(begin..text.len());
    (parts.len() > 1).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_before_consumers_only() {
        let text =
            "# keys\n[consumers.a]\ntier = \"x\"\n[[consumers.a.keys]]\nid = \"1\"\n  [consumers.b]\n[consumers.c]\n";
        let parts: Vec<&str> = parts_of(text, 20).unwrap().into_iter().map(|part| &text[part]).collect();
        assert_eq!(parts.concat(), text);
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert!(parts[1].starts_with("  [consumers.b]"), "{parts:?}");
        assert_eq!(parts_of(text, text.len()), None);
    }

    #[test]
    fn what_is_not_plain_is_read_as_a_whole() {
        let two = "[consumers.a]\ntier = \"x\"\n[consumers.b]\ntier = \"x\"\n";
        assert_eq!(parts_of(two, 10).map(|parts| parts.len()), Some(2));
        for before in ["consumers.c.tier = \"x\"\n", "[other]\n", "#\n x = '''\n'''\n", "# \"\"\"\n"] {
            assert_eq!(parts_of(&format!("{before}{two}"), 10), None, "{before}");
        }
    }
}
