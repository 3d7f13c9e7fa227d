//! TLS towards Redis: alone, behind sentinels and as a Cluster; and what is said when it cannot be had.

use crate::support::authority::{Authority, Signed};
use crate::support::program;
use crate::support::redis::{MASTER, RedisCluster, RedisServer, Sentinels, tls_arguments};
use crate::support::*;
use std::fs;

const FIXED: &str = "[[routes]]\nmatch = \"*\"\nlimits = [{ rate = \"3/h\", algorithm = \"fixed_window\" }]\n";

fn setup(urls: &str, more: &str) -> Setup {
    let store = format!("[store]\nbackend = \"redis\"\n[store.redis]\nurls = [{urls}]\ntimeout = \"5s\"\n{more}\n");
    Setup::new(format!("{store}{FIXED}"))
}

fn server(authority: &Authority, own: &Signed, clients: &str) -> RedisServer {
    let arguments = tls_arguments(authority, own, clients);
    RedisServer::start_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn url(server: &RedisServer) -> String {
    format!("\"rediss://127.0.0.1:{}\"", server.tls_port())
}

/// That decisions are made in Redis.
#[track_caller]
fn counts(gateway: &Gateway) {
    assert_eq!(gateway.statuses(4, "/"), [200, 200, 200, 429]);
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0, "{}", gateway.log());
}

/// That decisions are made without Redis, and that one line says why.
#[track_caller]
fn fails_saying(gateway: &Gateway, reason: &str) {
    assert_eq!(gateway.statuses(4, "/"), [200, 200, 200, 429], "the limiter in the gateway takes over");
    assert!(gateway.metric("rate_limiter_errors_total", &[]) > 0.0);
    let log = gateway.log();
    let said = |line: &&str| line.contains("cannot connect") && line.contains("WARN");
    let lines: Vec<&str> = log.lines().filter(said).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains(reason), "{}", lines[0]);
}

#[test]
fn counters_are_kept_over_tls_and_the_server_has_to_prove_its_name() {
    let authority = Authority::new();
    let redis = server(&authority, &authority.sign("redis", &["localhost"]), "no");
    let trust = format!("tls = {{ ca_file = \"{}\" }}", authority.file());
    let gateway = setup(&format!("\"rediss://localhost:{}\"", redis.tls_port()), &trust).start();
    counts(&gateway);
    assert_eq!(redis.keys().len(), 1);
    let elsewhere = setup(&url(&redis), &trust).start();
    fails_saying(&elsewhere, "certificate not valid for name");
}

#[test]
fn a_server_that_another_authority_vouches_for_is_an_outage_with_one_line() {
    let (authority, other) = (Authority::new(), Authority::new());
    let redis = server(&authority, &authority.sign("redis", &["127.0.0.1"]), "no");
    let gateway = setup(&url(&redis), &format!("tls = {{ ca_file = \"{}\" }}", other.file())).start();
    fails_saying(&gateway, "UnknownIssuer");
    assert!(redis.keys().is_empty());
}

#[test]
fn without_verify_any_certificate_will_do_and_the_log_says_so() {
    let authority = Authority::new();
    let redis = server(&authority, &authority.sign("redis", &["elsewhere.test"]), "no");
    let gateway = setup(&url(&redis), "tls = { verify = false }").start();
    counts(&gateway);
    assert!(gateway.log().contains("verify = false"), "{}", gateway.log());
}

#[test]
fn a_server_that_wants_a_certificate_gets_it_and_refuses_without() {
    let authority = Authority::new();
    let redis = server(&authority, &authority.sign("redis", &["127.0.0.1"]), "yes");
    let bare = setup(&url(&redis), &format!("tls = {{ ca_file = \"{}\" }}", authority.file())).start();
    fails_saying(&bare, "CertificateRequired");
    let own = authority.sign("gateway", &["gateway.test"]);
    let tls = format!(
        "tls = {{ ca_file = \"{}\", certificate = \"{}\", key = \"{}\" }}",
        authority.file(),
        own.certificate,
        own.key
    );
    counts(&setup(&url(&redis), &tls).start());
}

#[test]
fn cleartext_to_a_port_with_tls_and_tls_to_one_without_are_outages_with_one_line() {
    let authority = Authority::new();
    let redis = server(&authority, &authority.sign("redis", &["127.0.0.1"]), "no");
    let trust = format!("tls = {{ ca_file = \"{}\" }}", authority.file());
    let cleartext = (format!("\"redis://127.0.0.1:{}\"", redis.tls_port()), "");
    let tls = (format!("\"rediss://127.0.0.1:{}\"", redis.port), trust.as_str());
    let setups = [cleartext, tls];
    burst(2, 2, |index| fails_saying(&setup(&setups[index].0, setups[index].1).start(), "I/O error"));
}

