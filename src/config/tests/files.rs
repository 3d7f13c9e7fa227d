//! Several files: includes, the keys file, variables, and files that cannot be read.

use super::*;
use std::fs;
use tempfile::TempDir;

/// A directory with these files; the first is the main one.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

/// Loads `main.toml`; paths in the answer are without the directory.
fn load_in(directory: &TempDir) -> (Loaded, Vec<String>) {
    let loaded = load(&directory.path().join("main.toml"), &no_environment);
    let prefix = format!("{}/", directory.path().display());
    let shown = |problem: &Problem| {
        let record = loaded.sources.record(problem);
        let hint = record.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let place =
            format!("{}:{}:{}", record.file.unwrap_or_default(), record.line.unwrap_or(0), record.column.unwrap_or(0));
        format!("{place} {}{hint}", record.message).replace(&prefix, "")
    };
    let shown = loaded.problems.iter().map(shown).collect();
    (loaded, shown)
}

#[test]
fn includes_come_in_the_order_of_their_names_and_keys_from_their_own_file() {
    let main =
        format!("include = [\"conf.d/*.toml\", \"extra.toml\"]\n[auth]\nkeys_file = \"secret/keys.toml\"\n{REST}");
    let directory = directory(&[
        ("main.toml", &main),
        ("conf.d/20-b.toml", "[tiers.b]\n[[routes]]\nmatch = \"/b\"\n"),
        ("conf.d/10-a.toml", "[tiers.a]\n[[routes]]\nmatch = \"/a\"\n[log]\nlevel = \"warn\"\n"),
        ("conf.d/.hidden.toml", "nonsense"),
        ("conf.d/readme.txt", "nonsense"),
        ("extra.toml", "[tiers.c]\nlimits = [{ rate = \"5/s\" }]\n"),
        ("secret/keys.toml", KEYS),
    ]);
    let (loaded, problems) = load_in(&directory);
    assert_eq!(problems, Vec::<String>::new());
    let config = loaded.config.unwrap();
    let tiers: Vec<&str> = config.tiers.iter().map(|tier| tier.name.value.as_str()).collect();
    assert_eq!(tiers, ["a", "b", "c"]);
    let routes: Vec<&str> = config.routes.iter().map(|route| route.name.value.as_str()).collect();
    assert_eq!(routes, ["default", "/a", "/b"]);
    assert_eq!(config.log.level, tracing::Level::WARN);
    assert_eq!(config.consumers.len(), 1);
}

#[test]
fn a_name_in_two_files_is_an_error_that_names_both_places() {
    let main =
        format!("include = [\"a.toml\"]\n[log]\n[tiers.x]\nlimits = [{{ name = \"l\", rate = \"1/s\" }}]\n{REST}");
    let included = "[log]\n[tiers.x]\nlimits = [{ name = \"l\", rate = \"1/s\" }]\n[upstreams.api]\nservers = [\"a:1\"]\n[[routes]]\nmatch = \"/z\"\nname = \"default\"\n";
    let (_, problems) = load_in(&directory(&[("main.toml", &main), ("a.toml", included)]));
    assert_eq!(
        problems,
        [
            "a.toml:1:2 table `log` is defined twice (it is first defined at main.toml:2:2)",
            "a.toml:2:8 tier `x` is defined twice (it is first defined at main.toml:3:8)",
            "a.toml:3:20 limit `l` is defined twice (it is first defined at main.toml:4:20)",
            "a.toml:4:12 upstream `api` is defined twice (it is first defined at main.toml:6:12)",
            "a.toml:8:8 route `default` is defined twice (it is first defined at main.toml:9:9)",
        ]
    );
}

