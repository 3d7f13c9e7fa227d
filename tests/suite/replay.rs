//! `replay`: the gateway's own decisions again, logs of every form and compression, and the page about tuning.

mod traffic;

use crate::docs;
use crate::support::program::{Finished, PROGRAM, run};
use crate::support::*;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use traffic::{Form, Traffic};

/// The first instant of the logs that are written here: 2026-12-01T00:00:00Z.
const START_MS: u64 = 1_796_083_200_000;

#[track_caller]
fn replay(directory: &Path, arguments: &[&str]) -> (Finished, Value) {
    let named = arguments.contains(&"-c");
    let start: &[&str] = if named { &["replay", "--json"] } else { &["replay", "--json", "-c", "sluicegate.toml"] };
    let all = [start, arguments].concat();
    let finished = run(directory, &all);
    let report = serde_json::from_str(&finished.stdout).unwrap_or_default();
    (finished, report)
}

/// The report of a replay that must succeed and have nothing to say beside it.
#[track_caller]
fn report_of(directory: &Path, arguments: &[&str]) -> Value {
    let (finished, report) = replay(directory, arguments);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{}", finished.output());
    report
}

fn row<'r>(report: &'r Value, kind: &str, name: &str) -> &'r Value {
    let rows = report[kind].as_array().unwrap_or_else(|| panic!("no {kind} in {report}"));
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} among {kind}: {rows:?}"))
}

