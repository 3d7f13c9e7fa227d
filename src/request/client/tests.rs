//! Addresses: the published vectors, the fault cases and random input.

use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn rules(header: ClientIpHeader) -> AddressRules {
    AddressRules { trusted: nets(&["10.0.0.0/8", "127.0.0.1/32"]), header, ipv4_prefix: 32, ipv6_prefix: 64 }
}

fn map(name: &str, lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(line).unwrap());
    }
    headers
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn by_xff(peer: &str, lines: &[&str]) -> Client {
    rules(ClientIpHeader::XForwardedFor).client(ip(peer), &map("x-forwarded-for", lines))
}

fn by_forwarded(lines: &[&str]) -> IpAddr {
    rules(ClientIpHeader::Forwarded).client(ip("10.0.0.1"), &map("forwarded", lines)).address
}

fn group_of(text: &str) -> IpAddr {
    by_xff("10.0.0.1", &[text]).group
}

#[test]
fn forwarded_for_lists_are_read_from_the_right() {
    let vectors: &[(&[&str], &str)] = &[
        (&["1.1.1.1, 2.2.2.2"], "2.2.2.2"),
        (&["9.9.9.9, 10.0.0.5"], "9.9.9.9"),
        (&["evil", "3.3.3.3"], "3.3.3.3"),
        (&["4.4.4.4, junk, 10.0.0.2"], "10.0.0.2"),
        (&["[2001:db8::1]:443"], "2001:db8::1"),
        (&["5.5.5.5:1234"], "5.5.5.5"),
        (&[""], "10.0.0.1"),
        (&[], "10.0.0.1"),
        (&["10.0.0.9, 10.0.0.2, 10.0.0.3"], "10.0.0.9"),
        (&["1.1.1.1,", "10.0.0.2"], "10.0.0.2"),
        (&["1.1.1.1, , 10.0.0.2"], "10.0.0.2"),
        (&["1.1.1.1, unknown"], "10.0.0.1"),
        (&["1.1.1.1, _hidden, 10.0.0.7"], "10.0.0.7"),
        (&["01.1.1.1"], "10.0.0.1"),
        (&["1.1.1.010"], "10.0.0.1"),
        (&["1.1.1.1:"], "10.0.0.1"),
        (&["1.1.1.1:99999"], "10.0.0.1"),
        (&["[1.1.1.1]:80"], "10.0.0.1"),
        (&["[2001:db8::1"], "10.0.0.1"),
        (&["\t 1.1.1.1 \t"], "1.1.1.1"),
        (&["fe80::1%eth0"], "fe80::1"),
        (&["[fe80::1%25eth0]:80"], "fe80::1"),
    ];
    for (lines, expected) in vectors {
        assert_eq!(by_xff("10.0.0.1", lines).address, ip(expected), "{lines:?}");
    }
}

#[test]
fn b09_a_peer_that_is_not_trusted_cannot_name_a_client() {
    let client = by_xff("6.6.6.6", &["1.1.1.1"]);
    assert_eq!(client, Client { address: ip("6.6.6.6"), group: ip("6.6.6.6"), trusted_peer: false });
    for header in [ClientIpHeader::Forwarded, ClientIpHeader::Single("cf-connecting-ip".to_owned())] {
        let mut headers = map("forwarded", &["for=1.1.1.1"]);
        for name in ["cf-connecting-ip", "x-real-ip", "true-client-ip", "x-forwarded-for"] {
            headers.insert(name, HeaderValue::from_static("1.1.1.1"));
        }
        let mut open = rules(header);
        open.trusted.clear();
        assert_eq!(open.client(ip("127.0.0.1"), &headers).address, ip("127.0.0.1"));
    }
}

#[test]
fn only_the_configured_header_is_read() {
    let mut headers = map("x-forwarded-for", &["1.1.1.1"]);
    headers.insert("forwarded", HeaderValue::from_static("for=2.2.2.2"));
    headers.insert("x-real-ip", HeaderValue::from_static("3.3.3.3"));
    let address = |header| rules(header).client(ip("10.0.0.1"), &headers).address;
    assert_eq!(address(ClientIpHeader::XForwardedFor), ip("1.1.1.1"));
    assert_eq!(address(ClientIpHeader::Forwarded), ip("2.2.2.2"));
    assert_eq!(address(ClientIpHeader::Single("x-real-ip".to_owned())), ip("3.3.3.3"));
    assert_eq!(address(ClientIpHeader::Single("cf-connecting-ip".to_owned())), ip("10.0.0.1"));
}

#[test]
fn b01_addresses_of_one_prefix_are_one_caller() {
    let groups: std::collections::HashSet<IpAddr> =
        (1..=50).map(|host| group_of(&format!("2001:db8:1:1::{host:x}"))).collect();
    assert_eq!(groups, [ip("2001:db8:1:1::")].into());
    assert_eq!(group_of("2001:db8:1:2::1"), ip("2001:db8:1:2::"));

    let wide = AddressRules { ipv6_prefix: 56, ..rules(ClientIpHeader::XForwardedFor) };
    assert_eq!(wide.group(ip("2001:db8:1:00aa::1")), wide.group(ip("2001:db8:1:00bb::1")));
    assert_ne!(wide.group(ip("2001:db8:1:00aa::1")), wide.group(ip("2001:db8:1:01aa::1")));
}

