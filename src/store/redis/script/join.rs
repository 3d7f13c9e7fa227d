//! Joins the parts of a script: the choice of the algorithm written in, comments and what nothing refers to left out,
//! constants written in as numbers.
//!
//! It reads no Lua, only the habits of the files in `lua/`: a definition begins with `local` at the left margin and goes
//! on to the next; a constant has no small letter in its name, one line and one value everywhere; a comment has a line
//! of its own; a row's algorithm is the last argument of a call that chooses by it.

use super::{CALENDAR_BIT, Shape, Twin};
use std::collections::{BTreeMap, BTreeSet};

/// The functions that `acquire.lua` and `settle.lua` call for the algorithm of a row and whose results they use: the
/// choice is written in at the call.
const CHOSEN_AT_THE_CALL: &[&str] = &["at", "remaining", "wait", "delay", "reset", "fresh_at"];

/// Those that may return nothing, where the choice is a function of its own, and what they take.
const CHOSEN_BY_A_FUNCTION: &[(&str, &str)] = &[
    ("charge", "p, v, now, cost, held"),
    ("debit", "p, a, b, c, now, at, cost"),
    ("refund", "p, a, b, c, now, at, cost"),
];

/// The script of the algorithms of a shape, `records` and `main`.
pub(super) fn join(shape: Shape, records: &str, main: &str) -> String {
    let mut all = files_of(shape, &[records, &choices(shape)]);
    let main: String = main.lines().filter(|line| is_code(line)).flat_map(|line| [line, "\n"]).collect();
    let main = CHOSEN_AT_THE_CALL.iter().fold(main, |main, name| choose_at_the_call(shape, name, &main));
    all.extend(definitions(&main).into_iter().map(Definition::of_main));
    reached(all)
}

/// What the files of the algorithms define, and then the others.
pub(super) fn files_of(shape: Shape, others: &[&str]) -> Vec<Definition> {
    let mut files: Vec<&str> = Vec::new();
    for file in shape.twins().flat_map(|(_, twin)| twin.files) {
        if !files.contains(file) {
            files.push(file);
        }
    }
    files.extend(others);
    let mut all: Vec<Definition> = files.iter().flat_map(|file| definitions(file)).collect();
    if shape.0 & CALENDAR_BIT == 0 {
        // Month and year arithmetic is left out where no window needs it.
        for definition in all.iter_mut().filter(|definition| definition.names == ["frame"]) {
            definition.text = "local frame = frame_of_span".to_owned();
        }
    }
    all
}

/// The twins of a shape that define this function, each with its number.
pub(super) fn twins_with(shape: Shape, name: &str) -> Vec<(usize, &'static Twin)> {
    let defines = |twin: &Twin| {
        let defined = format!("{}_{name}", twin.prefix);
        twin.files.iter().any(|file| {
            file.contains(&format!("\nlocal function {defined}(")) || file.contains(&format!("\nlocal {defined} ="))
        })
    };
    shape.twins().filter(|(_, twin)| defines(twin)).collect()
}

/// The functions that choose by a row's algorithm; where there is only one, another name for its own.
fn choices(shape: Shape) -> String {
    let mut text = String::new();
    for (name, parameters) in CHOSEN_BY_A_FUNCTION {
        let with = twins_with(shape, name);
        if let [(_, twin)] = with.as_slice() {
            text += &format!("local {name} = {}_{name}\n", twin.prefix);
            continue;
        }
        text += &format!("local function {name}({parameters}, algorithm)\n");
        for (index, twin) in with {
            text += &format!("if algorithm == {index} then\nreturn {}_{name}({parameters})\nend\n", twin.prefix);
        }
        text += "end\n";
    }
    // Only the leaky bucket delays.
    let delays = !twins_with(shape, "delay").is_empty();
    text + &format!("local delay = {delays}\n")
}

