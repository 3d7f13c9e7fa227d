//! HTTP/2 without TLS, by prior knowledge, behind blocking calls.

use super::PATIENCE;
use http::{HeaderMap, Request};
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// One HTTP/2 connection.
pub struct Http2 {
    runtime: Runtime,
    sender: h2::client::SendRequest<bytes::Bytes>,
    address: SocketAddr,
}

/// A response with what came in its trailers.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: HeaderMap,
    /// Whether the first header block ended the stream ("trailers only").
    pub headers_only: bool,
}

impl Answer {
    /// A field of the headers or, failing that, of the trailers.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name).or_else(|| self.trailers.get(name)).and_then(|value| value.to_str().ok())
    }
}

impl Http2 {
    pub fn connect(address: SocketAddr) -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads are to be had");
        let sender = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.expect("the gateway listens");
            let (sender, connection) = h2::client::handshake(stream).await.expect("the gateway speaks HTTP/2");
            tokio::spawn(async move {
                let _ends_with_the_peer = connection.await;
            });
            sender
        });
        Self { runtime, sender, address }
    }

    /// A request with an empty body and its whole answer.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask(method, path, headers).expect("the stream is answered")
    }

    /// As `request`; the error is that of a stream or a connection which ended early.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Answer, h2::Error> {
        let request = self.head(method, path, headers);
        self.runtime.block_on(async {
            let exchange = async {
                let mut sender = self.sender.clone().ready().await?;
                let (response, _) = sender.send_request(request, true)?;
                answer(response.await?).await
            };
            tokio::time::timeout(PATIENCE, exchange).await.expect("ended in time")
        })
    }

    /// A request with this body, written whole before the answer is looked at. A stream that is ended while it is still
    /// being written was answered.
    pub fn upload(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let request = self.head(method, path, headers);
        let exchange = async {
            let mut sender = self.sender.clone().ready().await?;
            let (response, mut stream) = sender.send_request(request, false)?;
            for chunk in body.chunks(65_536) {
                if send_all(&mut stream, bytes::Bytes::copy_from_slice(chunk)).await.is_err() {
                    break;
                }
            }
            let _it_may_be_ended_already = stream.send_data(bytes::Bytes::new(), true);
            answer(response.await?).await
        };
        self.runtime.block_on(async {
            let answered: Result<Answer, h2::Error> = tokio::time::timeout(PATIENCE, exchange).await.expect("in time");
            answered.expect("the stream is answered")
        })
    }

    /// As [`Self::request`]; absent when the connection takes no request any more.
    pub fn try_request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Option<Answer> {
        let request = self.head(method, path, headers);
        self.runtime.block_on(async {
            let exchange = async {
                let mut sender = self.sender.clone().ready().await.ok()?;
                let (response, _) = sender.send_request(request, true).ok()?;
                let taken = "a request that was taken is answered";
                Some(answer(response.await.expect(taken)).await.expect(taken))
            };
            tokio::time::timeout(PATIENCE, exchange).await.expect("answered in time")
        })
    }

    /// Opens a stream and resets it at once; false when the connection is gone.
    pub fn open_and_reset(&self, path: &str) -> bool {
        let request = self.head("GET", path, &[]);
        self.runtime.block_on(async {
            let Ok(mut sender) = self.sender.clone().ready().await else { return false };
            let Ok((_response, mut stream)) = sender.send_request(request, false) else { return false };
            stream.send_reset(h2::Reason::CANCEL);
            true
        })
    }

    fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("the request is well formed")
    }
}

/// Sends as the window allows.
async fn send_all(stream: &mut h2::SendStream<bytes::Bytes>, mut bytes: bytes::Bytes) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        match std::future::poll_fn(|cx| stream.poll_capacity(cx)).await {
            Some(capacity) => stream.send_data(bytes.split_to(capacity?.min(bytes.len())), false)?,
            None => return Err(h2::Reason::STREAM_CLOSED.into()),
        }
    }
    Ok(())
}

async fn answer(response: http::Response<h2::RecvStream>) -> Result<Answer, h2::Error> {
    let (head, mut stream) = response.into_parts();
    let headers_only = stream.is_end_stream();
    let mut body = Vec::new();
    while let Some(chunk) = stream.data().await {
        let chunk = chunk?;
        let _window = stream.flow_control().release_capacity(chunk.len());
        body.extend_from_slice(&chunk);
    }
    let trailers = stream.trailers().await?.unwrap_or_default();
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body, trailers, headers_only })
}
