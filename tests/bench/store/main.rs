//! What a decision costs Redis: our scripts beside the token bucket that is written most often, in one run.
//!
//! All kinds take turns, round after round, and each figure is the median over the rounds; a ratio is that of one round. What
//! is measured is the processor time of the server, not the time that passes, so that a busy machine matters little. The quota
//! is never used up: a decision that writes costs the most. The arguments are how many rounds, and how many callers.

mod server;

use server::{Server, encode};
use sluicegate::algorithm::{ALGORITHMS, Algorithm, FixedWindow, Quota, SlidingWindow, TokenBucket, UNIT, Window};
use sluicegate::charge::{Charge, Meter};
use sluicegate::store::redis::script::{self, Place, record_id};
use sluicegate::time::Millis;

/// Callers that take turns, each with counters of its own, unless the second argument says otherwise.
const CALLERS: usize = 10_000;
/// Decisions that are sent at once.
const PIPELINED: usize = 500;
const ROUNDS: usize = 21;
/// Requests that a caller may make in a window: more than it ever does here.
const COUNT: i64 = 10_000;
const MINUTE: i64 = 60;
const DAY: i64 = 86_400;

/// One kind of decision, its commands encoded.
struct Kind {
    name: String,
    /// Its baseline: the kind with that name.
    beside: &'static str,
    /// The commands of [`PIPELINED`] decisions each.
    batches: Vec<Vec<u8>>,
    commands_per_decision: usize,
    /// The keys of the first caller.
    keys: Vec<String>,
    us: Vec<f64>,
}

const CLASSIC_ONE: &str = "classic script, 1 limit";
const CLASSIC_THREE: &str = "classic script, 3 limits";

fn key(kind: &str, caller: usize) -> String {
    format!("sluicegate:{{consumer:{caller:06}}}:{kind}")
}

fn meter(name: &str, algorithm: &'static dyn Algorithm, seconds: i64) -> Meter {
    let window = Window::Span(Millis::from_seconds(seconds));
    Meter::alone(name, algorithm, Quota { count: COUNT * UNIT, window, capacity: COUNT * UNIT, max_wait: None })
}

impl Kind {
    fn new(name: &str, beside: &'static str, commands: &[Vec<Vec<u8>>], keys: Vec<String>) -> Self {
        let batches = commands.chunks(PIPELINED).map(|decisions| decisions.concat().concat()).collect();
        Self { name: name.to_owned(), beside, batches, commands_per_decision: commands[0].len(), keys, us: Vec::new() }
    }

    /// Limits by our script: each with the owner whose key its counter is in.
    fn ours(server: &mut Server, callers: usize, name: &str, beside: &'static str, limits: &[(&str, Meter)]) -> Self {
        let charge = |meter| Charge { meter, parts: Default::default(), cost: UNIT, enforced: true };
        let charges: Vec<Charge<'_>> = limits.iter().map(|(_, meter)| charge(meter)).collect();
        let mut owners: Vec<&str> = limits.iter().map(|(owner, _)| *owner).collect();
        owners.dedup();
        let place = |(owner, meter): &(&str, Meter)| Place {
            key: owners.iter().position(|known| known == owner).expect("it is one of them"),
            record: record_id(&meter.identity),
        };
        let places: Vec<Place> = limits.iter().map(place).collect();
        let logs = limits.iter().filter(|(_, meter)| script::is_log(meter.algorithm)).count();
        let (script, argument) = script::acquire(None, owners.len() - logs, &charges, &places);
        server.load(&script.text);
        let keys_of = |caller| owners.iter().map(|owner| key(owner, caller)).collect::<Vec<String>>();
        let command = |caller| {
            let (keys, count) = (keys_of(caller), owners.len().to_string());
            let mut words = vec![&b"EVALSHA"[..], script.sha1.as_bytes(), count.as_bytes()];
            words.extend(keys.iter().map(|key| key.as_bytes()));
            words.push(&argument);
            let mut command = Vec::new();
            encode(&mut command, &words);
            vec![command]
        };
        let commands: Vec<_> = (0..callers).map(command).collect();
        let kind = Self::new(name, beside, &commands, keys_of(0));
        server.pipeline(&kind.batches[0], PIPELINED, |reply| {
            let acquired = script::read_acquired(reply, limits.len()).expect("a reply of this script");
            assert!(acquired.outcome.admitted, "{name} is never refused");
        });
        kind
    }

