//! Tests of `pattern`.

use super::*;

fn shown(pattern: &RoutePattern) -> String {
    let segment = |segment: &PatternSegment| match segment {
        PatternSegment::Literal(text) => format!("/{text}"),
        PatternSegment::Parameter(name) => format!("/<{name}>"),
        PatternSegment::Rest(name) => format!("/<*{name}>"),
    };
    let path = pattern.path.as_ref().map(|segments| segments.iter().map(segment).collect::<String>());
    format!("{} {}", pattern.method.as_deref().unwrap_or("-"), path.as_deref().unwrap_or("any"))
}

#[test]
fn routes_have_a_method_literals_and_parameters() {
    let vectors = [
        ("*", "- any", "*"),
        ("/", "- ", "/"),
        ("POST /api/export", "POST /api/export", "POST /api/export"),
        ("/api/users/:id/profile", "- /api/users/<id>/profile", "/api/users/:id/profile"),
        ("GET /api/users/{id}", "GET /api/users/<id>", "GET /api/users/{id}"),
        ("/files/*rest", "- /files/<*rest>", "/files/*rest"),
        ("/files/*", "- /files/<*rest>", "/files/*"),
        ("GET  /a", "GET /a", "GET /a"),
        ("/v1/things:batch", "- /v1/things:batch", "/v1/things:batch"),
        ("/%7Euser/%c3%a9", "- /~user/%C3%A9", "/%7Euser/%c3%a9"),
        ("/a/...", "- /a/...", "/a/..."),
        ("/b:c", "- /b:c", "/b:c"),
        ("/100%25", "- /100%25", "/100%25"),
    ];
    for (text, expected, name) in vectors {
        let pattern = route(text).expect(text);
        assert_eq!((shown(&pattern).as_str(), pattern.text.as_str()), (expected, name), "{text}");
    }
}

#[test]
fn a_route_nobody_could_reach_is_refused_with_the_spelling_that_works() {
    let vectors = [
        ("", "expected \"METHOD /path\"", ""),
        ("api/export", "expected \"METHOD /path\"", "\"/api/export\""),
        ("POST api", "expected \"METHOD /path\"", "\"POST /api\""),
        ("post /api", "\"post\" is not a method", "\"POST\""),
        ("G=T /api", "\"G=T\" is not a method", ""),
        ("GET /a b", "expected \"METHOD /path\"", "`%20`"),
        ("GET *", "takes every method", "\"GET /*rest\""),
        ("GET", "expected \"METHOD /path\"", "\"GET /*rest\""),
        ("https://a/b", "expected \"METHOD /path\"", "no scheme"),
        ("/api/", "equals no normalised path", "\"/api\""),
        ("//api", "equals no normalised path", "\"/api\""),
        ("/api/../x", "equals no normalised path", "\"/x\""),
        ("/api/%2e%2e/x", "equals no normalised path", "\"/x\""),
        ("/api/./x", "equals no normalised path", "\"/api/x\""),
        ("/api;v=1/x", "equals no normalised path", "\"/api/x\""),
        ("/..", "equals no normalised path", "\"/\""),
        ("/api?x=1", "query or a fragment", "path alone"),
        ("/a/*rest/b", "is not the last", "`:name`"),
        ("/a/*re-st", "no valid name", "`*rest`"),
        ("/a/:", "no valid name", "`:id`"),
        ("/a/{}", "no valid name", "`{id}`"),
        ("/a/{*rest}", "no valid name", "`*rest`"),
        ("/a/{id}.json", "neither a literal nor a parameter", "whole segment"),
        ("/a/*.js", "no valid name", "`*rest`"),
        ("/a/x*", "neither a literal nor a parameter", "whole segment"),
        ("/:id/x/{id}", "two parameters `id`", ""),
        ("/a%zz", "without two hex digits", "`%25`"),
        ("/a%2", "without two hex digits", "`%25`"),
        ("/a%5cb", "refused in every request", "`%5C`"),
        ("/a%252e", "refused in every request", "doubled"),
        ("/a%00", "refused in every request", "controls"),
        ("/café", "no request's path may have", "percent escapes"),
        ("/a\\b", "no request's path may have", "backslash"),
        ("*x", "is not a path", "slash"),
    ];
    for (text, message, hint) in vectors {
        let complaint = route(text).expect_err(text);
        assert!(complaint.message.contains(message), "{text}: {}", complaint.message);
        let given = complaint.hint.clone().unwrap_or_default();
        assert!(given.contains(hint) && hint.is_empty() == given.is_empty(), "{text}: hint {given:?}");
    }
    assert!(route(&format!("/{}", "a/".repeat(100))).is_err());
    assert!(route(&format!("/{}", "a".repeat(5000))).is_err());
}

#[test]
fn a_keys_pattern_may_end_in_any_rest() {
    let vectors = [
        ("*", None, "", true),
        ("GET *", Some("GET"), "", true),
        ("GET /api/*", Some("GET"), "/api/", true),
        ("/api*", None, "/api", true),
        ("/*", None, "/", true),
        ("/", None, "/", false),
        ("POST /api/export", Some("POST"), "/api/export", false),
        ("/users/{id}/x", None, "/users/:id/x", false),
        ("/users/:id/*", None, "/users/:id/", true),
        ("/%7eu*", None, "/~u", true),
    ];
    for (text, method, path, any_rest) in vectors {
        let expected = KeyPattern { method: method.map(str::to_owned), path: path.to_owned(), any_rest };
        assert_eq!(key(text), Ok(expected), "{text}");
    }
    for text in ["GET /a*b", "get /a", "/a/", "/a/../b", "", "a", "/a//*", "*x", "/:id*", "/a?b*", "/a;b*"] {
        assert!(key(text).is_err(), "{text}");
    }
}

#[test]
fn a_prefix_is_a_fixed_path() {
    assert_eq!(prefix("/api"), Ok("/api".to_owned()));
    assert_eq!(prefix("/api/v1"), Ok("/api/v1".to_owned()));
    for text in ["api", "/", "/api/", "/:id", "/*rest", ""] {
        assert!(prefix(text).is_err(), "{text}");
    }
}
