//! Redis servers of the test's own, alone, behind sentinels or as a Cluster, and as much of their protocol as the tests speak.

use super::authority::{Authority, Signed};
use super::{free_port, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// What a command answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Nil,
    Number(i64),
    Bytes(Vec<u8>),
    Error(String),
    List(Vec<Answer>),
}

impl Answer {
    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        let Self::Bytes(bytes) = self else { panic!("not bytes: {self:?}") };
        bytes
    }

    #[track_caller]
    pub fn number(&self) -> i64 {
        let Self::Number(number) = self else { panic!("not a number: {self:?}") };
        *number
    }

    #[track_caller]
    pub fn list(&self) -> &[Answer] {
        let Self::List(list) = self else { panic!("not a list: {self:?}") };
        list
    }
}

/// A server without persistence; killed when dropped.
pub struct RedisServer {
    child: Child,
    pub port: u16,
    arguments: Vec<String>,
    directory: tempfile::TempDir,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With arguments of its own after the usual ones.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_on(free_port(), arguments)
    }

    pub fn start_on(port: u16, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("there is room for temporary files");
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_string()).collect();
        let child = spawn(port, &arguments, directory.path());
        let server = Self { child, port, arguments, directory };
        server.wait();
        server
    }

    fn wait(&self) {
        wait_until("Redis listens", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again, empty, on its old port.
    pub fn restart(&mut self) {
        self.child = spawn(self.port, &self.arguments, self.directory.path());
        self.wait();
    }

    /// Where its files are.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// The port on which it speaks TLS.
    pub fn tls_port(&self) -> u16 {
        self.argument("--tls-port").parse().expect("ports are numbers")
    }

    fn argument(&self, name: &str) -> String {
        let at = self.arguments.iter().position(|argument| argument == name).expect("it was started with it");
        self.arguments[at + 1].clone()
    }

    /// A field of `INFO`.
    pub fn info(&self, field: &str) -> String {
        let answer = self.connect().text(&["INFO", "everything"]);
        let text = String::from_utf8_lossy(answer.bytes()).into_owned();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned));
        value.unwrap_or_default()
    }

    /// How often that command was run, or was refused before it ran.
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.info(&format!("cmdstat_{command}"));
        let number = |name: &str| {
            let value = stats.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.map_or(0, |value| value.parse::<u64>().expect("a number"))
        };
        number("calls") + number("rejected_calls")
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("Redis listens");
        stream.set_nodelay(true).expect("a socket can be set up");
        Connection { reader: BufReader::new(stream) }
    }

    /// All keys.
    pub fn keys(&self) -> Vec<String> {
        let answer = self.connect().text(&["KEYS", "*"]);
        answer.list().iter().map(|key| String::from_utf8(key.bytes().to_vec()).expect("keys are text")).collect()
    }
}

/// Arguments for a port of its own with TLS beside the usual one; `clients` is whether those need a certificate too.
pub fn tls_arguments(authority: &Authority, own: &Signed, clients: &str) -> Vec<String> {
    let port = free_port().to_string();
    let words = [
        ["--tls-port", &port],
        ["--tls-ca-cert-file", &authority.file()],
        ["--tls-cert-file", &own.certificate],
        ["--tls-key-file", &own.key],
        ["--tls-auth-clients", clients],
        ["--tls-replication", "yes"],
    ];
    words.iter().flatten().map(|word| (*word).to_string()).collect()
}

/// A master and a replica, and three sentinels that watch them; killed when dropped.
pub struct Sentinels {
    pub data: [RedisServer; 2],
    pub sentinels: Vec<RedisServer>,
}

/// The name under which the sentinels know the master.
pub const MASTER: &str = "mymaster";

impl Sentinels {
    /// The first of `data` is the master, the second follows it, and all sentinels know each other.
    pub fn start() -> Self {
        Self::start_with(Vec::new, |master| master.port)
    }

    /// With arguments for each server, and the port at which the data servers know each other.
    pub fn start_with(arguments: impl Fn() -> Vec<String>, port: impl Fn(&RedisServer) -> u16) -> Self {
        let with = |more: &[&str]| {
            let own = arguments();
            RedisServer::start_with(&own.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>())
        };
        let master = with(&[]);
        let known = port(&master);
        let replica = with(&["--replicaof", "127.0.0.1", &known.to_string()]);
        let sentinels = (0..3).map(|_| start_sentinel(known, arguments())).collect();
        let set = Self { data: [master, replica], sentinels };
        wait_until("the replica follows", || set.data[1].info("master_link_status") == "up");
        set.wait_agreed();
        set
    }

