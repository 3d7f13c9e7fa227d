//! Tests of `refusal`.

use super::*;
use crate::algorithm::{UNIT, Window};
use crate::config::model::{Dialect, Located, Place, RateLimited, Reset};
use crate::limiter::verdict::LimitStatus;
use crate::policy::limit::Limit;
use crate::proxy::fixtures::{DATE, bucket, fits, limit, refuses, seconds, style, verdict};
use proptest::prelude::*;

const EVERY_REJECTION: [Rejection; 14] = [
    Rejection::BadRequest("The path holds a control character."),
    Rejection::MissingKey,
    Rejection::InvalidKey,
    Rejection::Forbidden,
    Rejection::RouteNotFound,
    Rejection::PayloadTooLarge,
    Rejection::RateLimited,
    Rejection::CostExceedsLimit,
    Rejection::BadGateway,
    Rejection::UpstreamUnavailable,
    Rejection::LimiterUnavailable,
    Rejection::ShuttingDown,
    Rejection::UpstreamTimeout,
    Rejection::Internal,
];

fn free_minute() -> Limit {
    limit("free-minute", 100, seconds(60))
}

fn urls() -> RateLimited {
    RateLimited {
        documentation_url: Some("https://docs.example.com/rate-limits".to_owned()),
        upgrade_url: Some("https://example.com/pricing".to_owned()),
        ..RateLimited::default()
    }
}

fn request(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

/// Answers a request that has these fields, as a page of these tables.
fn answered(
    rejection: Rejection,
    verdict: Option<&Verdict<'_>>,
    fields: &[(&'static str, &'static str)],
    tables: &[&RateLimited],
) -> Answer {
    let answer = answer(
        rejection,
        &AnswerContext {
            request_headers: &request(fields),
            request_id: "01KBC3M0Z8J5T1Q6W2V9X4R7YA",
            date: DATE,
            verdict,
            style: &style(Dialect::Ietf, Reset::Epoch),
            page: &ResponsePage::compile(tables).expect("valid tables"),
        },
    );
    let mut names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), answer.headers.len(), "a field comes twice");
    answer
}

fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let (_, value) = answer.headers.iter().find(|(present, _)| present == name)?;
    value.to_str().ok()
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).expect("UTF-8")
}

fn json(answer: &Answer) -> serde_json::Value {
    serde_json::from_slice(&answer.body).expect("JSON")
}

