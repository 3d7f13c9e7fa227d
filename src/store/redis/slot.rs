//! The hash slot of a key in a Cluster: CRC-16/XMODEM of what stands between its first braces, modulo 16384 (Redis
//! Cluster specification, "Key distribution model").

/// Slots of a Cluster.
pub const SLOTS: u16 = 16_384;

/// The slot of a key.
pub fn of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// What is hashed: the text between the first `{` and the next `}`, if it is not empty, else the whole key.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        Some(0) | None => key,
        Some(close) => &inside[..close],
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte) << 8,
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ POLYNOMIAL }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As CLUSTER KEYSLOT answers.
        let vectors: [(&[u8], u16); 5] =
            [(b"foo", 12182), (b"bar", 5061), (b"{foo}.x", 12182), (b"a{foo}{bar}", 12182), (b"{}foo", 9500)];
        for (key, slot) in vectors {
            assert_eq!(of(key), slot, "{}", String::from_utf8_lossy(key));
        }
    }
}
