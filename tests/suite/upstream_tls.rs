//! Upstreams behind TLS and HTTP/2: whose certificate is taken, which protocol is spoken.

use crate::support::authority::Authority;
use crate::support::backend::Backend;
use crate::support::http2::Http2;
use crate::support::*;

/// A gateway before this backend; `ca.pem` beside its configuration is the authority's certificate.
fn gateway(backend: &Backend, authority: &Authority, lines: &str) -> Gateway {
    let toml = format!(
        "[upstreams.tls]\nservers = [\"{}\"]\nretries = 0\n{lines}\n[[routes]]\nmatch = \"*\"\nupstream = \"tls\"\n",
        backend.address
    );
    let setup = Setup::new(toml);
    let files = setup.files();
    std::fs::write(files.path("ca.pem"), authority.pem()).expect("the directory is ours");
    let running = program::Running::start(files.directory(), &["run", "-c", "sluicegate.toml"]);
    let mut gateway = Gateway { setup, files, running, upstream: Upstream::ok() };
    gateway.wait_ready();
    gateway
}

#[test]
fn a_certificate_of_the_named_authority_is_taken_for_the_named_host() {
    let authority = Authority::new();
    let backend = Backend::tls(authority.issue(&["api.internal"]), &["http/1.1"]);
    let gateway = gateway(&backend, &authority, "tls = { server_name = \"api.internal\", ca_file = \"ca.pem\" }");
    for _ in 0..3 {
        assert_eq!(gateway.get_with("/hello", &[("host", "www.test")]).text(), "ok");
        gateway.wait_idle();
    }
    let seen = backend.seen();
    assert_eq!((seen.len(), seen[0].protocol, seen[0].path.as_str()), (3, "http/1.1", "/hello"));
    assert_eq!((seen[0].server_name.as_deref(), seen[0].host.as_str()), (Some("api.internal"), "www.test"));
    assert_eq!(backend.connections(), 1, "connections are kept");
}

#[test]
fn the_name_is_that_of_the_address_when_none_is_given() {
    let authority = Authority::new();
    let backend = Backend::tls(authority.issue(&["127.0.0.1"]), &["http/1.1"]);
    let gateway = gateway(&backend, &authority, "tls = { ca_file = \"ca.pem\" }");
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(backend.seen()[0].server_name, None, "an address is not sent as a name");
}

#[test]
fn a_certificate_for_another_name_or_of_another_authority_is_a_bad_gateway() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let named = "tls = { server_name = \"api.internal\", ca_file = \"ca.pem\" }";
    for (identity, lines) in [
        (ours.issue(&["other.internal"]), named),
        (theirs.issue(&["api.internal"]), named),
        (ours.issue(&["api.internal"]), "tls = { ca_file = \"ca.pem\" }"),
        (ours.issue(&["api.internal"]), "tls = { server_name = \"api.internal\" }"),
    ] {
        let backend = Backend::tls(identity, &["http/1.1"]);
        let gateway = gateway(&backend, &ours, lines);
        let answer = gateway.get("/");
        assert_eq!((answer.status, answer.error().as_str()), (502, "bad_gateway"), "{lines}");
        assert!(backend.seen().is_empty() && backend.connections() == 1, "nothing was sent");
    }
}

#[test]
fn without_verification_any_certificate_is_taken() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let backend = Backend::tls(theirs.issue(&["other.internal"]), &["http/1.1"]);
    let gateway = gateway(&backend, &ours, "tls = { ca_file = \"ca.pem\", verify = false }");
    assert_eq!(gateway.get("/").status, 200);
    assert!(gateway.log().contains("any certificate of an upstream is taken"), "{}", gateway.log());
}

#[test]
fn a_reload_that_no_longer_trusts_the_authority_uses_no_connection_it_has() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let backend = Backend::tls(ours.issue(&["api.internal"]), &["http/1.1"]);
    let mut gateway = gateway(&backend, &ours, "tls = { server_name = \"api.internal\", ca_file = \"ca.pem\" }");
    assert_eq!(gateway.get("/").status, 200);
    std::fs::write(gateway.files.path("ca.pem"), theirs.pem()).expect("the directory is ours");
    assert_eq!(gateway.reload(|_| {}), Reload::Success);
    assert_eq!(gateway.get("/").status, 502);
    assert_eq!((backend.seen().len(), backend.connections()), (1, 2));
}

