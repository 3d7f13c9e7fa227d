//! A configuration is either what the operator meant or refused, with the place and a way out.

use crate::support::program::{Finished, run};
use crate::support::*;

fn check(setup: &Setup) -> Finished {
    run(setup.files().directory(), &["check", "-c", "sluicegate.toml"])
}

/// `check` refuses this TOML and its message has all the words.
#[track_caller]
fn assert_refused(toml: &str, words: &[&str]) {
    assert_setup_refused(&Setup::new(toml), words);
}

#[track_caller]
fn assert_setup_refused(setup: &Setup, words: &[&str]) {
    let checked = check(setup);
    let output = checked.output();
    assert_eq!(checked.code, Some(1), "not refused: {}\n{output}", setup.toml);
    for word in words {
        assert!(output.contains(word), "{word:?} is not in:\n{output}");
    }
}

#[test]
fn a_key_of_another_algorithm_is_complained_of_once() {
    let limit = "[[limits]]\nname = \"a\"\nper = \"ip\"\nrate = \"1/s\"\nburst = 5\n";
    let output = check(&Setup::new(limit)).output();
    assert!(output.contains("`burst` is for `token_bucket` only") && output.contains(": 1 error,"), "{output}");
}

#[test]
fn b18_a_mistake_is_refused_with_its_name_and_line() {
    let route = |limit: &str| format!("[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n");
    let faults = [
        ("[[route]]\nmatch = \"/a\"\n".to_string(), vec!["route", "routes"]),
        ("[tiers.free]\nrate = \"5/min\"\n".to_string(), vec!["rate"]),
        (route("requets = 5"), vec!["requets"]),
        (route("raet = \"5/min\""), vec!["raet", "rate"]),
        (route("Rate = \"5/min\""), vec!["Rate", "rate"]),
        (route("rate = 5"), vec!["rate"]),
        (route("rate = \"5\""), vec!["5"]),
        (route("rate = \"5/fortnight\""), vec!["fortnight"]),
        (route("rate = \"0.5/s\""), vec!["0.5"]),
        (route("rate = \"-5/s\""), vec!["-5"]),
        (route("rate = \"5/s\", algorithm = \"token_buckt\""), vec!["token_buckt", "token_bucket"]),
        (route("rate = \"5/s\", algorithm = \"fixed_window\", burst = 9"), vec!["burst"]),
        (route("rate = \"5/s\", algorithm = \"token_bucket\", burst = 0"), vec!["burst"]),
        (route("rate = \"5/s\", tiers = [\"gold\"]"), vec!["gold"]),
        (route("rate = \"5/s\", per = \"planet\""), vec!["planet"]),
        (route("rate = \"5/s\", name = \"Upper\""), vec!["Upper"]),
        (route("rate = \"5/s\", mode = \"shadows\""), vec!["shadows", "shadow"]),
        ("[[routes]]\nmatch = \"*\"\ntiers = [\"gold\"]\n".into(), vec!["gold"]),
        ("[[routes]]\nmatch = \"*\"\nupstream = \"nowhere\"\n".into(), vec!["nowhere"]),
        ("[[routes]]\nmatch = \"*\"\ntimeout = 60\n".into(), vec!["timeout", "60"]),
        ("[[routes]]\nmatch = \"*\"\ncost = -1\n".into(), vec!["cost"]),
        ("[[routes]]\nmatch = \"*\"\ncost = 0.0001\n".into(), vec!["cost"]),
        ("[[routes]]\nmatch = \"/a\"\n[[routes]]\nmatch = \"/a\"\n".into(), vec!["/a"]),
        ("[[routes]]\nmatch = \"no-slash\"\n".into(), vec!["no-slash"]),
        ("[[limits]]\nname = \"x\"\nrate = \"5/s\"\n".into(), vec!["per"]),
        ("[headers]\ndialect = \"clasic\"\n".into(), vec!["clasic", "classic"]),
        ("[responses.rate_limited]\nbody = \"{{ no_such_member }}\"\n".into(), vec!["no_such_member"]),
        ("[paths]\nencoded_slash = \"maybe\"\n".into(), vec!["maybe"]),
        ("[upstreams.dead]\nservers = []\n".into(), vec!["servers"]),
    ];
    for (toml, words) in &faults {
        assert_refused(toml, words);
        assert_refused(toml, &["sluicegate.toml:"]);
    }
}