#[test]
fn includes_that_cannot_be_are_errors_where_they_are_named() {
    let vectors = [
        ("[\"nowhere.toml\"]", "main.toml:1:12 cannot read nowhere.toml: No such file"),
        ("[\"nowhere/*.toml\"]", "main.toml:1:12 `include`: cannot read the directory nowhere"),
        ("[\"*/a.toml\"]", "main.toml:1:12 `include`: \"*/a.toml\" is a pattern that is not supported"),
        ("[\"conf.d/**\"]", "main.toml:1:12 `include`: \"conf.d/**\" is a pattern that is not supported"),
        ("[\"\"]", "main.toml:1:12 `include`: \"\" names no file"),
        ("[\"*.toml\"]", "main.toml:1:12 \"*.toml\" includes the main file itself"),
        ("\"a.toml\"", "main.toml:1:11 `include` must be a list"),
        ("[5]", "main.toml:1:12 `include` must be a string"),
    ];
    for (include, expected) in vectors {
        let main = format!("include = {include}\n{REST}");
        let (_, problems) = load_in(&directory(&[("main.toml", &main)]));
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{include}: {problems:?}");
    }
    let nested = [("main.toml", &*format!("include = [\"a.toml\"]\n{REST}")), ("a.toml", "include = [\"b.toml\"]\n")];
    let (_, problems) = load_in(&directory(&nested));
    assert!(problems.len() == 1 && problems[0].starts_with("a.toml:1:1 unknown key `include`"), "{problems:?}");
    let empty = format!("include = [\"*.conf\", \"a.toml\", \"a.*\"]\n{REST}");
    let (_, problems) = load_in(&directory(&[("main.toml", &empty), ("a.toml", "[tiers.a]\n")]));
    assert_eq!(problems, Vec::<String>::new(), "a pattern may name none, and a file is read once");
}

#[test]
fn b26_files_that_cannot_be_read_are_errors() {
    let loaded = load(Path::new("/nowhere/main.toml"), &no_environment);
    assert!(loaded.config.is_none() && loaded.has_errors());
    assert!(loaded.problems[0].message.starts_with("cannot read /nowhere/main.toml: No such file"));
    let main = format!("[auth]\nkeys_file = \".\"\n{REST}");
    let (loaded, problems) = load_in(&directory(&[("main.toml", &main)]));
    assert!(problems.len() == 1 && problems[0].starts_with("main.toml:2:13 cannot read "), "{problems:?}");
    assert!(loaded.config.is_some(), "the rest can still be checked");
    let directory = directory(&[("main.toml", REST)]);
    fs::write(directory.path().join("main.toml"), b"# ok\n# \xff\n").unwrap();
    let (loaded, problems) = load_in(&directory);
    assert_eq!(problems, ["main.toml:2:3 the file is not UTF-8 from here on"]);
    assert!(loaded.config.is_none());
}

#[test]
fn b26_a_file_that_is_too_large_is_refused() {
    let directory = directory(&[("main.toml", REST)]);
    let path = directory.path().join("main.toml");
    fs::File::options().write(true).open(&path).unwrap().set_len(MAX_CONFIG_BYTES + 1).unwrap();
    let loaded = load(&path, &no_environment);
    assert!(loaded.problems[0].message.ends_with("is larger than 67108864 bytes"), "{:?}", loaded.problems[0].message);
}

#[test]
fn paths_are_relative_to_the_file_that_holds_them() {
    let main = format!("include = [\"sub/a.toml\"]\n[admin]\ntoken_file = \"token\"\n{REST}");
    let directory = directory(&[
        ("main.toml", &main),
        ("token", "s3cret\n"),
        ("sub/a.toml", "[responses.rate_limited]\nbody_file = \"body.txt\"\n[log]\naccess = \"access.log\"\n"),
        ("sub/body.txt", "wait {{ retry_after_seconds }}"),
    ]);
    let (loaded, problems) = load_in(&directory);
    assert_eq!(problems, Vec::<String>::new());
    let config = loaded.config.unwrap();
    assert_eq!(config.admin.token.as_ref().unwrap().reveal(), "s3cret");
    assert_eq!(config.rate_limited.body.unwrap().value, "wait {{ retry_after_seconds }}");
    assert_eq!(config.log.access, AccessLog::File(directory.path().join("sub/access.log")));
}

#[test]
fn a_token_file_with_no_token_and_two_bodies_are_errors() {
    let main = format!(
        "[admin]\nlisten = \"0.0.0.0:1\"\ntoken_file = \"token\"\n[responses.rate_limited]\nbody = \"a\"\nbody_file = \"token\"\n{REST}"
    );
    let (_, problems) = load_in(&directory(&[("main.toml", &main), ("token", "two words\n")]));
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("main.toml:3:14 `token_file`: token must hold one token"), "{problems:?}");
    assert!(problems[1].starts_with("main.toml:6:1 `body` and `body_file` are both given"), "{problems:?}");
    assert!(!problems.concat().contains("two words"));
}

