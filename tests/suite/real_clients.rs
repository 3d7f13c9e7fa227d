//! Programs that others wrote, each let through and refused: what they make of our answers is what counts.

use crate::support::authority::Authority;
use crate::support::*;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// The system's Python, for which the packages are installed.
const PYTHON: &str = "/usr/bin/python3";

/// What a program says on both streams.
#[track_caller]
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new("timeout").arg("60").arg(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}, which `make test` installs: {error}"));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn script(name: &str) -> String {
    format!("{}/tests/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A server of `tests/clients`; it ends when dropped.
struct Peer {
    child: Child,
    address: SocketAddr,
}

impl Peer {
    #[track_caller]
    fn start(name: &str) -> Self {
        let mut command = Command::new(PYTHON);
        command.arg(script(name)).arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the system has a Python");
        let mut port = String::new();
        let read = BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut port);
        let port = port.trim().parse().unwrap_or_else(|_| panic!("{name} tells no port: {read:?} {port:?}"));
        Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Behind a gateway.
    fn behind(&self, lines: &str, route: &str) -> Gateway {
        let address = self.address;
        let upstream = format!("[upstreams.peer]\nservers = [\"{address}\"]\n{lines}\n");
        Setup::new(format!("{upstream}[[routes]]\nmatch = \"*\"\nupstream = \"peer\"\n{route}")).start()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[track_caller]
fn grpc(target: &str, how: &str) -> serde_json::Value {
    let said = run(PYTHON, &[&script("grpc_peers.py"), "call", target, how]);
    let line = said.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{how}: {said}"))).expect("it prints JSON")
}

#[test]
fn grpc_calls_of_every_kind_pass_with_their_metadata_and_status() {
    let peer = Peer::start("grpc_peers.py");
    let gateway = peer.behind("protocol = \"h2\"", "");
    let target = gateway.files.data.to_string();
    let vectors = [("Unary", "hello! first last"), ("Down", "499500"), ("Up", "2000000"), ("Both", "0")];
    for (how, answer) in vectors {
        let said = grpc(&target, how);
        assert_eq!((said["code"].as_str(), said["answer"].as_str()), (Some("OK"), Some(answer)), "{how}: {said}");
    }
    let failed = grpc(&target, "fail");
    assert_eq!((failed["code"].as_str(), failed["details"].as_str()), (Some("NOT_FOUND"), Some("no such thing: 100%")));
    assert_eq!(failed["trailers"]["x-trailing"], "last");
    gateway.wait_idle();
}

#[test]
fn a_grpc_client_that_is_refused_is_told_resource_exhausted_and_when_to_come_back() {
    let peer = Peer::start("grpc_peers.py");
    let gateway = peer.behind("protocol = \"h2\"", "limits = [{ rate = \"1/h\", algorithm = \"fixed_window\" }]\n");
    let target = gateway.files.data.to_string();
    assert_eq!(grpc(&target, "Unary")["code"], "OK");
    for how in ["Unary", "Down", "Up", "Both"] {
        let refused = grpc(&target, how);
        assert_eq!(refused["code"], "RESOURCE_EXHAUSTED", "{how}: {refused}");
        assert!(refused["details"].as_str().is_some_and(|text| text.starts_with("Rate limit exceeded")), "{refused}");
        // What it does by itself with grpc-retry-pushback-ms it keeps to itself.
        let pushback = refused["trailers"]["grpc-retry-pushback-ms"].as_str().and_then(|text| text.parse::<u32>().ok());
        assert!(pushback.is_none_or(|ms| ms > 0), "{refused}");
    }
}

#[test]
fn a_grpc_client_is_told_unavailable_when_the_upstream_is_down() {
    let peer = Peer::start("grpc_peers.py");
    let gateway = peer.behind("protocol = \"h2\"", "");
    let target = gateway.files.data.to_string();
    assert_eq!(grpc(&target, "Unary")["code"], "OK");
    drop(peer);
    for how in ["Unary", "Both"] {
        assert_eq!(grpc(&target, how)["code"], "UNAVAILABLE", "{how}");
    }
}

#[test]
fn a_websocket_client_talks_to_its_server_and_is_refused_in_plain_http() {
    let peer = Peer::start("websocket_peers.py");
    let gateway = peer.behind("", "limits = [{ rate = \"3/h\", algorithm = \"fixed_window\" }]\n");
    let url = format!("ws://{}/chat", gateway.files.data);
    for _ in 0..3 {
        assert_eq!(run(PYTHON, &[&script("websocket_peers.py"), "talk", &url]).trim(), "done");
    }
    assert_eq!(run(PYTHON, &[&script("websocket_peers.py"), "talk", &url]).trim(), "refused 429 True");
    gateway.wait_idle();
}

#[test]
fn curl_reads_both_answers_by_each_protocol() {
    for protocol in ["--http1.0", "--http1.1", "--http2", "--http2-prior-knowledge"] {
        let gateway = Setup::limited(&[r#"rate = "2/h", algorithm = "fixed_window""#]).start();
        let url = format!("http://{}/", gateway.files.data);
        let told = "%{http_code} %{num_connects}\n";
        let first = ["-sS", protocol, "-w", told, "-d", "x=y"];
        let request = ["-o", "/dev/null", &url];
        // Three requests of one process: it keeps its connection, if the protocol lets it. That of Debian 12 cannot use one
        // of HTTP/2 by prior knowledge twice, whatever server it talks to.
        let keeps = protocol != "--http1.0" && protocol != "--http2-prior-knowledge";
        let said = if protocol == "--http2-prior-knowledge" {
            (0..3).map(|_| run("curl", &[&first[..], &request].concat())).collect()
        } else {
            run("curl", &[&first[..], &request, &request, &request].concat())
        };
        let statuses: Vec<&str> = said.lines().map(|line| &line[..3]).collect();
        assert_eq!(statuses, ["200", "200", "429"], "{protocol}: {said}");
        let connections = said.lines().filter(|line| line.ends_with(" 1")).count();
        assert_eq!(connections, if keeps { 1 } else { 3 }, "{protocol}: {said}");
    }
}

#[test]
fn curl_reads_a_429_to_a_large_upload_by_each_protocol() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    assert_eq!(gateway.get("/").status, 200);
    let file = gateway.files.path("body");
    std::fs::write(&file, vec![b'x'; 8 << 20]).expect("the directory is ours");
    let (url, data) = (format!("http://{}/", gateway.files.data), format!("@{}", file.display()));
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        for framing in ["Expect: 100-continue", "Expect:", "Transfer-Encoding: chunked"] {
            if protocol != "--http1.1" && framing.starts_with("Transfer") {
                continue;
            }
            let arguments = ["-sS", protocol, "-H", framing, "--data-binary", &data, "-w", "\n%{http_code}", &url];
            for run_number in 0..5 {
                let said = run("curl", &arguments);
                assert!(said.ends_with("\n429"), "{protocol} {framing} {run_number}: {said}");
                assert!(said.contains("rate_limit_exceeded"), "{protocol} {framing} {run_number}: {said}");
            }
        }
    }
}

/// `2xx` and `4xx` of h2load's line of status codes, and its failed and errored requests.
#[track_caller]
fn h2load(arguments: &[&str]) -> [usize; 4] {
    let said = run("h2load", arguments);
    let number = |line: &str, word: &str| -> usize {
        let line = said.lines().find(|text| text.starts_with(line)).unwrap_or_else(|| panic!("{said}"));
        let part = line.split([',', ':']).find(|part| part.trim().ends_with(word)).unwrap_or_else(|| panic!("{said}"));
        part.split_whitespace().next().and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{said}"))
    };
    [("status codes", "2xx"), ("status codes", "4xx"), ("requests", "failed"), ("requests", "errored")]
        .map(|(line, word)| number(line, word))
}

#[test]
fn h2load_keeps_a_hundred_streams_busy_and_counts_what_was_let_in_exactly() {
    let authority = Authority::new();
    let signed = authority.sign("one", &["one.test"]);
    let secure = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let tls = format!(
        "[[server.tls]]\nlisten = \"{secure}\"\ncertificate = \"{}\"\nkey = \"{}\"\n",
        signed.certificate, signed.key
    );
    for (scheme, http1) in [("http", false), ("https", false), ("http", true), ("https", true)] {
        let gateway = Setup::limited(&[r#"rate = "700/h", algorithm = "fixed_window""#]).toml(&tls).start();
        let address = if scheme == "https" { secure } else { gateway.files.data };
        let url = format!("{scheme}://{address}/");
        let mut arguments = vec!["-n", "2000", "-c", "4", "-m", "100"];
        if http1 {
            arguments.extend(["--h1", "-m", "1"]);
        }
        arguments.push(&url);
        assert_eq!(h2load(&arguments), [700, 1300, 1300, 0], "{scheme}, HTTP/1.1: {http1}");
        assert_eq!(gateway.upstream.count(), 700);
        gateway.wait_idle();
    }
}

#[test]
fn nghttp_reads_a_body_and_a_refusal_with_their_headers() {
    let gateway = Setup::limited(&[r#"rate = "1/h""#]).start();
    let url = format!("http://{}/", gateway.files.data);
    let passed = run("nghttp", &["-v", &url]);
    assert!(passed.contains(":status: 200") && passed.contains("ratelimit-remaining: 0"), "{passed}");
    let refused = run("nghttp", &["-v", &url]);
    assert!(refused.contains(":status: 429") && refused.contains("retry-after: "), "{refused}");
    assert!(refused.contains("rate_limit_exceeded") && !refused.contains("RST_STREAM"), "{refused}");
}

#[test]
fn wrk_keeps_its_connections_whether_it_is_let_in_or_not() {
    for limit in ["rate = \"1000000/h\"", "rate = \"1/h\""] {
        let gateway = Setup::limited(&[limit]).start();
        let said = run("wrk", &["-t1", "-c8", "-d1s", &format!("http://{}/", gateway.files.data)]);
        assert!(said.contains("requests in") && !said.contains("Socket errors"), "{limit}: {said}");
        assert_eq!(said.contains("Non-2xx"), limit.contains("\"1/h"), "{said}");
        gateway.wait_idle();
    }
}
