//! IPv6 callers: one prefix is one caller, however its addresses are spelt.

use crate::support::*;

#[test]
fn b01_all_addresses_of_one_prefix_share_one_counter() {
    let gateway = Setup::ip_limited(&[r#"rate = "5/h""#]).trusted().start();
    let statuses: Vec<u16> = (1..=50).map(|n| gateway.get_from(&format!("2001:db8:1:1::{n:x}"), "/").status).collect();
    assert_eq!((count(&statuses, 200), count(&statuses, 429)), (5, 45));
    assert_eq!(gateway.get_from("2001:db8:1:2::1", "/").status, 200);
}

#[test]
fn b01_the_prefix_length_is_configurable() {
    let gateway = Setup::ip_limited(&[r#"rate = "1/h""#]).trusted().client_ip("ipv6_prefix = 56").start();
    let statuses = ["2001:db8:1:00aa::1", "2001:db8:1:00bb::1", "2001:db8:1:01aa::1"];
    assert_eq!(statuses.map(|from| gateway.get_from(from, "/").status), [200, 429, 200]);
}

#[test]
fn an_ipv4_prefix_groups_neighbours() {
    let gateway = Setup::ip_limited(&[r#"rate = "1/h""#]).trusted().client_ip("ipv4_prefix = 24").start();
    let statuses = ["203.0.113.1", "203.0.113.254", "203.0.114.1"];
    assert_eq!(statuses.map(|from| gateway.get_from(from, "/").status), [200, 429, 200]);
}

#[test]
fn b64_mapped_addresses_are_ipv4_in_every_notation() {
    let gateway = Setup::ip_limited(&[r#"rate = "2/h""#]).trusted().start();
    let ask = |from: &str| gateway.get_from(from, "/").status;
    let mapped = ["::ffff:1.2.3.4", "::ffff:102:304", "0:0:0:0:0:ffff:0102:0304", "1.2.3.4"];
    assert_eq!(mapped.map(ask), [200, 200, 429, 429]);
    let dotted_tails = ["2001:db8:1234:5678::9.9.9.9", "2001:db8:1234:5678::1.2.3.4", "2001:db8:1234:5678::1"];
    assert_eq!(dotted_tails.map(ask), [200, 200, 429]);
    assert_eq!(["::9.9.9.9", "::8.8.8.8", "::7.7.7.7"].map(ask), [200, 200, 429], "one /64, not IPv4");
    assert_eq!(ask("9.9.9.9"), 200);
}

#[test]
fn b64_networks_match_mapped_addresses() {
    let gateway = Setup::default().trusted().client_ip(r#"deny = ["198.51.100.0/24", "2001:db8::/32"]"#).start();
    let vectors =
        [("::ffff:198.51.100.7", 403), ("::ffff:c633:6407", 403), ("198.51.100.7", 403), ("2001:db8::1", 403)];
    for (from, status) in vectors {
        assert_eq!(gateway.get_from(from, "/").status, status, "{from}");
    }
    assert_eq!(gateway.get_from("::ffff:198.51.101.7", "/").status, 200);
}

#[test]
fn b134_spellings_of_one_address_are_one_caller() {
    let gateway = Setup::ip_limited(&[r#"rate = "2/h""#]).trusted().client_ip("ipv6_prefix = 128").start();
    let ask = |from: &str| gateway.get_from(from, "/").status;
    assert_eq!(["2001:DB8:0:0:0:0:0:1", "2001:db8::1", "2001:0db8::0001"].map(ask), [200, 200, 429]);
    assert!(ask("fe80::1%eth0") < 500);
    let translated = ["64:ff9b::808:808"; 3].map(ask);
    assert_eq!(translated, [200, 200, 429], "one spelling stays one caller");
}
