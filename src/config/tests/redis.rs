//! `[store.redis]`: its keys, their defaults, its mistakes, and that no password is in any message.

use super::mistakes::check;
use super::*;
use std::fs;

fn redis(text: &str) -> Redis {
    let config = config(&format!("[store]\nbackend = \"redis\"\n[store.redis]\n{text}\n{REST}"), None);
    config.store.redis.expect("the backend is Redis")
}

fn revealed(redis: &Redis) -> Vec<&str> {
    redis.urls.iter().map(Secret::reveal).collect()
}

#[test]
fn a_store_of_which_only_the_backend_is_said_has_the_defaults() {
    let redis = redis("");
    assert_eq!((redis.mode, revealed(&redis)), (RedisMode::Single, vec!["redis://127.0.0.1:6379/0"]));
    assert_eq!((redis.master.as_str(), redis.prefix.as_str()), ("mymaster", "sluicegate"));
    assert!(redis.username.is_none() && redis.password.is_none());
    assert_eq!((redis.timeout, redis.on_error, redis.instances), (Millis(50), OnStoreError::Local, 1));
    assert!(!redis.data_tls && redis.tls.verify && redis.tls.authorities.is_empty() && redis.tls.identity.is_none());
}

#[test]
fn urls_say_which_servers_speak_tls_and_behind_sentinels_the_table_does() {
    assert!(redis("urls = [\"rediss://a\"]").data_tls);
    assert!(!redis("tls = { ca_file = \"\", verify = true }").data_tls, "the defaults may be written out");
    assert!(redis("mode = \"cluster\"\nurls = [\"rediss://a\", \"rediss://b\"]").data_tls);
    let sentinel = |more: &str| redis(&format!("mode = \"sentinel\"\n{more}"));
    assert!(sentinel("urls = [\"redis://a\"]\ntls = {}").data_tls);
    assert!(!sentinel("urls = [\"redis://a\", \"redis://b\"]").data_tls);
    let unverified = sentinel("urls = [\"rediss://a\", \"redis://b\"]\ntls = { verify = false }");
    assert!(unverified.data_tls && !unverified.tls.verify);
    let text = "[store.redis]\nmode = \"sentinel\"\nurls = [\"rediss://a\"]";
    let loaded = from_text(&format!("{text}\n{REST}"));
    let problem = &loaded.problems[0];
    assert_eq!((problem.severity, loaded.problems.len()), (Severity::Warning, 1));
    assert!(problem.message.contains("their master is not") && loaded.config.is_some());
}

