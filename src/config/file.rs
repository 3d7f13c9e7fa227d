//! Reading files whole, with a bound, as UTF-8.
//!
//! A file that is too large, missing or not text is a complaint, never a part of a configuration.

use super::problem::Complaint;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Bytes in the main file or in an included one.
pub(super) const MAX_CONFIG_BYTES: u64 = 64 << 20;

/// Bytes in the keys file: some five million keys.
pub(super) const MAX_KEYS_BYTES: u64 = 1 << 30;

/// Bytes in the template of a body.
pub(super) const MAX_BODY_BYTES: u64 = 1 << 20;

/// Bytes in the file of the admin token.
pub(super) const MAX_TOKEN_BYTES: u64 = 4 << 10;

/// Bytes in a file of certificates.
pub(super) const MAX_CERTIFICATE_BYTES: u64 = 1 << 20;

/// The bytes of a file of at most `limit` bytes.
pub(super) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Complaint> {
    let shown = path.display();
    let failed = |error: std::io::Error| Complaint::new(format!("cannot read {shown}: {error}"));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(Complaint::new(format!("{shown} is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// The text of a file of at most `limit` bytes.
pub(super) fn read_text(path: &Path, limit: u64) -> Result<String, Complaint> {
    String::from_utf8(read_bytes(path, limit)?).map_err(|error| {
        Complaint::new(format!("{} is not UTF-8 at byte {}", path.display(), error.utf8_error().valid_up_to()))
    })
}