/// Writes the choice by algorithm, a call's last argument, in at each call of that function. An algorithm without it (only
/// the leaky bucket delays) gives 0.
fn choose_at_the_call(shape: Shape, name: &str, text: &str) -> String {
    let with = twins_with(shape, name);
    let call = format!("{name}(");
    let (mut chosen, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(&call) {
        chosen += before;
        let ends_a_word = before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter));
        if ends_a_word {
            chosen += &call;
            rest = after;
            continue;
        }
        let end = closing(after);
        let (given, algorithm) = after[..end].rsplit_once(", ").expect("a call names the algorithm last");
        let by_algorithm =
            |(index, twin): &(usize, &Twin)| format!("{algorithm} == {index} and {}_{name}({given})", twin.prefix);
        let mut choices: Vec<String> = with.iter().map(by_algorithm).collect();
        // Where all have it, the last needs no condition. No result is false or nil.
        if with.len() < shape.twins().count() {
            choices.push("0".to_owned());
        } else if let (Some(last), Some((_, twin))) = (choices.last_mut(), with.last()) {
            *last = format!("{}_{name}({given})", twin.prefix);
        }
        chosen += &format!("({})", choices.join(" or "));
        rest = &after[end + 1..];
    }
    chosen + rest
}

/// Where the parenthesis that is open at the beginning closes.
pub(super) fn closing(text: &str) -> usize {
    let mut depth = 1;
    let closes = |letter: char| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    };
    text.find(closes).expect("the shipped files are Lua")
}

/// Something that a file defines at its left margin, up to the next.
pub(super) struct Definition {
    pub names: Vec<String>,
    /// The values of constants, which are written in where they are used. A constant's name has no small letter.
    pub constants: Vec<String>,
    pub text: String,
}

pub(super) fn is_code(line: &str) -> bool {
    !line.is_empty() && !line.trim_start().starts_with("--")
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| is_code(line)).fold(String::new(), |mut kept, line| {
        kept.push_str(line.trim_start());
        kept.push('\n');
        kept
    })
}

pub(super) fn definitions(file: &str) -> Vec<Definition> {
    let mut found: Vec<String> = Vec::new();
    for line in file.lines().filter(|line| is_code(line)) {
        match found.last_mut() {
            Some(last) if !line.starts_with("local ") => {
                last.push('\n');
                last.push_str(line);
            }
            _ => found.push(line.to_owned()),
        }
    }
    found.into_iter().map(Definition::read).collect()
}

impl Definition {
    fn read(text: String) -> Self {
        let declared = text.strip_prefix("local ").unwrap_or_default();
        if let Some(function) = declared.strip_prefix("function ") {
            let name = function.split('(').next().unwrap_or_default();
            return Self { names: vec![name.to_owned()], constants: Vec::new(), text };
        }
        let (names, values) = declared.split_once('=').unwrap_or((declared, ""));
        let list = |text: &str| text.split(',').map(|part| part.trim().to_owned()).collect::<Vec<String>>();
        let names = list(names);
        let is_constant = names.iter().all(|name| !name.contains(|letter: char| letter.is_lowercase()));
        let constants = if is_constant { list(values) } else { Vec::new() };
        Self { names, constants, text }
    }
}

impl Definition {
    /// What runs by itself.
    pub fn nameless(text: String) -> Self {
        Self { names: Vec::new(), constants: Vec::new(), text }
    }

    /// Of what this is another name.
    pub fn alias(&self) -> Option<&str> {
        let (_, of) = self.text.split_once(" = ")?;
        (self.names.len() == 1 && self.constants.is_empty()).then_some(of.trim())
    }

    /// What runs by itself and needs no reason to be kept.
    fn of_main(self) -> Self {
        if self.constants.is_empty() { Self { names: Vec::new(), ..self } } else { self }
    }
}

/// Words of a Lua text, and what stands between them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|letter: char| is_word(letter) != is_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// Joins the definitions without a name and what they refer to, directly or not; the others are left out.
pub(super) fn reached(definitions: Vec<Definition>) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    // A name may be defined again by another file, to the same value.
    let mut constants: BTreeMap<String, String> = BTreeMap::new();
    for definition in definitions.into_iter().rev() {
        constants.extend(definition.names.iter().cloned().zip(definition.constants.iter().cloned()));
        let is_wanted = definition.names.is_empty() || definition.names.iter().any(|name| wanted.contains(name));
        if is_wanted && definition.constants.is_empty() {
            let text = without_comments(&definition.text);
            wanted.extend(words(&text).map(str::to_owned));
            kept.push(text);
        }
    }
    kept.reverse();
    let value = |word: &str| constants.get(word).map_or_else(|| word.to_owned(), |value| format!("({value})"));
    words(&kept.concat()).map(value).collect()
}
