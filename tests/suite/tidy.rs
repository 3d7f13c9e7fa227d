//! The architecture and the house rules, checked: what may import what, who reads the clock, that docs keep step.

use crate::support::program;
use sluicegate::algorithm::ALGORITHMS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines a source file may have, its tests not counted.
const MAX_LINES: usize = 450;

/// What still fits beside another file on a screen.
const MAX_COLUMNS: usize = 160;

/// Modules and their layer; imports go downwards only. The metrics need nothing, and only the rim moves them.
const LAYERS: &[(&str, u8)] = &[
    ("time", 0),
    ("metrics", 0),
    ("config", 1),
    ("request", 1),
    ("algorithm", 1),
    ("charge", 2),
    ("upstream", 2),
    ("policy", 3),
    ("store", 3),
    ("limiter", 4),
    ("proxy", 5),
    ("admin", 5),
    ("load", 5),
    ("reload", 5),
    ("server", 6),
    ("replay", 6),
    ("cli", 6),
    ("main", 6),
];

/// Imports that are allowed although they do not go downwards: the configuration names algorithms, keys and addresses are
/// read as the configuration says, a reload loads what the proxy serves, the admin port reads the configuration in
/// force and how the last reload went, and commands start the server.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("config", "algorithm"),
    ("request", "config"),
    ("admin", "proxy"),
    ("admin", "reload"),
    // A store that may fail counts how; what decides still knows no metric.
    ("store", "metrics"),
    ("load", "proxy"),
    ("reload", "load"),
    ("reload", "proxy"),
    ("cli", "server"),
    ("cli", "replay"),
    ("main", "cli"),
    ("main", "server"),
];

/// Crates that only these modules may use.
const ONLY_IN: &[(&str, &[&str])] = &[("pingora", &["proxy", "server", "admin", "cli"]), ("toml", &["config"])];

/// Modules that stay free of the runtime, so that they can be tested and reused without it.
const WITHOUT_TOKIO: &[&str] = &["request", "algorithm", "charge", "policy", "config", "limiter", "upstream"];

/// One source file, taken apart.
struct Source {
    path: PathBuf,
    /// The top-level module it belongs to.
    module: String,
    /// Without comments and without tests.
    code: String,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a directory of the package with one of these endings, sorted.
pub fn files(directory: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![root().join(directory)];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.expect("the directory can be read").path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|ending| endings.iter().any(|each| ending == *each)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources() -> Vec<Source> {
    let all = files("src", &["rs"]).into_iter().map(|path| {
        let text = read(&path);
        let inside = path.strip_prefix(root().join("src")).expect("it was found there").to_path_buf();
        let module = inside.components().next().expect("a file has a name").as_os_str().to_string_lossy();
        let module = module.trim_end_matches(".rs").to_string();
        let only_tests = inside.with_extension("").components().any(|part| part.as_os_str() == "tests");
        let code = if only_tests { String::new() } else { code_of(&text) };
        Source { path: inside, module, code }
    });
    all.collect()
}

/// The text up to its test module, comments blanked.
fn code_of(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let without_comment = |line: &str| match line.find("//") {
        Some(start) if !line[..start].ends_with(':') => line[..start].to_string(),
        _ => line.to_string(),
    };
    text[..end].lines().map(without_comment).collect::<Vec<_>>().join("\n")
}

/// Top-level modules of this crate that the code names.
fn imports(code: &str, own: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let crate_paths = ["crate::", "sluicegate::"];
    for (start, prefix) in crate_paths.iter().flat_map(|prefix| code.match_indices(prefix)) {
        let rest = &code[start + prefix.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            found.extend(names_of_group(group));
        } else {
            found.insert(rest.chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '_').collect());
        }
    }
    found.retain(|name| name != own && LAYERS.iter().any(|(module, _)| module == name));
    found
}

/// First path segments within `{…}`.
fn names_of_group(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut current) = (1, Vec::new(), String::new());
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && letter == ',') {
            names.push(current.trim().split("::").next().unwrap_or_default().to_string());
            current.clear();
        } else {
            current.push(letter);
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// Whether the code uses a path of that crate.
fn uses(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(start, _)| {
        !code[..start].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':')
    })
}

/// Fails with all complaints at once.
#[track_caller]
pub fn assert_none(what: &str, complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{what}:\n  {}", complaints.join("\n  "));
}

#[test]
fn every_file_begins_with_what_it_is_for() {
    let mut all = files("src", &["rs"]);
    all.extend(files("tests", &["rs"]));
    // A `tests.rs` is about the module beside it, whose doc says it all.
    let silent = all
        .iter()
        .filter(|path| !path.ends_with("tests.rs") && !read(path).starts_with("//! "))
        .map(|path| path.display().to_string());
    assert_none("without a module doc in the first line", silent.collect());
}

