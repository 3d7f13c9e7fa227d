//! HTTP/2 frame by frame (RFC 9113, section 4.1), for clients that no library plays.

use super::PATIENCE;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self { kind, flags, stream, payload: payload.into() }
    }

    /// A request without a body, or the begin of one.
    pub fn request(stream: u32, flags: u8, method: &str, path: &str) -> Self {
        let fields = [(":method", method), (":scheme", "http"), (":authority", "gateway.test"), (":path", path)];
        Self::new(HEADERS, flags | END_HEADERS, stream, block(&fields))
    }

    pub fn reset(stream: u32) -> Self {
        Self::new(RST_STREAM, 0, stream, 8_u32.to_be_bytes())
    }

    /// The number that RST_STREAM begins with, and that follows the first four bytes of GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }

    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).expect("tests send short frames");
        let mut bytes = length.to_be_bytes()[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

/// A header block that indexes nothing (RFC 7541, section 6.2.2).
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            string(&mut bytes, text.as_bytes());
        }
    }
    bytes
}

/// An integer with a prefix of seven bits, and so many bytes.
fn string(bytes: &mut Vec<u8>, text: &[u8]) {
    if text.len() < 127 {
        bytes.push(u8::try_from(text.len()).expect("below 127"));
    } else {
        bytes.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            bytes.push(u8::try_from(rest % 128).expect("below 128") | 128);
            rest /= 128;
        }
        bytes.push(u8::try_from(rest).expect("below 128"));
    }
    bytes.extend(text);
}

/// One connection, past the preface.
pub struct Frames {
    stream: TcpStream,
}

impl Frames {
    /// Opens a connection with these settings, each a number and a value.
    pub fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let stream = TcpStream::connect(address).expect("the gateway listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_write_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_nodelay(true).expect("a fresh socket takes options");
        let mut frames = Self { stream };
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [name.to_be_bytes().to_vec(), value.to_be_bytes().to_vec()].concat())
            .collect();
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), Frame::new(SETTINGS, 0, 0, payload).bytes()];
        frames.stream.write_all(&preface.concat()).expect("the gateway reads");
        frames.send(&[Frame::new(SETTINGS, 1, 0, [])]).expect("the gateway reads");
        frames
    }

    pub fn set_timeout(&self, timeout: Duration) {
        self.stream.set_read_timeout(Some(timeout)).expect("the timeout is not zero");
        self.stream.set_write_timeout(Some(timeout)).expect("the timeout is not zero");
    }

    pub fn send(&mut self, frames: &[Frame]) -> io::Result<()> {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        self.stream.write_all(&bytes)
    }

    /// The next frame.
    pub fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; usize::try_from(length).expect("24 bits")];
        self.stream.read_exact(&mut payload)?;
        Ok(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads until a frame is as wanted; the error is that of a connection that ends or stays silent before.
    pub fn read_until(&mut self, wanted: impl Fn(&Frame) -> bool) -> io::Result<Frame> {
        loop {
            let frame = self.read()?;
            if wanted(&frame) {
                return Ok(frame);
            }
        }
    }

    /// What the peer lets this client send on the connection as a whole, once its opening frames have come.
    pub fn connection_window(&mut self, silence: Duration) -> io::Result<u32> {
        self.stream.set_read_timeout(Some(silence))?;
        let mut window = 65_535;
        while let Ok(frame) = self.read() {
            if frame.kind == WINDOW_UPDATE && frame.stream == 0 {
                window += frame.code();
            }
        }
        self.stream.set_read_timeout(Some(PATIENCE))?;
        Ok(window)
    }

    /// All frames that come until the peer closes or resets.
    pub fn read_to_end(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.read().ok()).collect()
    }
}