#[test]
fn prefixes_of_nothing_and_of_everything_are_sound() {
    let rules =
        |ipv4_prefix, ipv6_prefix| AddressRules { ipv4_prefix, ipv6_prefix, ..rules(ClientIpHeader::XForwardedFor) };
    assert_eq!(rules(0, 0).group(ip("1.2.3.4")), ip("0.0.0.0"));
    assert_eq!(rules(0, 0).group(ip("2001:db8::1")), ip("::"));
    assert_eq!(rules(24, 128).group(ip("1.2.3.4")), ip("1.2.3.0"));
    assert_eq!(rules(24, 128).group(ip("2001:db8::1")), ip("2001:db8::1"));
    assert_eq!(rules(255, 255).group(ip("1.2.3.4")), ip("1.2.3.4"));
}

#[test]
fn b62_an_entry_that_cannot_be_read_ends_the_walk_at_the_last_trusted_one() {
    for n in 1..=10 {
        assert_eq!(by_xff("127.0.0.1", &[&format!("1.1.1.{n}, not-an-ip, 10.0.0.2")]).group, ip("10.0.0.2"));
        assert_eq!(by_xff("127.0.0.1", &[&format!("1.1.1.{n}, not-an-ip")]).group, ip("127.0.0.1"));
    }
}

#[test]
fn b63_a_port_is_no_part_of_an_address() {
    for port in 40001..40004 {
        assert_eq!(group_of(&format!("203.0.113.9:{port}")), group_of("203.0.113.9"));
    }
    assert_ne!(group_of("203.0.113.10:1"), group_of("203.0.113.9"));
    for spelling in ["[2001:db8::1]:443", "[2001:db8::1]", "2001:db8::1"] {
        assert_eq!(group_of(spelling), ip("2001:db8::"), "{spelling}");
    }
}

#[test]
fn b64_mapped_addresses_are_ipv4_in_every_notation_and_others_are_not() {
    for spelling in ["::ffff:1.2.3.4", "::ffff:102:304", "0:0:0:0:0:ffff:0102:0304", "[::FFFF:1.2.3.4]:9", "1.2.3.4"] {
        assert_eq!(group_of(spelling), ip("1.2.3.4"), "{spelling}");
    }
    assert_eq!(group_of("2001:db8:1234:5678::1.2.3.4"), ip("2001:db8:1234:5678::"));
    assert_eq!(group_of("::9.9.9.9"), ip("::"));
    assert_eq!(by_xff("::ffff:10.0.0.1", &["::ffff:10.0.0.2, 8.8.8.8"]).address, ip("8.8.8.8"));
    assert_eq!(by_xff("::ffff:10.0.0.1", &["8.8.8.8, ::ffff:a00:2"]).address, ip("8.8.8.8"));
}

#[test]
fn b64_networks_match_both_notations() {
    for net in ["10.0.0.0/8", "::ffff:10.0.0.0/104", "::ffff:a00:0/104"] {
        let nets = nets(&[net]);
        assert!(contains(&nets, ip("10.1.2.3")), "{net}");
        assert!(contains(&nets, ip("::ffff:10.1.2.3")), "{net}");
        assert!(!contains(&nets, ip("11.1.2.3")), "{net}");
    }
    assert!(contains(&nets(&["::ffff:0:0/96"]), ip("203.0.113.7")));
    assert!(!contains(&nets(&["::/0"]), ip("203.0.113.7")));
    assert!(!contains(&nets(&["0.0.0.0/0"]), ip("2001:db8::1")));
    assert!(!contains(&[], ip("1.1.1.1")));
}

#[test]
fn b134_spellings_of_one_address_are_one_caller() {
    let exact = AddressRules { ipv6_prefix: 128, ..rules(ClientIpHeader::XForwardedFor) };
    for spelling in ["2001:DB8:0:0:0:0:0:1", "2001:db8::1", "2001:0db8::0001", "[2001:db8::1%eth0]"] {
        let client = exact.client(ip("10.0.0.1"), &map("x-forwarded-for", &[spelling]));
        assert_eq!(client.group, ip("2001:db8::1"), "{spelling}");
    }
    assert_eq!(by_xff("10.0.0.1", &["fe80::1%eth0"]).address, ip("fe80::1"));
}

#[test]
fn b134_translated_addresses_share_the_prefix_of_their_translator() {
    assert_eq!(group_of("64:ff9b::808:808"), ip("64:ff9b::"));
    assert_eq!(group_of("64:ff9b::909:909"), ip("64:ff9b::"));
    assert_ne!(group_of("64:ff9b::808:808"), group_of("8.8.8.8"));
}

#[test]
fn a_chain_longer_than_the_bound_ends_at_a_trusted_address() {
    let mut entries = vec!["1.1.1.1".to_owned()];
    entries.extend((0..MAX_HOPS).map(|hop| format!("10.1.0.{hop}")));
    assert_eq!(by_xff("10.0.0.1", &[&entries.join(",")]).address, ip("10.1.0.0"));
    entries.remove(1);
    assert_eq!(by_xff("10.0.0.1", &[&entries.join(",")]).address, ip("1.1.1.1"));
}

