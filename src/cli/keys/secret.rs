//! New keys, and whether a text has their form.
//!
//! `sluicegate_` and the like, 43 letters and digits that hold 256 bits, and 6 that hold the CRC-32 of all that stands before
//! them: a scanner finds the form by a pattern and knows by the checksum that it is no accident. The bits come from the
//! operating system alone. A checksum proves nothing: whether a key is good, its digest decides.

use sha2::{Digest, Sha256};

/// Digits of base 62, in the order of ASCII.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Bytes of randomness in a key: 256 bits.
const RANDOM_BYTES: usize = 32;

/// Digits that hold so many bytes.
const PAYLOAD_DIGITS: usize = 43;

/// Digits that hold 32 bits.
const CHECKSUM_DIGITS: usize = 6;

/// Characters of a prefix.
const MAX_PREFIX: usize = 32;

/// The polynomial of CRC-32 (ISO-HDLC), reflected.
const CRC32: u32 = 0xedb8_8320;

/// Makes a key; the error says why there is none.
pub fn create(prefix: &str) -> Result<String, String> {
    check_prefix(prefix)?;
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no randomness: {error}"))?;
    Ok(key_of(prefix, bytes))
}

/// A short random text for an id: no secret.
pub fn suffix() -> Result<String, String> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no randomness: {error}"))?;
    Ok(hex(&bytes))
}

/// What stands in a keys file: the SHA-256 of the whole key.
pub fn digest(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes()))
}

/// Whether a text has the form of our keys, and if so, whether its checksum is right.
pub fn checksum_fits(key: &str) -> Option<bool> {
    let (_, rest) = key.rsplit_once('_')?;
    let is_ours =
        rest.len() == PAYLOAD_DIGITS + CHECKSUM_DIGITS && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_ours.then(|| {
        let (before, sum) = key.split_at(key.len() - CHECKSUM_DIGITS);
        checksum(before) == sum
    })
}

fn check_prefix(prefix: &str) -> Result<(), String> {
    let is_valid = prefix.len() <= MAX_PREFIX
        && prefix.starts_with(|first: char| first.is_ascii_alphabetic())
        && prefix.ends_with(|last: char| last.is_ascii_alphanumeric())
        && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_valid.then_some(()).ok_or_else(|| {
        format!(
            "a prefix has 1 to {MAX_PREFIX} letters, digits and `_`, begins with a letter and does not end with `_`"
        )
    })
}

fn key_of(prefix: &str, bytes: [u8; RANDOM_BYTES]) -> String {
    let before = format!("{prefix}_{}", base62(bytes));
    let sum = checksum(&before);
    before + &sum
}

/// The bytes as one number, most significant digit first.
fn base62(mut bytes: [u8; RANDOM_BYTES]) -> String {
    let mut digits = [b'0'; PAYLOAD_DIGITS];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0;
        for byte in &mut bytes {
            let value = rest * 256 + u32::from(*byte);
            *byte = u8::try_from(value / 62).expect("the rest is below 62, so the quotient is below 256");
            rest = value % 62;
        }
        *digit = digit_of(rest);
    }
    digits.map(char::from).iter().collect()
}

fn checksum(text: &str) -> String {
    let mut rest = crc32(text.as_bytes());
    let mut digits = [b'0'; CHECKSUM_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = digit_of(rest % 62);
        rest /= 62;
    }
    digits.map(char::from).iter().collect()
}

fn digit_of(value: u32) -> u8 {
    DIGITS[value as usize]
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (CRC32 * (crc & 1));
        }
    }
    !crc
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_crc_of_every_table() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn a_key_is_its_bits_in_base_62_and_their_checksum() {
        let zeros = key_of("slg", [0; RANDOM_BYTES]);
        assert_eq!(zeros[..47], format!("slg_{}", "0".repeat(43)));
        let ones = base62([0xff; RANDOM_BYTES]);
        // 2^256 - 1 in base 62.
        let digit = |byte: u8| DIGITS.iter().position(|known| *known == byte).unwrap() as u32;
        let mut value = [0_u8; RANDOM_BYTES];
        for byte in ones.bytes() {
            let mut carry = digit(byte);
            for place in value.iter_mut().rev() {
                let product = u32::from(*place) * 62 + carry;
                *place = u8::try_from(product & 0xff).unwrap();
                carry = product >> 8;
            }
            assert_eq!(carry, 0, "it fits into 256 bits");
        }
        assert_eq!(value, [0xff; RANDOM_BYTES]);
    }

    #[test]
    fn one_wrong_character_is_noticed_and_other_keys_are_not_judged() {
        let key = create("acme_live").unwrap();
        assert_eq!((key.len(), checksum_fits(&key)), (10 + 49, Some(true)));
        for place in (0..key.len()).filter(|place| key.as_bytes()[*place] != b'_') {
            let other = if key.as_bytes()[place] == b'x' { "y" } else { "x" };
            let mut wrong = key.clone();
            wrong.replace_range(place..=place, other);
            assert_eq!(checksum_fits(&wrong), Some(false), "{place}");
        }
        assert_eq!(checksum_fits("sk_live_0123456789"), None);
        assert_ne!(create("a").unwrap(), create("a").unwrap());
    }

    #[test]
    fn a_prefix_that_a_pattern_could_not_match_is_refused() {
        for prefix in ["", "1a", "a-b", "a_", "_a", "ä", &"a".repeat(33)] {
            assert!(create(prefix).is_err(), "{prefix}");
        }
    }
}
