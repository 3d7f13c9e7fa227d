//! Keys from their making to their end: what is printed, what the gateway takes, what is told before they expire.

use crate::support::program::{Finished, PROGRAM, run};
use crate::support::*;
use sluicegate::algorithm::calendar::rfc3339;
use sluicegate::time::{Clock, Millis};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const DAY: i64 = 86_400_000;

fn in_days(days: i64) -> String {
    rfc3339(Clock::wall() + Millis(days * DAY))
}

/// `keys hash` with this on its standard input.
fn hash(directory: &Path, arguments: &[&str], input: &[u8]) -> Finished {
    let mut child = Command::new(PROGRAM)
        .args(["keys", "hash"])
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have seen enough before all is written.
    let _written = child.stdin.take().unwrap().write_all(input);
    let done = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Finished { code: done.status.code(), stdout: text(done.stdout), stderr: text(done.stderr) }
}

#[test]
fn a_key_that_is_made_opens_the_gateway_once_its_stanza_is_pasted() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["keys", "create", "--consumer", "acme", "--tier", "pro", "--id", "acme-1", "--expires", "2200-01-01"];
    let made = run(directory.path(), &arguments);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""), "{}", made.output());
    let (key, stanza) = made.stdout.split_once("\n\n").unwrap();
    let expected = format!(
        "# For the keys file. The key above is shown this once and stored nowhere.\n\
         # Without the next two lines when the consumer is in the file already.\n\
         [consumers.acme]\ntier = \"pro\"\n\n[[consumers.acme.keys]]\nid = \"acme-1\"\nsha256 = \"{}\"\n\
         expires = 2200-01-01T00:00:00Z\n",
        keys::sha256_hex(key)
    );
    assert_eq!(stanza, expected);
    let gateway = Setup::new("[tiers.pro]\n").auth("anonymous = \"deny\"").keys(stanza).start();
    assert_eq!((gateway.get_as(key, "/").status, gateway.get("/").status), (200, 401));
}

