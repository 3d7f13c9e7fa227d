//! Routes: precedence by table, conflicts, and a naive twin at random.

use super::*;
use proptest::prelude::*;

/// A pattern from its text, as the configuration reads it.
fn pattern(text: &str) -> RoutePattern {
    let (method, path) = match text.split_once(' ') {
        Some((method, path)) => (Some(method.to_owned()), path),
        None => (None, text),
    };
    let segment = |part: &str| match part.split_at_checked(1) {
        Some((":", name)) => PatternSegment::Parameter(name.to_owned()),
        Some(("*", name)) => PatternSegment::Rest(name.to_owned()),
        _ => PatternSegment::Literal(part.to_owned()),
    };
    let path = path.strip_prefix('/').map(|path| match path {
        "" => Vec::new(),
        _ => path.split('/').map(segment).collect(),
    });
    RoutePattern { text: text.to_owned(), method, path }
}

/// Routes of one pattern each: hosts (separated by blanks) and pattern.
fn build(routes: &[(&str, &str)]) -> Result<Router, Vec<Conflict>> {
    let patterns: Vec<RoutePattern> = routes.iter().map(|(_, text)| pattern(text)).collect();
    let specs: Vec<RouteSpec<'_>> = routes
        .iter()
        .zip(&patterns)
        .map(|((hosts, _), pattern)| RouteSpec { hosts: hosts.split_whitespace().collect(), patterns: vec![pattern] })
        .collect();
    Router::build(&specs)
}

fn any_host(patterns: &[&str]) -> Router {
    build(&patterns.iter().map(|text| ("", *text)).collect::<Vec<_>>()).unwrap()
}

/// The pattern that takes a request, with its parameters: `/a/:id id=7`.
fn taken(patterns: &[&str], method: &str, path: &str) -> String {
    let router = any_host(patterns);
    match router.find("h", method, path) {
        None => "none".to_owned(),
        Some(found) => {
            let mut out = patterns[found.route].to_owned();
            for (name, value) in found.parameters {
                out.push_str(&format!(" {name}={value}"));
            }
            out
        }
    }
}

#[test]
fn literals_beat_parameters_beat_rests_segment_by_segment() {
    let patterns = ["/users/me", "/users/:id", "/users/*rest", "/:kind/me/x", "/users/:id/profile", "*"];
    let vectors = [
        ("/users/me", "/users/me"),
        ("/users/7", "/users/:id id=7"),
        ("/users/7/profile", "/users/:id/profile id=7"),
        ("/users/me/profile", "/users/:id/profile id=me"),
        ("/users/7/other", "/users/*rest rest=7/other"),
        ("/users", "/users/*rest rest="),
        ("/users/me/x", "/users/*rest rest=me/x"),
        ("/things/me/x", "/:kind/me/x kind=things"),
        ("/things/me", "*"),
        ("/", "*"),
    ];
    for (path, expected) in vectors {
        assert_eq!(taken(&patterns, "GET", path), expected, "{path}");
    }
}

#[test]
fn a_rest_takes_an_empty_remainder_unless_a_literal_does() {
    assert_eq!(taken(&["/files/*rest"], "GET", "/files"), "/files/*rest rest=");
    assert_eq!(taken(&["/files/*rest", "/files"], "GET", "/files"), "/files");
    assert_eq!(taken(&["/files/*rest", "/:x"], "GET", "/files"), "/files/*rest rest=");
    assert_eq!(taken(&["/files/*rest", "POST /files"], "GET", "/files"), "/files/*rest rest=");
    assert_eq!(taken(&["/*rest"], "GET", "/"), "/*rest rest=");
    assert_eq!(taken(&["/*rest"], "GET", "/a//b"), "/*rest rest=a//b");
    assert_eq!(taken(&["/files/*rest"], "GET", "/filesystem"), "none");
}

#[test]
fn an_empty_segment_is_no_parameter() {
    assert_eq!(taken(&["/a/:id/b"], "GET", "/a//b"), "none");
    assert_eq!(taken(&["/:id"], "GET", "/"), "none");
    assert_eq!(taken(&["/a/:id"], "GET", "/a"), "none");
}

#[test]
fn get_takes_head_unless_head_has_its_own() {
    assert_eq!(taken(&["GET /a"], "HEAD", "/a"), "GET /a");
    assert_eq!(taken(&["GET /a", "HEAD /a"], "HEAD", "/a"), "HEAD /a");
    assert_eq!(taken(&["GET /a", "/a"], "HEAD", "/a"), "GET /a");
    assert_eq!(taken(&["GET /a", "HEAD /:x"], "HEAD", "/a"), "GET /a");
    assert_eq!(taken(&["POST /a"], "HEAD", "/a"), "none");
    assert_eq!(taken(&["HEAD /a"], "GET", "/a"), "none");
}

