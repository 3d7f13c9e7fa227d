//! Decisions that the old process still needs, taken by the new one: frames over the socket of the takeover, one call and its
//! answer after the other.
//!
//! There are few: each connection that is still open there may bring one more request. So nothing is pipelined.

use crate::store::moving::{Call, Moving};
use crate::time::Clock;
use std::io;
use std::os::unix::net::UnixStream as Blocking;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// The bytes of one call or answer; a charge is about a hundred.
const MAX_FRAME: u32 = 1 << 20;

/// How long an answer may take. After that the other process counts as gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Puts calls to the process that took over, until it leaves.
pub(in crate::server) async fn pass_on(mut calls: mpsc::Receiver<Call>, stream: Blocking) {
    let exchanges = async {
        let mut stream = opened(stream)?;
        while let Some(call) = calls.recv().await {
            let exchange = async {
                write_frame(&mut stream, &call.bytes).await?;
                read_frame(&mut stream).await
            };
            let answer = tokio::time::timeout(ANSWER_LIMIT, exchange).await.map_err(io::Error::from).flatten()?;
            // Who asked may have left.
            let _ = call.answer.send(answer);
        }
        Ok::<_, io::Error>(())
    };
    if let Err(error) = exchanges.await {
        tracing::error!(%error, "the process that took over does not answer: its counters as they were handed over are used");
    }
}

/// Answers the process that was replaced, until it ends.
pub(in crate::server) async fn serve(stream: Blocking, counters: Arc<Moving>, clock: Clock) {
    let answers = async {
        let mut stream = opened(stream)?;
        loop {
            let call = read_frame(&mut stream).await?;
            write_frame(&mut stream, &counters.answer(clock.now(), call).await).await?;
        }
    };
    let ended: io::Result<()> = answers.await;
    match ended {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            tracing::warn!(%error, "the process before can no longer be answered");
        }
        _ => tracing::info!("the process before has ended"),
    }
}

fn opened(stream: Blocking) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

async fn write_frame(stream: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MAX_FRAME);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a call is too long"))?;
    stream.write_all(&length.to_le_bytes()).await?;
    stream.write_all(bytes).await
}

async fn read_frame(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32_le().await?;
    if length > MAX_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
    }
    let mut bytes = vec![0; usize::try_from(length).expect("32 bits fit")];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}
