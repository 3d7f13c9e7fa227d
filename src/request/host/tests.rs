//! Hosts and targets: forms, spellings, refusals.

use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn hosts(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(HOST, HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    headers
}

/// Host, authority, path and query of an HTTP/1.1 GET.
fn get(target: &str, lines: &[&str]) -> Result<(String, String, String, Option<String>), &'static str> {
    let headers = hosts(lines);
    let target = Target::parse("GET", Version::HTTP_11, target.as_bytes(), None, &headers)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ok((target.host.into_owned(), target.authority.to_owned(), text(target.path), target.query.map(text)))
}

fn host_of(line: &str) -> Result<String, &'static str> {
    get("/", &[line]).map(|(host, ..)| host)
}

#[test]
fn b108_spellings_of_one_host_are_one_host() {
    for line in ["api.test", "API.TEST", "api.test:8080", "api.test.", "Api.Test.:80", "api.test:", " api.test "] {
        assert_eq!(host_of(line), Ok("api.test".to_owned()), "{line}");
    }
    for line in ["[2001:DB8:0::1]", "[2001:db8::1]:443", "[2001:0db8::0001]:"] {
        assert_eq!(host_of(line), Ok("[2001:db8::1]".to_owned()), "{line}");
    }
}

#[test]
fn b108_the_authority_of_an_absolute_target_beats_host() {
    let (host, authority, path, query) = get("http://API.test:8080/x?y=1", &["other.test"]).unwrap();
    assert_eq!((host.as_str(), authority.as_str()), ("api.test", "API.test:8080"));
    assert_eq!((path.as_str(), query.as_deref()), ("/x", Some("y=1")));
    for target in ["http://api.test", "HTTPS://api.test", "http://api.test#top"] {
        assert_eq!(get(target, &["a"]).unwrap(), ("api.test".into(), "api.test".into(), "/".into(), None), "{target}");
    }
    assert_eq!(get("http://api.test?q", &["a"]).unwrap().3.as_deref(), Some("q"));
}

#[test]
fn b108_two_host_headers_are_refused_even_when_equal() {
    assert_eq!(get("/", &["a.test", "b.test"]), Err(SEVERAL_HOSTS));
    assert_eq!(get("/", &["a.test", "a.test"]), Err(SEVERAL_HOSTS));
    assert_eq!(get("http://a.test/", &["a.test", "a.test"]), Err(SEVERAL_HOSTS));
}

#[test]
fn a_host_is_required_except_by_the_oldest_version() {
    let none = HeaderMap::new();
    let parse = |version| Target::parse("GET", version, b"/", None, &none).map(|target| target.host);
    assert_eq!(parse(Version::HTTP_11), Err(NO_HOST));
    assert_eq!(parse(Version::HTTP_2), Err(NO_HOST));
    assert_eq!(parse(Version::HTTP_10), Ok(Cow::Borrowed("")));
    assert_eq!(host_of(""), Err(BAD_HOST));
}

#[test]
fn what_no_host_name_can_hold_is_refused() {
    let long = format!("{}.test", "a".repeat(MAX_HOST_BYTES));
    for line in [
        "user@api.test",
        "api test",
        "api.test/x",
        "api.test,other",
        "api\ttest",
        "api.test..",
        ".api.test",
        "a..test",
        ".",
        ":80",
        "api.test:http",
        "api.test:99999",
        "api.test:80:80",
        "2001:db8::1",
        "[2001:db8::1",
        "[2001:db8::1]x",
        "[::1%eth0]",
        "[v1.x]",
        "%61pi.test",
        "*.test",
        "äpi.test",
        &long,
    ] {
        assert_eq!(host_of(line), Err(BAD_HOST), "{line}");
    }
    assert_eq!(get("http://user@api.test/", &["a"]), Err(BAD_HOST));
    assert_eq!(get("http:///x", &["a"]), Err(BAD_HOST));
    assert_eq!(get("http://good.test/", &["b@d"]), Err(BAD_HOST), "a Host that loses is still checked");
}

