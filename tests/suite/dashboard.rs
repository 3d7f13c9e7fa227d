//! The dashboard in a real browser, with real traffic behind it.

use crate::support::browser::Browser;
use crate::support::*;
use serde_json::json;

const TOML: &str = "[tiers.free]\nlimits = [{ name = \"plan\", rate = \"3/h\" }]\n[[routes]]\nmatch = \"/a\"\n\
                    limits = [{ name = \"of-a\", rate = \"900/h\" }]\n[[routes]]\nmatch = \"*\"\n";

fn setup() -> Setup {
    Setup::new(TOML).keys(&consumer("acme", "free"))
}

fn url(gateway: &Gateway) -> String {
    format!("http://{}/", gateway.files.admin)
}

/// Requests of which the plan refuses some.
fn traffic(gateway: &Gateway) {
    (0..9).for_each(|_| drop(gateway.get_as(&key_of("acme"), "/a")));
    (0..5).for_each(|_| drop(gateway.get("/b")));
}

#[test]
fn the_page_shows_traffic_and_looks_up_and_resets_a_caller() {
    let mut gateway = setup().start();
    traffic(&gateway);
    let browser = Browser::start();
    browser.open(&url(&gateway));
    for (part, text) in [
        ("#summary", "Ready, generation 1"),
        ("#now", "memory"),
        ("#now", "closed"),
        ("#tiers", "free"),
        ("#tiers", "anonymous"),
        ("#routes", "/a"),
        ("#limits", "plan"),
        ("#callers", "acme"),
        ("#places", "/a"),
        ("#upstreams", "healthy"),
        ("#config", "none since the start"),
    ] {
        browser.wait_for_text(part, text);
    }
    // It goes on by itself, and draws what it saw.
    let passed = |text: &str| text.lines().find(|line| line.starts_with("free")).map(str::to_owned);
    let before = passed(&browser.text("#tiers"));
    wait_until("a refusal shows", || {
        gateway.get_as(&key_of("acme"), "/a");
        passed(&browser.text("#tiers")) != before
    });
    let drawn = "return document.querySelectorAll('#chart path[d^=M]').length === 2";
    wait_until("lines are drawn", || browser.run(drawn) == true);

    // A caller refused is looked up from its line, and set free.
    browser.click("#callers button");
    browser.wait_for_text("#found", "acme (free)");
    browser.wait_for_text("#counters", "0 of 3");
    assert_eq!(gateway.get_as(&key_of("acme"), "/a").status, 429);
    browser.click("#reset");
    assert_eq!(gateway.get_as(&key_of("acme"), "/a").status, 429, "it asks first");
    browser.click("#yes");
    browser.wait_for_text("#found", "2 counters were reset");
    browser.wait_for_text("#counters", "3 of 3");
    assert_eq!(gateway.get_as(&key_of("acme"), "/a").status, 200);
    assert!(gateway.log().contains("counters were reset"));

    // With the keyboard alone.
    browser.run("document.getElementById('who').value = ''");
    browser.write("#who", "nobody\u{E007}");
    browser.wait_for_text("#found", "no such consumer");

    gateway.reload_text("[server]\nlitsen = []\n");
    browser.wait_for_text("#config", "failure");
    browser.wait_for_text("#problems", "litsen");
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn it_fits_a_telephone_and_a_wide_screen_in_light_and_dark() {
    let gateway = setup().start();
    traffic(&gateway);
    let browser = Browser::start();
    browser.open(&url(&gateway));
    browser.wait_for_text("#callers", "acme");
    let mut backgrounds = std::collections::BTreeSet::new();
    for scheme in ["light", "dark"] {
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.command("Emulation.setEmulatedMedia", &feature);
        for width in [360_i64, 1600] {
            let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
            browser.command("Emulation.setDeviceMetricsOverride", &size);
            let sizes = browser.run("return [innerWidth, document.documentElement.scrollWidth]");
            assert_eq!(sizes[0], width);
            assert!(sizes[1].as_i64() <= Some(width), "{scheme}: something stands over the edge: {sizes}");
            let nameless = "return [...document.querySelectorAll('button, input, select')].filter((each) => \
                !(each.textContent || each.ariaLabel || (each.labels && each.labels.length))).length";
            assert_eq!(browser.run(nameless), 0, "whatever can be used has a name");
        }
        let background = browser.run("return getComputedStyle(document.body).backgroundColor");
        backgrounds.insert(background.as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(backgrounds.len(), 2, "{backgrounds:?}");
}

#[test]
fn what_a_caller_is_called_is_never_a_script_and_the_policy_would_not_run_it() {
    let gateway = setup().start();
    let page = gateway.admin("/");
    let policy = page.one("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http:"), "{policy}");
    for file in ["/", "/app.js", "/app.css"] {
        let text = gateway.admin(file).text();
        for outside in ["http://", "https://", "innerHTML", "eval("] {
            assert!(!text.replace("http://www.w3.org/2000/svg", "").contains(outside), "{file} has {outside}");
        }
    }
    let browser = Browser::start();
    browser.open(&url(&gateway));
    browser.wait_for_text("#summary", "Ready");
    let evil = "<img src=x onerror=\"window.run=1\">";
    browser.write("#who", &format!("{evil}\u{E007}"));
    browser.wait_for_text("#found", "no such consumer");
    let injected = "try { const script = document.createElement('script'); script.textContent = 'window.run = 1'; \
                    document.body.append(script); } catch { } \
                    try { document.body.setAttribute('onclick', 'window.run = 1'); document.body.click(); } catch { } \
                    return window.run";
    assert!(browser.run(injected).is_null());
}

#[test]
fn with_a_token_it_asks_for_it_and_keeps_it_for_the_session() {
    let mut gateway = setup().start();
    std::fs::write(gateway.files.path("admin.token"), "a-token-of-the-suite").unwrap();
    assert_eq!(gateway.reload(|setup| setup.admin = "token_file = \"admin.token\"".into()), Reload::Success);
    traffic(&gateway);
    let browser = Browser::start();
    browser.open(&url(&gateway));
    browser.wait_for_text("#login", "Admin token");
    assert_eq!(browser.text("#main"), "");
    browser.write("#token", "wrong\u{E007}");
    browser.wait_for_text("#alert", "not, or no longer, the right one");
    browser.write("#token", "a-token-of-the-suite\u{E007}");
    browser.wait_for_text("#callers", "acme");
    browser.open(&url(&gateway));
    browser.wait_for_text("#callers", "acme");
    let kept = browser.run("return [sessionStorage.length, localStorage.length, document.cookie, location.href]");
    assert_eq!(kept, json!([1, 0, "", url(&gateway)]));
    browser.click("#logout");
    browser.wait_for_text("#login", "Admin token");
    assert_eq!(browser.run("return sessionStorage.length"), 0);
}
