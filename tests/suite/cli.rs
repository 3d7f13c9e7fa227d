//! The command line: what each command says and the code it ends with.

use crate::support::program::{Running, run};
use crate::support::*;

const BAD: &str = "[[routes]]\nmatch = \"*\"\nlimits = [{ raet = \"5/min\" }]\n";

#[test]
fn check_says_ok_with_0_and_problems_with_1() {
    for arguments in [&["check", "-c", "sluicegate.toml"][..], &["-t", "-c", "sluicegate.toml"][..]] {
        let good = run(Setup::limited(&[r#"rate = "5/min""#]).files().directory(), arguments);
        assert_eq!((good.code, good.output().is_empty()), (Some(0), false), "{arguments:?}: {}", good.output());
        let bad = run(Setup::new(BAD).files().directory(), arguments);
        assert_eq!(bad.code, Some(1), "{arguments:?}: {}", bad.output());
        assert!(bad.output().contains("raet") && bad.output().contains("sluicegate.toml:"), "{}", bad.output());
    }
}

#[test]
fn check_as_json_is_a_list_of_placed_problems() {
    let files = Setup::new(BAD).files();
    let checked = run(files.directory(), &["check", "-c", "sluicegate.toml", "--json"]);
    assert_eq!(checked.code, Some(1));
    let problems: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    let problem = problems.as_array().unwrap().iter().find(|each| each.to_string().contains("raet")).unwrap();
    let text = std::fs::read_to_string(files.path("sluicegate.toml")).unwrap();
    let line = text.lines().position(|line| line.contains("raet")).unwrap() + 1;
    assert_eq!((problem["severity"].as_str(), problem["line"].as_u64()), (Some("error"), Some(line as u64)));
    assert!(problem["file"].as_str().unwrap().ends_with("sluicegate.toml"));
    assert!(problem["column"].is_u64() && problem["message"].is_string() && problem.get("hint").is_some());
    let good = run(Setup::default().files().directory(), &["check", "-c", "sluicegate.toml", "--json"]);
    assert_eq!((good.code, good.stdout.trim()), (Some(0), "[]"));
}

#[test]
fn check_opens_no_port() {
    let gateway = Setup::default().start();
    let checked = run(gateway.files.directory(), &["check", "-c", "sluicegate.toml"]);
    assert_eq!(checked.code, Some(0), "the ports are in use: {}", checked.output());
}

#[test]
fn run_with_a_bad_or_missing_configuration_ends_with_78() {
    let files = Setup::new(BAD).files();
    let bad = run(files.directory(), &["run", "-c", "sluicegate.toml"]);
    assert_eq!(bad.code, Some(78), "{}", bad.output());
    let missing = run(files.directory(), &["run", "-c", "no-such-file.toml"]);
    assert_eq!(missing.code, Some(78), "{}", missing.output());
    assert!(missing.output().contains("no-such-file.toml"));
}

#[test]
fn wrong_usage_ends_with_2() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["--no-such-flag"][..], &["no-such-command"], &["check", "--no-such-flag"], &["run", "-c"]] {
        let ended = run(directory.path(), arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.output());
    }
}

#[test]
fn help_and_version_end_with_0() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [["--help"], ["--version"]] {
        let ended = run(directory.path(), &arguments);
        assert_eq!((ended.code, ended.stdout.is_empty()), (Some(0), false), "{arguments:?}");
    }
}

#[test]
fn the_demo_prints_keys_that_work() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Running::start(directory.path(), &["demo"]);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 8080));
    let listens = || std::net::TcpStream::connect(address).is_ok();
    let up = becomes_true(PATIENCE, || !demo.is_running() || (listens() && !demo.stdout().is_empty()));
    assert!(up && demo.is_running(), "{}", demo.output());
    let ask = |key: &str| Client::connect(address).request("GET", "/", &[("x-api-key", key)], b"").status;
    let printed = demo.output();
    let words = printed.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let keys: Vec<&str> = words.filter(|word| word.len() >= 16 && word.contains('_')).collect();
    assert!(keys.iter().any(|key| ask(key) == 200), "no key in:\n{printed}");
    assert_eq!(ask("wrong_key_0123456789"), 401);
    demo.signal("INT");
    assert_eq!(demo.wait(PATIENCE).and_then(|status| status.code()), Some(0));
}

#[test]
fn b130_check_lists_the_limits_that_are_written() {
    let setup = Setup::limited(&[r#"name = "second", rate = "10/s""#, r#"name = "minute", rate = "100/min""#]);
    let checked = run(setup.files().directory(), &["check", "-c", "sluicegate.toml"]);
    assert!(checked.stdout.contains(" 1 route, ") && checked.stdout.contains(" 2 limits, "), "{}", checked.stdout);
    for line in ["second (endpoint): 10 requests per second", "minute (endpoint): 100 requests per minute"] {
        assert!(checked.stdout.contains(line), "{}", checked.stdout);
    }
}

#[test]
fn one_mistake_is_told_once() {
    let bucket = "[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"1/s\", algorithm = \"fixed_window\", burst = 3 }]\n";
    let names = "[[limits]]\nname = \"a\"\nper = \"ip\"\nrate = \"1/s\"\n".repeat(2);
    let routes = "[[routes]]\nmatch = \"/a\"\n".repeat(2);
    for toml in [bucket, &names, &routes] {
        let checked = run(Setup::new(toml).files().directory(), &["check", "-c", "sluicegate.toml", "--json"]);
        let problems: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
        assert_eq!(problems.as_array().map(Vec::len), Some(1), "{}", checked.stdout);
    }
}
