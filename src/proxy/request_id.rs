//! The id of a request: the client's, if it is harmless, else one of ours.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries it, in both directions.
pub static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is kept.
const MAX_ID_BYTES: usize = 128;

/// The request's id: one header line of letters, digits and `-_.:=+/`, kept as it is; anything else is replaced, so
/// that it is safe in logs, bodies and headers.
pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    let mut given = headers.get_all(&REQUEST_ID).iter();
    match (given.next(), given.next()) {
        (Some(only), None) if is_sane(only.as_bytes()) => only.clone(),
        _ => generate(),
    }
}

fn is_sane(id: &[u8]) -> bool {
    let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:=+/".contains(byte);
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.iter().all(harmless)
}

/// 128 random bits in hex. They need not be unguessable, only unlikely to meet.
fn generate() -> HeaderValue {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bits = fastrand::u128(..);
    let mut text = [0; 32];
    for (index, digit) in text.iter_mut().enumerate() {
        *digit = HEX[((bits >> (4 * index)) & 0xf) as usize];
    }
    HeaderValue::from_bytes(&text).expect("hex digits are a valid header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b92_an_id_that_is_long_odd_or_given_twice_is_replaced() {
        let kept = |ids: &[&str]| {
            let mut headers = HeaderMap::new();
            for id in ids {
                headers.append(&REQUEST_ID, HeaderValue::from_str(id).unwrap());
            }
            let id = request_id(&headers);
            ids.contains(&id.to_str().unwrap())
        };
        assert!(kept(&["01KBC3M0Z8J5T1Q6W2V9X4R7YA"]));
        assert!(kept(&["a/b:c.d-e_f=1+2"]));
        for replaced in [&[""][..], &["a b"], &["a\"b"], &["x", "x"], &[&"x".repeat(129)]] {
            assert!(!kept(replaced), "{replaced:?}");
        }
        assert_eq!(request_id(&HeaderMap::new()).len(), 32);
    }
}