/// Limits of every algorithm and layer, in windows short enough to turn over during the test.
const EVERYTHING: &str = "
[tiers.free]
limits = [
  { name = \"free-log\", algorithm = \"sliding_window_log\", rate = \"9/500ms\" },
  { name = \"free-fixed\", algorithm = \"fixed_window\", rate = \"14/s\" },
]
[tiers.pro]
limits = [{ name = \"pro-bucket\", algorithm = \"token_bucket\", rate = \"20/s\", burst = 7 }]
[[routes]]
match = \"POST /api/export\"
cost = 2.5
limits = [{ name = \"export\", rate = \"7/s\", per = [\"subject\", \"route\"] }]
[[routes]]
match = \"/api/users/:id\"
limits = [{ name = \"user\", rate = \"5/700ms\", per = [\"subject\", \"param:id\"] }]
[[routes]]
match = \"/private/*rest\"
auth = \"required\"
tiers = [\"pro\"]
[[routes]]
match = \"GET /slow\"
limits = [{ name = \"slow\", algorithm = \"leaky_bucket\", rate = \"100/s\", queue = 3 }]
[[routes]]
match = \"/shadow\"
limits = [{ name = \"shadow\", rate = \"1/h\", mode = \"shadow\" }]
[[routes]]
match = \"/open\"
auth = \"none\"
skip = [\"ip\"]
";

/// One of many requests: method, target, and the key's owner; an unknown one has a wrong key.
fn request_of(number: usize) -> (&'static str, &'static str, Option<&'static str>) {
    const ALL: [(&str, &str, Option<&str>); 17] = [
        ("GET", "/api/users/7", Some("free")),
        ("GET", "/api/users/8/", Some("free")),
        ("POST", "/api/export", Some("pro")),
        ("GET", "/api//users/./9?secret=1", None),
        ("HEAD", "/api/users/7", Some("pro")),
        ("GET", "/slow", Some("free")),
        ("GET", "/private/a/b", Some("pro")),
        ("GET", "/private/a/b", Some("free")),
        ("GET", "/private/a/b", None),
        ("GET", "/api/users/7", Some("wrong")),
        ("GET", "/%zz", Some("free")),
        ("GET", "/nowhere", None),
        ("OPTIONS", "/api/export", None),
        ("GET", "/shadow", Some("pro")),
        ("GET", "/open", Some("wrong")),
        ("DELETE", "/api/users/%41", None),
        ("POST", "/api/export", Some("expired")),
    ];
    ALL[number % ALL.len()]
}

/// Sends requests of every kind by one address and its own keys, pausing so that windows turn over.
fn act(gateway: &Gateway, actor: usize, requests: usize) -> Vec<u16> {
    let mut client = gateway.connect();
    let address = format!("203.0.113.{actor}");
    let mut statuses = Vec::new();
    for number in 0..requests {
        let (method, target, key) = request_of(number * 7 + number / 17);
        let key = key.map(|owner| format!("Bearer {}", key_of(&format!("{owner}{actor}"))));
        let mut headers = vec![("x-forwarded-for", address.as_str())];
        headers.extend(key.as_ref().map(|key| ("authorization", key.as_str())));
        if method == "OPTIONS" {
            headers.extend([("origin", "https://a.example"), ("access-control-request-method", "POST")]);
        }
        client.send(client::render(method, target, &headers, b""));
        let answer = client.try_read(method).ok().flatten().expect("every request is answered");
        if answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            client = gateway.connect();
        }
        statuses.push(answer.status);
        // Time is what is tested: refusals in a row, and windows that turn over.
        thread::sleep(Duration::from_millis(if number % 40 == 39 { 150 } else { 2 }));
    }
    statuses
}

#[test]
fn a_replay_decides_every_line_of_the_gateways_log_as_the_gateway_did() {
    const ACTORS: usize = 4;
    const REQUESTS: usize = 260;
    let mut keys = String::new();
    for actor in 0..ACTORS {
        keys += &consumer(&format!("free{actor}"), "free");
        keys += &consumer(&format!("pro{actor}"), "pro");
        let expired = format!("expired{actor}");
        let key = keys::key(&format!("{expired}-key"), &key_of(&expired), "expires = 2020-01-01T00:00:00Z");
        keys += &keys::consumer_with(&expired, "pro", "", &key);
    }
    let gateway = Setup::new(EVERYTHING)
        .trusted()
        .client_ip("limits = [{ name = \"address\", rate = \"60/s\" }]")
        .auth("failures = \"4/s\"")
        .log("access = \"access.log\"\nformat = \"json\"")
        .keys(&keys)
        .start();
    let statuses = burst(ACTORS, ACTORS, |actor| act(&gateway, actor, REQUESTS)).concat();
    let log = gateway.files.path("access.log");
    let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    wait_until("every request has its line", || lines() >= statuses.len());
    let report = report_of(gateway.files.directory(), &["access.log"]);
    let refused = count(&statuses, 429) as u64;
    let passed = count(&statuses, 200);
    assert!(refused > 20 && passed > 20, "{refused} refused and {passed} passed of {}", statuses.len());
    let recorded = &report["recorded"];
    assert_eq!(recorded["compared"], statuses.len(), "{report:#}");
    for otherwise in [&recorded["newly_refused"]["requests"], &recorded["freed"]["requests"], &recorded["other_limit"]]
    {
        assert_eq!(otherwise, 0, "{recorded:#}");
    }
    assert_eq!(report["total"]["refused"], refused);
    for (word, status) in [("forbidden", 403), ("route_not_found", 404), ("bad_request", 400)] {
        assert_eq!(report["rejections"][word], count(&statuses, status), "{word} of {report:#}");
    }
    let by_key = ["invalid_api_key", "missing_api_key"].map(|word| report["rejections"][word].as_u64().unwrap_or(0));
    assert_eq!(by_key.iter().sum::<u64>(), count(&statuses, 401) as u64, "{report:#}");
    for limit in
        ["address", "auth-failures", "free-log", "free-fixed", "pro-bucket", "export", "user", "slow", "shadow"]
    {
        assert!(row(&report, "limits", limit)["asked"].as_u64() > Some(0), "{limit} of {report:#}");
    }
    assert!(row(&report, "limits", "shadow")["over"].as_u64() > Some(0), "{report:#}");
    assert_eq!(report["read"]["unreadable"], 0);
}

/// A configuration by which every caller has a few requests a minute.
fn few_a_minute() -> gateway::Files {
    let limits = "limits = [{ name = \"ip-min\", algorithm = \"fixed_window\", rate = \"5/min\" }]";
    let routes = "[[routes]]\nmatch = \"POST /api/export\"\ncost = 2\n[[routes]]\nmatch = \"*\"\n";
    Setup::new(routes).client_ip(limits).files()
}

fn small(form: Form) -> Vec<u8> {
    let mut log = Vec::new();
    let traffic = Traffic { lines: 3000, start_ms: START_MS, span_ms: 600_000, callers: 40 };
    traffic.write(form, &mut log).unwrap();
    log
}

#[test]
fn logs_of_every_compression_from_files_and_from_standard_input_give_one_result() {
    let files = few_a_minute();
    let log = small(Form::Combined);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&log).unwrap();
    let forms =
        [("plain", log.clone()), ("gzip", gzip.finish().unwrap()), ("zstd", zstd::encode_all(&log[..], 1).unwrap())];
    let mut totals = Vec::new();
    for (name, bytes) in &forms {
        fs::write(files.path(name), bytes).unwrap();
        let mut report = report_of(files.directory(), &[name]);
        totals.push(report["total"].take());
        let command = format!("cat {name} | {PROGRAM} replay -c sluicegate.toml --json");
        let piped = Command::new("sh").args(["-c", &command]).current_dir(files.directory()).output().unwrap();
        let mut report: Value = serde_json::from_slice(&piped.stdout).unwrap();
        totals.push(report["total"].take());
    }
    let total = &totals[0];
    let (accepted, refused) = (total["accepted"].as_u64().unwrap(), total["refused"].as_u64().unwrap());
    assert!(accepted > 500 && refused > 500 && accepted + refused == 3000, "{total}");
    assert!(totals.iter().all(|each| each == total), "{totals:?}");
}

#[test]
fn refusals_are_those_that_counting_by_hand_gives() {
    let files = few_a_minute();
    let log = small(Form::Json);
    fs::write(files.path("access.log"), &log).unwrap();
    let mut lines: Vec<Value> =
        log.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    lines.sort_by_key(|line| line["decided_at"].to_string());
    let mut used = std::collections::HashMap::<(String, String), u64>::new();
    let mut refused = std::collections::BTreeMap::<String, (u64, String)>::new();
    for line in &lines {
        let at = line["decided_at"].as_str().unwrap();
        let caller = line["client_ip"].as_str().unwrap().to_owned();
        let cost = if line["method"] == "POST" { 2 } else { 1 };
        let used = used.entry((caller.clone(), at[..16].to_owned())).or_default();
        if *used + cost <= 5 {
            *used += cost;
        } else {
            refused.entry(caller).or_insert((0, format!("{}Z", &at[..19]))).0 += 1;
        }
    }
    let report = report_of(files.directory(), &["access.log", "--top", "40"]);
    assert_eq!(report["total"]["refused"], refused.values().map(|(count, _)| count).sum::<u64>());
    assert_eq!(
        (report["callers"]["refused"].as_u64(), report["read"]["late"].as_u64()),
        (Some(refused.len() as u64), Some(0))
    );
    for (caller, (count, first)) in &refused {
        let hit = row(&report["callers"], "hardest_hit", caller);
        assert_eq!(
            (hit["refused"].as_u64(), hit["first_refused"]["at"].as_str()),
            (Some(*count), Some(first.as_str()))
        );
        assert_eq!(
            (&hit["first_refused"]["limit"], &hit["by_limit"][0]["requests"]),
            (&"ip-min".into(), &(*count).into())
        );
    }
    let spans = report["timeline"]["spans"].as_array().unwrap();
    let in_spans = |member: &str| spans.iter().map(|span| span[member].as_u64().unwrap()).sum::<u64>();
    assert_eq!(report["total"]["refused"], in_spans("refused"));
    assert_eq!(report["total"]["accepted"], in_spans("accepted"));
}

#[test]
fn a_field_map_reads_other_logs_and_headers_split_counters() {
    let limit =
        "[[limits]]\nname = \"tenant\"\nper = \"header:x-tenant\"\nrate = \"2/h\"\nalgorithm = \"fixed_window\"\n";
    let files = Setup::new(limit).files();
    let mut json = String::new();
    let mut columns = String::new();
    for number in 0..8 {
        let (at, tenant) = (START_MS / 1000 + number, ["a", "b"][number as usize % 2]);
        let _ = writeln!(
            json,
            "{{\"ts\":{at}.5,\"client\":{{\"addr\":\"192.0.2.1\"}},\"url\":\"http://h.example/x\",\"tenant\":\"{tenant}\"}}"
        );
        let _ = writeln!(columns, "{tenant}\t\"GET /x HTTP/2.0\"\t{at}\t192.0.2.1:4711");
    }
    fs::write(files.path("json.log"), json).unwrap();
    fs::write(files.path("columns.log"), columns).unwrap();
    for (map, log) in [
        ("ip=client.addr,time=ts,path=url,header:x-tenant=tenant", "json.log"),
        ("ip=4,time=3,request=2,header:x-tenant=1", "columns.log"),
    ] {
        let report = report_of(files.directory(), &["--fields", map, log]);
        assert_eq!(
            (report["total"]["accepted"].as_u64(), report["total"]["refused"].as_u64()),
            (Some(4), Some(4)),
            "{log}"
        );
        assert_eq!(report["notes"], serde_json::json!([]), "{log}");
    }
    let blind = report_of(files.directory(), &["--fields", "ip=4,time=3,request=2", "columns.log"]);
    assert_eq!(blind["total"]["refused"], 6);
    assert!(blind["notes"][0].as_str().unwrap().contains("tenant"), "{blind:#}");
}

#[test]
fn an_assumed_tier_and_host_stand_in_for_what_the_log_lacks() {
    let toml = "[tiers.free]\nlimits = [{ name = \"free\", rate = \"2/h\" }]\n\
                [[routes]]\nmatch = \"*\"\nhost = \"api.example\"\nauth = \"required\"\n";
    let files = Setup::new(toml).files();
    let line = "192.0.2.1 - - [01/Dec/2026:00:00:00 +0000] \"GET /x HTTP/1.1\" 200 1\n";
    fs::write(files.path("access.log"), line.repeat(5)).unwrap();
    let plain = report_of(files.directory(), &["access.log"]);
    assert_eq!(plain["rejections"]["route_not_found"], 5);
    let hosted = report_of(files.directory(), &["access.log", "--host", "api.example"]);
    assert_eq!(hosted["rejections"]["missing_api_key"], 5);
    let assumed = report_of(files.directory(), &["access.log", "--host", "api.example", "--assume-tier", "free"]);
    assert_eq!((assumed["total"]["accepted"].as_u64(), assumed["total"]["refused"].as_u64()), (Some(2), Some(3)));
    let (unknown, _) = replay(files.directory(), &["access.log", "--assume-tier", "gold"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.output());
}

#[test]
fn lines_that_cannot_be_read_are_counted_and_shown_and_fatal_only_if_all_are() {
    let files = few_a_minute();
    let mut log = small(Form::Combined);
    log.extend_from_slice(b"nonsense <script>\x1b[31m\n\xff\xfe\n{\"time\":\n\n");
    fs::write(files.path("access.log"), &log).unwrap();
    let report = report_of(files.directory(), &["access.log"]);
    assert_eq!((report["read"]["lines"].as_u64(), report["read"]["unreadable"].as_u64()), (Some(3003), Some(3)));
    let example = &report["read"]["examples"][0];
    assert_eq!((example["log"].as_str(), example["line"].as_u64()), (Some("access.log"), Some(3001)), "{example}");
    let text = run(files.directory(), &["replay", "-c", "sluicegate.toml", "access.log"]);
    assert!(text.stdout.contains("3 of 3003 lines") && !text.stdout.contains('\u{1b}'), "{}", text.stdout);
    fs::write(files.path("bad.log"), "nonsense\n".repeat(3)).unwrap();
    let (all_bad, report) = replay(files.directory(), &["bad.log"]);
    assert_eq!((all_bad.code, report["read"]["unreadable"].as_u64()), (Some(1), Some(3)), "{}", all_bad.output());
    fs::write(files.path("empty.log"), "").unwrap();
    assert_eq!(report_of(files.directory(), &["empty.log"])["total"]["requests"], 0);
    let (missing, _) = replay(files.directory(), &["no-such.log"]);
    assert!(missing.code == Some(1) && missing.stderr.contains("no-such.log"), "{}", missing.output());
}

#[test]
fn a_comparison_shows_who_is_newly_refused_and_who_is_freed() {
    let files = few_a_minute();
    fs::write(files.path("access.log"), small(Form::Json)).unwrap();
    let text = fs::read_to_string(files.path("sluicegate.toml")).unwrap();
    fs::write(files.path("wide.toml"), text.replace("5/min", "9/min").replace("ip-min", "ip-wide")).unwrap();
    let narrow = report_of(files.directory(), &["access.log", "--compare", "wide.toml"]);
    let wide = report_of(files.directory(), &["-c", "wide.toml", "access.log", "--compare", "sluicegate.toml"]);
    let refused = |report: &Value| report["total"]["refused"].as_i64().unwrap();
    let change = |report: &Value, kind: &str| report["compared"][kind]["requests"].as_i64().unwrap();
    assert!(refused(&narrow) > refused(&wide));
    for (report, other) in [(&narrow, &wide), (&wide, &narrow)] {
        assert_eq!(refused(report) - refused(other), change(report, "newly_refused") - change(report, "freed"));
        assert_eq!(change(report, "newly_refused"), change(other, "freed"));
    }
    let newly = &narrow["compared"]["newly_refused"];
    assert_eq!(newly["by_limit"][0]["name"], "ip-min");
    let hit = &newly["callers"]["hardest_hit"][0];
    assert!(hit["refused"].as_u64() > Some(0) && hit["first_refused"]["at"].is_string(), "{newly:#}");
    assert_eq!(
        narrow["compared"]["freed"]["by_limit"].as_array().map(Vec::len),
        Some(usize::from(change(&narrow, "freed") > 0))
    );
}

#[test]
fn a_condition_that_holds_ends_with_1_and_one_that_makes_no_sense_with_2() {
    let files = few_a_minute();
    fs::write(files.path("access.log"), small(Form::Combined)).unwrap();
    let code = |condition: &str| {
        let (finished, report) = replay(files.directory(), &["access.log", "--fail-if", condition]);
        (finished.code, report["failed"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(code("refused > 1%"), (Some(1), 1));
    assert_eq!(code("refused[tier=anonymous] >= 1"), (Some(1), 1));
    assert_eq!(code("refused[route=default] > 99.9%"), (Some(0), 0));
    assert_eq!(code("unreadable > 0"), (Some(0), 0));
    assert_eq!(code("refused[limit=auth-failures] > 0"), (Some(0), 0), "a limit that nothing drew on is known");
    for nonsense in ["refused", "denied > 1", "freed > 0", "refused[limit=no-such] > 0"] {
        assert_eq!(code(nonsense).0, Some(2), "{nonsense}");
    }
    let (bad_map, _) = replay(files.directory(), &["access.log", "--fields", "ip=1"]);
    assert_eq!(bad_map.code, Some(2), "{}", bad_map.output());
}

#[test]
fn the_page_stands_alone_and_what_a_log_says_cannot_become_markup() {
    let files = few_a_minute();
    let mut log = small(Form::Combined);
    log.extend_from_slice(b"\"><script>alert(1)</script>\n");
    fs::write(files.path("access.log"), &log).unwrap();
    report_of(files.directory(), &["access.log", "--html", "page.html"]);
    let page = fs::read_to_string(files.path("page.html")).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)"), "the example is shown");
    for never in ["<script", "src=", "href=", "url(", "@import", "http:", "https:", " on"] {
        let found = page.match_indices(never).map(|(place, _)| &page[place..(place + 40).min(page.len())]);
        let found: Vec<_> = found.filter(|text| never != " on" || text[3..].contains('=')).collect();
        assert!(found.is_empty(), "{never}: {found:?}");
    }
    for always in [
        "<!doctype html>",
        "default-src 'none'",
        "<svg",
        "Requests over time",
        "Refused by ip-min",
        "Callers hit hardest",
    ] {
        assert!(page.contains(always), "{always}");
    }
    for tag in ["svg", "table", "div", "p", "h2", "body", "html", "rect", "title"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let files = few_a_minute();
    let mut log = fs::File::create(files.path("access.log")).unwrap();
    let mut text = Vec::new();
    Traffic { lines: 30_000, start_ms: START_MS, span_ms: 600_000, callers: 1000 }
        .write(Form::Combined, &mut text)
        .unwrap();
    log.write_all(&text).unwrap();
    let script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let shown = Command::new("python3")
        .args(["-c", script, PROGRAM, "replay", "-c", "sluicegate.toml", "access.log"])
        .current_dir(files.directory())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(" a second, ") && shown.contains(" left") && shown.contains("refused "), "{shown}");
}

/// The log of the worked example: a day of ordinary callers, one address that scrapes, and one consumer that exports
/// in bursts.
fn yesterday() -> Vec<u8> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut add = |at_s: u64, address: &str, key: Option<(&str, &str)>, method: &str, path: &str| {
        let (hour, minute, second) = (at_s / 3600, at_s / 60 % 60, at_s % 60);
        let (consumer, key_id) = key.map_or(("null".into(), "null".into()), |(consumer, key)| {
            (format!("\"{consumer}\""), format!("\"{key}\""))
        });
        let line = format!(
            "{{\"time\":\"2026-11-30T{hour:02}:{minute:02}:{second:02}.000Z\",\"client_ip\":\"{address}\",\"consumer\":{consumer},\
             \"key_id\":{key_id},\"method\":\"{method}\",\"path\":\"{path}\",\"status\":200,\"duration_ms\":0,\"decision\":\"allowed\"}}\n"
        );
        lines.push((at_s, line));
    };
    for at_s in (0..86_400).step_by(15) {
        add(at_s, &format!("198.51.100.{}", at_s / 15 % 40), None, "GET", "/api/items/1");
    }
    for at_s in 36_000..36_300 {
        add(at_s, "203.0.113.9", None, "GET", "/api/items/2");
    }
    for at_s in (43_200..46_800).step_by(4) {
        add(at_s, "192.0.2.10", Some(("acme", "acme-2026")), "POST", "/api/export");
    }
    lines.sort_by_key(|(at_s, _)| *at_s);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for (_, line) in lines {
        gzip.write_all(line.as_bytes()).unwrap();
    }
    gzip.finish().unwrap()
}

#[test]
fn the_commands_of_the_tuning_page_print_what_it_shows() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("access.log.1.gz"), yesterday()).unwrap();
    std::os::unix::fs::symlink(PROGRAM, directory.path().join("sluicegate")).unwrap();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let page = docs::read(&docs::root().join("docs/tuning.md"));
    let blocks = docs::blocks(&page);
    let mut compared = 0;
    for (index, (language, block)) in blocks.iter().enumerate() {
        match *language {
            "toml" => {
                let name = block.lines().find_map(|line| line.strip_prefix("# ")?.strip_suffix(".toml"));
                fs::write(directory.path().join(format!("{}.toml", name.expect("a file has a name"))), block).unwrap();
            }
            "sh" => {
                let mut shell = Command::new("sh");
                let done = shell.args(["-c", block]).env("PATH", &path).current_dir(directory.path()).output().unwrap();
                let printed =
                    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
                let Some((_, answer)) = blocks.get(index + 1).filter(|(language, _)| *language == "text") else {
                    assert!(done.status.success(), "{block}\n{printed}");
                    continue;
                };
                compared += 1;
                let missing = docs::first_line_not_printed(answer, &printed);
                assert_eq!(missing, None, "{block} printed\n{printed}\nbut the page shows\n{answer}");
            }
            _ => {}
        }
    }
    assert!(compared >= 4, "only {compared} commands have an answer");
}
