//! Whatever a file holds, reading it ends with an answer.

use super::*;
use proptest::prelude::*;

/// Reads a text as the main file and as the keys file, and shows every problem.
fn survives(text: &str) {
    for (main, keys) in [(text, KEYS), (FULL, text)] {
        let loaded = load_text("test.toml", main, Some(keys), &|name| (name.len() % 2 == 0).then(|| name.to_owned()));
        for problem in &loaded.problems {
            assert!(!loaded.sources.render(problem).is_empty());
            let record = loaded.sources.record(problem);
            assert!(record.line != Some(0) && record.column != Some(0));
        }
    }
}

/// A cut of a valid file with something else in its place.
fn mutated() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[\\[\\]{}=\",.$ \n\t#'0-9a-z-]{0,8}",
        "\\PC{0,6}",
        prop_oneof![
            Just("\"\"\""),
            Just("[[routes]]\n"),
            Just("[tiers"),
            Just("= {"),
            Just("inf"),
            Just("${"),
            Just("\u{0}")
        ]
        .prop_map(str::to_owned),
    ];
    (any::<bool>(), any::<prop::sample::Index>(), 0_usize..40, pieces).prop_map(|(is_keys, at, length, piece)| {
        let text: Vec<char> = if is_keys { KEYS } else { FULL }.chars().collect();
        let start = at.index(text.len());
        let end = (start + length).min(text.len());
        text[..start].iter().copied().chain(piece.chars()).chain(text[end..].iter().copied()).collect()
    })
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC*") {
        survives(&text);
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_change_of_a_valid_file_is_answered(text in mutated()) {
        survives(&text);
    }

    #[test]
    fn any_value_is_answered(value in "\\PC{0,20}") {
        let _ = (units::span(&value), units::size(&value), units::rate(&value), units::cost(&value));
        let _ = (units::network(&value), host::host(&value), host::address(&value), scope::scope(&value));
        for pattern in [value.clone(), format!("/{value}"), format!("GET /{value}*")] {
            let _ = (pattern::route(&pattern), pattern::key(&pattern), pattern::prefix(&pattern));
        }
        let escaped = value.escape_default().to_string().replace('"', "\\\"");
        survives(&format!("[[limits]]\nper = \"{escaped}\"\nrate = \"{escaped}\"\n[log]\nlevel = '{value}'\n"));
    }

    #[test]
    fn a_route_pattern_that_was_accepted_is_a_normal_path(text in "/[a-z%0-9:.;/{}*~-]{0,16}") {
        if let Ok(pattern) = pattern::route(&text) {
            let segments = pattern.path.unwrap();
            let is_normal = |segment: &PatternSegment| match segment {
                PatternSegment::Literal(text) => !matches!(text.as_str(), "" | "." | "..") && !text.contains([';', '/']),
                PatternSegment::Parameter(name) | PatternSegment::Rest(name) => !name.is_empty(),
            };
            prop_assert!(segments.iter().all(is_normal), "{:?}", segments);
        }
    }
}
