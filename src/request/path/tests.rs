//! Paths: the published vectors, the fault cases, and respellings at random.

use super::*;
use proptest::prelude::*;

const DEFAULT: Paths = Paths { encoded_slash: EncodedSlash::Reject, merge_slashes: true };
const KEEP: Paths = Paths { encoded_slash: EncodedSlash::Keep, merge_slashes: true };
const APART: Paths = Paths { encoded_slash: EncodedSlash::Reject, merge_slashes: false };

fn forward(raw: &str, rules: Paths) -> Result<String, &'static str> {
    normalise(raw.as_bytes(), rules).map(|path| path.forward().to_owned())
}

fn matching(raw: &str) -> String {
    normalise(raw.as_bytes(), DEFAULT).unwrap_or_else(|error| panic!("{raw}: {error}")).matching().to_owned()
}

#[test]
fn paths_are_forwarded_in_their_normal_form() {
    let vectors = [
        ("/", "/"),
        ("/a/./b/../c", "/a/c"),
        ("/a/%2e%2E/b", "/b"),
        ("/%7euser", "/~user"),
        ("/..", "/"),
        ("/../../a", "/a"),
        ("/.", "/"),
        ("/a/.", "/a/"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("//a///b", "/a/b"),
        ("//", "/"),
        ("/a//..//b", "/b"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/A", "/A"),
        ("/a/", "/a/"),
        ("/a//", "/a/"),
        ("/%c3%a9", "/%C3%A9"),
        ("/a%20b%3f%23", "/a%20b%3F%23"),
        ("/a%25zz", "/a%25zz"),
        ("/a%25", "/a%25"),
        ("/a{b}c|\"<>^`", "/a{b}c|\"<>^`"),
        ("/.well-known/x", "/.well-known/x"),
        ("/...", "/..."),
        ("/a/..b/.c", "/a/..b/.c"),
        ("*", "*"),
    ];
    for (raw, expected) in vectors {
        assert_eq!(forward(raw, DEFAULT).as_deref(), Ok(expected), "{raw}");
    }
}

#[test]
fn what_backends_read_differently_is_refused() {
    let vectors = [
        ("/a%2fb", ENCODED_SLASH),
        ("/a%252fb", DOUBLE_ESCAPE),
        ("/%2573end", DOUBLE_ESCAPE),
        ("/%25%37%33end", DOUBLE_ESCAPE),
        ("/%257%33end", DOUBLE_ESCAPE),
        ("/a\\b", BACKSLASH),
        ("/a%5cb", BACKSLASH),
        ("/a%5Cb", BACKSLASH),
        ("/%zz", BAD_ESCAPE),
        ("/%", BAD_ESCAPE),
        ("/%4", BAD_ESCAPE),
        ("/%%34%31", BAD_ESCAPE),
        ("/%00", ENCODED_CONTROL),
        ("/%0d%0aSet-Cookie:%20a=b", ENCODED_CONTROL),
        ("/%7f", ENCODED_CONTROL),
        ("/\u{0}", BAD_CHARACTER),
        ("/a\tb", BAD_CHARACTER),
        ("/a b", BAD_CHARACTER),
        ("/é", BAD_CHARACTER),
        ("/\u{7f}", BAD_CHARACTER),
        ("/a/..;x/b", DISGUISED_DOTS),
        ("/a/.;/b", DISGUISED_DOTS),
        ("/a/%2e%2e;/b", DISGUISED_DOTS),
        ("/a/..%3bx/b", DISGUISED_DOTS),
        ("", NOT_A_PATH),
        ("a/b", NOT_A_PATH),
        ("**", NOT_A_PATH),
        ("/a?b", NOT_A_PATH),
        ("/a#b", NOT_A_PATH),
    ];
    for (raw, expected) in vectors {
        assert_eq!(forward(raw, DEFAULT), Err(expected), "{raw:?}");
    }
    assert_eq!(normalise(b"/\xff", DEFAULT), Err(BAD_CHARACTER));
}

#[test]
fn a_kept_encoded_slash_is_never_a_separator() {
    assert_eq!(forward("/a%2fb", KEEP).as_deref(), Ok("/a%2Fb"));
    assert_eq!(normalise(b"/a%2fb/..", KEEP).unwrap().forward(), "/");
    assert_eq!(normalise(b"/a%2Fb/", KEEP).unwrap().matching(), "/a%2Fb");
    assert_eq!(forward("/a%252fb", KEEP), Err(DOUBLE_ESCAPE));
    for raw in ["/a/..%2fb", "/a%2f..", "/x/a%2f.%2fb", "/%2e%2e%2f", "/a%2f..;x", "/a;%2f.."] {
        assert_eq!(forward(raw, KEEP), Err(DISGUISED_DOTS), "{raw}");
    }
}

#[test]
fn slashes_stay_apart_where_configured() {
    let vectors =
        [("//a///b", "//a///b", "//a///b"), ("/a//", "/a//", "/a"), ("/a//../b", "/a/b", "/a/b"), ("//", "//", "/")];
    for (raw, forwarded, matched) in vectors {
        let path = normalise(raw.as_bytes(), APART).unwrap();
        assert_eq!((path.forward(), path.matching()), (forwarded, matched), "{raw}");
    }
    assert_eq!(normalise(b"/;x/admin", APART).unwrap().matching(), "//admin");
}

#[test]
fn matching_sees_no_trailing_slash_and_no_parameters() {
    let vectors = [
        ("/", "/"),
        ("/a/", "/a"),
        ("/a;v=1/b", "/a/b"),
        ("/admin;x", "/admin"),
        ("/admin;x/", "/admin"),
        ("/admin;/", "/admin"),
        ("/;x/admin", "/admin"),
        ("/admin/;x", "/admin"),
        ("/;x", "/"),
        ("/;", "/"),
        ("/a;b=%2e%2e;c/d", "/a/d"),
        ("/A", "/A"),
        ("*", "*"),
    ];
    for (raw, expected) in vectors {
        assert_eq!(matching(raw), expected, "{raw}");
    }
}

#[test]
fn b02_spellings_of_the_login_path_share_one_matching_form() {
    for raw in
        ["/api/login", "/api//login", "//api/login", "/api/./login", "/api/x/../login", "/api/login/", "/api/login;s=1"]
    {
        assert_eq!(matching(raw), "/api/login", "{raw}");
    }
}

#[test]
fn b43_encoded_letters_share_the_matching_form_and_nothing_is_decoded_twice() {
    for raw in ["/api/%73end", "/%61pi/send", "/api/se%6Ed", "/api/%2e/send", "/api/x/%2e%2e/send"] {
        assert_eq!(matching(raw), "/api/send", "{raw}");
        assert_eq!(forward(raw, DEFAULT).as_deref(), Ok("/api/send"), "{raw}");
    }
    assert_eq!(matching("/api/send%3f"), "/api/send%3F");
    assert_eq!(forward("/api/%2573end", DEFAULT), Err(DOUBLE_ESCAPE));
}

#[test]
fn visible_characters_match_however_they_are_escaped() {
    for (raw, encoded) in
        [("/@me", "/%40me"), ("/a{b}c", "/a%7Bb%7dc"), ("/a:b,c=d", "/a%3ab%2Cc%3dd"), ("/a|b", "/a%7Cb")]
    {
        assert_eq!(matching(raw), matching(encoded), "{raw}");
        assert_ne!(forward(raw, DEFAULT), forward(encoded, DEFAULT), "{raw}: forwarded as sent");
    }
    assert_ne!(matching("/a%3Bb"), matching("/a"));
    assert_ne!(matching("/a%3Fb"), matching("/a"));
}

#[test]
fn configured_literals_are_put_into_the_form_of_requests() {
    let vectors = [
        ("users", "users"),
        ("café", "caf%C3%A9"),
        ("caf%c3%a9", "caf%C3%A9"),
        ("%40me", "@me"),
        ("a b", "a%20b"),
        ("100%", "100%25"),
        ("a;b", "a"),
        ("/api/%75sers/", "/api/users/"),
        ("/a;x/b", "/a/b"),
        ("", ""),
    ];
    for (text, expected) in vectors {
        assert_eq!(canonical_literal(text), expected, "{text}");
    }
}

#[test]
fn a_clean_path_is_borrowed() {
    for raw in ["/", "/api/users/17/profile", "/api/users/", "/a.b/c-d_e~f@g", "/a;v=1"] {
        let path = normalise(raw.as_bytes(), DEFAULT).unwrap();
        assert!(matches!(path.forward, Cow::Borrowed(_)) && !path.is_rewritten(raw.as_bytes()), "{raw}");
    }
    assert!(normalise(b"/a//b", DEFAULT).unwrap().into_owned().is_rewritten(b"/a//b"));
}

fn any_rules() -> impl Strategy<Value = Paths> {
    (any::<bool>(), any::<bool>()).prop_map(|(keep, merge_slashes)| Paths {
        encoded_slash: if keep { EncodedSlash::Keep } else { EncodedSlash::Reject },
        merge_slashes,
    })
}

/// A path and another spelling of it: a seed picks what is done to each character and between segments.
fn respelled() -> impl Strategy<Value = (String, String)> {
    let segment = "[a-zA-Z0-9_~@:=-][a-zA-Z0-9._~-]{0,6}";
    (prop::collection::vec((segment, 0_u8..7), 1..6), any::<u64>(), any::<bool>()).prop_map(
        |(segments, seed, slash)| {
            let mut plain = String::new();
            let mut other = String::new();
            for (segment, trick) in &segments {
                plain.push('/');
                plain.push_str(segment);
                other.push_str(["/", "//", "/./", "/x/../", "/%2e/", "/x/%2E%2e/", "/;p/"][usize::from(*trick)]);
                for (index, byte) in segment.bytes().enumerate() {
                    match seed.rotate_right(u32::try_from(index).unwrap() * 2) & 3 {
                        0 => other.push_str(&format!("%{byte:02x}")),
                        1 => other.push_str(&format!("%{byte:02X}")),
                        _ => other.push(char::from(byte)),
                    }
                }
                if seed & 8 == 8 {
                    other.push_str(";v=1");
                }
            }
            if slash {
                other.push('/');
            }
            (plain, other)
        },
    )
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail_and_the_result_is_stable(
        tail in prop::collection::vec(any::<u8>(), 0..40),
        rules in any_rules(),
    ) {
        let mut raw = vec![b'/'];
        raw.extend(tail);
        if let Ok(path) = normalise(&raw, rules) {
            let again = normalise(path.forward().as_bytes(), rules).unwrap();
            prop_assert_eq!(again.forward(), path.forward());
            prop_assert_eq!(again.matching(), path.matching());
        }
    }

    #[test]
    fn odd_but_plausible_paths_are_stable(
        raw in "/([a-c./;%]|%2[eEfF5]|%25|%4[01]|%3[bB]|%C3|\\.\\./|//){0,14}",
        rules in any_rules(),
    ) {
        if let Ok(path) = normalise(raw.as_bytes(), rules) {
            let again = normalise(path.forward().as_bytes(), rules).unwrap();
            prop_assert_eq!((again.forward(), again.matching()), (path.forward(), path.matching()));
            prop_assert!(!again.is_rewritten(path.forward().as_bytes()));
            prop_assert!(path.matching() == "/" || !path.matching().ends_with('/'));
            prop_assert!(path.forward().split('/').all(|segment| segment != "." && segment != ".."));
            prop_assert!(path.matching().split('/').all(|segment| segment != "." && segment != ".."));
        }
    }

    #[test]
    fn every_respelling_of_a_path_shares_its_matching_form((plain, other) in respelled()) {
        prop_assert_eq!(matching(&other), plain);
    }

    #[test]
    fn a_matching_form_is_its_own_literal(raw in "/[ -~é]{0,20}") {
        if let Ok(path) = normalise(raw.as_bytes(), DEFAULT) {
            prop_assert_eq!(canonical_literal(path.matching()), path.matching());
        }
    }
}
