//! The bytes of an access log, line by line: a file or standard input; plain, gzip or zstd by its first bytes.
//!
//! The name of a file says nothing, since rotated logs are renamed at will. Files of several members (two logs joined
//! by `cat`) are read to their end. A line is never longer in memory than [`MAX_LINE_BYTES`], whatever the file holds.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest line that is looked at; the rest of a longer one is passed over.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// Read at once.
const BUFFER_BYTES: usize = 256 * 1024;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// One log, opened.
pub struct Lines {
    /// As it was named.
    pub name: Arc<str>,
    reader: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
    /// The number of the line read last, from 1.
    pub number: u64,
}

/// What a line turned out to be.
pub enum Line<'a> {
    Whole(&'a [u8]),
    /// Its beginning.
    TooLong(&'a [u8]),
    End,
}

/// Counts the bytes that leave a file, for the share that is done.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Relaxed);
        Ok(read)
    }
}

impl Lines {
    /// Opens a file, or standard input for `-`. `read` counts its bytes as they stand on disk.
    pub fn open(name: &str, read: Arc<AtomicU64>) -> io::Result<Self> {
        if name == "-" {
            return Self::new("standard input", io::stdin(), read);
        }
        let path = Path::new(name);
        if path.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        Self::new(name, File::open(path)?, read)
    }

    fn new(name: &str, source: impl Read + Send + 'static, read: Arc<AtomicU64>) -> io::Result<Self> {
        let mut source = Counted { inner: source, count: read };
        let mut start = Vec::new();
        (&mut source).take(ZSTD_MAGIC.len() as u64).read_to_end(&mut start)?;
        let is_gzip = start.starts_with(GZIP_MAGIC);
        let is_zstd = start.starts_with(ZSTD_MAGIC);
        let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(start).chain(source));
        let reader: Box<dyn BufRead + Send> = if is_gzip {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole)))
        } else if is_zstd {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd::stream::read::Decoder::with_buffer(whole)?))
        } else {
            Box::new(whole)
        };
        Ok(Self { name: name.into(), reader, buffer: Vec::new(), number: 0 })
    }

    /// The next line, without its end.
    pub fn next_line(&mut self) -> io::Result<Line<'_>> {
        self.buffer.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = (&mut self.reader).take(limit).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(Line::End);
        }
        self.number += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() > MAX_LINE_BYTES {
            self.reader.skip_until(b'\n')?;
            return Ok(Line::TooLong(&self.buffer));
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        Ok(Line::Whole(&self.buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(bytes: Vec<u8>) -> Vec<String> {
        let mut lines = Lines::new("test", Cursor::new(bytes), Arc::default()).unwrap();
        let mut found = Vec::new();
        loop {
            match lines.next_line().unwrap() {
                Line::End => return found,
                Line::Whole(line) => found.push(String::from_utf8_lossy(line).into_owned()),
                Line::TooLong(line) => found.push(format!("too long: {}", line.len() > MAX_LINE_BYTES)),
            }
        }
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn plain_gzip_and_zstd_are_told_apart_by_their_first_bytes() {
        let text = b"one\ntwo\r\n\nfour";
        let expected = ["one", "two", "", "four"];
        assert_eq!(lines(text.to_vec()), expected);
        assert_eq!(lines(gzip(text)), expected);
        assert_eq!(lines(zstd::encode_all(&text[..], 1).unwrap()), expected);
        for short in [&b""[..], b"a", b"\x1f", b"abc"] {
            assert_eq!(lines(short.to_vec()).len(), usize::from(!short.is_empty()));
        }
    }

    #[test]
    fn joined_members_are_read_to_their_end() {
        assert_eq!(lines([gzip(b"one\n"), gzip(b"two\n")].concat()), ["one", "two"]);
        let members = [zstd::encode_all(&b"one\n"[..], 1).unwrap(), zstd::encode_all(&b"two\n"[..], 1).unwrap()];
        assert_eq!(lines(members.concat()), ["one", "two"]);
    }

    #[test]
    fn a_line_beyond_the_bound_is_passed_over_and_the_next_is_whole() {
        let text = [vec![b'a'; 3 * MAX_LINE_BYTES], b"\nnext\n".to_vec(), vec![b'b'; MAX_LINE_BYTES]].concat();
        let found = lines(text);
        assert_eq!(found[..2], ["too long: true", "next"]);
        assert_eq!(found[2].len(), MAX_LINE_BYTES);
    }
}
