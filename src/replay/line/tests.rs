use super::*;

fn texts(line: &str, format: &Format, slots: &[Slot]) -> Vec<Option<String>> {
    let raw = read(line.as_bytes(), format).unwrap_or_else(|reason| panic!("{line}: {reason}"));
    slots.iter().map(|slot| raw.text(*slot).map(str::to_owned)).collect()
}

#[track_caller]
fn check(line: &str, format: &Format, expected: &[(Slot, &str)]) {
    let slots: Vec<Slot> = expected.iter().map(|(slot, _)| *slot).collect();
    let found = texts(line, format, &slots);
    for ((slot, text), found) in expected.iter().zip(found) {
        assert_eq!(found.as_deref().unwrap_or_default(), *text, "{slot:?} of {line}");
    }
}

#[test]
fn the_combined_format_is_read_with_all_its_quoting() {
    let line = r#"203.0.113.7 - - [01/Dec/2026:13:38:17 +0000] "GET /a?b=\x22\" HTTP/1.1" 200 12 "-" "x [y"#;
    let time = (Slot::Time, "[01/Dec/2026:13:38:17 +0000]");
    let expected = [
        (Slot::Ip, "203.0.113.7"),
        (Slot::Consumer, ""),
        time,
        (Slot::Request, "GET /a?b=\"\" HTTP/1.1"),
        (Slot::Status, "200"),
    ];
    check(line, &Format::known(), &expected);
    check("::1 - acme [x] \"-\" 408", &Format::known(), &[(Slot::Consumer, "acme"), (Slot::Request, "")]);
    check("::1 - acme [x] \"open", &Format::known(), &[(Slot::Request, "ope"), (Slot::Status, "")]);
    check("::1", &Format::known(), &[(Slot::Ip, "::1"), (Slot::Time, "")]);
}

#[test]
fn our_own_lines_are_read_as_json_and_as_text() {
    let json = r#"{"time":"t","client_ip":"::1","path":"/\u00e9\n","cost":1.0,"key_id":null,"x":[1,{"time":"no"}]}"#;
    check(json, &Format::known(), &[(Slot::Time, "t"), (Slot::Ip, "::1"), (Slot::Path, "/é\n"), (Slot::KeyId, "")]);
    let text = r#"time=t client_ip=::1 path="/a b\n\"" route="GET /x" status=200"#;
    let expected = [(Slot::Time, "t"), (Slot::Path, "/a b\n\""), (Slot::Route, "GET /x"), (Slot::Status, "200")];
    check(text, &Format::known(), &expected);
}

#[test]
fn a_given_map_reads_nested_members_numbers_and_headers() {
    let map = "ip=http.client,time=ts,path=url.path,status=code,header:x-tenant=tenant";
    let format = Format::Given(map.parse().unwrap());
    let line = r#"{"ts":1.5,"http":{"client":"::1","other":{}},"url.path":"/a","code":"404","tenant":7}"#;
    check(line, &format, &[(Slot::Ip, "::1"), (Slot::Path, "/a")]);
    let raw = read(line.as_bytes(), &format).unwrap();
    assert_eq!((raw.number(Slot::Time), raw.number(Slot::Status)), (Some(1.5), Some(404.0)));
    assert_eq!(raw.headers.as_slice(), [(0, "7".into())]);
}

#[test]
fn columns_may_be_separated_by_tabs_and_named_in_any_order() {
    let format = Format::Given("path=1,ip=3,time=2".parse().unwrap());
    check("/a\t12\t ::1", &format, &[(Slot::Path, "/a"), (Slot::Time, "12"), (Slot::Ip, "::1")]);
}

#[test]
fn lines_that_are_broken_say_so_and_never_panic() {
    for line in ["{", "{\"a\":1", "{\"a\":1}x", "{]", "time=t path=\"open", "time=t nonsense", "time=\"\\q\""] {
        assert!(read(line.as_bytes(), &Format::known()).is_err(), "{line}");
    }
    for line in ["", " ", "\"", "[", "\\", "\"\\", "a \"\\x", "\u{0}"] {
        assert!(read(line.as_bytes(), &Format::known()).is_ok(), "{line}");
    }
}