#[test]
fn the_asterisk_is_a_target_of_options_alone() {
    let headers = hosts(&["a.test"]);
    let parse =
        |method, target| Target::parse(method, Version::HTTP_11, target, None, &headers).map(|t| t.path.to_vec());
    assert_eq!(parse("OPTIONS", &b"*"[..]), Ok(b"*".to_vec()));
    assert_eq!(parse("OPTIONS", &b"/x"[..]), Ok(b"/x".to_vec()));
    assert_eq!(parse("OPTIONS", &b"*?x"[..]), Err(BAD_TARGET));
    assert_eq!(parse("OPTIONS", &b"*x"[..]), Err(BAD_TARGET));
    assert_eq!(parse("GET", &b"*"[..]), Err(BAD_TARGET));
    assert_eq!(parse("options", &b"*"[..]), Err(BAD_TARGET));
}

#[test]
fn other_target_forms_are_refused() {
    for target in ["", "api.test:443", "ftp://api.test/", "http:/x", "x", "?q", "javascript:1", "http:"] {
        assert_eq!(get(target, &["a.test"]), Err(BAD_TARGET), "{target}");
    }
}

#[test]
fn b02_a_fragment_is_cut_off() {
    assert_eq!(get("/api/login#", &["a"]).unwrap().2, "/api/login");
    assert_eq!(get("/api/login#?x", &["a"]).unwrap(), ("a".into(), "a".into(), "/api/login".into(), None));
    assert_eq!(get("/p?a=1#b", &["a"]).unwrap().3.as_deref(), Some("a=1"));
}

#[test]
fn queries_hold_no_blanks_and_no_controls() {
    for target in ["/?a b", "/?\u{0}", "/?a\r\nb", "/?\u{7f}"] {
        assert_eq!(get(target, &["a"]), Err(BAD_QUERY), "{target:?}");
    }
    assert_eq!(get("/?", &["a"]).unwrap().3.as_deref(), Some(""));
    assert_eq!(get("/?é=?&{}", &["a"]).unwrap().3.as_deref(), Some("é=?&{}"));
}

#[test]
fn on_http2_authority_and_host_must_name_one_host() {
    let parse = |authority: Option<&'static [u8]>, lines: &[&str]| {
        let headers = hosts(lines);
        Target::parse("GET", Version::HTTP_2, b"/", authority, &headers).map(|target| target.host.into_owned())
    };
    assert_eq!(parse(Some(b"Api.test:443"), &[]), Ok("api.test".to_owned()));
    assert_eq!(parse(Some(b"api.test"), &["API.test"]), Ok("api.test".to_owned()));
    assert_eq!(parse(None, &["api.test"]), Ok("api.test".to_owned()));
    assert_eq!(parse(Some(b"api.test"), &["other.test"]), Err(HOSTS_DIFFER));
    assert_eq!(parse(Some(b"a\xff"), &[]), Err(BAD_HOST));
    let headers = HeaderMap::new();
    for target in [&b""[..], b"?q", b"http://api.test/"] {
        let parsed = Target::parse("GET", Version::HTTP_2, target, Some(b"api.test"), &headers);
        assert_eq!(parsed, Err(BAD_TARGET), "{target:?}");
    }
}

#[test]
fn a_wildcard_takes_every_depth_below_its_domain_and_not_the_domain() {
    assert!(matches("*.example.com", "a.example.com"));
    assert!(matches("*.example.com", "a.b.example.com"));
    assert!(!matches("*.example.com", "example.com"));
    assert!(!matches("*.example.com", "badexample.com"));
    assert!(matches("api.example.com", "api.example.com"));
    assert!(!matches("api.example.com", "a.api.example.com"));
    assert_eq!(parents("a.b.c").collect::<Vec<_>>(), ["b.c", "c"]);
    assert_eq!(parents("[::ffff:1.2.3.4]").count(), 0);
}

proptest! {
    #[test]
    fn no_target_makes_the_parser_fail(target in prop::collection::vec(any::<u8>(), 0..60), host in "[ -~]{0,30}") {
        let headers = hosts(&[&host]);
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            if let Ok(parsed) = Target::parse("GET", version, &target, Some(b"a.test"), &headers) {
                prop_assert!(parsed.path.starts_with(b"/"));
                prop_assert_eq!(canonical(&parsed.host), Some(parsed.host.clone()));
            }
        }
    }

    #[test]
    fn the_canonical_host_is_its_own_canonical_form(
        text in "[a-zA-Z0-9.:_-]{0,20}|\\[[0-9a-f:.]{0,20}\\](:[0-9]{0,6})?",
    ) {
        if let Some(host) = canonical(&text) {
            prop_assert_eq!(canonical(&host), Some(host.clone()));
        }
    }
}