/// A certificate and its key as PEM.
fn signed() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["redis.test".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// What the one problem of these lines of `tls` says, with files beside them; an empty text when there is none.
fn told(files: &[(&str, &str)], tls: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let main = directory.path().join("main.toml");
    let text =
        format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [\"rediss://a\"]\ntls = {{ {tls} }}\n{REST}");
    fs::write(&main, text).unwrap();
    let loaded = load(&main, &no_environment);
    assert!(loaded.problems.len() <= 1, "{:?}", complaints(&loaded));
    let shown = loaded.problems.first().map(|problem| loaded.sources.render(problem)).unwrap_or_default();
    assert!(!shown.contains("PRIVATE") || shown.contains("-----BEGIN PRIVATE KEY-----,"), "{shown}");
    shown
}

#[test]
fn files_of_tls_are_read_with_the_configuration_and_a_bad_one_is_told_where_it_is_named() {
    let ((certificate, key), (_, other)) = (signed(), signed());
    let files = [("a.pem", certificate.as_str()), ("a.key", &key), ("b.key", &other), ("text", "no PEM")];
    assert_eq!(told(&files, "ca_file = \"a.pem\", certificate = \"a.pem\", key = \"a.key\""), "");
    assert_eq!(told(&files, "verify = false"), "");
    let broken = certificate.replace("-----END", "*\n-----END");
    let files = [&files[..], &[("broken.pem", broken.as_str())]].concat();
    for (tls, place, said) in [
        ("ca_file = \"none.pem\"", ":5:19", "cannot read"),
        ("ca_file = \"text\"", ":5:19", "text holds no certificate"),
        ("ca_file = \"a.key\"", ":5:19", "a.key holds no certificate"),
        ("ca_file = \"broken.pem\"", ":5:19", "broken.pem is no valid PEM"),
        ("ca_file = \".\"", ":5:19", "cannot read"),
        ("certificate = \"a.pem\"", ":5:23", "`certificate` without `key`"),
        ("key = \"a.key\"", ":5:15", "`key` without `certificate`"),
        ("certificate = \"text\", key = \"a.key\"", ":5:23", "text holds no certificate"),
        ("certificate = \"a.pem\", key = \"a.pem\"", ":5:38", "a.pem holds no private key"),
        ("certificate = \"a.pem\", key = \"b.key\"", ":5:38", "the key does not fit the certificate"),
        ("ca_file = \"a.pem\", verify = false", ":5:19", "no effect with verify = false"),
    ] {
        let shown = told(&files, tls);
        assert!(shown.contains(place) && shown.contains(said), "{tls}\n{shown}");
    }
}

#[test]
fn tls_that_would_have_no_effect_or_only_some_is_refused() {
    check(&[
        ("[store.redis.tls]\nverify = false", "2:10", "`tls` has no effect: no URL asks for TLS", "rediss://"),
        ("[store.redis]\nurls = [\"rediss://a/#insecure\"]", "2:9", "a URL ends before a `#`", "verify = false"),
        ("[store.redis]\nurls = [\"rediss://a/zero\"]", "2:9", "`urls`: expected a URL such as", "redis://"),
        (
            "[store.redis]\nmode = \"cluster\"\nurls = [\"rediss://a\", \"redis://b\"]",
            "3:23",
            "all speak TLS, or none does",
            "rediss://",
        ),
    ]);
}

#[test]
fn every_key_is_read_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let main = directory.path().join("main.toml");
    let text = "[store]\nbackend = \"redis\"\n[store.redis]\nmode = \"sentinel\"\nurls = [\"redis://a:26379\", \"redis://u:p@b:26379\"]\n\
                master = \"m\"\nusername = \"gateway\"\npassword_file = \"password\"\ntls = { verify = true }\nprefix = \"a-b_c.d:e\"\n\
                timeout = \"20ms\"\non_error = \"closed\"\ninstances = 3\n";
    fs::write(&main, format!("{text}{REST}")).unwrap();
    fs::write(directory.path().join("password"), "s3 cret \n").unwrap();
    let loaded = load(&main, &no_environment);
    assert_eq!(complaints(&loaded), Vec::<String>::new());
    let redis = loaded.config.unwrap().store.redis.unwrap();
    assert_eq!((redis.mode, redis.master.as_str()), (RedisMode::Sentinel, "m"));
    assert_eq!(revealed(&redis), ["redis://a:26379", "redis://u:p@b:26379"]);
    assert_eq!(redis.username.as_deref(), Some("gateway"));
    assert_eq!(redis.password.as_ref().unwrap().reveal(), "s3 cret ", "only the end of the line is taken off");
    assert_eq!((redis.prefix.as_str(), redis.timeout), ("a-b_c.d:e", Millis(20)));
    assert_eq!((redis.on_error, redis.instances), (OnStoreError::Closed, 3));
    assert!(!format!("{redis:?}").contains("s3 cret") && !format!("{redis:?}").contains("u:p@"));
}

#[test]
fn what_is_written_of_a_store_that_is_not_used_is_checked_and_left_alone() {
    let text = format!("[store.redis]\nprefix = \"a\"\n{REST}");
    assert!(config(&text, None).store.redis.is_none());
}

#[test]
fn empty_credentials_are_none() {
    let redis = redis("username = \"\"\npassword_file = \"\"\n");
    assert!(redis.username.is_none() && redis.password.is_none());
}

#[test]
fn a_word_of_another_mode_is_told_where_it_stands() {
    check(&[
        ("[store]\nbackend = \"reddis\"", "2:11", "expected \"memory\" or \"redis\"", "\"redis\""),
        (
            "[store.redis]\nmode = \"sentinal\"",
            "2:8",
            "expected \"single\", \"sentinel\" or \"cluster\"",
            "\"sentinel\"",
        ),
        (
            "[store.redis]\nmode = 5",
            "2:8",
            "`mode` must be \"single\", \"sentinel\" or \"cluster\", not the integer 5",
            "",
        ),
        ("[store.redis]\non_error = \"open \"", "2:12", "expected \"local\", \"open\" or \"closed\"", "\"open\""),
        ("[store.redis]\nmod = \"single\"", "2:1", "unknown key `mod` in `redis`", "`mode`"),
        ("[store.redis.tls]\nverfy = true", "2:1", "unknown key `verfy` in `tls`", "`verify`"),
        ("[store.redis]\ntls = true", "2:7", "`tls` must be a table", ""),
    ]);
}

