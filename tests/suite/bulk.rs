//! Much of everything: large bodies pass through without being kept, and idle connections cost next to nothing.

use crate::support::client::render;
use crate::support::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What is sent each way.
const BODY_BYTES: u64 = 200 << 20;

/// What the gateway may grow by while it passes such a body on.
const GROWTH_KIB: u64 = 16 << 10;

/// How fast curl goes, so that the gateway has reason to keep what the other side sends faster.
const RATE: &str = "60M";

/// A server that sends or takes [`BODY_BYTES`] as fast as it can and keeps none of it.
fn bulk_server() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let taken = Arc::new(AtomicU64::new(0));
    let counted = taken.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = counted.clone();
            thread::spawn(move || {
                let _the_peer_may_leave = serve_bulk(stream, &counted);
            });
        }
    });
    (address, taken)
}

fn serve_bulk(mut stream: TcpStream, taken: &AtomicU64) -> io::Result<()> {
    let mut reader = io::BufReader::new(stream.try_clone()?);
    while let Some(head) = wire::read_head(&mut reader)? {
        let (first, headers) = wire::parse_head(&head);
        if first.starts_with("POST") {
            // curl tells the length of a file, so it is not chunked.
            let length = wire::find(&headers, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            let read = io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
            taken.fetch_add(read, Ordering::SeqCst);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        } else {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n")?;
            io::copy(&mut io::repeat(b'x').take(BODY_BYTES), &mut stream)?;
        }
    }
    Ok(())
}

#[test]
fn large_bodies_are_streamed_both_ways_and_nothing_is_kept() {
    let (address, taken) = bulk_server();
    let toml = format!("[upstreams.bulk]\nservers = [\"{address}\"]\n[[routes]]\nmatch = \"*\"\nupstream = \"bulk\"\n");
    let gateway = Setup::new(toml).start();
    let file = gateway.files.path("body");
    std::fs::File::create(&file).and_then(|file| file.set_len(BODY_BYTES)).expect("the directory is ours");
    let url = format!("http://{}/", gateway.files.data);
    let before = gateway.running.resident_kib();
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        for is_upload in [false, true] {
            let mut command = Command::new("curl");
            command.args([
                "-sS",
                protocol,
                "--limit-rate",
                RATE,
                "-o",
                "/dev/null",
                "-w",
                "%{http_code} %{size_download}",
            ]);
            if is_upload {
                command.args(["-X", "POST", "-H", "Expect:", "-T"]).arg(&file);
            }
            let mut curl = command.arg(&url).stdout(std::process::Stdio::piped()).spawn().expect("curl is there");
            let mut most = 0;
            while curl.try_wait().expect("it is our child").is_none() {
                most = most.max(gateway.running.resident_kib().saturating_sub(before));
                thread::sleep(std::time::Duration::from_millis(5));
            }
            let said = curl.wait_with_output().expect("it ended").stdout;
            let expected = if is_upload { "200 2".into() } else { format!("200 {BODY_BYTES}") };
            assert_eq!(String::from_utf8_lossy(&said), expected, "{protocol}, upload: {is_upload}");
            assert!(most < GROWTH_KIB, "{protocol}, upload: {is_upload}: {most} KiB more");
        }
    }
    assert_eq!(taken.load(Ordering::SeqCst), 2 * BODY_BYTES);
}

/// As many descriptors as the machine allows, for this process and those that it starts.
fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _it_may_be_raised_already = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[test]
fn an_idle_connection_keeps_no_buffer_whatever_came_over_it() {
    /// What a connection may cost the gateway, kernel buffers not counted.
    const KIB_EACH: u64 = 8;
    let connections = raise_descriptors().saturating_sub(500).min(2000);
    assert!(connections >= 400, "too few descriptors to tell: {connections}");
    let gateway = Setup::default().start();
    // What the process allocates once is there before it is measured.
    burst(200, 4, |_| assert_eq!(gateway.get("/").status, 200));
    let before = gateway.running.resident_kib();
    // Two of a size that leaves nothing free in a buffer that has doubled up to 16 KiB.
    let bare = render("GET", "/", &[("X-Filler", "")], b"").len();
    let filler = "x".repeat(16_352 - bare);
    let large = render("GET", "/", &[("X-Filler", &filler)], b"");
    let mut idle: Vec<Client> = burst(usize::try_from(connections).expect("few"), 4, |_| {
        let mut client = gateway.connect();
        client.send([large.clone(), large.clone()].concat());
        assert_eq!([client.read("GET").status, client.read("GET").status], [200, 200]);
        client
    });
    gateway.wait_idle();
    let each = gateway.running.resident_kib().saturating_sub(before) / connections;
    assert!(each < KIB_EACH, "{each} KiB for each of {connections} idle connections");
    assert_eq!(idle.pop().expect("some are open").get("/").status, 200, "they are still open");
}