    /// Waits until each sentinel knows the other two and the replica, and so can act.
    pub fn wait_agreed(&self) {
        wait_until("the sentinels know all", || {
            self.sentinels.iter().all(|sentinel| {
                let state = sentinel.connect().text(&["SENTINEL", "MASTER", MASTER]);
                let field = |name: &str| {
                    let at = state.list().iter().position(|each| each.bytes() == name.as_bytes());
                    state.list()[at.expect("a field of a master") + 1].clone()
                };
                let all = |name, count: &[u8]| field(name).bytes() == count;
                all("num-other-sentinels", b"2") && all("num-slaves", b"1") && all("flags", b"master")
            })
        });
    }

    /// Whether every sentinel says that this port is the master's.
    pub fn agree_on(&self, port: u16) -> bool {
        self.sentinels.iter().all(|sentinel| {
            let answer = sentinel.connect().text(&["SENTINEL", "get-master-addr-by-name", MASTER]);
            matches!(&answer, Answer::List(parts) if parts[1].bytes() == port.to_string().as_bytes())
        })
    }

    /// `[store.redis]` lines that name the sentinels.
    pub fn toml(&self) -> String {
        let urls = urls(&self.sentinels);
        format!("mode = \"sentinel\"\nmaster = \"{MASTER}\"\nurls = [{urls}]\n")
    }
}

fn start_sentinel(master: u16, arguments: Vec<String>) -> RedisServer {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let text = format!(
        "sentinel monitor {MASTER} 127.0.0.1 {master} 2\nsentinel down-after-milliseconds {MASTER} 500\n\
         sentinel failover-timeout {MASTER} 2000\n"
    );
    std::fs::write(directory.path().join("sentinel.conf"), text).expect("the directory is ours");
    let port = free_port();
    let child = Command::new("redis-server")
        .args(["sentinel.conf", "--port", &port.to_string(), "--bind", "127.0.0.1", "--sentinel"])
        .args(&arguments)
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed");
    let server = RedisServer { child, port, arguments, directory };
    server.wait();
    server
}

fn urls(servers: &[RedisServer]) -> String {
    servers.iter().map(|server| format!("\"redis://127.0.0.1:{}\"", server.port)).collect::<Vec<_>>().join(", ")
}

/// Slots of a Cluster.
const SLOTS: usize = 16_384;

/// Masters that share the slots evenly, without replicas: the slots of a dead one are dead, all others live on.
pub struct RedisCluster {
    pub masters: Vec<RedisServer>,
}

impl RedisCluster {
    /// With that many masters, of which the last `empty` have no slots.
    pub fn start(masters: usize, empty: usize) -> Self {
        Self::start_with(masters, empty, Vec::new)
    }

