//! `demo`: the gateway on its embedded example, with an upstream of its own, so that one command is enough to try it.

use super::run;
use crate::load::Source;
use crate::proxy::connection::{Listener, Stop};
use crate::server::Start;
use async_trait::async_trait;
use clap::Args;
use http::{Response, header};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::net::TcpListener;

/// The policy that is shown.
const POLICY: &str = include_str!("demo.toml");

/// The keys that are printed: consumer, tier and key. They open nothing but this example.
const KEYS: [(&str, &str, &str); 2] =
    [("amelia", "free", "demo_free_3n4a8hq2k5t7w9x1"), ("borealis", "pro", "demo_pro_8c2d6f1g5h9j3k7m")];

/// Serves the built-in example.
#[derive(Args)]
pub struct Demo {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Where metrics and probes are.
    #[arg(long, default_value = "127.0.0.1:9090", value_name = "ADDRESS")]
    admin: SocketAddr,
}

impl Demo {
    pub fn run(self, early_reload: Arc<AtomicBool>) -> ExitCode {
        let upstream = match start_upstream() {
            Ok(address) => address,
            Err(error) => {
                eprintln!("sluicegate: cannot start the built-in upstream: {error}");
                return ExitCode::FAILURE;
            }
        };
        let main = format!(
            "[server]\nlisten = [\"{}\"]\n[admin]\nlisten = \"{}\"\n[upstreams.built-in]\nservers = [\"{upstream}\"]\n{POLICY}",
            self.listen, self.admin
        );
        let source = Source::Embedded { main, keys: keys_file() };
        run::serve(source, Start::default(), early_reload, |_| println!("{}", welcome(self.listen, self.admin)))
    }
}

fn keys_file() -> String {
    KEYS.iter().fold(String::new(), |mut text, (consumer, tier, key)| {
        let digest = Sha256::digest(key.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let _ = writeln!(text, "[consumers.{consumer}]\ntier = \"{tier}\"");
        let _ = writeln!(text, "[[consumers.{consumer}.keys]]\nid = \"{consumer}-demo\"\nsha256 = \"{digest}\"");
        text
    })
}

fn welcome(listen: SocketAddr, admin: SocketAddr) -> String {
    let [(_, _, free), (_, _, pro)] = KEYS;
    format!(
        "Sluicegate demo on http://{listen} (metrics on http://{admin}/metrics). Keys:\n\n  \
         free  {free}   5 requests in 10 s\n  \
         pro   {pro}    bucket of 20, refilled at 10 a second\n\n\
         Try:\n\n  \
         curl -i http://{listen}/api/hello -H 'X-API-Key: {free}'\n  \
         curl -i http://{listen}/api/hello -H 'X-API-Key: wrong'\n"
    )
}

/// Starts the upstream in a thread of its own and tells where it listens.
fn start_upstream() -> std::io::Result<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("demo upstream".to_owned()).spawn(move || {
        runtime.block_on(Listener::private(Arc::new(listener)).accept(Arc::new(Echo), Stop::default().ends()));
    })?;
    Ok(address)
}

/// Tells what reached the upstream.
struct Echo;

#[async_trait]
impl ServeHttp for Echo {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let _ = session.drain_request_body().await;
        let request = session.req_header();
        let header = |name: &str| request.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let body = serde_json::json!({
            "hello": "from the upstream",
            "method": request.method.as_str(),
            "path": request.uri.path(),
            "consumer": header("x-consumer-id"),
            "tier": header("x-consumer-tier"),
            "key_id": header("x-key-id"),
        });
        let body = format!("{body}\n").into_bytes();
        let mut response = Response::new(body);
        let length = response.body().len();
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        response
    }
}
