//! Answering without forwarding, and what becomes of the connection.
//!
//! A request body that nobody reads must not be taken for the next request, and closing with unread bytes makes the
//! kernel reset the connection before the client has read the answer. So a small body is drained and the connection
//! kept; a large one, declared or chunked, is read and thrown away for a bounded time, then the connection is closed.

use super::context::Context;
use super::grpc;
use super::refusal::{self, AnswerContext};
use crate::limiter::rejection::Rejection;
use crate::time::Clock;
use bytes::Bytes;
use http::{Method, StatusCode, Version, header};
use pingora::Result;
use pingora::http::ResponseHeader;
use pingora::protocols::http::HttpTask;
use pingora::proxy::Session;
use std::time::Duration;

/// Fields that come after those of the answer: its length, its date, and one for the connection.
const LATER: usize = 3;

/// A body of at most this size is drained, and the connection kept.
const DRAINED_BODY_BYTES: u64 = 64 * 1024;

/// The most that is read and thrown away before a connection is closed.
const LINGER_BYTES: u64 = 64 * 1024 * 1024;

/// How long that may take.
const LINGER_TIME: Duration = Duration::from_secs(2);

/// How long to wait for the first byte of a body that may never come.
const EXPECTED_BODY_TIME: Duration = Duration::from_millis(200);

/// Answers the request with a rejection.
pub async fn answer(session: &mut Session, context: &Context, rejection: Rejection) -> Result<()> {
    let snapshot = &context.snapshot;
    let verdict = context.decision.as_ref().map(|decision| decision.verdict(&snapshot.policy));
    let answer = refusal::answer(
        rejection,
        &AnswerContext {
            request_headers: &session.req_header().headers,
            request_id: context.request_id(),
            date: Clock::wall(),
            verdict: verdict.as_ref(),
            style: &snapshot.style,
            page: snapshot.page(context.tier, context.route),
        },
    );
    let mut response = http::Response::new(()).into_parts().0;
    response.status = StatusCode::from_u16(answer.status).expect("a rejection's status is one");
    response.headers.reserve(answer.headers.len() + LATER);
    response.headers.extend(answer.headers);
    // Over HTTP/2 the header ends the stream; over HTTP/1.1 a body without a length would end with the connection.
    let request = session.req_header();
    if request.version != Version::HTTP_2 || !grpc::is_request(&request.headers) {
        response.headers.insert(header::CONTENT_LENGTH, answer.body.len().into());
    }
    write(session, ResponseHeader::from(response), answer.body).await
}

async fn write(session: &mut Session, response: ResponseHeader, body: Bytes) -> Result<()> {
    let unread = Unread::of(session);
    if unread == Unread::Large || unread == Unread::Expected {
        session.set_keepalive(None);
    }
    session.set_close_on_response_before_downstream_finish(false);
    let bodiless = session.req_header().method == Method::HEAD || body.is_empty();
    // As tasks, because only so does Pingora end an HTTP/2 stream with its header, which gRPC clients insist on.
    let mut tasks = vec![HttpTask::Header(Box::new(response), bodiless)];
    if !bodiless {
        tasks.push(HttpTask::Body(Some(body), true));
    }
    session.write_response_tasks(tasks).await?;
    let drained = match unread {
        Unread::Nothing => return Ok(()),
        Unread::Expected => match tokio::time::timeout(EXPECTED_BODY_TIME, session.read_request_body()).await {
            Ok(Ok(Some(_))) => drain(session).await,
            _ => None,
        },
        Unread::Small | Unread::Large => drain(session).await,
    };
    if drained.is_none_or(|bytes| bytes > DRAINED_BODY_BYTES) {
        session.set_keepalive(None);
    }
    Ok(())
}

/// What of the request's body is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    Nothing,
    /// At most [`DRAINED_BODY_BYTES`], or of unknown length.
    Small,
    Large,
    /// The client waits for a 100 and may or may not send it now: the connection cannot be kept.
    Expected,
}

impl Unread {
    fn of(session: &mut Session) -> Self {
        if session.is_body_done() {
            return Self::Nothing;
        }
        let headers = &session.req_header().headers;
        if headers.contains_key(header::EXPECT) {
            return Self::Expected;
        }
        match declared_length(headers) {
            Some(length) if length > DRAINED_BODY_BYTES => Self::Large,
            _ => Self::Small,
        }
    }
}

/// The body length that the request declares.
pub fn declared_length(headers: &http::HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// Reads the body and throws it away, as long as it is worth it; the bytes read, when it came to its end.
async fn drain(session: &mut Session) -> Option<u64> {
    let discard = async {
        let mut discarded = 0_u64;
        while discarded <= LINGER_BYTES {
            match session.read_request_body().await {
                Ok(Some(bytes)) => discarded += bytes.len() as u64,
                Ok(None) => return Some(discarded),
                Err(_) => return None,
            }
        }
        None
    };
    tokio::time::timeout(LINGER_TIME, discard).await.ok().flatten()
}
