//! Keys and the TOML that names them by digest.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The digest that stands in a keys file.
pub fn sha256_hex(secret: &str) -> String {
    Sha256::digest(secret.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _infallible = write!(hex, "{byte:02x}");
        hex
    })
}

/// A secret of a form that every gateway takes: visible ASCII, long enough, distinct for each name.
pub fn key_of(name: &str) -> String {
    format!("sk_test_{name}_0123456789abcdefghijklmnopqrstuv")
}

/// A consumer of a tier with one key: id `NAME-key`, secret [`key_of`] its name.
pub fn consumer(name: &str, tier: &str) -> String {
    consumer_with(name, tier, "", &key(&format!("{name}-key"), &key_of(name), ""))
}

/// A consumer with further lines and given key entries.
pub fn consumer_with(name: &str, tier: &str, lines: &str, keys: &str) -> String {
    format!("[consumers.{name}]\ntier = \"{tier}\"\n{lines}\n").replace("\n\n", "\n")
        + &keys.replace("[[keys]]", &format!("[[consumers.{name}.keys]]"))
}

/// One key entry for [`consumer_with`].
pub fn key(id: &str, secret: &str, lines: &str) -> String {
    format!("[[keys]]\nid = \"{id}\"\nsha256 = \"{}\"\n{lines}\n", sha256_hex(secret))
}
