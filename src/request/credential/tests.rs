//! Keys in requests: places, spellings, doubles, removal.

use super::*;
use proptest::prelude::*;

fn sources() -> Vec<Source> {
    vec![
        Source::Bearer,
        Source::Header(HeaderName::from_static("x-api-key")),
        Source::Query("api_key".to_owned()),
        Source::Cookie("key".to_owned()),
    ]
}

fn map(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// `none`, `ambiguous`, `malformed` or the key.
fn shown(lines: &[(&str, &str)], query: Option<&str>) -> String {
    match find(&sources(), &map(lines), query.map(str::as_bytes)) {
        Presented::None => "none".to_owned(),
        Presented::Ambiguous => "ambiguous".to_owned(),
        Presented::Malformed => "malformed".to_owned(),
        Presented::One(key) => String::from_utf8(key.into_owned()).unwrap(),
    }
}

fn by_authorization(value: &str) -> String {
    shown(&[("authorization", value)], None)
}

#[test]
fn b20_spellings_of_one_key_are_that_key_or_wrong() {
    for value in ["Bearer K", "bearer K", "BEARER K", "Bearer  K", "  Bearer K  ", "Bearer \t K\t"] {
        assert_eq!(by_authorization(value), "K", "{value:?}");
    }
    for value in
        [" K ", "K", "x Bearer K", "Bearer", "Bearer ", "Bearer K L", "Bearer K, Bearer L", "Bearer: K", "x,bearer K"]
    {
        assert_eq!(by_authorization(value), "malformed", "{value:?}");
    }
    for name in ["X-API-Key", "x-api-key"] {
        assert_eq!(shown(&[(name, " K\t")], None), "K");
    }
    assert_eq!(shown(&[], Some("a=1&api_key=K")), "K");
    assert_eq!(shown(&[], Some("api%5Fkey=%4B")), "K");
    assert_eq!(shown(&[("cookie", "a=1; key=K; b=2")], None), "K");
    assert_eq!(shown(&[("cookie", "key=\"K\"")], None), "K");
}

#[test]
fn b79_no_key_is_none_and_a_bad_one_is_never_none() {
    for lines in [
        &[][..],
        &[("x-api-key", "")],
        &[("x-api-key", "  ")],
        &[("authorization", "")],
        &[("authorization", "Basic eHg=")],
        &[("authorization", "Digest username=\"x\", realm=\"y\"")],
        &[("cookie", "key=; other=K; KEY=K; xkey=K")],
    ] {
        assert_eq!(shown(lines, None), "none", "{lines:?}");
    }
    assert_eq!(shown(&[], Some("api_key=&api_key")), "none");
    for lines in
        [&[("x-api-key", "K L")], &[("x-api-key", "K, K")], &[("x-api-key", "K\u{e9}")], &[("cookie", "key=K L")]]
    {
        assert_eq!(shown(lines, None), "malformed", "{lines:?}");
    }
    for query in ["api_key=%", "api_key=K%20L", "api_key=K%00", "api_key=%e9"] {
        assert_eq!(shown(&[], Some(query)), "malformed", "{query}");
    }
}

#[test]
fn b79_another_scheme_beside_a_key_does_not_hide_it() {
    assert_eq!(shown(&[("authorization", "Basic xx"), ("x-api-key", "K")], None), "K");
    assert_eq!(shown(&[("authorization", "Basic xx"), ("authorization", "Bearer K")], None), "K");
}

#[test]
fn one_key_in_several_places_is_one_and_two_are_ambiguous() {
    let bearer = ("authorization", "Bearer K");
    assert_eq!(shown(&[bearer, ("x-api-key", "K"), ("cookie", "key=K")], Some("api_key=K")), "K");
    assert_eq!(shown(&[bearer, ("x-api-key", "L")], None), "ambiguous");
    assert_eq!(shown(&[bearer, ("authorization", "Bearer L")], None), "ambiguous");
    assert_eq!(shown(&[("x-api-key", "K"), ("x-api-key", "L")], None), "ambiguous");
    assert_eq!(shown(&[], Some("api_key=K&api_key=L")), "ambiguous");
    assert_eq!(shown(&[("cookie", "key=K; key=L")], None), "ambiguous");
    assert_eq!(shown(&[("cookie", "key=K"), ("cookie", "key=L")], None), "ambiguous");
    assert_eq!(shown(&[bearer, ("x-api-key", "")], None), "K");
    assert_eq!(shown(&[bearer, ("x-api-key", "L M")], None), "malformed");
    assert_eq!(shown(&[bearer, ("x-api-key", "L M"), ("cookie", "key=L")], None), "ambiguous");
}

#[test]
fn b124_a_key_is_taken_whole_or_refused() {
    let longest = "k".repeat(MAX_KEY_BYTES);
    assert_eq!(shown(&[("x-api-key", &longest)], None), longest);
    let stem = "live_".to_owned() + &"A".repeat(30);
    for last in '1'..='9' {
        assert_eq!(by_authorization(&format!("Bearer {stem}{last}")), format!("{stem}{last}"));
    }
    let endless = "k".repeat(8192);
    assert_eq!(shown(&[("x-api-key", &endless)], None), "malformed");
    assert_eq!(by_authorization(&format!("Bearer {longest}k")), "malformed");
}

#[test]
fn only_configured_places_are_looked_at() {
    let headers = map(&[("authorization", "Bearer K"), ("x-api-key", "L"), ("cookie", "key=M")]);
    let by = |source| find(&[source], &headers, Some(b"api_key=N"));
    assert_eq!(by(Source::Bearer), Presented::One(Cow::Borrowed(b"K")));
    assert_eq!(by(Source::Header(HeaderName::from_static("x-api-key"))), Presented::One(Cow::Borrowed(b"L")));
    assert_eq!(by(Source::Query("api_key".into())), Presented::One(Cow::Borrowed(b"N")));
    assert_eq!(by(Source::Cookie("key".into())), Presented::One(Cow::Borrowed(b"M")));
    assert_eq!(find(&[], &headers, Some(b"api_key=N")), Presented::None);
}

#[test]
fn a_key_is_not_shown_by_debug() {
    let shown = format!("{:?}", Presented::One(Cow::Borrowed(b"SECRET123")));
    assert!(!shown.contains("SECRET"), "{shown}");
}

#[test]
fn b135_the_key_leaves_and_the_rest_stays() {
    let lines = [
        ("authorization", "Basic eHg="),
        ("authorization", "bearer K"),
        ("x-api-key", "K"),
        ("cookie", "a=1; key=K;  b=2"),
        ("cookie", "key=K"),
        ("cookie", "c=3"),
        ("accept", "*/*"),
    ];
    let values = |lines: &[&'static str]| lines.iter().map(|line| HeaderValue::from_static(line)).collect::<Vec<_>>();
    let expected = [
        (AUTHORIZATION, values(&["Basic eHg="])),
        (HeaderName::from_static("x-api-key"), vec![]),
        (COOKIE, values(&["a=1;  b=2", "c=3"])),
    ];
    assert_eq!(strip_headers(&sources(), &map(&lines)).as_slice(), expected);
    assert_eq!(strip_query(&sources(), b"z=%7e&api_key=K&y=+").as_deref(), Some(&b"z=%7e&y=+"[..]));
}

#[test]
fn a_request_without_a_key_is_not_touched() {
    let headers = map(&[("authorization", "Basic eHg="), ("cookie", "a=1; b=2")]);
    assert!(strip_headers(&sources(), &headers).is_empty());
    assert_eq!(strip_query(&sources(), b"a=1"), None);
    let headers = map(&[("authorization", "Bearer K"), ("cookie", "key=K")]);
    let other = [Source::Header(HeaderName::from_static("x-api-key"))];
    assert!(strip_headers(&other, &headers).is_empty());
    assert_eq!(strip_query(&other, b"api_key=K"), None);
}

#[test]
fn wrong_and_empty_keys_leave_as_well() {
    for value in ["K", "x Bearer K", "Bearer"] {
        let rewritten = strip_headers(&[Source::Bearer], &map(&[("authorization", value)]));
        assert_eq!(rewritten.as_slice(), [(AUTHORIZATION, vec![])], "{value}");
    }
    assert_eq!(strip_headers(&sources(), &map(&[("cookie", "key=")])).as_slice(), [(COOKIE, vec![])]);
    assert_eq!(strip_query(&sources(), b"api_key").as_deref(), Some(&b""[..]));
}

proptest! {
    #[test]
    fn nothing_is_left_after_stripping(
        authorization in "[ -~]{0,20}|(b|B)earer {0,2}[a-z]{0,3}",
        key in "[ -~]{0,10}",
        cookie in "([a-z]{0,4}=?[a-z\" ]{0,4};? ?){0,4}",
        query in "([a-z_]{0,8}=?[a-z%]{0,4}&?){0,4}",
    ) {
        let mut headers = map(&[("authorization", &authorization), ("x-api-key", &key), ("cookie", &cookie)]);
        for (name, lines) in strip_headers(&sources(), &headers) {
            headers.remove(&name);
            for line in lines {
                headers.append(name.clone(), line);
            }
        }
        let query = strip_query(&sources(), query.as_bytes()).unwrap_or_else(|| query.into_bytes());
        prop_assert_eq!(find(&sources(), &headers, Some(&query)), Presented::None);
    }
}