#[test]
fn b18_a_key_of_an_unknown_tier_and_a_bad_digest_are_refused() {
    let base = || Setup::new("[tiers.free]\n");
    assert_setup_refused(&base().keys(&consumer("acme", "fre")), &["keys.toml:", "fre", "free"]);
    let digest = keys::sha256_hex("x");
    let bad = consumer("acme", "free").replace(&keys::sha256_hex(&key_of("acme")), &digest[..63]);
    assert_setup_refused(&base().keys(&bad), &["keys.toml:", "sha256"]);
    let twice =
        format!("{}{}", consumer("acme", "free"), consumer("beta", "free").replace(&key_of("beta"), &key_of("acme")));
    let same_key = twice.replace(&keys::sha256_hex(&key_of("beta")), &keys::sha256_hex(&key_of("acme")));
    assert_setup_refused(&base().keys(&same_key), &["keys.toml:"]);
}

#[test]
fn b18_every_problem_is_reported_at_once_with_its_line() {
    let toml = "[[routes]]\nmatch = \"*\"\nlimits = [{ raet = \"1/s\" }]\n[headers]\ndialect = \"x\"\n[tiers.free]\nlimts = []\n";
    let checked = check(&Setup::new(toml));
    for word in ["raet", "dialect", "limts"] {
        assert!(checked.output().contains(word), "{word}:\n{}", checked.output());
    }
}

#[test]
fn b18_run_refuses_what_check_refuses() {
    let setup = Setup::new("[[routes]]\nmatch = \"*\"\nlimits = [{ requets = 5 }]\n");
    let ended = run(setup.files().directory(), &["run", "-c", "sluicegate.toml"]);
    assert_eq!(ended.code, Some(78), "{}", ended.output());
    assert!(ended.output().contains("requets"), "{}", ended.output());
}

#[test]
fn b49_a_quota_of_zero_is_refused_and_says_how_to_deny() {
    for algorithm in ["fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket", "leaky_bucket"] {
        let route =
            format!("[[routes]]\nmatch = \"*\"\nlimits = [{{ algorithm = \"{algorithm}\", rate = \"0/s\" }}]\n");
        assert_refused(&route, &["deny"]);
        assert_refused(&route.replace("0/s", "5/0s"), &["5/0s"]);
    }
    assert_refused("[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"1000000000001/s\" }]\n", &["1000000000001"]);
}

#[test]
fn b104_a_log_that_would_keep_too_many_entries_is_refused() {
    let limit = |count| {
        format!(
            "[[routes]]\nmatch = \"*\"\nlimits = [{{ algorithm = \"sliding_window_log\", rate = \"{count}/h\" }}]\n"
        )
    };
    assert_refused(&limit(100_001), &["100000"]);
    assert_eq!(check(&Setup::new(limit(100_000))).code, Some(0));
}

#[test]
fn b130_two_windows_on_one_subject_are_both_enforced() {
    let limits = "limits = [{ name = \"second\", rate = \"10/s\", algorithm = \"token_bucket\" }, { name = \"hour\", rate = \"25/h\" }]";
    let setup = Setup::new(format!("[tiers.anonymous]\n{limits}\n"));
    let checked = check(&setup);
    assert_eq!(checked.code, Some(0), "{}", checked.output());
    let gateway = setup.start();
    let statuses = burst(11, 11, |_| gateway.get("/").status);
    assert!(count(&statuses, 429) >= 1, "{statuses:?}");
    wait_until("the hour is spent", || gateway.get("/").json_or_null()["policy"] == "hour");
    assert_eq!(gateway.upstream.count(), 25);
}