#[test]
fn the_path_counts_before_the_method_and_methods_keep_their_case() {
    let patterns = ["POST /a/b", "/a/:x", "GET /a/:x", "GET *"];
    assert_eq!(taken(&patterns, "POST", "/a/b"), "POST /a/b");
    assert_eq!(taken(&patterns, "GET", "/a/b"), "GET /a/:x x=b");
    assert_eq!(taken(&patterns, "PUT", "/a/b"), "/a/:x x=b");
    assert_eq!(taken(&patterns, "post", "/a/b"), "/a/:x x=b");
    assert_eq!(taken(&patterns, "GET", "/"), "GET *");
    assert_eq!(taken(&patterns, "HEAD", "/"), "GET *");
    assert_eq!(taken(&patterns, "PUT", "/"), "none");
}

#[test]
fn parameters_are_named_by_the_pattern_that_takes_the_request() {
    let patterns = ["GET /a/:id/:part", "POST /a/:name/:piece"];
    assert_eq!(taken(&patterns, "GET", "/a/1/2"), "GET /a/:id/:part id=1 part=2");
    assert_eq!(taken(&patterns, "POST", "/a/1/2"), "POST /a/:name/:piece name=1 piece=2");
    assert_eq!(taken(&["/:a/:b/:c/x", "/:p/*rest"], "GET", "/1/2/3/4"), "/:p/*rest p=1 rest=2/3/4");
}

#[test]
fn literals_may_hold_any_character() {
    assert_eq!(taken(&["/a{b}c", "/:x"], "GET", "/a{b}c"), "/a{b}c");
    assert_eq!(taken(&["/café/%40me"], "GET", "/caf%C3%A9/@me"), "/café/%40me");
    assert_eq!(taken(&["/{{x}}"], "GET", "/{{x}}"), "/{{x}}");
}

#[test]
fn a_trailing_slash_in_a_pattern_is_not_seen() {
    assert_eq!(taken(&["/a/"], "GET", "/a"), "/a/");
    assert_eq!(taken(&["/"], "GET", "/"), "/");
    assert!(build(&[("", "/a"), ("", "/a/")]).is_err());
}

#[test]
fn only_a_default_takes_the_asterisk() {
    assert_eq!(taken(&["/*rest"], "OPTIONS", "*"), "none");
    assert_eq!(taken(&["/", "*"], "OPTIONS", "*"), "*");
}

#[test]
fn a_named_host_beats_a_wildcard_beats_any() {
    let routes = [
        ("", "/x"),
        ("api.test", "/:any"),
        ("*.test", "/x"),
        ("*.deep.test", "/x"),
        ("one.deep.test", "*"),
        ("a.test b.test", "/pair"),
        ("", "*"),
    ];
    let router = build(&routes).unwrap();
    let vectors = [
        ("other.example", "/x", 0),
        ("api.test", "/x", 1),
        ("api.test", "/x/y", 6),
        ("web.test", "/x", 2),
        ("test", "/x", 0),
        ("a.deep.test", "/x", 3),
        ("a.b.deep.test", "/x", 3),
        ("deep.test", "/x", 2),
        ("one.deep.test", "/x", 4),
        ("one.deep.test", "/y", 4),
        ("a.deep.test", "/y", 6),
        ("b.test", "/pair", 5),
        ("c.test", "/pair", 6),
        ("", "/x", 0),
    ];
    for (host, path, expected) in vectors {
        assert_eq!(router.find(host, "GET", path).map(|found| found.route), Some(expected), "{host} {path}");
    }
}

#[test]
fn a_host_leaves_to_wider_ones_what_it_does_not_take() {
    let router = build(&[("api.test", "POST /x"), ("*.test", "GET /x"), ("", "/x")]).unwrap();
    let route = |host, method| router.find(host, method, "/x").map(|found| found.route);
    assert_eq!(route("api.test", "POST"), Some(0));
    assert_eq!(route("api.test", "GET"), Some(1));
    assert_eq!(route("api.test", "PUT"), Some(2));
}

#[test]
fn patterns_of_one_shape_are_in_conflict() {
    let conflict = |route, with| Conflict { route, pattern: 0, with, with_pattern: 0 };
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [(usize, usize)]);
    let vectors: &[Case<'_>] = &[
        (&[("", "/a/:id"), ("", "/a/:name")], &[(1, 0)]),
        (&[("", "GET /a"), ("", "GET /a"), ("", "GET /a")], &[(1, 0), (2, 0)]),
        (&[("", "/f/*x"), ("", "/f/*y")], &[(1, 0)]),
        (&[("", "*"), ("", "*")], &[(1, 0)]),
        (&[("a.test", "*"), ("b.test a.test", "*")], &[(1, 0)]),
        (&[("*.test", "/a"), ("*.test", "/a")], &[(1, 0)]),
        (&[("", "/%61"), ("", "/a")], &[(1, 0)]),
        (&[("", "*"), ("", "/*rest")], &[(0, 1)]),
        (&[("", "GET *"), ("", "/*rest")], &[(0, 1)]),
    ];
    for (routes, expected) in vectors {
        let expected: Vec<Conflict> = expected.iter().map(|(route, with)| conflict(*route, *with)).collect();
        assert_eq!(build(routes).err(), Some(expected), "{routes:?}");
    }
}

