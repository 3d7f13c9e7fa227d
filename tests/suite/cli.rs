//! The command line: what each command says and the code it ends with.

use crate::docs;
use crate::support::program::{Running, run};
use crate::support::*;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

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
fn the_demo_prints_keys_that_work_and_answers_as_the_readme_shows() {
    let directory = tempfile::tempdir().unwrap();
    let help = run(directory.path(), &["demo", "--help"]);
    assert!(help.output().contains("127.0.0.1:8080") && help.output().contains("127.0.0.1:9090"), "{}", help.output());
    let [address, admin] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let listen = [address, admin].map(|address| address.to_string());
    let mut demo = Running::start(directory.path(), &["demo", "--listen", &listen[0], "--admin", &listen[1]]);
    let listens = || TcpStream::connect(address).is_ok();
    let up = becomes_true(PATIENCE, || !demo.is_running() || (listens() && !demo.stdout().is_empty()));
    assert!(up && demo.is_running(), "{}", demo.output());
    check_readme_answers(directory.path(), &listen[0]);
    let ask = |key: &str| Client::connect(address).request("GET", "/", &[("x-api-key", key)], b"").status;
    let printed = demo.stdout();
    let words = printed.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let keys: Vec<&str> = words.filter(|word| word.starts_with("demo_pro_")).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| ask(key) == 200), "no key in:\n{printed}");
    assert_eq!(ask("wrong_key_0123456789"), 401);
    demo.signal("INT");
    assert_eq!(demo.wait(PATIENCE).and_then(|status| status.code()), Some(0));
}

/// Runs every command with curl that the README has an answer to, and compares what is printed with that answer.
fn check_readme_answers(directory: &Path, address: &str) {
    let readme = docs::read(&docs::root().join("README.md"));
    let answered = docs::commands_with_answers(&readme);
    let shown: Vec<&str> = answered.iter().filter_map(|(_, answer)| answer.lines().next()).collect();
    assert_eq!(shown, ["HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests", "HTTP/1.1 401 Unauthorized"]);
    // All of it within one window, in which the quota of the key is spent.
    sleep_until_window_is(Duration::from_secs(10), Duration::ZERO);
    for (commands, answer) in answered {
        assert!(commands.contains("127.0.0.1:8080"), "{commands}");
        let commands = commands.replace("127.0.0.1:8080", address);
        let done = Command::new("sh").args(["-c", &commands]).current_dir(directory).output().unwrap();
        let printed = String::from_utf8(done.stdout).unwrap();
        let missing = docs::first_line_not_printed(answer, &printed);
        assert_eq!(missing, None, "{commands} printed\n{printed}\nbut the README shows\n{answer}");
    }
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

#[test]
fn completions_of_every_shell_know_every_command() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = run(directory.path(), &["completions", shell]);
        assert_eq!(printed.code, Some(0), "{shell}: {}", printed.output());
        for word in ["explain", "create", "strict", "key-id"] {
            assert!(printed.stdout.contains(word), "{shell}: no {word}");
        }
    }
    let script = directory.path().join("sluicegate.bash");
    std::fs::write(&script, run(directory.path(), &["completions", "bash"]).stdout).unwrap();
    let parsed = Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    assert_eq!(run(directory.path(), &["completions", "tcsh"]).code, Some(2));
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let whole = run(directory.path(), &["man"]);
    assert_eq!(whole.code, Some(0));
    for word in [".TH sluicegate 1", "sluicegate\\-explain(1)", "Exit codes", "NO_COLOR"] {
        assert!(whole.stdout.contains(word), "no {word} in\n{}", whole.stdout);
    }
    let keys = run(directory.path(), &["man", "keys", "create"]);
    assert!(
        keys.stdout.contains(".TH sluicegate-keys-create 1") && keys.stdout.contains("\\-\\-expires"),
        "{}",
        keys.stdout
    );
    assert_eq!(run(directory.path(), &["man", "no-such-command"]).code, Some(2));
}

#[test]
fn the_help_tells_a_newcomer_where_to_begin() {
    let directory = tempfile::tempdir().unwrap();
    let help = run(directory.path(), &["--help"]).stdout;
    for word in ["limits how often each caller may call", "sluicegate demo", "sluicegate check -c", "Exit codes", "HUP"]
    {
        assert!(help.contains(word), "no {word} in\n{help}");
    }
    for command in ["run", "demo", "check", "explain", "keys", "completions", "man"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{command} "))), "{command}");
        let own = run(directory.path(), &[command, "--help"]);
        assert_eq!((own.code, own.stdout.is_empty()), (Some(0), false), "{command}");
    }
    assert!(help.lines().all(|line| !line.contains('\u{1b}')));
}

/// What a command prints on a terminal of its own, with these variables.
fn on_a_terminal(directory: &Path, variables: &str, arguments: &str) -> String {
    let command = format!("{variables} {} {arguments}", crate::support::program::PROGRAM);
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &command, "/dev/null"]).current_dir(directory).env_remove("NO_COLOR").env("TERM", "xterm");
    let output = terminal.stdin(std::process::Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn colours_are_for_terminals_and_never_with_no_color() {
    let files = Setup::new(BAD).files();
    let arguments = ["check", "-c", "sluicegate.toml"];
    assert!(!run(files.directory(), &arguments).output().contains('\u{1b}'), "there is no terminal");
    let arguments = arguments.join(" ");
    let painted = on_a_terminal(files.directory(), "", &arguments);
    assert!(painted.contains("\u{1b}[1;31merror\u{1b}[0m: ") && painted.contains("raet"), "{painted:?}");
    for variables in ["NO_COLOR=1", "TERM=dumb"] {
        let plain = on_a_terminal(files.directory(), variables, &arguments);
        assert!(plain.contains("error: ") && !plain.contains('\u{1b}'), "{variables}: {plain:?}");
    }
    for command in ["--help", "check --no-such-flag"] {
        assert!(!on_a_terminal(files.directory(), "NO_COLOR=1", command).contains('\u{1b}'), "{command}");
    }
}
