//! The sample clients of `docs/clients.md`, run as they stand against a real gateway.
//!
//! Each calls until it was refused once and let in again; what they sent is counted at the gateway and at its
//! upstream, so that a client that hammers or comes back early is caught.

use crate::support::*;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const QUOTA: usize = 3;

/// One more passes this long after the quota was spent at once.
const WAIT: Duration = Duration::from_millis(3000);

/// Runs a client and tells how long it took.
#[track_caller]
fn call(program: &str, client: &str, gateway: &Gateway, key: &str) -> (Output, Duration) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(client);
    let start = Instant::now();
    let output = Command::new(program)
        .arg(file)
        .arg(format!("http://{}/", gateway.files.data))
        .env("API_KEY", key)
        .output()
        .unwrap_or_else(|error| panic!("{program}, which `make test` installs: {error}"));
    (output, start.elapsed())
}

/// A bucket that holds the quota and gives the next request after [`WAIT`], however slowly a client starts.
#[track_caller]
fn waits_and_gets_in(program: &str, client: &str) {
    let limit = format!("rate = \"1/{}ms\", algorithm = \"token_bucket\", burst = {QUOTA}", WAIT.as_millis());
    let tier = format!("[tiers.free]\nlimits = [{{ name = \"free\", {limit} }}]\n");
    let gateway = Setup::new(tier).keys(&consumer("amelia", "free")).auth("anonymous = \"deny\"").start();
    let (output, took) = call(program, client, &gateway, &key_of("amelia"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{client}: {said}");

    gateway.wait_idle();
    let refused = gateway.metric("sluicegate_http_requests_total", &[("status", "429")]);
    assert_eq!(refused, 1.0, "{client} came back before it was told to: {said}");
    let admitted = gateway.metric("sluicegate_http_requests_total", &[("status", "200")]);
    assert_eq!(gateway.upstream.count() as f64, admitted, "a refused request reached the upstream");
    assert_eq!(said.matches("waiting").count(), 1, "{client}: {said}");
    // What was let in is the quota, and what refilled while it ran.
    let refilled = took.as_millis() / WAIT.as_millis();
    assert!(admitted > QUOTA as f64 && admitted <= (QUOTA as u128 + refilled) as f64, "{admitted} in {took:?}: {said}");
}

#[test]
fn the_python_client_waits_and_gets_in() {
    waits_and_gets_in("python3", "client.py");
}

#[test]
fn the_javascript_client_waits_and_gets_in() {
    waits_and_gets_in("node", "client.mjs");
}

#[test]
fn the_shell_client_waits_and_gets_in() {
    waits_and_gets_in("sh", "client.sh");
}

#[test]
fn no_client_waits_for_what_never_fits() {
    for (program, client) in [("python3", "client.py"), ("node", "client.mjs"), ("sh", "client.sh")] {
        let route = "[tiers.anonymous]\nlimits = [{ rate = \"2/h\" }]\n[[routes]]\nmatch = \"*\"\ncost = 5\n";
        let gateway = Setup::new(route).start();
        let (output, _) = call(program, client, &gateway, "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{client}: {said}");
        assert!(said.contains("more than its limit can ever allow"), "{client}: {said}");
        gateway.wait_idle();
        assert_eq!(gateway.metric("sluicegate_http_requests_total", &[]), 1.0, "{client}");
    }
}