#[test]
fn a_refusal_is_told_byte_for_byte() {
    let minute = free_minute();
    let verdict = verdict([refuses(&minute, 0, 23_400)]);
    let answer = answered(Rejection::RateLimited, Some(&verdict), &[], &[&urls()]);
    assert_eq!(answer.status, 429);
    assert_eq!(
        text(&answer),
        concat!(
            r#"{"error":"rate_limit_exceeded","message":"Rate limit exceeded: 100 requests per minute. Retry in 24 seconds.","#,
            r#""limit":100,"remaining":0,"window":"60s","retry_after_seconds":24,"reset_at":"2026-12-01T03:25:24Z","#,
            r#""policy":"free-minute","layer":"key","cost":1,"request_id":"01KBC3M0Z8J5T1Q6W2V9X4R7YA","#,
            r#""documentation_url":"https://docs.example.com/rate-limits","upgrade_url":"https://example.com/pricing"}"#
        )
    );
    let expected = [
        ("content-type", Some("application/json")),
        ("cache-control", Some("no-store")),
        ("retry-after", Some("24")),
        ("retry-after-ms", None),
        ("ratelimit-policy", Some(r#""free-minute";q=100;w=60"#)),
        ("ratelimit", Some(r#""free-minute";r=0;t=24"#)),
        ("x-ratelimit-limit", Some("100")),
        ("x-ratelimit-remaining", Some("0")),
        ("x-ratelimit-reset", Some("1796095524")),
        ("x-request-id", Some("01KBC3M0Z8J5T1Q6W2V9X4R7YA")),
        ("vary", Some("Accept")),
        ("access-control-allow-origin", None),
        ("www-authenticate", None),
    ];
    for (name, value) in expected {
        assert_eq!(field(&answer, name), value, "{name}");
    }
}

#[test]
fn urls_that_are_not_configured_are_left_out() {
    let minute = free_minute();
    let answer = answered(Rejection::RateLimited, Some(&verdict([refuses(&minute, 0, 1)])), &[], &[]);
    let body = json(&answer);
    assert!(body.get("documentation_url").is_none() && body.get("upgrade_url").is_none());
    assert_eq!(body["message"], "Rate limit exceeded: 100 requests per minute. Retry in 1 second.");
    assert_eq!(field(&answer, "retry-after-ms"), Some("1"));
}

#[test]
fn a_bucket_tells_its_capacity_and_its_rate() {
    let pro = bucket("token_bucket", "pro-burst", 600, seconds(60), 100);
    let status = LimitStatus { cost: 2_500, ..refuses(&pro, 1_900, 60) };
    let answer = answered(Rejection::RateLimited, Some(&verdict([status])), &[], &[]);
    let body = json(&answer);
    assert_eq!(body["limit"], 100);
    assert_eq!(body["remaining"], 1);
    assert_eq!(body["message"], "Rate limit exceeded: 600 requests per minute. Retry in 1 second.");
    assert!(text(&answer).contains(r#""cost":2.5,"#));
    assert_eq!(field(&answer, "retry-after"), Some("1"));
    assert_eq!(field(&answer, "retry-after-ms"), Some("60"));
}

#[test]
fn a_calendar_window_is_told_by_its_name() {
    let month = bucket("fixed_window", "month", 1, Window::Month, 1);
    let body = json(&answered(Rejection::RateLimited, Some(&verdict([refuses(&month, 0, 5000)])), &[], &[]));
    assert_eq!(body["window"], "month");
    assert_eq!(body["message"], "Rate limit exceeded: 1 request per month. Retry in 5 seconds.");
}

#[test]
fn a_cost_that_never_fits_is_told_without_a_wait() {
    let minute = free_minute();
    let status = LimitStatus { cost: 500 * UNIT, wait: Wait::Never, ..fits(&minute, 40 * UNIT, 23_400) };
    let verdict = verdict([status]);
    let answer = answered(Rejection::CostExceedsLimit, Some(&verdict), &[], &[]);
    assert_eq!(answer.status, 429);
    assert_eq!((field(&answer, "retry-after"), field(&answer, "retry-after-ms")), (None, None));
    let body = json(&answer);
    assert_eq!(body["error"], "cost_exceeds_limit");
    assert_eq!((&body["limit"], &body["remaining"], &body["cost"]), (&100.into(), &40.into(), &500.into()));
    assert!(body.get("retry_after_seconds").is_none() && body.get("reset_at").is_none());
    let problem =
        json(&answered(Rejection::CostExceedsLimit, Some(&verdict), &[("accept", "application/problem+json")], &[]));
    assert_eq!(json(&answered(Rejection::RateLimited, Some(&verdict), &[], &[])), body);
    assert_eq!((problem["type"].as_str(), problem["title"].as_str()), (Some("about:blank"), Some("Too Many Requests")));
}

#[test]
fn an_unexposed_limit_gives_nothing_away() {
    let mut hidden = limit("hidden", 7, seconds(60));
    hidden.expose = false;
    let verdict = verdict([refuses(&hidden, 0, 23_400)]);
    let answer = answered(Rejection::RateLimited, Some(&verdict), &[], &[&urls()]);
    assert_eq!(
        text(&answer),
        concat!(
            r#"{"error":"rate_limit_exceeded","message":"Too many requests. Retry in 24 seconds.","#,
            r#""retry_after_seconds":24,"reset_at":"2026-12-01T03:25:24Z","request_id":"01KBC3M0Z8J5T1Q6W2V9X4R7YA"}"#
        )
    );
    assert_eq!(field(&answer, "retry-after"), Some("24"));
    assert!(!answer.headers.iter().any(|(name, _)| name.as_str().contains("ratelimit")));
}

#[test]
fn a_problem_has_the_same_members_and_the_standard_ones() {
    let minute = free_minute();
    let verdict = verdict([refuses(&minute, 0, 23_400)]);
    let plain = answered(Rejection::RateLimited, Some(&verdict), &[], &[&urls()]);
    let problem =
        answered(Rejection::RateLimited, Some(&verdict), &[("accept", "application/problem+json")], &[&urls()]);
    assert_eq!(problem.status, 429);
    assert_eq!(field(&problem, "content-type"), Some("application/problem+json"));
    let mut body = json(&problem);
    let members = body.as_object_mut().expect("an object");
    assert_eq!(members.remove("type"), Some("https://iana.org/assignments/http-problem-types#quota-exceeded".into()));
    assert_eq!(members.remove("title"), Some("Quota Exceeded".into()));
    assert_eq!(members.remove("status"), Some(429.into()));
    assert_eq!(members.remove("detail"), json(&plain).get("message").cloned());
    assert_eq!(body, json(&plain));
}

#[test]
fn b120_every_answer_is_json_with_the_same_envelope() {
    for rejection in EVERY_REJECTION {
        for accept in ["text/html", "application/json", "*/*", "application/problem+json"] {
            let answer = answered(rejection, None, &[("accept", accept)], &[]);
            let is_problem = accept == "application/problem+json";
            let expected = if is_problem { "application/problem+json" } else { "application/json" };
            assert_eq!(field(&answer, "content-type"), Some(expected));
            assert_eq!(field(&answer, "x-request-id"), Some("01KBC3M0Z8J5T1Q6W2V9X4R7YA"));
            assert_eq!(answer.status, rejection.status());
            let body = json(&answer);
            assert_eq!(body["error"], rejection.parts().1);
            assert_eq!(body["request_id"], "01KBC3M0Z8J5T1Q6W2V9X4R7YA");
            assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()));
            let advised = field(&answer, "retry-after").map(|seconds| seconds.parse::<i64>().expect("seconds"));
            if rejection.status() == 429 {
                assert_eq!(body["retry_after_seconds"].as_i64(), advised);
            } else {
                assert_eq!(body.as_object().map(|members| members.len()), Some(if is_problem { 7 } else { 3 }));
            }
        }
    }
}

#[test]
fn only_what_a_client_can_act_on_is_said_beside_an_error() {
    for rejection in EVERY_REJECTION {
        let answer = answered(rejection, None, &[], &[]);
        let challenged = matches!(rejection, Rejection::MissingKey | Rejection::InvalidKey);
        let realm = challenged.then_some("Bearer realm=\"sluicegate\"");
        assert_eq!(field(&answer, "www-authenticate"), realm, "{rejection:?}");
        let waits =
            matches!(rejection, Rejection::RateLimited | Rejection::LimiterUnavailable | Rejection::ShuttingDown);
        assert_eq!(field(&answer, "retry-after"), waits.then_some("1"), "{rejection:?}");
    }
}

#[test]
fn a_refused_request_that_had_limits_shows_them_whatever_the_reason() {
    let per_ip = limit("per-ip", 1000, seconds(60));
    let verdict = verdict([fits(&per_ip, 999 * UNIT, 30_000)]);
    for rejection in [Rejection::InvalidKey, Rejection::RouteNotFound, Rejection::BadGateway] {
        let answer = answered(rejection, Some(&verdict), &[], &[]);
        assert_eq!(field(&answer, "ratelimit"), Some(r#""per-ip";r=999;t=30"#));
    }
}

#[test]
fn b121_a_script_of_another_origin_may_read_every_answer() {
    for rejection in EVERY_REJECTION {
        let answer = answered(rejection, None, &[("origin", "https://app.example.com")], &[]);
        assert_eq!(field(&answer, "access-control-allow-origin"), Some("https://app.example.com"));
        assert_eq!(field(&answer, "access-control-allow-credentials"), Some("true"));
        assert!(field(&answer, "access-control-expose-headers").is_some_and(|names| names.contains("Retry-After")));
        assert_eq!(field(&answer, "vary"), Some("Accept, Origin"));
    }
}

#[test]
fn b123_grpc_is_answered_with_trailers_alone() {
    let minute = free_minute();
    let verdict = verdict([refuses(&minute, 0, 23_400)]);
    let grpc = [("content-type", "application/grpc+proto"), ("accept", "application/json")];
    let answer = answered(Rejection::RateLimited, Some(&verdict), &grpc, &[&urls()]);
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    let expected = [
        ("content-type", Some("application/grpc+proto")),
        ("grpc-status", Some("8")),
        ("grpc-message", Some("Rate limit exceeded: 100 requests per minute. Retry in 24 seconds.")),
        ("grpc-retry-pushback-ms", Some("23400")),
        ("ratelimit", Some(r#""free-minute";r=0;t=24"#)),
        ("retry-after", None),
    ];
    for (name, value) in expected {
        assert_eq!(field(&answer, name), value, "{name}");
    }
    let answer = answered(Rejection::RateLimited, Some(&verdict), &[("content-type", "application/json")], &[]);
    assert_eq!(answer.status, 429);
}

#[test]
fn b123_grpc_statuses_follow_the_reason() {
    for rejection in EVERY_REJECTION {
        let answer = answered(rejection, None, &[("content-type", "application/grpc")], &[]);
        let status = rejection.parts().3.to_string();
        assert_eq!((answer.status, field(&answer, "grpc-status")), (200, Some(status.as_str())));
        let pushback = match rejection {
            Rejection::RateLimited | Rejection::LimiterUnavailable | Rejection::ShuttingDown => Some("1000"),
            Rejection::CostExceedsLimit => Some("-1"),
            _ => None,
        };
        assert_eq!(field(&answer, "grpc-retry-pushback-ms"), pushback, "{rejection:?}");
    }
}

#[test]
fn a_template_replaces_the_built_in_json_of_a_429_alone() {
    let minute = free_minute();
    let verdict = verdict([refuses(&minute, 0, 23_400)]);
    let at = Place::default();
    let html = RateLimited {
        content_type: Some("text/html; charset=utf-8".to_owned()),
        body: Some(Located { value: "<p>{{ message }} <a href=\"{{ upgrade_url }}\">more</a>".to_owned(), at }),
        headers: vec![("X-Support".to_owned(), "api@example.com".to_owned()), ("Vary".to_owned(), "*".to_owned())],
        upgrade_url: Some("https://example.com/?a=1&b=2".to_owned()),
        ..RateLimited::default()
    };
    let limited = answered(Rejection::RateLimited, Some(&verdict), &[("accept", "application/json")], &[&html]);
    assert_eq!(
        text(&limited),
        "<p>Rate limit exceeded: 100 requests per minute. Retry in 24 seconds. \
         <a href=\"https://example.com/?a=1&amp;b=2\">more</a>"
    );
    assert_eq!(field(&limited, "content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(field(&limited, "x-support"), Some("api@example.com"));
    assert_eq!(field(&limited, "vary"), Some("*"));
    assert_eq!(field(&limited, "retry-after"), Some("24"));
    let other = answered(Rejection::RouteNotFound, None, &[], &[&html]);
    assert_eq!((field(&other, "content-type"), field(&other, "x-support")), (Some("application/json"), None));
    let problem = answered(Rejection::RateLimited, Some(&verdict), &[("accept", "application/problem+json")], &[&html]);
    assert_eq!(field(&problem, "content-type"), Some("application/problem+json"));
}

#[test]
fn the_client_samples_of_the_documentation_are_the_files_that_are_run() {
    let document = include_str!("../../../docs/clients.md");
    let samples = [
        ("python", include_str!("../../../tests/clients/client.py")),
        ("javascript", include_str!("../../../tests/clients/client.mjs")),
        ("sh", include_str!("../../../tests/clients/client.sh")),
    ];
    for (language, sample) in samples {
        assert!(document.contains(&format!("```{language}\n{sample}```\n")), "{language}");
    }
}

proptest! {
    #[test]
    fn b92_any_request_id_leaves_the_body_whole(request_id in ".{0,40}") {
        let minute = free_minute();
        let verdict = verdict([refuses(&minute, 0, 1)]);
        for accept in ["*/*", "application/problem+json"] {
            let answer = answer(Rejection::RateLimited, &AnswerContext {
                request_headers: &request(&[("accept", accept)]),
                request_id: &request_id,
                date: DATE,
                verdict: Some(&verdict),
                style: &style(Dialect::Classic, Reset::Epoch),
                page: &ResponsePage::default(),
            });
            let body = json(&answer);
            prop_assert_eq!(body["request_id"].as_str(), Some(request_id.as_str()));
        }
    }

    #[test]
    fn b17_every_field_names_the_same_moment(
        wait in 1..4_000_000_000_i64, date in 0..4_000_000_000_000_i64
    ) {
        let minute = free_minute();
        let verdict = verdict([refuses(&minute, 0, wait)]);
        let date = Timestamp(date);
        let answer = answer(Rejection::RateLimited, &AnswerContext {
            request_headers: &HeaderMap::new(),
            request_id: "id",
            date,
            verdict: Some(&verdict),
            style: &style(Dialect::Both, Reset::Epoch),
            page: &ResponsePage::default(),
        });
        let number = |name| field(&answer, name).and_then(|text| text.parse::<i64>().ok()).expect("a number");
        let advised = number("retry-after");
        prop_assert!(advised >= 1 && advised * 1000 >= wait && (advised - 1) * 1000 < wait);
        prop_assert_eq!(number("ratelimit-reset") - date.seconds(), advised);
        prop_assert_eq!(number("x-ratelimit-reset") - date.seconds(), advised);
        let state = format!("\"free-minute\";r=0;t={advised}");
        prop_assert_eq!(field(&answer, "ratelimit"), Some(state.as_str()));
        let body = json(&answer);
        prop_assert_eq!(body["retry_after_seconds"].as_i64(), Some(advised));
        let reset_at = rfc3339(Timestamp((date.seconds() + advised) * 1000));
        prop_assert_eq!(body["reset_at"].as_str(), Some(reset_at.as_str()));
        let expected_ms = (wait < 10_000).then_some(wait.to_string());
        prop_assert_eq!(field(&answer, "retry-after-ms"), expected_ms.as_deref());
    }
}
