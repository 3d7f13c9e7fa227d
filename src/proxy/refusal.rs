//! Every answer that the gateway makes itself: status, fields and body for a [`Rejection`].
//!
//! One wait is taken from the verdict and told by everything that tells one: `Retry-After`, `retry-after-ms`, the
//! body, gRPC's pushback. Nothing that a client sent comes back in a body but the request id, which is a sane one by
//! then. Nothing is sent from here, and no clock is read: the answer is a value.

use super::accept::{self, Form};
use super::headers::{Style, retry};
use super::members::{Member, Members, Value, write_json_string};
use super::page::ResponsePage;
use super::{cors, grpc};
use crate::algorithm::Wait;
use crate::algorithm::calendar::rfc3339;
use crate::limiter::rejection::Rejection;
use crate::limiter::verdict::{LimitStatus, Verdict};
use crate::policy::limit_text::counted;
use crate::time::{Millis, Timestamp};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is advised when the gateway itself cannot serve: nobody knows for how long.
const UNKNOWN_WAIT: Millis = Millis::from_seconds(1);

/// The problem type of a spent quota (draft-ietf-httpapi-ratelimit-headers-11 section 6.1). Every other problem is
/// `about:blank`: its status says all there is (RFC 9457 section 4.2.1).
const QUOTA_EXCEEDED: (&str, &str) =
    ("https://iana.org/assignments/http-problem-types#quota-exceeded", "Quota Exceeded");

/// An answer, complete but for `Date`, `Content-Length` and what belongs to the connection. To a HEAD request the
/// caller sends everything but the body, with the length that the body has.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// Each name at most once.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
}

/// What an answer is made from beside its reason.
pub struct AnswerContext<'c, 'l> {
    pub request_headers: &'c HeaderMap,
    /// Sane by now: visible ASCII, bounded.
    pub request_id: &'c str,
    /// The `Date` that the answer will carry.
    pub date: Timestamp,
    /// Absent when no limit was asked.
    pub verdict: Option<&'c Verdict<'l>>,
    pub style: &'c Style,
    pub page: &'c ResponsePage,
}

/// Makes the answer for `rejection`.
pub fn answer(rejection: Rejection, context: &AnswerContext<'_, '_>) -> Answer {
    let refusal = Refusal::new(rejection, context);
    let form = accept::form(context.request_headers);
    let mut headers = Headers(Vec::with_capacity(16));
    let (status, body) = match form {
        Form::Grpc => (200, refusal.trailers(&mut headers)),
        Form::Json | Form::ProblemJson => (refusal.rejection.status(), refusal.body(form, &mut headers)),
    };
    refusal.common_headers(form, &mut headers);
    Answer { status, headers: headers.0, body }
}

/// The fields of an answer; setting one replaces it.
struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    fn set(&mut self, name: HeaderName, value: HeaderValue) {
        match self.0.iter_mut().find(|(present, _)| *present == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name, value)),
        }
    }

    fn extend(&mut self, fields: impl IntoIterator<Item = (HeaderName, HeaderValue)>) {
        for (name, value) in fields {
            self.set(name, value);
        }
    }
}

/// A rejection with what the verdict says of it.
struct Refusal<'c, 'l> {
    rejection: Rejection,
    context: &'c AnswerContext<'c, 'l>,
    /// What is said of coming back; absent: nothing.
    wait: Option<Wait>,
    members: Members<'c>,
}

impl<'c, 'l> Refusal<'c, 'l> {
    fn new(rejection: Rejection, context: &'c AnswerContext<'c, 'l>) -> Self {
        let status = context.verdict.and_then(Verdict::refusing);
        // A client told that it is limited waits and comes back, which here would never end.
        let rejection = match (rejection, status.map(|status| status.wait)) {
            (Rejection::RateLimited, Some(Wait::Never)) => Rejection::CostExceedsLimit,
            (rejection, _) => rejection,
        };
        let wait = match rejection {
            Rejection::RateLimited => Some(match status.map(|status| status.wait) {
                Some(Wait::After(wait)) => Wait::After(wait),
                Some(Wait::Now | Wait::Never) | None => Wait::After(UNKNOWN_WAIT),
            }),
            Rejection::CostExceedsLimit => Some(Wait::Never),
            Rejection::LimiterUnavailable | Rejection::ShuttingDown => Some(Wait::After(UNKNOWN_WAIT)),
            _ => None,
        };
        let mut refusal = Self { rejection, context, wait, members: Members::default() };
        refusal.fill(status);
        refusal
    }

    fn is_limited(&self) -> bool {
        matches!(self.rejection, Rejection::RateLimited | Rejection::CostExceedsLimit)
    }

