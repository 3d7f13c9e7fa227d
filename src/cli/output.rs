//! What commands print: to a pipe that may be closed, and in colours only where somebody sees them.
//!
//! Colours are for a terminal alone, and never with `NO_COLOR` (no-color.org). They add nothing that the text does not say.

use crate::load::Checked;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BLUE: &str = "\x1b[34m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Whether a stream gets colours.
pub fn has_colours(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Prints to standard output. A reader that has seen enough (`head`) is no failure.
pub fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            fail(&format!("standard output cannot be written: {error}"), 1)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints a value as JSON.
pub fn print_json(value: &impl serde::Serialize) -> ExitCode {
    let text = serde_json::to_string_pretty(value).expect("records are plain data");
    print(&(text + "\n"))
}

/// Says why a command ends, on standard error.
pub fn fail(message: &str, code: u8) -> ExitCode {
    eprintln!("sluicegate: {message}");
    ExitCode::from(code)
}

/// Prints every problem of a configuration on standard error; for commands that need one without errors.
pub fn report_problems(checked: &Checked) -> ExitCode {
    print_problems(checked);
    ExitCode::FAILURE
}

/// Prints errors, then warnings, on standard error.
pub fn print_problems(checked: &Checked) {
    let colours = has_colours(&io::stderr());
    for problem in checked.rendered_errors().iter().chain(&checked.rendered_warnings()) {
        if colours {
            eprintln!("{}", coloured(problem));
        } else {
            eprintln!("{problem}");
        }
    }
}

/// A rendered problem with colours: its severity, its place, its carets, its help.
fn coloured(problem: &str) -> String {
    let severity = if problem.starts_with("warning") { YELLOW } else { RED };
    let line = |line: &str| {
        let trimmed = line.trim_start();
        if let Some((word, rest)) = line.split_once(": ").filter(|(word, _)| matches!(*word, "error" | "warning")) {
            return format!("{severity}{word}{PLAIN}: {rest}\n");
        }
        if trimmed.starts_with("--> ") {
            return format!("{BLUE}{line}{PLAIN}\n");
        }
        if let Some((gutter, carets)) = line.split_once("| ").filter(|(_, rest)| rest.trim_start().starts_with('^')) {
            return format!("{gutter}| {severity}{carets}{PLAIN}\n");
        }
        match line.strip_prefix("  help: ") {
            Some(help) => format!("  {CYAN}help{PLAIN}: {help}\n"),
            None => format!("{line}\n"),
        }
    };
    problem.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_nothing_but_colours() {
        let plain = "error: unknown key `raet`\n --> sluicegate.toml:9:3\n9 | raet = \"5/min\"\n  | ^^^^\n  help: did you mean `rate`?\n";
        let painted = coloured(plain);
        let mut without = painted.clone();
        for code in [RED, YELLOW, BLUE, CYAN, PLAIN] {
            without = without.replace(code, "");
        }
        assert_eq!(without, plain);
        assert_eq!(painted.matches(RED).count(), 2, "{painted:?}");
        assert!(coloured("warning: w\n").starts_with(YELLOW));
    }
}
