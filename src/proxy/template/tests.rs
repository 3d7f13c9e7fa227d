//! Tests of `template`.

use super::*;
use proptest::prelude::*;

fn members() -> Members<'static> {
    let mut members = Members::default();
    members.text(Member::Message, "<b>\"5\" & '6'</b>\n\\\u{1b}[0m");
    members.text(Member::Policy, "free-minute");
    members.set(Member::RetryAfterSeconds, Value::Integer(24));
    members.set(Member::Cost, Value::Cost(1_250));
    members
}

fn rendered(text: &str, content_type: &str) -> String {
    let template = Template::parse(text, content_type).expect("a valid template");
    String::from_utf8(template.render(&members())).expect("UTF-8")
}

#[test]
fn values_are_filled_in_with_and_without_blanks() {
    let text = "wait {{ retry_after_seconds }} s ({{policy}}, cost {{\tcost\n}}) {x} }}";
    assert_eq!(rendered(text, "text/plain"), "wait 24 s (free-minute, cost 1.25) {x} }}");
    assert_eq!(rendered("", "text/plain"), "");
    assert_eq!(rendered("{{policy}}{{policy}}", "text/plain"), "free-minutefree-minute");
}

#[test]
fn b92_each_content_type_has_its_escaping() {
    let vectors = [
        ("application/json", r#"<b>\"5\" & '6'</b>\n\\\u001b[0m"#),
        ("Application/VND.api+JSON; charset=utf-8", r#"<b>\"5\" & '6'</b>\n\\\u001b[0m"#),
        ("text/html; charset=utf-8", r"&lt;b&gt;&quot;5&quot; &amp; &#39;6&#39;&lt;/b&gt;\[0m"),
        ("application/xhtml+xml", r"&lt;b&gt;&quot;5&quot; &amp; &#39;6&#39;&lt;/b&gt;\[0m"),
        ("text/xml", r"&lt;b&gt;&quot;5&quot; &amp; &#39;6&#39;&lt;/b&gt;\[0m"),
        ("text/plain", r#"<b>"5" & '6'</b>\[0m"#),
        ("nonsense", r#"<b>"5" & '6'</b>\[0m"#),
    ];
    for (content_type, message) in vectors {
        assert_eq!(rendered("{{ message }}", content_type), message, "{content_type}");
    }
}

#[test]
fn what_is_absent_leaves_json_whole() {
    let text = r#"{"limit":{{ limit }},"note":"of \"{{ limit }}\" {{ window }}","url":"{{ upgrade_url }}","again":{{remaining}}}"#;
    let body: serde_json::Value = serde_json::from_str(&rendered(text, "application/json")).expect("JSON");
    assert_eq!(body, serde_json::json!({"limit": null, "note": "of \"\" ", "url": "", "again": null}));
    assert_eq!(rendered("[{{ limit }}]", "text/plain"), "[]");
}

#[test]
fn a_mistyped_member_is_refused_with_the_nearest_name() {
    let error = Template::parse("é {{ policy }} {{ retry_after }}", "text/plain").expect_err("unknown");
    assert_eq!(error.offset, "é {{ policy }} ".len());
    assert_eq!(error.message, "a template has no member `retry_after`");
    assert_eq!(error.hint.as_deref(), Some("did you mean `retry_after_seconds`?"));
    let error = Template::parse("{{ Polcy }}", "text/plain").expect_err("unknown");
    assert_eq!(error.hint.as_deref(), Some("did you mean `policy`?"));
    let error = Template::parse("{{ }}", "text/plain").expect_err("empty");
    assert_eq!(error.message, "a template has no member ``");
    let error = Template::parse("{{ something_else_altogether }}", "text/plain").expect_err("unknown");
    assert!(error.hint.expect("a hint").starts_with("the members are error, message, limit,"));
}

#[test]
fn a_placeholder_has_to_be_closed() {
    let error = Template::parse("a {{ policy }} b {{ limit }", "text/plain").expect_err("unclosed");
    assert_eq!((error.offset, error.message.as_str()), (17, "`{{` without a `}}` after it"));
}

#[test]
fn an_endless_template_is_refused() {
    assert!(Template::parse(&"x".repeat(MAX_TEMPLATE_BYTES), "text/plain").is_ok());
    assert!(Template::parse(&"x".repeat(MAX_TEMPLATE_BYTES + 1), "text/plain").is_err());
}

proptest! {
    #[test]
    fn b92_any_value_leaves_json_whole(text in ".*") {
        let mut members = Members::default();
        members.text(Member::RequestId, text.clone());
        let template = Template::parse(r#"{"id":"{{ request_id }}"}"#, "application/json").expect("a valid template");
        let body: serde_json::Value = serde_json::from_slice(&template.render(&members)).expect("JSON");
        prop_assert_eq!(body["id"].as_str(), Some(text.as_str()));
    }

    #[test]
    fn any_text_is_a_template_or_an_error_at_a_placeholder(text in "(\\{\\{|\\}\\}|[ a{}\"é]|limit){0,40}") {
        match Template::parse(&text, "application/json") {
            Ok(template) => {
                template.render(&members());
            }
            Err(error) => prop_assert!(text[error.offset..].starts_with("{{")),
        }
    }
}
