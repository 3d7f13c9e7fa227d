//! A real gateway on free ports before a scripted upstream, with its configuration in a directory of its own.

use super::client::{Client, Response, render};
use super::metrics::Metrics;
use super::program::Running;
use super::upstream::{Recorded, Upstream};
use super::{PATIENCE, Reply, becomes_true, free_port};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A route that takes everything, for tests to which routes do not matter.
const CATCH_ALL: &str = "[[routes]]\nmatch = \"*\"\n";

/// What a test says of its gateway; every field is TOML that goes under the table of its name.
#[derive(Clone)]
pub struct Setup {
    pub server: String,
    pub admin: String,
    pub client_ip: String,
    pub auth: String,
    pub log: String,
    /// Lines of `[upstreams.stub]` beside `servers`.
    pub stub: String,
    /// The keys file.
    pub keys: String,
    /// Variables of the process.
    pub environment: Vec<(String, String)>,
    /// Everything else. Without any `[[routes]]` one that takes everything is added.
    pub toml: String,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            server: String::new(),
            admin: String::new(),
            client_ip: String::new(),
            auth: String::new(),
            log: "access = \"stdout\"\nformat = \"json\"".into(),
            stub: String::new(),
            keys: String::new(),
            environment: Vec::new(),
            toml: String::new(),
        }
    }
}

impl Setup {
    /// A gateway with this TOML beside the base.
    pub fn new(toml: impl Into<String>) -> Self {
        Self { toml: toml.into(), ..Self::default() }
    }

    /// One route that takes everything, under these limits: `Setup::limited(&["rate = \"3/h\""])`.
    pub fn limited(limits: &[&str]) -> Self {
        Self::new(format!("{CATCH_ALL}{}", limits_line(limits)))
    }

    /// Limits of the layer `ip` and nothing else.
    pub fn ip_limited(limits: &[&str]) -> Self {
        Self::default().client_ip(&limits_line(limits))
    }

    pub fn server(mut self, lines: &str) -> Self {
        append(&mut self.server, lines);
        self
    }

    pub fn client_ip(mut self, lines: &str) -> Self {
        append(&mut self.client_ip, lines);
        self
    }

    /// Loopback is trusted, so that one machine plays many clients.
    pub fn trusted(self) -> Self {
        self.client_ip("trusted_proxies = [\"127.0.0.1/32\"]")
    }

    pub fn auth(mut self, lines: &str) -> Self {
        append(&mut self.auth, lines);
        self
    }

    /// Instead of the default lines.
    pub fn log(mut self, lines: &str) -> Self {
        self.log = lines.into();
        self
    }

    pub fn stub(mut self, lines: &str) -> Self {
        append(&mut self.stub, lines);
        self
    }

    pub fn keys(mut self, text: &str) -> Self {
        append(&mut self.keys, text);
        self
    }

    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub fn toml(mut self, text: &str) -> Self {
        append(&mut self.toml, text);
        self
    }

    /// Starts a gateway before an upstream that always says 200.
    #[track_caller]
    pub fn start(self) -> Gateway {
        self.before(Upstream::ok())
    }

    /// Starts a gateway before an upstream with this script.
    #[track_caller]
    pub fn before_script(self, script: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Gateway {
        self.before(Upstream::new(script))
    }

    #[track_caller]
    pub fn before(self, upstream: Upstream) -> Gateway {
        let mut gateway = self.launch(upstream);
        gateway.wait_ready();
        gateway
    }

    /// Starts the program and does not wait.
    pub fn launch(self, upstream: Upstream) -> Gateway {
        let files = Files::new(upstream.address());
        files.write(&self);
        let running = Running::start_in(files.directory(), &["run", "-c", "sluicegate.toml"], &self.environment);
        Gateway { setup: self, files, running, upstream }
    }

    /// The files of this setup in a directory, for commands that do not serve.
    pub fn files(&self) -> Files {
        let files = Files::new(SocketAddr::from(([127, 0, 0, 1], 9)));
        files.write(self);
        files
    }
}

/// `limits = [{ … }, { … }]`
pub fn limits_line(limits: &[&str]) -> String {
    let tables: Vec<String> = limits.iter().map(|limit| format!("{{ {limit} }}")).collect();
    format!("limits = [{}]\n", tables.join(", "))
}

fn append(text: &mut String, lines: &str) {
    text.push_str(lines);
    text.push('\n');
}

/// A directory with the configuration, and the addresses that it names.
pub struct Files {
    directory: tempfile::TempDir,
    pub data: SocketAddr,
    pub admin: SocketAddr,
    upstream: SocketAddr,
}

impl Files {
    fn new(upstream: SocketAddr) -> Self {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self { directory, data: loopback(free_port()), admin: loopback(free_port()), upstream }
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// Writes both files. A test's own slip in TOML is found here, before it looks like a fault of the gateway.
    #[track_caller]
    pub fn write(&self, setup: &Setup) {
        for (name, text) in [("keys.toml", setup.keys.clone()), ("sluicegate.toml", self.render(setup))] {
            let parsed = text.parse::<toml::Table>();
            assert!(parsed.is_ok(), "the test wrote no TOML: {}\n{text}", parsed.unwrap_err());
            fs::write(self.path(name), text).expect("the directory is ours");
        }
    }

    /// The main file as text.
    pub fn render(&self, setup: &Setup) -> String {
        let Setup { server, admin, client_ip, auth, log, stub, toml, .. } = setup;
        let (data, admin_address, upstream) = (self.data, self.admin, self.upstream);
        let runtime = self.directory().display();
        let routes = if toml.contains("[[routes]]") { "" } else { CATCH_ALL };
        format!(
            "[server]\nlisten = [\"{data}\"]\nthreads = 2\nruntime_dir = \"{runtime}\"\n{server}\n\
             [admin]\nlisten = \"{admin_address}\"\n{admin}\n\
             [log]\n{log}\n\
             [client_ip]\n{client_ip}\n\
             [auth]\nkeys_file = \"keys.toml\"\n{auth}\n\
             [upstreams.stub]\nservers = [\"{upstream}\"]\n{stub}\n\
             {toml}\n{routes}"
        )
    }
}

/// How a reload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    Success,
    Failure,
}

/// The program, running; killed when dropped.
pub struct Gateway {
    pub setup: Setup,
    pub files: Files,
    pub running: Running,
    pub upstream: Upstream,
}

impl Gateway {
    /// Waits until the probes say ready and the data port takes connections.
    #[track_caller]
    pub fn wait_ready(&mut self) {
        let ready = becomes_true(PATIENCE, || {
            assert!(self.running.is_running(), "the gateway ended at start:\n{}", self.running.output());
            self.is_ready() && TcpStream::connect(self.files.data).is_ok()
        });
        assert!(ready, "the gateway is not ready:\n{}", self.running.output());
    }