#[test]
fn a_key_has_a_form_that_scanners_can_match() {
    let directory = tempfile::tempdir().unwrap();
    let make = |more: &[&str]| {
        let arguments = [&["keys", "create", "--consumer", "a", "--tier", "b"][..], more].concat();
        run(directory.path(), &arguments).stdout.lines().next().unwrap().to_string()
    };
    let form = |prefix: &str, key: &str| {
        let rest = key.strip_prefix(prefix).unwrap_or_else(|| panic!("{key}"));
        rest.len() == 49 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let (first, second, own) = (make(&[]), make(&[]), make(&["--prefix", "acme_live"]));
    assert!(form("slg_", &first) && form("acme_live_", &own));
    assert_ne!(first, second);
    let right = hash(directory.path(), &[], first.as_bytes());
    assert_eq!(right.stderr, "");
    let last = if first.ends_with('0') { "1" } else { "0" };
    let wrong = hash(directory.path(), &[], format!("{}{last}", &first[..first.len() - 1]).as_bytes());
    assert_eq!((wrong.code, wrong.stderr.contains("checksum")), (Some(0), true), "{}", wrong.stderr);
}

#[test]
fn hash_reads_one_key_from_standard_input_and_never_an_argument() {
    let directory = tempfile::tempdir().unwrap();
    let digest = keys::sha256_hex("secret-0123456789");
    for input in ["secret-0123456789", "secret-0123456789\n", "secret-0123456789\r\n"] {
        let hashed = hash(directory.path(), &[], input.as_bytes());
        assert_eq!((hashed.code, hashed.stdout), (Some(0), format!("sha256 = \"{digest}\"\n")));
    }
    let whole = hash(directory.path(), &["--consumer", "a@b.c", "--tier", "pro", "--id", "x$1"], b"secret-0123456789");
    let expected = format!(
        "# Without the next two lines when the consumer is in the file already.\n\
         [consumers.\"a@b.c\"]\ntier = \"pro\"\n\n[[consumers.\"a@b.c\".keys]]\nid = \"x$$1\"\nsha256 = \"{digest}\"\n"
    );
    assert_eq!(whole.stdout, expected, "{}", whole.stderr);
    let long = vec![b'k'; 600];
    for input in [&b""[..], b"\n", b"two words", b"two\nlines", "k\u{e4}".as_bytes(), &[0xff], &long] {
        let refused = hash(directory.path(), &[], input);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{input:?}");
        assert!(!refused.stderr.contains("two") && !refused.stderr.contains("kkk"), "{}", refused.stderr);
    }
    assert_eq!(hash(directory.path(), &["secret-0123456789"], b"").code, Some(2));
}

#[test]
fn what_cannot_stand_in_a_keys_file_is_refused_before_it_is_pasted() {
    let directory = tempfile::tempdir().unwrap();
    let base = ["keys", "create", "--consumer", "acme", "--tier", "pro"];
    let wrong: [(&[&str], &str); 7] = [
        (&["--expires", "tomorrow"], "2027-01-01T00:00:00Z"),
        (&["--expires", "2027-13-01"], "month"),
        (&["--expires", "2027-01-01T00:00:00"], "offset"),
        (&["--expires", "2027-01-01T00:00:00Z\nx = 1"], "not a time"),
        (&["--id", "two words"], "visible ASCII"),
        (&["--id", ""], "visible ASCII"),
        (&["--prefix", "sk-live"], "prefix"),
    ];
    for (more, word) in wrong {
        let refused = run(directory.path(), &[&base[..], more].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{more:?}: {}", refused.output());
        assert!(refused.stderr.contains(word), "{more:?}: {}", refused.stderr);
    }
    for missing in [&base[..4], &[base[0], base[1], base[4], base[5]]] {
        assert_eq!(run(directory.path(), missing).code, Some(2), "{missing:?}");
    }
}

/// A keys file with a key in each state.
fn in_all_states() -> String {
    let entry = |name: &str, lines: &str| keys::key(name, &key_of(name), lines);
    let entries = [
        entry("good", ""),
        entry("soon", &format!("expires = {}", in_days(3))),
        entry("later", &format!("expires = {}", in_days(15))),
        entry("old", "expires = 2020-01-01T00:00:00Z"),
        entry("early", "not_before = 2200-01-01T00:00:00Z"),
        entry("off", &format!("disabled = true\nexpires = {}", in_days(3))),
    ];
    keys::consumer_with("acme", "free", "", &entries.concat())
}

#[test]
fn list_tells_the_state_of_each_key_and_no_secret() {
    let files = Setup::new("[tiers.free]\n").keys(&in_all_states()).files();
    let listed = run(files.directory(), &["keys", "list", "-c", "sluicegate.toml"]);
    assert_eq!(listed.code, Some(0), "{}", listed.output());
    assert_eq!(listed.stdout.lines().next(), Some("ID     CONSUMER  TIER  EXPIRES               STATE"));
    let states = ["valid", "expires soon", "valid", "expired", "not yet valid", "disabled"];
    for ((line, name), state) in
        listed.stdout.lines().skip(1).zip(["good", "soon", "later", "old", "early", "off"]).zip(states)
    {
        assert!(line.starts_with(name) && line.ends_with(&format!("  {state}")), "{line}");
    }
    let json = run(files.directory(), &["keys", "list", "-c", "sluicegate.toml", "--json"]);
    let keys: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let old = serde_json::json!({
        "id": "old", "consumer": "acme", "tier": "free", "not_before": null, "expires": "2020-01-01T00:00:00Z", "state": "expired"
    });
    assert_eq!((keys.as_array().map(Vec::len), &keys[3]), (Some(6), &old));
    for secret in ["good", "soon", "old"].map(|name| keys::sha256_hex(&key_of(name))) {
        assert!(!listed.output().contains(&secret[..12]) && !json.output().contains(&secret[..12]));
    }
}

#[test]
fn list_of_a_bad_configuration_says_what_is_wrong() {
    let files = Setup::new("[tiers.free]\n").keys(&consumer("acme", "fre")).files();
    let listed = run(files.directory(), &["keys", "list", "-c", "sluicegate.toml"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (Some(1), ""));
    assert!(listed.stderr.contains("did you mean \"free\"?"), "{}", listed.stderr);
}

#[test]
fn keys_that_expire_soon_are_a_metric_and_a_line_at_start_and_reload() {
    let mut gateway = Setup::new("[tiers.free]\n").keys(&in_all_states()).start();
    let expiring = |gateway: &Gateway| gateway.metric("sluicegate_keys_expiring", &[]);
    assert_eq!(expiring(&gateway), 1.0);
    let lines = |gateway: &Gateway| {
        let lines: Vec<String> =
            gateway.log().lines().filter(|line| line.contains("keys expire soon")).map(Into::into).collect();
        lines
    };
    wait_until("it is logged", || lines(&gateway).len() == 1);
    assert!(
        lines(&gateway)[0].contains("soon") && lines(&gateway)[0].contains("\"within_days\":14"),
        "{:?}",
        lines(&gateway)
    );
    let more =
        keys::consumer_with("beta", "free", "", &keys::key("b", &key_of("b"), &format!("expires = {}", in_days(1))));
    assert_eq!(gateway.reload(|setup| *setup = setup.clone().keys(&more)), Reload::Success);
    assert_eq!((expiring(&gateway), lines(&gateway).len()), (2.0, 2));
}

/// More than is read as one part.
fn many(consumers: usize, extra: &str) -> String {
    let each = (0..consumers).map(|index| {
        let digest = keys::sha256_hex(&key_of(&index.to_string()));
        format!("[consumers.c{index}]\ntier = \"free\"\n[[consumers.c{index}.keys]]\nid = \"c{index}\"\nsha256 = \"{digest}\"\n")
    });
    each.collect::<String>() + extra
}

#[test]
fn a_keys_file_in_many_parts_is_one_file() {
    let text = many(20_000, "");
    assert!(text.len() > 2 << 20, "it takes several parts");
    let setup = Setup::new("[tiers.free]\n");
    let gateway = setup.clone().auth("anonymous = \"deny\"").keys(&text).start();
    for name in ["0", "9999", "19999"] {
        assert_eq!(gateway.get_as(&key_of(name), "/").status, 200, "{name}");
    }
    let check = |extra: &str| {
        run(setup.clone().keys(&many(20_000, extra)).files().directory(), &["check", "-c", "sluicegate.toml"])
    };
    // Its table is in the first part, its key in the last.
    let digest = keys::sha256_hex("x");
    let apart = check(&format!("[[consumers.c0.key2]]\n[[consumers.c1.keys]]\nid = \"late\"\nsha256 = \"{digest}\"\n"));
    assert!(apart.output().contains("`key2`") && apart.output().contains("keys.toml:100001:"), "{}", apart.output());
    let late = check(&format!("[[consumers.c1.keys]]\nid = \"late\"\nsha256 = \"{digest}\"\n"));
    assert_eq!(late.code, Some(0), "{}", late.output());
    let wrong = check("[consumers.last]\ntier = \"fre\"\n");
    assert!(
        wrong.output().contains("keys.toml:100002:8") && wrong.output().contains("did you mean \"free\"?"),
        "{}",
        wrong.output()
    );
    let twice = check(&format!(
        "[consumers.last]\ntier = \"free\"\n[[consumers.last.keys]]\nid = \"c7\"\nsha256 = \"{digest}\"\n"
    ));
    assert!(
        twice.output().contains("first defined at") && twice.output().contains("keys.toml:39:"),
        "{}",
        twice.output()
    );
}

#[test]
fn a_reload_of_many_keys_does_not_hold_up_requests() {
    let text = many(20_000, "");
    let mut gateway = Setup::new("[tiers.free]\n").keys(&text).start();
    let before = gateway.metric("sluicegate_config_generation", &[]);
    let mut client = gateway.connect();
    gateway.setup.keys += &keys::consumer_with("last", "free", "", &keys::key("l", &key_of("last"), ""));
    gateway.files.write(&gateway.setup);
    gateway.signal("HUP");
    let mut answered = 0;
    // A reload waits for files to settle, reads, compiles and swaps; requests are answered all the while.
    wait_until("the reload is done", || {
        answered += usize::from(client.request("GET", "/", &[], b"").status == 200);
        answered % 50 == 0 && gateway.metric("sluicegate_config_generation", &[]) > before
    });
    assert!(answered >= 50, "{answered}");
    assert_eq!(gateway.get_as(&key_of("last"), "/").status, 200);
    gateway.signal("TERM");
    assert!(gateway.running.wait(Duration::from_secs(60)).is_some());
}