#[test]
fn variables_are_replaced_in_values_of_every_file_and_never_in_keys() {
    let environment = |name: &str| (name == "TIER").then(|| "pro\"\n[server".to_owned());
    let keys = "[consumers.\"${TIER}\"]\ntier = \"${TIER}\"\n";
    let text =
        format!("[log]\nlevel = \"${{LEVEL:-debug}}\"\n[responses.rate_limited]\nbody = \"$$5 ${{TIER}}\"\n{REST}");
    let loaded = load_text("test.toml", &text, Some(keys), &environment);
    assert_eq!(complaints(&loaded), Vec::<String>::new());
    let config = loaded.config.unwrap();
    assert_eq!(config.log.level, tracing::Level::DEBUG);
    assert_eq!(config.rate_limited.body.unwrap().value, "$5 pro\"\n[server");
    assert_eq!(config.consumers[0].name.value, "${TIER}");
    assert_eq!(config.consumers[0].tier.value, "pro\"\n[server");
    let loaded = from_text(&format!("[log]\nlevel = \"${{LEVEL}}\"\naccess = \"a$b.log\"\n{REST}"));
    let complaints = complaints(&loaded);
    assert!(complaints[0].starts_with("2:9 `level`: the environment variable `LEVEL` is not set"), "{complaints:?}");
    assert!(complaints[1].starts_with("3:10 `access`: \"a$b.log\" has a `$`"), "{complaints:?}");
}

#[test]
fn the_files_that_are_shipped_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut seen = 0;
    for directory in [root.clone(), root.join("examples")] {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.ends_with(".toml") || name.ends_with("keys.toml") && name != "api-keys.toml" {
                continue;
            }
            let loaded = load(&path, &no_environment);
            assert_eq!(complaints(&loaded), Vec::<String>::new(), "{name}");
            assert!(loaded.config.is_some());
            seen += 1;
        }
    }
    assert_eq!(seen, 6);
}

/// A key that no table has; its complaint lists those that the table does have.
const UNKNOWN: &str = "zzzzzzzz = 1\n";

/// One table of each kind.
const TABLES: &[&str] = &[
    "",
    "[server]\n",
    "[server.timeouts]\n",
    "[admin]\n",
    "[client_ip]\n",
    "[paths]\n",
    "[auth]\n",
    "[store]\n",
    "[store.memory]\n",
    "[store.redis]\n",
    "[store.redis.tls]\n",
    "[upstreams.b]\nservers = [\"b:1\"]\n",
    "[upstreams.b.timeouts]\n",
    "[[upstreams.b.servers]]\naddress = \"b:1\"\n",
    "[tiers.a]\n",
    "[tiers.a.responses]\n",
    "[responses.rate_limited]\n",
    "[[routes]]\nmatch = \"/a\"\n",
    "[[limits]]\nrate = \"1/s\"\nper = \"ip\"\n",
    "[[limits]]\nrate = \"1/s\"\nper = \"ip\"\n[limits.when]\n",
    "[headers]\n",
    "[log]\n",
];

#[test]
fn every_key_is_in_the_reference_and_in_the_full_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let reference = read("docs/configuration.md");
    let example = read("config/sluicegate.toml") + &read("config/keys.toml");
    let keys_tables = ["", "[consumers.a]\ntier = \"a\"\n", "[[consumers.a.keys]]\n"];
    let mains = TABLES.iter().map(|table| (format!("{table}{UNKNOWN}{REST}"), None));
    let keys = keys_tables.iter().map(|table| (REST.to_owned(), Some(format!("{table}{UNKNOWN}"))));
    let mut seen = 0;
    for (main, keys) in mains.chain(keys) {
        let loaded = load_text("test.toml", &main, keys.as_deref(), &no_environment);
        let unknown = loaded.problems.iter().find(|problem| problem.message.starts_with("unknown key `zzzzzzzz`"));
        let (_, expected) = unknown.expect(&main).message.split_once("; expected ").unwrap();
        for key in expected.split('`').skip(1).step_by(2) {
            let forms =
                [format!("`{key}`"), format!(".{key}`"), format!("`[{key}"), format!("`{key}."), format!(".{key}]`")];
            assert!(forms.iter().any(|form| reference.contains(form)), "{key} is not in the reference");
            assert!(example.contains(key.trim_end_matches("NAME")), "{key} is not in the example");
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}