    /// Limits that each have a key and a call.
    fn classic(server: &mut Server, callers: usize, name: &str, beside: &'static str, tails: &[&str]) -> Self {
        let sha1 = server.load(include_str!("classic.lua"));
        let (rate, burst) = ((COUNT as f64 / MINUTE as f64).to_string(), COUNT.to_string());
        let command = |caller, tail| {
            let mut command = Vec::new();
            let key = key(tail, caller);
            encode(
                &mut command,
                &[b"EVALSHA", sha1.as_bytes(), b"1", key.as_bytes(), rate.as_bytes(), burst.as_bytes()],
            );
            command
        };
        let commands: Vec<Vec<_>> =
            (0..callers).map(|caller| tails.iter().map(|tail| command(caller, tail)).collect()).collect();
        Self::new(name, beside, &commands, tails.iter().map(|tail| key(tail, 0)).collect())
    }

    /// Microseconds of Redis for each decision of one round.
    fn round(&self, server: &mut Server) -> f64 {
        let begun = server.cpu_us();
        for batch in &self.batches {
            server.pipeline(batch, PIPELINED * self.commands_per_decision, |_| {});
        }
        (server.cpu_us() - begun) / (self.batches.len() * PIPELINED) as f64
    }

    /// What its counters of one caller take.
    fn bytes(&self, server: &mut Server) -> u64 {
        let usage = |key: &String| server.ask(&[b"MEMORY", b"USAGE", key.as_bytes(), b"SAMPLES", b"0"]);
        self.keys
            .iter()
            .map(usage)
            .map(|usage| usage.trim_start_matches(':').trim().parse::<u64>().expect("bytes"))
            .sum()
    }
}

fn kinds(server: &mut Server, callers: usize) -> Vec<Kind> {
    let mut kinds = vec![
        Kind::classic(server, callers, CLASSIC_ONE, CLASSIC_ONE, &["one"]),
        Kind::classic(server, callers, CLASSIC_THREE, CLASSIC_THREE, &["min", "hit", "day"]),
    ];
    for (index, algorithm) in ALGORITHMS.iter().enumerate() {
        let limits = [(&*format!("by{index}"), meter(algorithm.name(), *algorithm, MINUTE))];
        kinds.push(Kind::ours(server, callers, algorithm.name(), CLASSIC_ONE, &limits));
    }
    for (name, owners) in [("3 limits of one owner", ["pro"; 3]), ("3 limits of two owners", ["adr", "tie", "tie"])] {
        let meters =
            [meter("min", &SlidingWindow, MINUTE), meter("hit", &TokenBucket, MINUTE), meter("day", &FixedWindow, DAY)];
        let limits: Vec<(&str, Meter)> = owners.into_iter().zip(meters).collect();
        kinds.push(Kind::ours(server, callers, name, CLASSIC_THREE, &limits));
    }
    kinds
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .map_or_else(|_| "unknown".to_owned(), |load| load.split(' ').take(1).collect())
}

fn main() {
    // Cargo passes flags of its own; the numbers are ours.
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let rounds = numbers.first().copied().unwrap_or(ROUNDS).max(1);
    let callers = numbers.get(1).copied().unwrap_or(CALLERS).next_multiple_of(PIPELINED).max(PIPELINED);
    let mut server = Server::start();
    let load_before = load();
    let mut kinds = kinds(&mut server, callers);
    for kind in &kinds {
        kind.round(&mut server);
    }
    let (mut order, mut random) = ((0..kinds.len()).collect::<Vec<usize>>(), fastrand::Rng::with_seed(1));
    for _ in 0..rounds {
        // Always in another order: what one leaves to Lua's collector of garbage is paid by the next.
        random.shuffle(&mut order);
        for place in &order {
            let us = kinds[*place].round(&mut server);
            kinds[*place].us.push(us);
        }
    }
    println!(
        "Redis {}, {} cores, load {load_before} before and {} after; {rounds} rounds of {callers} decisions, one a caller, {PIPELINED} in a pipeline",
        server.info("redis_version"),
        std::thread::available_parallelism().map_or(0, usize::from),
        load(),
    );
    report(&mut server, &kinds);
}

fn report(server: &mut Server, kinds: &[Kind]) {
    println!(
        "| decision | Redis us | decisions/s of a core | bytes | us / classic | bytes / classic |\n|---|---|---|---|---|---|"
    );
    for kind in kinds {
        let base = kinds.iter().find(|base| base.name == kind.beside).expect("the classic kinds are among them");
        let ratio = median(kind.us.iter().zip(&base.us).map(|(own, base)| own / base).collect());
        let (us, bytes) = (median(kind.us.clone()), kind.bytes(server));
        let of_bytes = bytes as f64 / base.bytes(server) as f64;
        println!("| {} | {us:.2} | {:.0} | {bytes} | {ratio:.2} | {of_bytes:.2} |", kind.name, 1e6 / us);
    }
}
