//! Finds the end of a chunked body, strictly (RFC 9112, section 7.1).
//!
//! It changes nothing and keeps nothing: whoever reads the body gets the chunks as they came. What it is for is to know
//! where the body ends, so that no byte behind is taken for it, and to refuse what two programs may read differently: a bare
//! line feed, a blank before a size, a size with a sign or of more digits than a length has.

/// The longest line of a size with its extensions, and all lines of trailers together.
const MAX_LINE_BYTES: usize = 4096;

/// Sizes of more hexadecimal digits are refused, leading zeros included.
const MAX_SIZE_DIGITS: u32 = 15;

/// Where in a chunked body the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the digits of a size; how many there were.
    Size(u32),
    Extension,
    /// The line feed after a size.
    SizeEnd,
    /// In a chunk with so many bytes left.
    Data,
    /// The CR, then the LF, after a chunk.
    DataReturn,
    DataEnd,
    /// At the begin of a trailer line, in one, and at the line feed that ends it.
    Trailer,
    TrailerLine,
    TrailerEnd,
    /// At the line feed that ends the body.
    LastEnd,
    Done,
}

/// The state of one body.
#[derive(Debug)]
pub struct Chunks {
    at: At,
    left: u64,
    /// Bytes of the line, or of all trailers.
    line_bytes: usize,
}

/// The body is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadChunk;

impl Default for Chunks {
    fn default() -> Self {
        Self { at: At::Size(0), left: 0, line_bytes: 0 }
    }
}

impl Chunks {
    /// Reads on; how many of `bytes` belong to the body.
    pub fn read(&mut self, bytes: &[u8]) -> Result<usize, BadChunk> {
        let mut position = 0;
        while position < bytes.len() && self.at != At::Done {
            if self.at == At::Data {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - position);
                self.left -= here as u64;
                position += here;
                if self.left == 0 {
                    self.at = At::DataReturn;
                }
            } else {
                self.at = self.step(bytes[position])?;
                position += 1;
            }
        }
        Ok(position)
    }

    /// Whether the body has come to its end.
    pub fn is_done(&self) -> bool {
        self.at == At::Done
    }

    fn step(&mut self, byte: u8) -> Result<At, BadChunk> {
        self.line_bytes += 1;
        if self.line_bytes > MAX_LINE_BYTES {
            return Err(BadChunk);
        }
        match (self.at, byte) {
            (At::Size(digits), _) if byte.is_ascii_hexdigit() && digits < MAX_SIZE_DIGITS => {
                let digit = char::from(byte).to_digit(16).ok_or(BadChunk)?;
                self.left = self.left * 16 + u64::from(digit);
                Ok(At::Size(digits + 1))
            }
            (At::Size(1..), b';') => Ok(At::Extension),
            (At::Size(1..) | At::Extension, b'\r') => Ok(At::SizeEnd),
            (At::Extension | At::TrailerLine, _) if is_text(byte) => Ok(self.at),
            (At::SizeEnd, b'\n') => {
                self.line_bytes = 0;
                Ok(if self.left == 0 { At::Trailer } else { At::Data })
            }
            (At::DataReturn, b'\r') => Ok(At::DataEnd),
            (At::DataEnd, b'\n') => {
                self.line_bytes = 0;
                Ok(At::Size(0))
            }
            (At::Trailer, b'\r') => Ok(At::LastEnd),
            // Neither a folded line nor one without a name.
            (At::Trailer, _) if is_text(byte) && !matches!(byte, b' ' | b'\t' | b':') => Ok(At::TrailerLine),
            (At::TrailerLine, b'\r') => Ok(At::TrailerEnd),
            (At::TrailerEnd, b'\n') => Ok(At::Trailer),
            (At::LastEnd, b'\n') => Ok(At::Done),
            _ => Err(BadChunk),
        }
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much of the text is body, when it comes in one piece and byte by byte; absent when it is refused.
    fn body_of(text: &str) -> Option<(usize, bool)> {
        let whole = {
            let mut chunks = Chunks::default();
            chunks.read(text.as_bytes()).map(|length| (length, chunks.is_done())).ok()
        };
        let mut chunks = Chunks::default();
        let mut total = 0;
        for byte in text.as_bytes() {
            match chunks.read(&[*byte]) {
                Ok(read) => total += read,
                Err(BadChunk) => {
                    assert_eq!(whole, None, "{text:?}");
                    return None;
                }
            }
        }
        assert_eq!(whole, Some((total, chunks.is_done())), "{text:?}");
        whole
    }

    #[test]
    fn the_end_of_a_body_is_found_and_what_follows_is_left() {
        let vectors = [
            ("0\r\n\r\n", "GET /"),
            ("5\r\nhello\r\n0\r\n\r\n", "x"),
            ("A;name=value\r\n0123456789\r\n000\r\n\r\n", ""),
            ("1\r\n\n\r\n0\r\ntrailer: a\r\nother: b\r\n\r\n", "0\r\n\r\n"),
        ];
        for (body, rest) in vectors {
            assert_eq!(body_of(&format!("{body}{rest}")), Some((body.len(), true)), "{body:?}");
            assert_eq!(body_of(&body[..body.len() - 1]), Some((body.len() - 1, false)), "{body:?}");
        }
    }

    #[test]
    fn a_body_that_could_be_read_in_two_ways_is_refused() {
        let long = "a".repeat(MAX_LINE_BYTES);
        let vectors = [
            "\r\n0\r\n\r\n".to_string(),
            "5\nhello\r\n0\r\n\r\n".into(),
            "5\r\nhello\n0\r\n\r\n".into(),
            "5\r\nhelloo\r\n0\r\n\r\n".into(),
            " 5\r\nhello\r\n0\r\n\r\n".into(),
            "5 \r\nhello\r\n0\r\n\r\n".into(),
            "+5\r\nhello\r\n0\r\n\r\n".into(),
            "0x5\r\nhello\r\n0\r\n\r\n".into(),
            "-1\r\n".into(),
            "1000000000000000\r\n".into(),
            ";a\r\n".into(),
            "5;a\nb\r\nhello\r\n0\r\n\r\n".into(),
            "5;\0\r\nhello\r\n0\r\n\r\n".into(),
            "0\r\n folded\r\n\r\n".into(),
            "0\r\na: b\n\r\n".into(),
            "0\r\n\n".into(),
            format!("5;{long}\r\nhello\r\n0\r\n\r\n"),
        ];
        for text in &vectors {
            assert_eq!(body_of(text), None, "{text:?}");
        }
    }
}
