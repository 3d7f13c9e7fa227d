//! Asks the admin port of a running gateway, found by the configuration that the gateway was started with.
//!
//! One request on one connection, in clear: the port speaks HTTP/1.1 and closes when asked to. The token goes nowhere else and is
//! in no message.

use crate::config::model::Admin;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// For connecting, and for each pause of the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Asks and returns the answer's value; an error is a sentence for the operator.
pub fn ask(admin: &Admin, method: &str, target: &str) -> Result<Value, String> {
    let address = reachable(admin.listen);
    let answer = exchange(address, admin, method, target)
        .map_err(|error| format!("no answer from the admin port {address}: {error}"))?;
    let (status, body) =
        read_answer(&answer).ok_or_else(|| format!("the answer of the admin port {address} is not understood"))?;
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    if status == 200 {
        return Ok(value);
    }
    let message = value["message"].as_str().unwrap_or("it gave no reason");
    Err(format!("the admin port {address} answered {status}: {message}"))
}

/// A parameter of a query: everything but letters, digits and `-_.:` is escaped.
pub fn parameter(name: &str, value: &str) -> String {
    let mut out = String::new();
    for (index, text) in [name, value].into_iter().enumerate() {
        if index > 0 {
            out.push('=');
        }
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

/// A port on every address is reached on loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn exchange(address: SocketAddr, admin: &Admin, method: &str, target: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    if let Some(token) = &admin.token {
        request += &format!("Authorization: Bearer {}\r\n", token.reveal());
    }
    request += "\r\n";
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The status and the body of an answer that was read to its end.
fn read_answer(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, &answer[end + 4..]))
}
