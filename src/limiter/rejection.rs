//! Why a request does not go on, as the gateway itself answers it.
//!
//! Each has two texts: `message` for the client, which gives nothing away, and what the log says beside it. The
//! status and the `error` word are fixed here and are API: they are never renamed.

/// A reason to answer instead of forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The request itself is not acceptable; the text says what is wrong with it.
    BadRequest(&'static str),
    MissingKey,
    /// Wrong, expired, disabled or unknown: the same bytes for each.
    InvalidKey,
    Forbidden,
    RouteNotFound,
    PayloadTooLarge,
    HeadersTooLarge,
    /// A limit refused; waiting helps.
    RateLimited,
    /// A cost that the limit can never hold; waiting does not help.
    CostExceedsLimit,
    BadGateway,
    UpstreamUnavailable,
    LimiterUnavailable,
    ShuttingDown,
    UpstreamTimeout,
    Internal,
}

impl Rejection {
    /// HTTP status, `error` word, message for the client and gRPC status.
    pub fn parts(self) -> (u16, &'static str, &'static str, u8) {
        match self {
            Self::BadRequest(reason) => (400, "bad_request", reason, 3),
            Self::MissingKey => (401, "missing_api_key", "An API key is required.", 16),
            Self::InvalidKey => (401, "invalid_api_key", "The API key is not valid.", 16),
            Self::Forbidden => (403, "forbidden", "This caller may not make this request.", 7),
            Self::RouteNotFound => (404, "route_not_found", "No route takes this request.", 12),
            Self::PayloadTooLarge => (413, "payload_too_large", "The request body is larger than allowed.", 8),
            Self::HeadersTooLarge => (431, "headers_too_large", "The request headers are larger than allowed.", 8),
            Self::RateLimited => (429, "rate_limit_exceeded", "Too many requests.", 8),
            Self::CostExceedsLimit => {
                (429, "cost_exceeds_limit", "This request costs more than its limit can ever allow.", 8)
            }
            Self::BadGateway => (502, "bad_gateway", "The upstream gave no valid answer.", 14),
            Self::UpstreamUnavailable => (503, "upstream_unavailable", "No upstream server is available.", 14),
            Self::LimiterUnavailable => (503, "limiter_unavailable", "The rate limiter is unavailable.", 14),
            Self::ShuttingDown => (503, "shutting_down", "The gateway is shutting down.", 14),
            Self::UpstreamTimeout => (504, "upstream_timeout", "The upstream did not answer in time.", 4),
            Self::Internal => (500, "internal_error", "The gateway failed to handle this request.", 13),
        }
    }

    pub fn status(self) -> u16 {
        self.parts().0
    }
}