#[test]
fn default_names_are_derived_and_clashes_ask_for_names() {
    let toml =
        "[[routes]]\nmatch = \"POST /api/export\"\nlimits = [{ rate = \"1/10s\" }]\n[headers]\ndialect = \"ietf\"\n";
    let gateway = Setup::new(toml).client_ip("limits = [{ rate = \"9/min\" }]").start();
    let answer = gateway.request("POST", "/api/export", &[], b"");
    let names: Vec<String> = fields::items(&answer, "ratelimit").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["ip-min", "post-api-export-10s"]);
    assert_refused(
        "[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"1/s\" }, { rate = \"2/s\" }]\n",
        &["default-s", "name"],
    );
    assert_refused(
        "[tiers.a]\nlimits = [{ name = \"x\", rate = \"1/s\" }]\n[tiers.b]\nlimits = [{ name = \"x\", rate = \"1/s\" }]\n",
        &["x"],
    );
}

#[test]
fn what_is_not_available_is_refused_instead_of_ignored() {
    let concurrency = "[[routes]]\nmatch = \"*\"\nlimits = [{ algorithm = \"concurrency\", max = 5 }]\n";
    assert_refused(concurrency, &["concurrency"]);
    assert_refused(
        "[[routes]]\nmatch = \"*\"\ncost = { reserve = 100, actual = \"header:x-request-cost\" }\n",
        &["cost"],
    );
}

#[test]
fn an_admin_port_off_loopback_needs_a_token() {
    let setup = Setup::default();
    let files = setup.files();
    let open = files.render(&setup).replace(&files.admin.to_string(), &format!("0.0.0.0:{}", files.admin.port()));
    std::fs::write(files.path("sluicegate.toml"), open).unwrap();
    let checked = run(files.directory(), &["check", "-c", "sluicegate.toml"]);
    assert_eq!(checked.code, Some(1), "{}", checked.output());
    assert!(checked.output().contains("token_file"), "{}", checked.output());
}

#[test]
fn variables_are_expanded_in_strings_after_parsing() {
    let toml = "[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"${SUITE_RATE:-7/h}\" }]\n";
    assert_eq!(Setup::new(toml).start().get("/").limit(), 7);
    assert_refused(
        "[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"${SUITE_SURELY_UNSET}\" }]\n",
        &["SUITE_SURELY_UNSET"],
    );
}

#[test]
fn included_files_add_to_the_main_one_and_names_stay_unique() {
    let setup = Setup::new("[tiers.free]\n");
    let files = setup.files();
    let main = format!("include = [\"conf.d/*.toml\"]\n{}", files.render(&setup));
    std::fs::create_dir(files.path("conf.d")).unwrap();
    std::fs::write(files.path("sluicegate.toml"), main).unwrap();
    let check = || run(files.directory(), &["check", "-c", "sluicegate.toml"]);
    std::fs::write(files.path("conf.d/a.toml"), "[tiers.pro]\nlimits = [{ rate = \"1/s\" }]\n").unwrap();
    assert_eq!(check().code, Some(0), "{}", check().output());
    std::fs::write(files.path("conf.d/b.toml"), "[tiers.free]\n").unwrap();
    assert_eq!(check().code, Some(1));
    assert!(check().output().contains("b.toml") && check().output().contains("free"), "{}", check().output());
}

#[test]
fn a_cost_above_a_tiers_capacity_is_a_warning() {
    let toml = "[tiers.free]\nlimits = [{ rate = \"5/h\" }]\n[[routes]]\nmatch = \"*\"\ncost = 8\n";
    let checked = check(&Setup::new(toml));
    assert_eq!(checked.code, Some(0), "{}", checked.output());
    assert!(checked.output().contains("warning"), "{}", checked.output());
}