#[test]
fn a_url_that_the_client_cannot_use_is_told_where_it_stands() {
    check(&[
        ("[store.redis]\nurls = []", "2:8", "`urls` must not be empty", "redis://host:port"),
        ("[store.redis]\nurls = \"redis://a\"", "2:8", "`urls` must be a list, not a string", "urls = ["),
        ("[store.redis]\nurls = [5]", "2:9", "`urls` must be a list of strings", ""),
        ("[store.redis]\nurls = [\"a:6379\"]", "2:9", "`urls`: expected a URL such as", "redis://"),
        ("[store.redis]\nurls = [\"http://a\"]", "2:9", "`urls`: expected a URL such as", "redis://"),
        ("[store.redis]\nurls = [\"redis://a:66000/0\"]", "2:9", "`urls`: expected a URL such as", "redis://"),
        ("[store.redis]\nurls = [\"redis://a/zero\"]", "2:9", "`urls`: expected a URL such as", "redis://"),
        ("[store.redis]\nurls = [\"redis://a\", \"redis://b\"]", "2:22", "\"single\" has one server", "sentinel"),
    ]);
}

#[test]
fn a_value_out_of_range_is_told_where_it_stands() {
    check(&[
        ("[store.redis]\nprefix = \"\"", "2:10", "expected 1 to 64 letters, digits and `-_.:`", ""),
        ("[store.redis]\nprefix = \"{a}\"", "2:10", "expected 1 to 64 letters, digits and `-_.:`", ""),
        ("[store.redis]\ntimeout = 50", "2:11", "not the bare number 50", "\"50s\""),
        ("[store.redis]\ntimeout = \"0ms\"", "2:11", "`timeout` must be from", ""),
        ("[store.redis]\ninstances = 0", "2:13", "`instances` must be an integer from 1 to 10000, not 0", ""),
        ("[store.redis]\ninstances = 2.5", "2:13", "`instances` must be an integer", ""),
        ("[store.redis]\npassword_file = \"none\"", "2:17", "cannot read none", ""),
        ("[store.redis]\nmaster = 5", "2:10", "`master` must be a string", ""),
        ("[store.redis]\nusername = []", "2:12", "`username` must be a string", ""),
    ]);
}

#[test]
fn b135_no_password_is_in_any_message() {
    for text in [
        "[store.redis]\nurls = \"redis://:s3cret@a\"",
        "[store.redis]\nurls = [\"redis://:s3cret@a:b\"]",
        "[store.redis]\nurls = [\"rediss://:s3cret@a/#insecure\"]",
        "[store.redis]\nmode = \"cluster\"\nurls = [\"rediss://:s3cret@a\", \"redis://:s3cret@a\"]",
        "[store.redis]\nurls = [\":s3cret@a\"]",
        "[store.redis]\nurls = [\"redis://:s3cret$@a\"]",
        "[store.redis]\nurls = [\"redis://:${s3cret }@a\"]",
        "[store.redis]\nurls = [\"redis://a\", \"redis://:s3cret@b\"]",
        "[store.redis]\nurls = [[\"s3cret\"]]",
        "[store.redis]\npassword = \"s3cret\"",
        "[store]\nurls = [\"redis://:s3cret@a\"]",
        "[store]\nredis = { urls = [\"redis://:s3cret@a\"], mod = 1 }",
        "[store]\nredis = \"redis://:s3cret@a\"",
    ] {
        let loaded = from_text(&format!("{text}\n{REST}"));
        assert_eq!(loaded.problems.len(), 1, "{text}");
        let shown = loaded.sources.render(&loaded.problems[0]);
        let record = format!("{:?}", loaded.sources.record(&loaded.problems[0]).message);
        assert!(!shown.contains("s3cret") && !record.contains("s3cret"), "{text}\n{shown}");
    }
}
