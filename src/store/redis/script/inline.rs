//! Writes functions in at their calls, and lists out as the variables that they are made of.
//!
//! A call of a Lua function and a list that it returns are most of what a decision costs beside the commands of Redis, so the
//! text for few charges has neither. Like [`super::join`] this reads no Lua, only the habits of the files in `lua/`: one statement
//! a line, two spaces a level; no `return` inside a loop; a list that is returned always has the same length and is asked for
//! by number. A call is taken out of its line and made before it, so it must not stand in a condition that is tried
//! again (`elseif`, `while`), and what stands right of `and` or `or` is called even when it is not needed.

use super::join::{Definition, words};
use std::collections::{BTreeMap, BTreeSet};

/// Functions by name, and the names of variables that stand for a list.
pub(super) struct Inliner {
    functions: BTreeMap<String, Function>,
    views: BTreeSet<String>,
    instances: usize,
    out: Vec<String>,
}

#[derive(Clone)]
struct Function {
    parameters: Vec<String>,
    body: Vec<String>,
    /// How many numbers the list has that it returns, if it returns one.
    fields: Option<usize>,
}

/// What becomes of a `return`.
#[derive(Clone, Copy)]
enum Returned<'a> {
    /// It stays.
    Stays,
    /// The values go to these variables; true: and the block around is left.
    GoesTo(&'a [String], bool),
}

/// A call in a line: of which function, from where to where, and its arguments.
struct Call {
    function: Function,
    start: usize,
    end: usize,
    arguments: Vec<String>,
}

impl Inliner {
    /// Of all these functions, save those that `kept` names. `views` are variables that stand for lists from the start.
    pub fn new(definitions: &[Definition], kept: &[&str], views: impl IntoIterator<Item = String>) -> Self {
        let mut functions = BTreeMap::new();
        for definition in definitions.iter().filter(|definition| !kept.iter().any(|name| definition.names == [*name])) {
            if let Some((name, function)) = Function::read(&definition.text) {
                functions.insert(name, function);
            } else if let Some(function) = definition.alias().and_then(|of| functions.get(of)).cloned() {
                functions.insert(definition.names[0].clone(), function);
            }
        }
        Self { functions, views: views.into_iter().collect(), instances: 0, out: Vec::new() }
    }