#[test]
fn patterns_that_can_be_told_apart_are_not() {
    let vectors: &[&[(&str, &str)]] = &[
        &[("", "GET /a"), ("", "/a"), ("", "HEAD /a")],
        &[("a.test", "/a"), ("b.test", "/a"), ("*.test", "/a"), ("", "/a")],
        &[("", "/a/:x"), ("", "/a/*x"), ("", "/a"), ("", "/:x"), ("", "/*x")],
        &[("", "*"), ("", "GET /*rest"), ("", "POST *")],
        &[("a.test a.test", "/a")],
        &[("a.test", "*"), ("", "/*rest")],
    ];
    for routes in vectors {
        assert_eq!(build(routes).err(), None, "{routes:?}");
    }
}

#[test]
fn patterns_of_one_route_share_it_and_may_clash_with_each_other() {
    let (first, second) = (pattern("GET /a"), pattern("/b"));
    let spec = RouteSpec { hosts: vec![], patterns: vec![&first, &second] };
    let router = Router::build(&[spec]).unwrap();
    assert_eq!(router.find("h", "GET", "/a").unwrap().route, 0);
    assert_eq!(router.find("h", "PUT", "/b").unwrap().route, 0);
    let spec = RouteSpec { hosts: vec![], patterns: vec![&first, &second, &first] };
    let conflict = Conflict { route: 0, pattern: 2, with: 0, with_pattern: 0 };
    assert_eq!(Router::build(&[spec]).err(), Some(vec![conflict]));
}

/// How a pattern fits a path: the rank of each of its segments, or none. The twin of the tree, by the definition.
fn ranks(pattern: &RoutePattern, path: &str) -> Option<Vec<u8>> {
    let mut ranks = Vec::new();
    let mut parts: Vec<&str> = path.split('/').skip(1).collect();
    if parts == [""] {
        parts.clear();
    }
    let segments = pattern.path.as_ref()?;
    for (index, segment) in segments.iter().enumerate() {
        match (segment, parts.get(index)) {
            (PatternSegment::Rest(_), _) => {
                ranks.push(2);
                return Some(ranks);
            }
            (PatternSegment::Literal(literal), Some(part)) if literal == part => ranks.push(0),
            (PatternSegment::Parameter(_), Some(part)) if !part.is_empty() => ranks.push(1),
            _ => return None,
        }
    }
    (parts.len() == segments.len()).then_some(ranks)
}

fn method_rank(pattern: &RoutePattern, method: &str) -> Option<u8> {
    match pattern.method.as_deref() {
        Some(own) if own == method => Some(0),
        Some("GET") if method == "HEAD" => Some(1),
        None => Some(2),
        Some(_) => None,
    }
}

proptest! {
    #[test]
    fn the_tree_agrees_with_its_definition(
        texts in prop::collection::btree_set("((GET|HEAD|PUT) )?(/(a|b|:x)){0,3}(/[*]r)?", 1..12),
        paths in prop::collection::vec("(/[abc]){0,4}", 1..8),
    ) {
        let texts: Vec<String> =
            texts.into_iter().map(|text| if text.contains('/') { text } else { format!("{text}/") }).collect();
        let patterns: Vec<RoutePattern> = texts.iter().map(|text| pattern(text)).collect();
        let specs: Vec<RouteSpec<'_>> =
            patterns.iter().map(|pattern| RouteSpec { hosts: vec![], patterns: vec![pattern] }).collect();
        let router = Router::build(&specs).unwrap();
        for path in &paths {
            let path = if path.is_empty() { "/" } else { path };
            for method in ["GET", "HEAD", "PUT", "POST"] {
                let best = patterns
                    .iter()
                    .enumerate()
                    .filter_map(|(index, pattern)| {
                        Some((ranks(pattern, path)?, method_rank(pattern, method)?, index))
                    })
                    .min()
                    .map(|(.., index)| index);
                prop_assert_eq!(router.find("h", method, path).map(|found| found.route), best, "{} {}", method, path);
            }
        }
    }

    #[test]
    fn no_path_makes_it_fail(path in "[ -~]{0,40}", host in "[ -~]{0,20}", method in "[ -~]{0,8}") {
        let router = build(&[("*.test", "/a/:b/*c"), ("a.test", "GET /:a"), ("", "*")]).unwrap();
        prop_assert!(router.find(&host, &method, &path).is_some());
    }
}
