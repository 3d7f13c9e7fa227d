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

/// The warnings of a configuration, as `check` prints them, without places.
#[track_caller]
fn warnings(setup: &Setup) -> Vec<String> {
    let checked = run(setup.files().directory(), &["check", "-c", "sluicegate.toml", "--json"]);
    assert_eq!(checked.code, Some(0), "{}", checked.output());
    let problems: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    let problems = problems.as_array().unwrap().iter();
    problems
        .map(|problem| {
            assert!(problem["severity"] == "warning" && problem["line"].is_u64(), "{problem}");
            problem["message"].as_str().unwrap().to_string()
        })
        .collect()
}

#[test]
fn a_limit_that_a_tighter_one_always_comes_before_is_warned_of() {
    let pairs = [
        // Sure.
        ("rate = \"10/min\"", "rate = \"20/min\"", true),
        ("rate = \"10/min\", algorithm = \"fixed_window\"", "rate = \"600/h\", algorithm = \"fixed_window\"", true),
        ("rate = \"10/min\"", "rate = \"1000/h\"", true),
        ("rate = \"1/h\"", "rate = \"1000/month\", algorithm = \"fixed_window\"", true),
        (
            "rate = \"10/s\", algorithm = \"sliding_window_log\"",
            "rate = \"700/min\", algorithm = \"fixed_window\"",
            true,
        ),
        (
            "rate = \"10/s\", burst = 5, algorithm = \"token_bucket\"",
            "rate = \"20/s\", burst = 5, algorithm = \"token_bucket\"",
            true,
        ),
        ("rate = \"10/s\", burst = 5, algorithm = \"token_bucket\"", "rate = \"700/min\"", true),
        // They can bind.
        ("rate = \"10/min\"", "rate = \"599/h\", algorithm = \"fixed_window\"", false),
        ("rate = \"10/min\"", "rate = \"600/h\"", false),
        ("rate = \"1/h\"", "rate = \"743/month\", algorithm = \"fixed_window\"", false),
        (
            "rate = \"10/s\", burst = 9, algorithm = \"token_bucket\"",
            "rate = \"20/s\", burst = 5, algorithm = \"token_bucket\"",
            false,
        ),
        ("rate = \"10/min\", mode = \"shadow\"", "rate = \"20/min\"", false),
        ("rate = \"10/min\"", "rate = \"20/min\", mode = \"shadow\"", false),
        ("rate = \"10/min\"", "rate = \"20/min\", per = \"global\"", false),
        ("rate = \"10/min\"", "rate = \"20/min\", counts = \"requests\"", false),
        ("rate = \"10/min\", when = { method = \"GET\" }", "rate = \"20/min\"", false),
        ("rate = \"10/min\", when = { method = \"GET\" }", "rate = \"20/min\", when = { method = \"GET\" }", true),
    ];
    for (tight, loose, expected) in pairs {
        for order in [[("tight", tight), ("loose", loose)], [("loose", loose), ("tight", tight)]] {
            let limits = order.map(|(name, limit)| format!("name = \"{name}\", {limit}"));
            let told = warnings(&Setup::ip_limited(&[&limits[0], &limits[1]]));
            let message = "the limit \"loose\" can never refuse: \"tight\" always does first";
            assert_eq!(told, if expected { vec![message] } else { vec![] }, "{tight} before {loose}");
        }
    }
}

#[test]
fn limits_of_several_layers_are_compared_where_both_always_apply() {
    let anonymous = "[tiers.anonymous]\nlimits = [{ name = \"loose\", rate = \"2000/min\" }]\n";
    let told =
        |toml: &str| warnings(&Setup::new(toml).client_ip("limits = [{ name = \"per-ip\", rate = \"1000/min\" }]"));
    assert_eq!(told(anonymous), ["the limit \"loose\" can never refuse: \"per-ip\" always does first"]);
    assert!(told(&format!("{anonymous}[[routes]]\nmatch = \"/a\"\nskip = [\"ip\"]\n")).is_empty());
    let same = "[[limits]]\nname = \"a\"\nper = \"host\"\nrate = \"5/s\"\n[[limits]]\nname = \"b\"\nper = \"host\"\nrate = \"5/s\"\n";
    assert_eq!(
        told(same),
        ["the limit \"b\" can never refuse: \"a\" always does first"],
        "of two equal ones the later"
    );
}