    fn fill(&mut self, status: Option<&'c LimitStatus<'l>>) {
        let (_, error, message, _) = self.rejection.parts();
        self.members.text(Member::Error, error);
        self.members.text(Member::Message, message);
        self.members.text(Member::RequestId, self.context.request_id);
        if !self.is_limited() {
            return;
        }
        let shown = status.filter(|status| status.limit.is_shown());
        if let Some(Wait::After(wait)) = self.wait {
            let seconds = retry::after_seconds(wait);
            let reset_at = Timestamp(self.context.date.seconds().saturating_add(seconds).saturating_mul(1000));
            self.members.set(Member::RetryAfterSeconds, Value::Integer(seconds));
            self.members.text(Member::ResetAt, rfc3339(reset_at));
            self.members.text(Member::Message, limited_message(shown, seconds));
        }
        if let Some(status) = shown {
            self.fill_limit(status);
        }
    }

    /// What only a limit that may be shown is told of. The URLs are among it: an unexposed limit is no part of a plan
    /// that could be read about or upgraded.
    fn fill_limit(&mut self, status: &'c LimitStatus<'l>) {
        let limit = status.limit;
        self.members.set(Member::Limit, Value::Integer(limit.capacity()));
        self.members.set(Member::Remaining, Value::Integer(status.remaining_requests()));
        self.members.text(Member::Window, &*limit.text.window);
        self.members.text(Member::Policy, &*limit.name);
        self.members.text(Member::Layer, limit.layer.name());
        self.members.set(Member::Cost, Value::Cost(status.cost));
        let page = self.context.page;
        for (member, url) in
            [(Member::DocumentationUrl, &page.documentation_url), (Member::UpgradeUrl, &page.upgrade_url)]
        {
            if let Some(url) = url {
                self.members.text(member, &**url);
            }
        }
    }

    /// The body of an HTTP answer and the fields that describe it. A problem is a form of its own, which a template
    /// does not replace.
    fn body(&self, form: Form, headers: &mut Headers) -> Bytes {
        let page = self.context.page;
        if let Some(Wait::After(wait)) = self.wait {
            if self.is_limited() {
                headers.extend(retry::fields(wait));
            } else {
                headers.set(header::RETRY_AFTER, HeaderValue::from(retry::after_seconds(wait)));
            }
        }
        if matches!(self.rejection, Rejection::MissingKey | Rejection::InvalidKey) {
            headers.set(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"sluicegate\""));
        }
        let (content_type, body) = match (form, &page.template) {
            (Form::ProblemJson, _) => (HeaderValue::from_static("application/problem+json"), self.problem()),
            (_, Some(template)) if self.is_limited() => (page.content_type.clone(), template.render(&self.members)),
            (_, _) if self.is_limited() => (page.content_type.clone(), self.json()),
            (_, _) => (HeaderValue::from_static("application/json"), self.json()),
        };
        headers.set(header::CONTENT_TYPE, content_type);
        body.into()
    }

    fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.push(b'{');
        self.members.write_json(&mut out, false);
        out.push(b'}');
        out
    }

    /// RFC 9457: the same members, and the standard's own before them.
    fn problem(&self) -> Vec<u8> {
        let status = self.rejection.status();
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let (kind, title) = match self.rejection {
            Rejection::RateLimited => QUOTA_EXCEEDED,
            _ => ("about:blank", reason.unwrap_or("Error")),
        };
        let mut out = Vec::with_capacity(768);
        out.extend_from_slice(b"{\"type\":");
        write_json_string(&mut out, kind);
        out.extend_from_slice(b",\"title\":");
        write_json_string(&mut out, title);
        out.extend_from_slice(format!(",\"status\":{status},\"detail\":").as_bytes());
        write_json_string(&mut out, &self.members.get(Member::Message).plain());
        self.members.write_json(&mut out, true);
        out.push(b'}');
        out
    }

    /// The fields of a gRPC answer, which has no body.
    fn trailers(&self, headers: &mut Headers) -> Bytes {
        headers.set(header::CONTENT_TYPE, grpc::content_type(self.context.request_headers));
        let message = self.members.get(Member::Message).plain();
        headers.extend(grpc::trailers(self.rejection.parts().3, &message, self.wait));
        Bytes::new()
    }

    /// The fields that an answer has in every form.
    fn common_headers(&self, form: Form, headers: &mut Headers) {
        let context = self.context;
        headers.set(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Ok(request_id) = HeaderValue::from_str(context.request_id) {
            headers.set(X_REQUEST_ID.clone(), request_id);
        }
        match cors::origin(context.request_headers) {
            Some(origin) => {
                headers.set(header::VARY, HeaderValue::from_static("Accept, Origin"));
                headers.extend(cors::fields(origin, form));
            }
            None => headers.set(header::VARY, HeaderValue::from_static("Accept")),
        }
        if self.is_limited() {
            headers.extend(context.page.headers.iter().cloned());
        }
        if let Some(verdict) = context.verdict {
            context.style.stamp(verdict, context.date, &mut |name, value| headers.set(name, value));
        }
    }
}

/// What a person reads. An unexposed limit gives no number away but the wait.
fn limited_message(shown: Option<&LimitStatus<'_>>, seconds: i64) -> String {
    let again = counted(seconds, "second");
    match shown {
        Some(status) => format!("Rate limit exceeded: {}. Retry in {again}.", status.limit.text.rate),
        None => format!("Too many requests. Retry in {again}."),
    }
}

#[cfg(test)]
mod tests;