#[test]
fn the_forwarded_header_is_read_as_its_standard_says() {
    let vectors: &[(&[&str], &str)] = &[
        (&["for=192.0.2.43"], "192.0.2.43"),
        (&["For=\"192.0.2.43:47011\";proto=https;by=203.0.113.43"], "192.0.2.43"),
        (&["for=192.0.2.43;proto=https, for=\"[2001:db8::17]:4711\""], "2001:db8::17"),
        (&["for=192.0.2.43, for=10.0.0.3"], "192.0.2.43"),
        (&["for=192.0.2.43", "FOR=10.0.0.3;proto=http", "for=\"10.0.0.4:_x1\""], "192.0.2.43"),
        (&["host=\"a,b;for=9.9.9.9\";for=192.0.2.43"], "192.0.2.43"),
        (&["for=192.0.2.43;host=\"a\\\", for=9.9.9.9, \\\"b\""], "192.0.2.43"),
        (&["for=192.0.2.43, for=unknown"], "10.0.0.1"),
        (&["for=192.0.2.43, for=_secret, for=10.0.0.8"], "10.0.0.8"),
        (&["for=192.0.2.43, proto=https"], "10.0.0.1"),
        (&["for=1.1.1.1;for=2.2.2.2"], "10.0.0.1"),
        (&["for=192.0.2.43,"], "10.0.0.1"),
        (&["for=\"192.0.2.43"], "10.0.0.1"),
        (&["192.0.2.43"], "10.0.0.1"),
        (&[""], "10.0.0.1"),
    ];
    for (lines, expected) in vectors {
        assert_eq!(by_forwarded(lines), ip(expected), "{lines:?}");
    }
}

#[test]
fn an_open_quote_of_the_client_cannot_swallow_what_a_proxy_appended() {
    for forged in ["for=\"9.9.9.9", "for=9.9.9.9;host=\"x", "\"", "for=\"9.9.9.9\\"] {
        for appended in ["for=192.0.2.1", "for=\"192.0.2.1:80\"", "for=192.0.2.1;host=\"h\""] {
            assert_eq!(by_forwarded(&[&format!("{forged}, {appended}")]), ip("192.0.2.1"), "{forged} | {appended}");
        }
    }
}

#[test]
fn a_header_of_one_address_holds_exactly_one() {
    let address = |lines: &[&str]| {
        let rules = rules(ClientIpHeader::Single("cf-connecting-ip".to_owned()));
        rules.client(ip("10.0.0.1"), &map("cf-connecting-ip", lines)).address
    };
    assert_eq!(address(&["203.0.113.7"]), ip("203.0.113.7"));
    assert_eq!(address(&["203.0.113.7", "::ffff:203.0.113.7"]), ip("203.0.113.7"));
    for lines in [&["203.0.113.7", "203.0.113.8"][..], &["203.0.113.7, 203.0.113.8"], &["junk"], &[""], &[]] {
        assert_eq!(address(lines), ip("10.0.0.1"), "{lines:?}");
    }
}

proptest! {
    #[test]
    fn no_header_makes_the_walk_fail(lines in prop::collection::vec("[ -~\\t]{0,80}", 0..4)) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let single = ClientIpHeader::Single("x".to_owned());
        for header in [ClientIpHeader::XForwardedFor, ClientIpHeader::Forwarded, single] {
            let mut headers = map("x-forwarded-for", &lines);
            headers.extend(map("forwarded", &lines));
            headers.extend(map("x", &lines));
            let client = rules(header).client(ip("10.0.0.1"), &headers);
            prop_assert!(client.trusted_peer);
        }
    }

    #[test]
    fn what_a_client_writes_never_moves_what_a_proxy_appended(forged in "[ -~]{0,60}", last in any::<[u8; 4]>()) {
        let last = IpAddr::from(last);
        prop_assume!(!contains(&nets(&["10.0.0.0/8", "127.0.0.1/32"]), last));
        prop_assert_eq!(by_xff("10.0.0.1", &[&format!("{forged}, {last}")]).address, last);
        prop_assert_eq!(by_forwarded(&[&format!("{forged}, for={last}")]), last);
        prop_assert_eq!(by_forwarded(&[&format!("{forged}, for=\"{last}:1\"")]), last);
    }

    #[test]
    fn every_address_is_read_back_as_it_is_printed(bits in any::<u128>(), short in any::<u32>()) {
        let v6 = IpAddr::V6(Ipv6Addr::from_bits(bits));
        let v4 = IpAddr::V4(Ipv4Addr::from_bits(short));
        for address in [v6, v4] {
            prop_assert_eq!(parse_address(address.to_string().as_bytes()), Some(address.to_canonical()));
        }
        prop_assert_eq!(parse_address(format!("[{v6}]:65535").as_bytes()), Some(v6.to_canonical()));
        prop_assert_eq!(parse_address(format!("{v4}:1").as_bytes()), Some(v4));
    }
}