#[test]
fn imports_go_downwards_only() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.module != "lib") {
        let own = layer(&source.module);
        let own = own.unwrap_or_else(|| panic!("{} has no layer: add it to LAYERS", source.module));
        for import in imports(&source.code, &source.module) {
            let excepted = EXCEPTIONS.contains(&(source.module.as_str(), import.as_str()));
            let down = layer(&import).is_some_and(|theirs| theirs < own) && (import != "metrics" || own >= 5);
            if !down && !excepted {
                wrong.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    assert_none("imports against the layers", wrong);
}

#[test]
fn crates_of_the_rim_stay_at_the_rim() {
    let mut wrong = Vec::new();
    for source in sources() {
        for (name, places) in ONLY_IN {
            if uses(&source.code, name) && !places.contains(&source.module.as_str()) {
                wrong.push(format!("{} uses {name}", source.path.display()));
            }
        }
        if uses(&source.code, "tokio") && WITHOUT_TOKIO.contains(&source.module.as_str()) {
            wrong.push(format!("{} uses tokio", source.path.display()));
        }
    }
    assert_none("crates out of place", wrong);
}

#[test]
fn b84_one_file_reads_the_clock() {
    let reads = |source: &Source| ["Instant::now", "SystemTime::now"].iter().any(|read| source.code.contains(read));
    let wrong = sources().into_iter().filter(|source| source.module != "time" && reads(source));
    assert_none("clock reads outside time.rs", wrong.map(|source| source.path.display().to_string()).collect());
}

#[test]
fn nothing_is_left_undone_or_unchecked() {
    let mut wrong = Vec::new();
    for source in sources() {
        for (index, line) in source.code.lines().enumerate() {
            let bad = [".unwrap()", "todo!", "unimplemented!", "dbg!("].iter().find(|word| line.contains(**word));
            wrong.extend(bad.map(|word| format!("{}:{}: {word}", source.path.display(), index + 1)));
        }
    }
    let ignored = concat!("#[", "ignore");
    let mut all = files("src", &["rs"]);
    all.extend(files("tests", &["rs"]));
    let ignoring = all.iter().filter(|path| read(path).contains(ignored));
    wrong.extend(ignoring.map(|path| format!("{}: an ignored test", path.display())));
    assert_none("left undone", wrong);
}

#[test]
fn files_stay_readable() {
    let long = sources().into_iter().filter(|source| source.code.lines().count() > MAX_LINES);
    let names = long.map(|source| format!("{}: {} lines", source.path.display(), source.code.lines().count()));
    assert_none("too long", names.collect());
    assert!(sources().iter().all(|source| source.code.lines().all(|line| line.chars().count() <= MAX_COLUMNS)));
}

#[test]
fn every_algorithm_has_its_section() {
    let text = read(&root().join("docs/algorithms.md"));
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    let missing = ALGORITHMS.iter().filter(|each| !headings.iter().any(|heading| heading.contains(each.name())));
    assert_none("no section in docs/algorithms.md", missing.map(|each| each.name().to_string()).collect());
}

/// Keys of a table and of those in it; names that an operator chooses are left out.
fn keys_of(table: &toml::Table, chosen: bool, into: &mut BTreeSet<String>) {
    for (key, value) in table {
        if !chosen {
            into.insert(key.clone());
        }
        let names_follow = !chosen
            && matches!(key.as_str(), "upstreams" | "tiers" | "consumers" | "when" | "headers")
            && value.is_table();
        let names_follow = names_follow && !(key == "headers" && value.get("dialect").is_some());
        let tables = match value {
            toml::Value::Array(values) => values.iter().filter_map(toml::Value::as_table).collect(),
            value => value.as_table().into_iter().collect::<Vec<_>>(),
        };
        for table in tables {
            keys_of(table, names_follow, into);
        }
    }
}

#[test]
fn every_key_is_documented() {
    let docs = read(&root().join("docs/configuration.md"));
    let words: BTreeSet<&str> = docs.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).collect();
    let mut keys = BTreeSet::new();
    for name in ["config/sluicegate.toml", "config/keys.toml"] {
        keys_of(&read(&root().join(name)).parse().expect("it is TOML"), false, &mut keys);
    }
    assert!(keys.len() > 40, "only {} keys in the example", keys.len());
    let missing = keys.into_iter().filter(|key| !words.contains(key.as_str()));
    assert_none("not in docs/configuration.md", missing.collect());
}

#[track_caller]
fn complaint_of_check(directory: &Path, file: &str) -> Option<String> {
    let checked = program::run(directory, &["check", "-c", file]);
    (checked.code != Some(0)).then(|| format!("{file}: {}", checked.output()))
}

#[test]
fn every_example_passes_the_check() {
    let all = files("config", &["toml"]);
    // Keys files stand beside a configuration; the demo's listeners and upstream are added by the program.
    let is_part = |path: &&PathBuf| ["demo.toml", "keys.toml"].iter().any(|end| path.to_string_lossy().ends_with(end));
    let examples: Vec<&PathBuf> = all.iter().filter(|path| !is_part(path)).collect();
    assert!(!examples.is_empty(), "there are examples in config/");
    let wrong = examples.iter().filter_map(|path| {
        complaint_of_check(path.parent().expect("a file is in a directory"), &path.file_name()?.to_string_lossy())
    });
    assert_none("examples that do not pass", wrong.collect());
}

#[test]
fn no_path_of_anybodys_machine_is_written_down() {
    let homes = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];
    let mut all: Vec<PathBuf> =
        ["src", "tests", "docs", "config"].iter().flat_map(|name| files(name, &["rs", "md", "toml"])).collect();
    all.extend(["README.md", "Cargo.toml"].map(|name| root().join(name)).into_iter().filter(|path| path.exists()));
    let wrong = all.iter().filter(|path| homes.iter().any(|home| read(path).contains(home)));
    assert_none("absolute paths", wrong.map(|path| path.display().to_string()).collect());
}