    /// With more arguments for each.
    pub fn start_with(masters: usize, empty: usize, own: impl Fn() -> Vec<String>) -> Self {
        let cluster = Self { masters: (0..masters).map(|_| start_node(&own())).collect() };
        let share = SLOTS.div_ceil(masters - empty);
        for (index, master) in cluster.masters.iter().enumerate() {
            let mut connection = master.connect();
            done(&connection.text(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]));
            let slots = (index * share).min(SLOTS)..((index + 1) * share).min(SLOTS);
            if !slots.is_empty() {
                let (first, last) = (slots.start.to_string(), (slots.end - 1).to_string());
                done(&connection.text(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]));
            }
            for other in &cluster.masters[..index] {
                let (port, bus) = (other.port.to_string(), other.argument("--cluster-port"));
                done(&connection.text(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]));
            }
        }
        wait_until("the cluster is whole", || cluster.masters.iter().all(|master| cluster.is_whole(master)));
        cluster
    }

    /// One more server, which follows that master.
    pub fn add_replica(&self, of: usize) -> RedisServer {
        let replica = start_node(&[]);
        let master = &self.masters[of];
        let (port, bus) = (master.port.to_string(), master.argument("--cluster-port"));
        done(&replica.connect().text(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]));
        let id = self.id(of);
        let follow = || replica.connect().text(&["CLUSTER", "REPLICATE", &id]) == Answer::Bytes(b"OK".to_vec());
        wait_until("the replica knows its master", follow);
        wait_until("the replica follows", || replica.info("master_link_status") == "up");
        let known = |master: &RedisServer| {
            let nodes = master.connect().text(&["CLUSTER", "NODES"]);
            String::from_utf8_lossy(nodes.bytes()).contains(&format!("slave {id}"))
        };
        wait_until("all know of it", || self.masters.iter().all(known));
        replica
    }

    fn is_whole(&self, master: &RedisServer) -> bool {
        let info = master.connect().text(&["CLUSTER", "INFO"]);
        let info = String::from_utf8_lossy(info.bytes()).into_owned();
        let known = format!("cluster_known_nodes:{}\r", self.masters.len());
        info.contains("cluster_state:ok") && info.contains("cluster_slots_assigned:16384") && info.contains(&known)
    }

    /// `[store.redis]` lines that name every master.
    pub fn toml(&self) -> String {
        format!("mode = \"cluster\"\nurls = [{}]\n", urls(&self.masters))
    }

    pub fn slot(&self, key: &str) -> u16 {
        let answer = self.masters[0].connect().text(&["CLUSTER", "KEYSLOT", key]);
        u16::try_from(answer.number()).expect("slots are few")
    }

    /// Index of the master that holds the key, as itself says.
    pub fn holder(&self, key: &str) -> Option<usize> {
        self.masters.iter().position(|master| master.keys().iter().any(|held| held == key))
    }

    /// Begins to move a slot; keys stay where they are.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let ids = [from, to].map(|index| self.id(index));
        let mut connections = [from, to].map(|index| self.masters[index].connect());
        done(&connections[1].text(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]));
        done(&connections[0].text(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]));
    }

    /// Moves one key of a slot that is being moved.
    pub fn move_key(&self, key: &str, from: usize, to: usize) {
        let target = &self.masters[to];
        let port =
            if target.arguments.iter().any(|word| word == "--tls-cluster") { target.tls_port() } else { target.port };
        let port = port.to_string();
        let answer = self.masters[from].connect().text(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        assert!(matches!(&answer, Answer::Bytes(_)), "{answer:?}");
    }

    /// Moves all keys of the slot and gives it to its new master.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let number = slot.to_string();
        loop {
            let keys = self.masters[from].connect().text(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]);
            if keys.list().is_empty() {
                break;
            }
            for key in keys.list() {
                self.move_key(&String::from_utf8_lossy(key.bytes()), from, to);
            }
        }
        let id = self.id(to);
        for index in [to, from] {
            done(&self.masters[index].connect().text(&["CLUSTER", "SETSLOT", &number, "NODE", &id]));
        }
    }

    fn id(&self, index: usize) -> String {
        let answer = self.masters[index].connect().text(&["CLUSTER", "MYID"]);
        String::from_utf8_lossy(answer.bytes()).into_owned()
    }
}

#[track_caller]
fn done(answer: &Answer) {
    assert_eq!(answer, &Answer::Bytes(b"OK".to_vec()));
}

/// A node of a Cluster that knows nobody yet.
fn start_node(own: &[String]) -> RedisServer {
    // Names that are the test's own; the bus is on a port of its own too, as the default may be above the last.
    let bus = free_port().to_string();
    let arguments = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"];
    let more = ["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000"];
    // A master that gives its last slot away stays one.
    let stays = ["--cluster-allow-replica-migration", "no"];
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    RedisServer::start_with(&[&arguments[..], &more, &stays, &["--cluster-port", &bus], &own].concat())
}

fn spawn(port: u16, arguments: &[String], directory: &std::path::Path) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        // A replica gets its copy at once, not after waiting for others.
        .args(["--repl-diskless-sync-delay", "0"])
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// One connection, one command after another.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Sends a command and reads its answer.
    pub fn call(&mut self, words: &[&[u8]]) -> Answer {
        self.send(words);
        self.receive()
    }

    /// As [`Self::call`], of text.
    pub fn text(&mut self, words: &[&str]) -> Answer {
        self.call(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
    }

    /// Sends a command alone, to be followed by others before the answers are read.
    pub fn send(&mut self, words: &[&[u8]]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.reader.get_mut().write_all(&bytes).expect("Redis reads");
    }

    pub fn receive(&mut self) -> Answer {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("Redis answers in text lines");
        let (kind, rest) = line.trim_end().split_at(1);
        let length = || rest.parse::<i64>().expect("lengths and numbers are decimal");
        match kind {
            "+" => Answer::Bytes(rest.as_bytes().to_vec()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Number(length()),
            "$" if length() < 0 => Answer::Nil,
            "$" => {
                let mut bytes = vec![0; usize::try_from(length()).expect("it is not negative") + 2];
                self.reader.read_exact(&mut bytes).expect("Redis sends what it announced");
                bytes.truncate(bytes.len() - 2);
                Answer::Bytes(bytes)
            }
            "*" if length() < 0 => Answer::Nil,
            "*" => Answer::List((0..length()).map(|_| self.receive()).collect()),
            _ => panic!("Redis says {line:?}"),
        }
    }
}
