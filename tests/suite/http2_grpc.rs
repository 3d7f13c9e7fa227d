//! HTTP/2 without TLS, and gRPC callers.

use crate::support::http2::Http2;
use crate::support::*;
use std::time::{Duration, Instant};

const GRPC: (&str, &str) = ("content-type", "application/grpc");

#[test]
fn b123_a_grpc_caller_gets_trailers_only_with_resource_exhausted() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    assert_eq!(gateway.get("/svc.S/M").status, 200);
    for kind in ["application/grpc", "application/grpc+proto"] {
        let refused = Http2::connect(gateway.files.data).request("POST", "/svc.S/M", &[("content-type", kind)]);
        assert_eq!((refused.status, refused.field("grpc-status")), (200, Some("8")), "{refused:?}");
        assert!(refused.headers_only && refused.body.is_empty(), "{refused:?}");
        assert!(refused.field("grpc-message").is_some_and(|message| !message.is_empty()));
        let pushback: i32 = refused.field("grpc-retry-pushback-ms").unwrap().parse().unwrap();
        assert!(pushback > 0, "{pushback}");
        assert!(refused.field("content-type").unwrap().starts_with("application/grpc"));
    }
    let plain = gateway.get("/svc.S/M");
    assert_eq!((plain.status, plain.error().as_str()), (429, "rate_limit_exceeded"));
}

#[test]
fn b123_over_http1_the_answer_to_grpc_has_a_length_so_that_nobody_waits_for_a_body() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    assert_eq!(gateway.get("/svc.S/M").status, 200);
    let mut client = gateway.connect();
    for _ in 0..2 {
        let refused = client.request("POST", "/svc.S/M", &[GRPC], b"");
        assert_eq!((refused.status, refused.header("grpc-status")), (200, Some("8")), "{refused:?}");
        assert_eq!(refused.header("content-length"), Some("0"), "{refused:?}");
        assert!(refused.body.is_empty(), "{refused:?}");
    }
}

#[test]
fn b123_other_refusals_have_their_grpc_status_too() {
    let toml = "[[routes]]\nmatch = \"/key\"\nauth = \"required\"\n[[routes]]\nmatch = \"/vip\"\ntiers = [\"vip\"]\n[tiers.vip]\n\
                [[routes]]\nmatch = \"/broken\"\n";
    let gateway = Setup::new(toml).before_script(|_| Reply::only(reply::End::Reset));
    let h2 = Http2::connect(gateway.files.data);
    for (path, status) in [("/%zz", "3"), ("/key", "16"), ("/vip", "7"), ("/nowhere", "12"), ("/broken", "14")] {
        let refused = h2.request("POST", path, &[GRPC]);
        assert_eq!((refused.status, refused.field("grpc-status")), (200, Some(status)), "{path}");
    }
}

#[test]
fn b146_the_cleartext_preface_is_served_and_upgrades_to_h2c_are_not_forwarded() {
    let gateway = Setup::limited(&[r#"rate = "5/h""#]).start();
    let h2 = Http2::connect(gateway.files.data);
    let answer = h2.request("GET", "/", &[]);
    assert_eq!((answer.status, answer.field("ratelimit-remaining")), (200, Some("4")));
    let h2c =
        [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA")];
    let answer = gateway.get_with("/", &h2c);
    assert!(matches!(answer.status, 200 | 400), "{}", answer.status);
    for request in gateway.upstream.requests() {
        assert_eq!((request.header("upgrade"), request.header("http2-settings")), (None, None));
    }
    assert!(gateway.get("/").remaining() >= 2);
}

#[test]
fn b146_a_broken_preface_consumes_nothing_and_harms_nobody() {
    let gateway = Setup::limited(&[r#"rate = "5/h""#]).start();
    for bytes in
        ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\ngarbage garbage garbage", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "PRI * HT"]
    {
        let mut client = gateway.connect();
        client.send(bytes);
        client.shutdown_write();
        client.read_to_end();
    }
    assert_eq!(gateway.get("/").remaining(), 4);
    assert_eq!(gateway.upstream.count(), 1);
}

#[test]
fn b80_streams_that_are_reset_at_once_are_counted_and_leave_nothing() {
    let gateway = Setup::limited(&[r#"rate = "20/h""#]).start();
    let h2 = Http2::connect(gateway.files.data);
    let opened = (0..1000).take_while(|_| h2.open_and_reset("/")).count();
    assert!(opened > 0);
    let asked = Instant::now();
    assert!(matches!(gateway.get("/").status, 200 | 429));
    assert!(asked.elapsed() < Duration::from_secs(2), "another client waits {:?}", asked.elapsed());
    gateway.wait_idle();
    assert!(gateway.upstream.count() <= 20);
}

#[test]
fn header_names_over_http2_mean_what_they_mean_over_http1() {
    let gateway = Setup::new("[tiers.free]\nlimits = [{ rate = \"2/h\" }]\n").keys(&consumer("acme", "free")).start();
    let h2 = Http2::connect(gateway.files.data);
    let bearer = format!("Bearer {}", key_of("acme"));
    let statuses = [0; 3].map(|_| h2.request("GET", "/", &[("authorization", &bearer)]).status);
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(gateway.get_as(&key_of("acme"), "/").status, 429, "one counter for both protocols");
    assert_eq!(gateway.upstream.last().all("host"), [gateway.files.data.to_string()]);
}