    /// The text with all calls written out. Lists still are: see [`Inliner::spread`].
    pub fn write_out(&mut self, text: &str) -> String {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        self.lines(&lines, Returned::Stays);
        self.out.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// Writes `v_3` for `v[3]`, where `v` stands for a list. Numbers of a list may be constants, already in parentheses.
    pub fn spread(&self, text: &str) -> String {
        let (mut spread, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('[') {
            spread += before;
            let word = last_word(before);
            let number = after.split_once(']').map(|(number, after)| (number.trim_matches(['(', ')']), after));
            match number {
                Some((number, after)) if self.views.contains(word) => {
                    spread += &format!("_{number}");
                    rest = after;
                }
                _ => {
                    spread.push('[');
                    rest = after;
                }
            }
        }
        spread + rest
    }

    fn lines(&mut self, lines: &[String], returned: Returned<'_>) {
        let mut nested: Option<usize> = None;
        for (index, line) in lines.iter().enumerate() {
            // A function within a function is left as it is.
            let indent = indent_of(line);
            if nested.is_some() || line.trim_start().starts_with("local function ") {
                let ends = nested.is_some_and(|outer| indent == outer) && line.trim() == "end";
                nested = if ends { None } else { nested.or(Some(indent)) };
                self.out.push(line.clone());
                continue;
            }
            self.line(line.trim(), returned, index + 1 == lines.len());
        }
    }

    fn line(&mut self, line: &str, returned: Returned<'_>, is_last: bool) {
        let mut line = line.to_owned();
        while let Some(call) = self.last_call(&line) {
            let (before, is_whole) = (&line[..call.start], call.end == line.len());
            let declared = before.strip_prefix("local ").and_then(|names| names.strip_suffix(" = "));
            let assigned =
                before.strip_suffix(" = ").filter(|names| !names.contains(['(', ' ']) || names.contains(", "));
            match (before, returned) {
                ("", _) if is_whole => return self.write_in(&call, &[]),
                ("return ", Returned::GoesTo(targets, leaves)) if is_whole => {
                    self.write_in(&call, targets);
                    return self.leave(leaves && !is_last);
                }
                _ if is_whole && let Some(names) = declared => {
                    let targets = self.declare(names, &call);
                    return self.write_in(&call, &targets);
                }
                _ if is_whole && let Some(names) = assigned => return self.write_in(&call, &list(names)),
                _ => {}
            }
            assert!(!["elseif ", "while ", "until "].iter().any(|word| line.starts_with(word)), "not before: {line}");
            let name = format!("given_x{}", self.instances + 1);
            let targets = self.declare(&name, &call);
            self.write_in(&call, &targets);
            line = format!("{}{name}{}", &line[..call.start], &line[call.end..]);
        }
        let values = line.strip_prefix("return").filter(|values| values.is_empty() || values.starts_with(' '));
        match (values, returned) {
            (Some(values), Returned::GoesTo(targets, leaves)) => {
                let values = match values.trim().strip_prefix('{').and_then(|values| values.strip_suffix('}')) {
                    Some(numbers) if targets.len() > 1 => numbers.trim(),
                    _ => values.trim(),
                };
                if !targets.is_empty() && !values.is_empty() {
                    self.out.push(format!("{} = {values}", targets.join(", ")));
                }
                self.leave(leaves && !is_last);
            }
            _ => self.out.push(line),
        }
    }

    fn leave(&mut self, leaves: bool) {
        if leaves {
            self.out.push("break".to_owned());
        }
    }

    /// Declares what a call gives: the variables of those names or, where it gives a list, of its numbers.
    fn declare(&mut self, names: &str, call: &Call) -> Vec<String> {
        let targets = match call.function.fields {
            Some(fields) => {
                self.views.insert(names.to_owned());
                (1..=fields).map(|field| format!("{names}_{field}")).collect()
            }
            None => list(names),
        };
        self.out.push(format!("local {}", targets.join(", ")));
        targets
    }

    /// Writes a function in, its variables under names of their own; what it returns goes to `targets`.
    fn write_in(&mut self, call: &Call, targets: &[String]) {
        self.instances += 1;
        let (function, instance) = (&call.function, self.instances);
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let (mut parameters, mut values) = (Vec::new(), Vec::new());
        for (parameter, argument) in function.parameters.iter().zip(&call.arguments).filter(|(name, _)| *name != "_") {
            let own = format!("{parameter}_x{instance}");
            if self.views.contains(argument) {
                names.insert(parameter.clone(), argument.clone());
            } else {
                parameters.push(own.clone());
                values.push(argument.clone());
                names.insert(parameter.clone(), own);
            }
        }
        for name in function.body.iter().flat_map(|line| declared_in(line)) {
            names.entry(name.clone()).or_insert_with(|| format!("{name}_x{instance}"));
        }
        let body: Vec<String> = function.body.iter().map(|line| renamed(line, &names)).collect();
        let leaves = function.returns_early();
        self.out.push(if leaves { "repeat" } else { "do" }.to_owned());
        if !parameters.is_empty() {
            self.out.push(format!("local {} = {}", parameters.join(", "), values.join(", ")));
        }
        self.lines(&body, Returned::GoesTo(targets, leaves));
        self.out.push(if leaves { "until true" } else { "end" }.to_owned());
    }

    /// The last call in a line: no other is among its arguments.
    fn last_call(&self, line: &str) -> Option<Call> {
        let (mut end, mut last) = (0, None);
        for word in words(line) {
            let start = end;
            end += word.len();
            if line[end..].starts_with('(')
                && let Some(function) = self.functions.get(word)
            {
                last = Some((start, end, function));
            }
        }
        let (start, name_end, function) = last?;
        let close = name_end + 1 + super::join::closing(&line[name_end + 1..]);
        let arguments = list_of_arguments(&line[name_end + 1..close]);
        Some(Call { function: function.clone(), start, end: close + 1, arguments })
    }
}

impl Function {
    fn read(text: &str) -> Option<(String, Self)> {
        let (head, rest) = text.strip_prefix("local function ")?.split_once('\n')?;
        let (name, parameters) = head.trim_end_matches(')').split_once('(')?;
        let body: Vec<String> = rest.trim_end().strip_suffix("end")?.lines().map(str::to_owned).collect();
        let lists: Vec<Option<usize>> = body
            .iter()
            .filter_map(|line| line.trim_start().strip_prefix("return"))
            .map(|value| Some(list_of_arguments(value.trim().strip_prefix('{')?.strip_suffix('}')?).len()))
            .collect();
        let fields = lists.first().copied().flatten().filter(|_| lists.iter().all(|fields| *fields == lists[0]));
        Some((name.to_owned(), Self { parameters: list(parameters), body, fields }))
    }

    /// Whether something follows a `return` of it.
    fn returns_early(&self) -> bool {
        let mut nested = None;
        let mut returns = 0;
        for line in &self.body {
            let (indent, text) = (indent_of(line), line.trim());
            if text.starts_with("local function ") {
                nested = Some(indent);
            } else if nested == Some(indent) && text == "end" {
                nested = None;
            } else if nested.is_none() && text.starts_with("return") {
                returns += 1;
            }
        }
        let at_the_end = self.body.last().is_some_and(|line| line.starts_with("  return"));
        returns > usize::from(at_the_end)
    }
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Parts between commas that no bracket holds.
fn list_of_arguments(text: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in text.chars() {
        depth += i32::from("([{".contains(letter)) - i32::from(")]}".contains(letter));
        match parts.last_mut() {
            Some(part) if letter != ',' || depth > 0 => part.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Variables that a line declares.
fn declared_in(line: &str) -> Vec<String> {
    let line = line.trim_start();
    if let Some(function) = line.strip_prefix("local function ") {
        return list(&function.replace(['(', ')'], ","));
    }
    let declared = line.strip_prefix("local ").or_else(|| line.strip_prefix("for ")).unwrap_or_default();
    list(declared.split(" = ").next().unwrap_or_default())
}

/// The line with variables renamed; what follows a dot is a field and none.
fn renamed(line: &str, names: &BTreeMap<String, String>) -> String {
    let mut renamed = String::new();
    for word in words(line) {
        let name = names.get(word).filter(|_| !renamed.ends_with('.'));
        renamed += name.map_or(word, String::as_str);
    }
    renamed
}

/// The word that ends a text.
fn last_word(text: &str) -> &str {
    let start = text.rfind(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).map_or(0, |at| at + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::super::join::definitions;
    use super::*;

    const LIBRARY: &str = "\
local function half(number)
  if number % 2 == 1 then
    return -1
  end
  return number / 2
end

local function pair_of(number)
  local twice = number * 2
  return { number, twice }
end

local function grow(v, by)
  v[2] = v[2] + by
end

local same_half = half
";

    /// What a text gives with all calls written out.
    fn run(text: &str) -> (String, Vec<f64>) {
        let mut inliner = Inliner::new(&definitions(LIBRARY), &[], []);
        let written = inliner.write_out(text);
        let written = inliner.spread(&written);
        let lua = mlua::Lua::new();
        let numbers: mlua::Variadic<f64> =
            lua.load(&written).eval().unwrap_or_else(|error| panic!("{error}\n{written}"));
        (written, numbers.to_vec())
    }

    #[test]
    fn a_return_in_the_middle_leaves_the_function_and_nothing_else() {
        let (text, numbers) =
            run("local number = 7\nlocal a = half(number)\nlocal b = same_half(8)\nreturn a, b, number\n");
        assert_eq!(numbers, [-1.0, 4.0, 7.0], "{text}");
        assert!(!text.contains("half"), "{text}");
    }

    #[test]
    fn a_call_among_the_arguments_or_in_a_condition_is_made_before() {
        let (text, numbers) = run("local a = 0\nif half(half(10)) == -1 then\na = 1 + half(6) * 2\nend\nreturn a\n");
        assert_eq!(numbers, [7.0], "{text}");
    }

    #[test]
    fn a_list_is_the_variables_that_it_is_made_of_and_is_changed_in_place() {
        let (text, numbers) = run("local v = pair_of(5)\ngrow(v, v[1])\nreturn v[1], v[2]\n");
        assert_eq!(numbers, [5.0, 15.0], "{text}");
        assert!(!text.contains('{') && !text.contains('['), "{text}");
    }
}