    fn is_ready(&self) -> bool {
        let Ok(stream) = TcpStream::connect(self.files.admin) else { return false };
        drop(stream);
        self.admin("/readyz").status == 200
    }

    /// A fresh connection to the data port.
    #[track_caller]
    pub fn connect(&self) -> Client {
        Client::connect(self.files.data)
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub fn request(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.connect().request(method, target, headers, body)
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.request("GET", target, &[], b"")
    }

    #[track_caller]
    pub fn get_with(&self, target: &str, headers: &[(&str, &str)]) -> Response {
        self.request("GET", target, headers, b"")
    }

    /// A GET by the bearer of this key.
    #[track_caller]
    pub fn get_as(&self, key: &str, target: &str) -> Response {
        self.get_with(target, &[("authorization", &format!("Bearer {key}"))])
    }

    /// A GET that came, so says the trusted peer, from this address.
    #[track_caller]
    pub fn get_from(&self, address: &str, target: &str) -> Response {
        self.get_with(target, &[("x-forwarded-for", address)])
    }

    /// Statuses of `count` GETs in a row on one connection.
    #[track_caller]
    pub fn statuses(&self, count: usize, target: &str) -> Vec<u16> {
        let mut client = self.connect();
        (0..count)
            .map(|_| {
                client.send(render("GET", target, &[], b""));
                match client.try_read("GET") {
                    Ok(Some(response)) => {
                        if response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
                            client = self.connect();
                        }
                        response.status
                    }
                    other => panic!("no answer to GET {target}: {other:?}"),
                }
            })
            .collect()
    }

    /// A GET on the admin port.
    #[track_caller]
    pub fn admin(&self, target: &str) -> Response {
        Client::connect(self.files.admin).get(target)
    }

    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        let page = self.admin("/metrics");
        assert_eq!(page.status, 200, "the metrics page: {}", page.text());
        Metrics::parse(page.text())
    }

    /// The sum of the series of that name with these labels.
    #[track_caller]
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.metrics().sum(name, labels)
    }

    /// Everything it wrote.
    pub fn log(&self) -> String {
        self.running.output()
    }

    /// The access log as JSON, one value a request.
    pub fn access_log(&self) -> Vec<serde_json::Value> {
        let lines = self.running.stdout();
        let values = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        values.filter(|value| value.get("duration_ms").is_some()).collect()
    }

    /// Waits for the access line of the request with this path and returns the latest one.
    #[track_caller]
    pub fn access_line(&self, path: &str) -> serde_json::Value {
        let find = || self.access_log().into_iter().rev().find(|line| line["path"] == path);
        assert!(becomes_true(PATIENCE, || find().is_some()), "no access line of {path}:\n{}", self.log());
        find().expect("it was there a moment ago")
    }

    pub fn signal(&self, name: &str) {
        self.running.signal(name);
    }

    /// Its exit code; fails the test when it still runs at the deadline.
    #[track_caller]
    pub fn wait_exit(&mut self, deadline: Duration) -> Option<i32> {
        let status = self.running.wait(deadline);
        status.unwrap_or_else(|| panic!("it still runs after {deadline:?}:\n{}", self.running.output())).code()
    }

    /// Writes the changed setup and reloads.
    #[track_caller]
    pub fn reload(&mut self, change: impl FnOnce(&mut Setup)) -> Reload {
        change(&mut self.setup);
        self.files.write(&self.setup);
        self.hang_up()
    }

    /// Writes the main file as given and reloads; the setup stays what it was.
    #[track_caller]
    pub fn reload_text(&mut self, text: &str) -> Reload {
        fs::write(self.files.path("sluicegate.toml"), text).expect("the directory is ours");
        self.hang_up()
    }

    /// SIGHUP, and what came of it.
    #[track_caller]
    pub fn hang_up(&mut self) -> Reload {
        let counts = |gateway: &Self| {
            let metrics = gateway.metrics();
            ["success", "failure"].map(|result| metrics.sum("sluicegate_config_reloads_total", &[("result", result)]))
        };
        let before = counts(self);
        self.signal("HUP");
        let mut after = before;
        let moved = becomes_true(PATIENCE, || {
            after = counts(self);
            after != before
        });
        assert!(moved, "no reload was counted:\n{}", self.log());
        if after[1] > before[1] { Reload::Failure } else { Reload::Success }
    }

    /// Waits until no request is in flight.
    #[track_caller]
    pub fn wait_idle(&self) {
        let idle = becomes_true(PATIENCE, || self.metric("sluicegate_requests_in_flight", &[]) == 0.0);
        assert!(idle, "in flight: {}", self.metric("sluicegate_requests_in_flight", &[]));
    }
}
