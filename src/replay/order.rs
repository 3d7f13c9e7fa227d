//! Several logs as one, in the order in which their requests were decided.
//!
//! A log is written in the order in which requests end, so their arrivals are out of order by as much as requests last,
//! and rotated files are named in any order. The logs are merged by their next lines, and what comes out goes through a
//! heap of [`REORDER_LINES`]: a line leaves it in its turn unless that many others have come before it. One that is later
//! still is decided at the instant that the replay has reached, as a clock that is never set back would have it, and
//! counted as late. Lines of one instant keep the order of their log.

use super::fields::Format;
use super::input::{Line, Lines};
use super::line;
use super::record::Record;
use crate::time::Timestamp;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;

/// Lines that are held back so that earlier ones may overtake them: a minute at a thousand a second.
pub const REORDER_LINES: usize = 65_536;

/// Unreadable lines that are kept to be shown.
const MAX_EXAMPLES: usize = 5;

/// Characters of one that are shown.
const MAX_EXAMPLE_CHARS: usize = 120;

/// What became of the lines that were read.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Read {
    pub lines: u64,
    pub unreadable: u64,
    /// Decided at a later instant than their own.
    pub late: u64,
    pub examples: Vec<Unreadable>,
}

/// A line that could not be read.
#[derive(Clone, Debug, Serialize)]
pub struct Unreadable {
    pub log: String,
    pub line: u64,
    pub reason: &'static str,
    /// Its beginning.
    pub text: String,
}

/// One log and its next request.
struct Source {
    lines: Lines,
    next: Option<Box<Record>>,
}

/// Requests in order.
pub struct Ordered<'f> {
    format: &'f Format,
    sources: Vec<Source>,
    waiting: BinaryHeap<Waiting>,
    taken: u64,
    clock: Timestamp,
    pub read: Read,
}

/// A request in the heap; the earliest is the greatest.
struct Waiting {
    at: Timestamp,
    number: u64,
    record: Box<Record>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl<'f> Ordered<'f> {
    /// Reads the first line of each log.
    pub fn new(logs: Vec<Lines>, format: &'f Format) -> io::Result<Self> {
        let mut ordered = Self {
            format,
            sources: Vec::with_capacity(logs.len()),
            waiting: BinaryHeap::with_capacity(REORDER_LINES + 1),
            taken: 0,
            clock: Timestamp(i64::MIN),
            read: Read::default(),
        };
        for mut lines in logs {
            let next = ordered.next_of(&mut lines)?;
            ordered.sources.push(Source { lines, next });
        }
        Ok(ordered)
    }

    /// The next request; its instant is never before that of the one before it.
    pub fn next_record(&mut self) -> io::Result<Option<Box<Record>>> {
        while self.waiting.len() <= REORDER_LINES {
            let Some(record) = self.take()? else { break };
            self.waiting.push(Waiting { at: record.at, number: self.taken, record });
            self.taken += 1;
        }
        let Some(Waiting { mut record, .. }) = self.waiting.pop() else { return Ok(None) };
        if record.at < self.clock {
            self.read.late += 1;
            record.at = self.clock;
        }
        self.clock = record.at;
        Ok(Some(record))
    }

    /// The request of the log whose next one is the earliest.
    fn take(&mut self) -> io::Result<Option<Box<Record>>> {
        let due = self.sources.iter().enumerate().filter_map(|(index, source)| Some((source.next.as_ref()?.at, index)));
        let Some((_, index)) = due.min() else { return Ok(None) };
        let taken = self.sources[index].next.take();
        // The source leaves its place while it is read, since what cannot be read is counted beside it.
        let mut source = self.sources.swap_remove(index);
        source.next = self.next_of(&mut source.lines)?;
        self.sources.push(source);
        let last = self.sources.len() - 1;
        self.sources.swap(index, last);
        Ok(taken)
    }

    fn next_of(&mut self, lines: &mut Lines) -> io::Result<Option<Box<Record>>> {
        loop {
            let name = lines.name.clone();
            let number = lines.number + 1;
            let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
            let (text, reason) = match lines.next_line().map_err(named)? {
                Line::End => return Ok(None),
                Line::Whole(text) if text.trim_ascii().is_empty() => continue,
                Line::TooLong(text) => (text, "it is too long"),
                Line::Whole(text) => match line::read(text, self.format).and_then(|raw| Record::new(&raw)) {
                    Ok(record) => {
                        self.read.lines += 1;
                        return Ok(Some(Box::new(record)));
                    }
                    Err(reason) => (text, reason),
                },
            };
            self.read.lines += 1;
            self.read.unreadable += 1;
            if self.read.examples.len() < MAX_EXAMPLES {
                let text = String::from_utf8_lossy(text).chars().take(MAX_EXAMPLE_CHARS).collect();
                self.read.examples.push(Unreadable { log: name.to_string(), line: number, reason, text });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Arc;

    fn logs(texts: &[&str]) -> Vec<Lines> {
        let open = |text: &&str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            Lines::open(&file.path().to_string_lossy(), Arc::default()).unwrap()
        };
        texts.iter().map(open).collect()
    }

    fn line(at: i64, path: &str) -> String {
        format!("time={at} client_ip=::1 path={path}\n")
    }

    fn paths(ordered: &mut Ordered<'_>) -> Vec<String> {
        let records = std::iter::from_fn(|| ordered.next_record().unwrap());
        records.map(|record| format!("{}@{}", record.path, record.at.seconds())).collect()
    }

    #[test]
    fn logs_are_merged_and_lines_of_one_instant_keep_their_order() {
        let (new, old) = (
            [line(7, "/e"), line(9, "/f")].concat(),
            [line(1, "/a"), line(3, "/c"), line(3, "/d"), line(2, "/b")].concat(),
        );
        let format = Format::known();
        let mut ordered = Ordered::new(logs(&[&new, &old]), &format).unwrap();
        assert_eq!(paths(&mut ordered), ["/a@1", "/b@2", "/c@3", "/d@3", "/e@7", "/f@9"]);
        assert_eq!((ordered.read.lines, ordered.read.late, ordered.read.unreadable), (6, 0, 0));
    }

    #[test]
    fn a_line_beyond_the_reorder_bound_is_late_and_never_sets_the_clock_back() {
        let mut text: String = (0..=REORDER_LINES as i64).map(|at| line(100 + at, "/x")).collect();
        text.push_str(&line(5, "/late"));
        text.push_str("broken\n\n");
        let format = Format::known();
        let mut ordered = Ordered::new(logs(&[&text]), &format).unwrap();
        let found = paths(&mut ordered);
        assert_eq!(found[1], "/late@100");
        assert_eq!((ordered.read.late, ordered.read.unreadable), (1, 1));
        assert_eq!(ordered.read.examples[0].line, REORDER_LINES as u64 + 3);
    }
}
