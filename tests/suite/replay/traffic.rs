//! Access logs of a stated make, for tests and for the measurement of speed; the same arguments give the same bytes.
//!
//! Requests are spread evenly over the span. The caller is number `callers * u^3` of `callers`, with `u` even from 0 to
//! 1, so that few are frequent and many are rare. One request in ten is a `POST /api/export`, the others read one of
//! 1000 items. Lines are written at the end of requests, which last up to 400 ms, so their arrivals are out of order.

use std::io::{self, Write};

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// nginx's combined format, its times in whole seconds.
    Combined,
    /// The gateway's own JSON.
    Json,
}

/// The make of a log.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub lines: u64,
    /// The first arrival, in milliseconds since the epoch.
    pub start_ms: u64,
    pub span_ms: u64,
    pub callers: u64,
}

/// Marsaglia's xorshift64: even enough for traffic, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Traffic {
    pub fn write(&self, form: Form, out: &mut impl Write) -> io::Result<()> {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for line in 0..self.lines {
            let ended_ms = self.start_ms + self.span_ms * line / self.lines.max(1);
            let took_ms = random.below(400);
            let caller = (self.callers as f64 * random.unit().powi(3)) as u64;
            let address = format!("10.{}.{}.{}", caller >> 16 & 255, caller >> 8 & 255, caller & 255);
            let (method, path) = if random.below(10) == 0 {
                ("POST", "/api/export".to_owned())
            } else {
                ("GET", format!("/api/items/{}", random.below(1000)))
            };
            match form {
                Form::Combined => {
                    let time = clf(ended_ms);
                    writeln!(
                        out,
                        "{address} - - [{time}] \"{method} {path}?page=2 HTTP/1.1\" 200 512 \"-\" \"generated/1.0\""
                    )?;
                }
                Form::Json => {
                    let (ended, decided) = (rfc3339(ended_ms), rfc3339(ended_ms - took_ms));
                    writeln!(
                        out,
                        "{{\"time\":\"{ended}\",\"request_id\":\"{line:032x}\",\"client_ip\":\"{address}\",\"consumer\":null,\
                         \"key_id\":null,\"tier\":\"anonymous\",\"method\":\"{method}\",\"route\":\"default\",\"path\":\"{path}?page=***\",\
                         \"status\":200,\"bytes\":512,\"duration_ms\":{took_ms}.25,\"upstream\":\"127.0.0.1:9000\",\"upstream_ms\":{took_ms}.125,\
                         \"decision\":\"allowed\",\"limit\":\"ip-min\",\"cost\":1.0,\"remaining\":50,\"decided_at\":\"{decided}\"}}"
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// Year, month, day and time of day; days by the algorithm of any calendar that counts them.
fn civil(millis: u64) -> (u64, usize, u64, u64) {
    let (mut days, rest) = (millis / 86_400_000, millis % 86_400_000);
    let mut year = 1970;
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month, days + 1, rest)
}

fn clf(millis: u64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day, rest) = civil(millis);
    let second = rest / 1000;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{day:02}/{}/{year}:{hour:02}:{minute:02}:{second:02} +0000", MONTHS[month])
}

fn rfc3339(millis: u64) -> String {
    let (year, month, day, rest) = civil(millis);
    let second = rest / 1000;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", month + 1, rest % 1000)
}
