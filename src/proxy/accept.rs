//! In which form a client wants an answer that the gateway makes itself.
//!
//! Plain JSON unless something else is asked for by name; what cannot be understood or satisfied gets JSON too, never
//! a 406 (RFC 9110 section 12.4.1 allows it). Bytes in, a choice out: nothing is copied.

use super::grpc;
use http::{HeaderMap, header};

/// Entries of an `Accept` that are looked at; those after them count as absent.
const MAX_ENTRIES: usize = 64;

/// The weight of an entry without `q`, in thousandths.
const FULL_WEIGHT: u16 = 1000;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `application/json`, or the operator's template.
    Json,
    /// `application/problem+json` (RFC 9457).
    ProblemJson,
    /// A trailers-only gRPC response.
    Grpc,
}

/// Chooses by the request's `Content-Type` (gRPC) and `Accept`.
pub fn form(request_headers: &HeaderMap) -> Form {
    if grpc::is_request(request_headers) {
        return Form::Grpc;
    }
    let mut weights = Weights::default();
    let lines = request_headers.get_all(header::ACCEPT).into_iter();
    for entry in lines.flat_map(|line| split_quoted(line.as_bytes(), b',')).take(MAX_ENTRIES) {
        weights.add(entry);
    }
    match (weights.problem, weights.json()) {
        (Some(problem), json) if problem > 0 && problem >= json => Form::ProblemJson,
        _ => Form::Json,
    }
}

/// The weights of the ranges that matter; absent: not written.
#[derive(Default)]
struct Weights {
    problem: Option<u16>,
    json: Option<u16>,
    application: Option<u16>,
    any: Option<u16>,
}

impl Weights {
    fn add(&mut self, entry: &[u8]) {
        let mut parts = split_quoted(entry, b';').map(<[u8]>::trim_ascii);
        let range = parts.next().unwrap_or_default();
        let slot = if range.eq_ignore_ascii_case(b"application/problem+json") {
            &mut self.problem
        } else if range.eq_ignore_ascii_case(b"application/json") {
            &mut self.json
        } else if range.eq_ignore_ascii_case(b"application/*") {
            &mut self.application
        } else if range == b"*/*" {
            &mut self.any
        } else {
            return;
        };
        let quality = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
        if let Some(weight) = quality.map_or(Some(FULL_WEIGHT), parse_weight) {
            *slot = (*slot).max(Some(weight));
        }
    }

    /// The weight of plain JSON: the most specific range that names it (RFC 9110 section 12.5.1).
    fn json(&self) -> u16 {
        self.json.or(self.application).or(self.any).unwrap_or(0)
    }
}

/// A `qvalue` in thousandths: `0`, `1`, and up to three decimals.
fn parse_weight(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |index: usize| decimals.get(index).map_or(0, |byte| u16::from(byte - b'0'));
    let weight = u16::from(whole - b'0') * 1000 + digit(0) * 100 + digit(1) * 10 + digit(2);
    (weight <= FULL_WEIGHT).then_some(weight)
}

/// Splits at `separator` outside of quoted strings.
fn split_quoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |&byte| {
        let separates = byte == separator && !quoted;
        if byte == b'"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && byte == b'\\' && !escaped;
        separates
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn chosen(lines: &[&str]) -> Form {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::ACCEPT, HeaderValue::from_bytes(line.as_bytes()).expect("a field value"));
        }
        form(&headers)
    }

    #[test]
    fn json_is_what_is_sent_unless_a_problem_is_named() {
        let json: [&[&str]; 18] = [
            &[],
            &[""],
            &["*/*"],
            &["application/*"],
            &[";;;"],
            &["application/vnd.api+json"],
            &["application/json;q=0, */*;q=0"],
            &["text/html,application/xml;q=0.9,*/*;q=0.8"],
            &["text/html"],
            &["application/json, application/problem+json;q=0.5"],
            &["application/problem+json;q=0, application/json"],
            &["application/problem+json;q=0"],
            &["application/problem+json;q=0.000"],
            &["application/problem+json;q=1.1"],
            &["application/problem+json;q=high"],
            &["application/problem+json;q=0.5, application/*"],
            &["text/x;note=\"a, application/problem+json, b\""],
            &["\u{e9}, application/problem+xml"],
        ];
        for lines in json {
            assert_eq!(chosen(lines), Form::Json, "{lines:?}");
        }
    }

    #[test]
    fn a_problem_is_sent_when_named_and_not_below_json() {
        let problem: [&[&str]; 10] = [
            &["application/problem+json"],
            &["application/json, application/problem+json"],
            &["application/*;q=0.8, application/problem+json"],
            &["application/problem+json;q=0.9, */*;q=0.8"],
            &["application/json;q=0.5", "application/problem+json"],
            &["application/problem+json", "application/json;q=0.5"],
            &["APPLICATION/Problem+JSON ; Q=0.001"],
            &["application/problem+json;charset=utf-8;q=1.000"],
            &["text/x;note=\"\\\",\", application/problem+json"],
            &["application/json;q=0, application/problem+json;q=0.001"],
        ];
        for lines in problem {
            assert_eq!(chosen(lines), Form::ProblemJson, "{lines:?}");
        }
    }

    #[test]
    fn an_endless_accept_is_not_read_to_its_end() {
        let long = format!("{}application/problem+json", "a/b,".repeat(MAX_ENTRIES));
        assert_eq!(chosen(&[&long]), Form::Json);
    }

    #[test]
    fn grpc_is_told_by_the_content_type_whatever_is_accepted() {
        for content_type in ["application/grpc", "application/grpc+proto", "Application/GRPC-Web;x=y"] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            headers.insert(header::ACCEPT, HeaderValue::from_static("application/problem+json"));
            assert_eq!(form(&headers), Form::Grpc, "{content_type}");
        }
    }
}