#[test]
fn a_burst_below_a_cost_of_another_layer_is_warned_of() {
    let told = |toml: &str| warnings(&Setup::new(toml));
    let burst =
        "[tiers.anonymous]\nlimits = [{ name = \"b\", rate = \"60/min\", burst = 3, algorithm = \"token_bucket\" }]\n";
    let route = "[[routes]]\nmatch = \"/a\"\ncost = 5\n";
    let message = "the cost of \"/a\", 5, is more than the burst or queue of the limit \"b\" can ever hold, 3: its callers always get 429";
    assert_eq!(told(&format!("{burst}{route}")), [message]);
    assert!(told(&format!("{burst}{route}skip = [\"key\"]\n")).is_empty());
    assert!(told(&format!("{burst}[tiers.pro]\n{route}tiers = [\"pro\"]\nauth = \"required\"\n")).is_empty());
    assert_refused(
        "[[routes]]\nmatch = \"/a\"\ncost = 5\nlimits = [{ rate = \"60/min\", burst = 3, algorithm = \"token_bucket\" }]\n",
        &["this cost can never fit the route's own limit \"a-min\""],
    );
}

#[test]
fn routes_and_limits_that_nobody_can_meet_are_warned_of() {
    let told = |toml: &str| {
        warnings(
            &Setup::new(format!("[tiers.free]\n[tiers.pro]\n{toml}"))
                .keys(&(consumer("a", "free") + &consumer("b", "pro"))),
        )
    };
    let route = |lines: &str| format!("[[routes]]\nmatch = \"/a\"\n{lines}\n");
    assert_eq!(
        told(&route("auth = \"none\"\ntiers = [\"pro\"]")),
        ["nobody can call \"/a\": without a look at the key every caller is anonymous"]
    );
    assert_eq!(
        told(&route("auth = \"required\"\ntiers = [\"anonymous\"]")),
        ["nobody can call \"/a\": it needs a key, and is for callers without one"]
    );
    assert_eq!(
        told(&route("tiers = [\"pro\"]\nlimits = [{ rate = \"1/s\", tiers = [\"free\"] }]")),
        ["the limit \"a-s\" never applies: the route \"/a\" has no callers of its tiers"]
    );
    assert!(told(&route("tiers = [\"pro\"]\nlimits = [{ rate = \"1/s\", tiers = [\"pro\", \"free\"] }]")).is_empty());
}

#[test]
fn a_tier_that_no_key_uses_is_warned_of_once_there_are_keys() {
    let setup = Setup::new("[tiers.free]\n[tiers.pro]\n[[routes]]\nmatch = \"/a\"\ntiers = [\"pro\"]\n");
    assert!(warnings(&setup).is_empty(), "the keys file is yet to be filled");
    let expected = ["no key is of the tier \"pro\"", "nobody can call \"/a\": no key is of its tiers"];
    assert_eq!(warnings(&setup.clone().keys(&consumer("a", "free"))), expected);
    let disabled = keys::consumer_with("b", "pro", "", &keys::key("b", &key_of("b"), "disabled = true"));
    assert_eq!(warnings(&setup.clone().keys(&(consumer("a", "free") + &disabled))), expected);
    assert!(warnings(&setup.keys(&(consumer("a", "free") + &consumer("b", "pro")))).is_empty());
}

#[test]
fn strict_makes_warnings_errors() {
    let files = Setup::ip_limited(&["name = \"a\", rate = \"1/s\"", "name = \"b\", rate = \"2/s\""]).files();
    let check = |more: &[&str]| run(files.directory(), &[&["check", "-c", "sluicegate.toml"][..], more].concat());
    let lenient = check(&[]);
    assert_eq!(lenient.code, Some(0));
    assert!(
        lenient.stdout.contains(" 1 warning") && lenient.stderr.starts_with("warning: the limit \"b\""),
        "{}",
        lenient.output()
    );
    let strict = check(&["--strict"]);
    assert_eq!((strict.code, strict.stdout.as_str()), (Some(1), ""));
    assert!(
        strict.stderr.starts_with("error: the limit \"b\"") && strict.stderr.contains(": 1 error, 0 warnings"),
        "{}",
        strict.stderr
    );
    let json: serde_json::Value = serde_json::from_str(&check(&["--strict", "--json"]).stdout).unwrap();
    assert_eq!(json[0]["severity"], "error");
    let good = Setup::default().files();
    assert_eq!(run(good.directory(), &["check", "-c", "sluicegate.toml", "--strict"]).code, Some(0));
}