#[test]
fn sentinels_and_their_master_speak_tls_each_as_configured() {
    let authority = Authority::new();
    let own = authority.sign("redis", &["127.0.0.1"]);
    let mut set = Sentinels::start_with(|| tls_arguments(&authority, &own, "no"), RedisServer::tls_port);
    let trust = format!("mode = \"sentinel\"\nmaster = \"{MASTER}\"\ntls = {{ ca_file = \"{}\" }}", authority.file());
    let urls = |of: &dyn Fn(&RedisServer) -> String| set.sentinels.iter().map(of).collect::<Vec<_>>().join(", ");
    counts(&setup(&urls(&url), &format!("{trust}\nprefix = \"both\"")).start());
    let cleartext = urls(&|sentinel| format!("\"{}\"", sentinel.url()));
    let gateway = setup(&cleartext, &format!("{trust}\nprefix = \"data\"")).start();
    counts(&gateway);
    wait_until("both are replicated", || set.data[1].keys().len() == 2);
    set.data[0].kill();
    wait_until("the new master decides, over TLS too", || {
        gateway.get("/");
        gateway.metric("sluicegate_store_breaker_open", &[]) == 0.0 && !set.data[1].info("cmdstat_evalsha").is_empty()
    });
}

#[test]
fn sentinels_may_speak_tls_though_their_master_does_not() {
    let authority = Authority::new();
    let own = authority.sign("redis", &["127.0.0.1"]);
    let arguments = || {
        let mut arguments = tls_arguments(&authority, &own, "no");
        arguments.extend(["--tls-replication".to_owned(), "no".to_owned()]);
        arguments
    };
    let set = Sentinels::start_with(arguments, |master| master.port);
    let urls: Vec<String> = set.sentinels.iter().map(url).collect();
    // The authority is the system's, as far as the gateway can see: no `tls` is written.
    let gateway = setup(&urls.join(", "), &format!("mode = \"sentinel\"\nmaster = \"{MASTER}\""));
    let gateway = gateway.environment("SSL_CERT_FILE", &authority.file()).start();
    counts(&gateway);
    assert!(gateway.log().contains("their master is not"), "{}", gateway.log());
}

#[test]
fn a_cluster_speaks_tls_at_every_node_also_at_one_that_a_redirection_names() {
    let authority = Authority::new();
    let own = authority.sign("redis", &["127.0.0.1"]);
    let arguments = || {
        let mut arguments = tls_arguments(&authority, &own, "no");
        arguments.extend(["--tls-cluster".to_owned(), "yes".to_owned()]);
        arguments
    };
    // The last master has no slots: the gateway has never heard of it.
    let cluster = RedisCluster::start_with(3, 1, arguments);
    let toml = format!("mode = \"cluster\"\ntls = {{ ca_file = \"{}\" }}", authority.file());
    let gateway = setup(&url(&cluster.masters[0]), &toml).trusted().start();
    for caller in 0..20 {
        assert_eq!(gateway.get_from(&format!("198.51.100.{caller}"), "/").remaining(), 2);
    }
    let key = cluster.masters[1].keys().pop().expect("one of twenty callers is there");
    let caller = key.split_once("{ip:").and_then(|(_, rest)| rest.split_once('}')).expect("an address").0.to_owned();
    let slot = cluster.slot(&key);
    cluster.begin_move(slot, 1, 2);
    cluster.end_move(slot, 1, 2);
    assert_eq!(gateway.get_from(&caller, "/").remaining(), 1);
    assert_eq!(cluster.holder(&key), Some(2));
    assert_eq!(gateway.metric("rate_limiter_errors_total", &[]), 0.0, "{}", gateway.log());
}

#[test]
fn a_bad_file_is_found_by_check_and_a_changed_one_is_refused_by_a_reload() {
    let authority = Authority::new();
    let redis = server(&authority, &authority.sign("redis", &["127.0.0.1"]), "no");
    let files = setup(&url(&redis), "tls = { ca_file = \"ca.pem\" }").files();
    fs::write(files.path("ca.pem"), "nothing").expect("the directory is ours");
    let checked = program::run(files.directory(), &["check", "-c", "sluicegate.toml"]);
    assert_eq!(checked.code, Some(1), "{}", checked.output());
    assert!(checked.output().contains("ca.pem holds no certificate"), "{}", checked.output());

    let named = authority.file();
    let mut gateway = setup(&url(&redis), &format!("tls = {{ ca_file = \"{named}\" }}")).start();
    assert_eq!(gateway.reload(|_| ()), Reload::Success);
    fs::write(&named, fs::read(Authority::new().file()).expect("it was just made")).expect("the directory is ours");
    assert_eq!(gateway.reload(|_| ()), Reload::Failure);
    wait_until("the log says what needs a restart", || gateway.log().contains("[store]"));
    counts(&gateway);
}