#[test]
fn a_file_of_authorities_that_holds_none_is_a_mistake_in_the_configuration() {
    let setup = Setup::default().stub("tls = { ca_file = \"keys.toml\" }");
    let files = setup.files();
    let checked = program::run(files.directory(), &["check", "-c", "sluicegate.toml"]);
    assert_eq!(checked.code, Some(1));
    assert!(checked.output().contains("holds no certificate"), "{}", checked.output());
    let broken = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    std::fs::write(files.path("keys.toml"), broken).expect("the directory is ours");
    let text = files.render(&setup).replace("keys_file = \"keys.toml\"", "");
    std::fs::write(files.path("sluicegate.toml"), text).expect("the directory is ours");
    let checked = program::run(files.directory(), &["check", "-c", "sluicegate.toml"]);
    assert!(checked.output().contains("holds a certificate that cannot be trusted"), "{}", checked.output());
}

#[test]
fn b123_http2_upstreams_are_spoken_to_over_tls_and_in_cleartext_with_their_trailers() {
    let authority = Authority::new();
    let secure = Backend::tls(authority.issue(&["grpc.internal"]), &["h2", "http/1.1"]);
    let clear = Backend::h2c();
    let tls = "protocol = \"h2\"\ntls = { server_name = \"grpc.internal\", ca_file = \"ca.pem\" }";
    for (backend, lines) in [(&secure, tls), (&clear, "protocol = \"h2\"")] {
        let gateway = gateway(backend, &authority, lines);
        let client = Http2::connect(gateway.files.data);
        for _ in 0..3 {
            let answer = client.request("POST", "/svc.S/M", &[("content-type", "application/grpc")]);
            assert_eq!((answer.status, answer.body.as_slice()), (200, &b"ok"[..]));
            assert_eq!(answer.trailers.get("grpc-status").map(|value| value.as_bytes()), Some(&b"0"[..]));
        }
        let seen = backend.seen();
        assert_eq!((seen.len(), seen[0].protocol, seen[0].path.as_str()), (3, "h2", "/svc.S/M"));
        assert_eq!(backend.connections(), 1, "connections are kept");
    }
    assert_eq!(secure.seen()[0].server_name.as_deref(), Some("grpc.internal"));
}

#[test]
fn checks_speak_as_requests_do() {
    let authority = Authority::new();
    let health = "health = { path = \"/up\", interval = \"100ms\", timeout = \"5s\", fall = 2 }";
    let tls = "tls = { server_name = \"api.internal\", ca_file = \"ca.pem\" }";
    let backends = [
        (Backend::tls(authority.issue(&["api.internal"]), &["http/1.1"]), format!("{tls}\n{health}"), "http/1.1"),
        (
            Backend::tls(authority.issue(&["api.internal"]), &["h2"]),
            format!("protocol = \"h2\"\n{tls}\n{health}"),
            "h2",
        ),
        (Backend::h2c(), format!("protocol = \"h2\"\n{health}"), "h2"),
    ];
    for (backend, lines, protocol) in backends {
        let gateway = gateway(&backend, &authority, &lines);
        wait_until("it is checked twice", || backend.seen().len() >= 2);
        let seen = &backend.seen()[0];
        let host = if lines.contains("tls") { "api.internal".to_string() } else { backend.address.to_string() };
        assert_eq!((seen.protocol, seen.path.as_str(), seen.host.as_str()), (protocol, "/up", host.as_str()));
        assert_eq!(gateway.get("/").status, 200);
        backend.answer(500);
        wait_until("it is found unhealthy", || gateway.get("/").status == 503);
        backend.answer(204);
        wait_until("it is found healthy", || gateway.get("/").status == 204);
    }
}

#[test]
fn requests_share_http2_connections_to_a_server() {
    let backend = Backend::h2c();
    let gateway = gateway(&backend, &Authority::new(), "protocol = \"h2\"");
    let statuses = burst(200, 20, |_| gateway.get("/").status);
    assert_eq!((count(&statuses, 200), backend.seen().len()), (200, 200));
    assert!(backend.connections() <= 20, "{} connections", backend.connections());
}

#[test]
fn a_server_that_does_not_negotiate_is_spoken_to_in_http1() {
    let authority = Authority::new();
    let backend = Backend::tls(authority.issue(&["api.internal"]), &[]);
    let tls = "tls = { server_name = \"api.internal\", ca_file = \"ca.pem\" }";
    for lines in [tls.to_string(), format!("protocol = \"h2\"\n{tls}")] {
        let gateway = gateway(&backend, &authority, &lines);
        assert_eq!(gateway.get("/").status, 200, "{lines}");
    }
    assert!(backend.seen().iter().all(|seen| seen.protocol == "http/1.1"));
}
