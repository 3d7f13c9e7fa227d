//! Headless Chromium, driven over WebDriver: what the dashboard is to the one who looks at it.

use super::client::Client;
use super::{PATIENCE, becomes_true, free_port};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a browser may take to start on a machine that is busy.
const START: Duration = Duration::from_secs(120);

/// The name under which WebDriver passes an element (W3C WebDriver, section 12).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one page; ends with its driver when dropped.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    #[track_caller]
    pub fn start() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let profile = tempfile::tempdir().expect("there is room for temporary files");
        let driver = Command::new("chromedriver")
            .arg(format!("--port={}", address.port()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the package chromium-driver is installed: see PACKAGES_TEST of the Makefile");
        let mut browser = Self { driver, address, session: String::new(), _profile: profile };
        assert!(becomes_true(START, || TcpStream::connect(address).is_ok()), "chromedriver does not listen");
        let data = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &data];
        let options = json!({ "args": arguments });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
        let started = browser.call("POST", "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = started["sessionId"].as_str().expect("a session has an id").to_string();
        browser
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut client = Client::connect(self.address);
        client.set_read_timeout(START);
        let host = self.address.to_string();
        let headers = [("host", host.as_str()), ("content-type", "application/json")];
        let answer = client.request(method, path, &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        answer.json()["value"].clone()
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// What a script in the page returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// A command of the browser's own protocol.
    #[track_caller]
    pub fn command(&self, name: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": name, "params": parameters }))
    }

    /// The text of an element as it is seen; empty while it is hidden.
    #[track_caller]
    pub fn text(&self, selector: &str) -> String {
        let script =
            "const seen = document.querySelector(SELECTOR); return seen.checkVisibility() ? seen.innerText : ''";
        self.run(&script.replace("SELECTOR", &json!(selector).to_string())).as_str().unwrap_or_default().to_string()
    }

    #[track_caller]
    pub fn wait_for_text(&self, selector: &str, text: &str) {
        let there = becomes_true(PATIENCE, || self.text(selector).contains(text));
        assert!(there, "{selector} does not say {text:?}: {:?}", self.text(selector));
    }

    #[track_caller]
    fn find(&self, selector: &str) -> String {
        let element = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        element[ELEMENT].as_str().unwrap_or_else(|| panic!("no {selector}")).to_string()
    }

    #[track_caller]
    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    /// Types into a field what a person would; `\u{E007}` is the Enter key.
    #[track_caller]
    pub fn write(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.post(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// What the browser complained of since it was last asked: errors of scripts, what the page's policy kept out.
    #[track_caller]
    pub fn complaints(&self) -> Vec<String> {
        let lines = self.post("/se/log", &json!({ "type": "browser" }));
        let lines = lines.as_array().cloned().unwrap_or_default();
        let lines = lines.iter().filter(|line| line["level"] != "DEBUG");
        let lines = lines.map(|line| line["message"].as_str().unwrap_or_default().to_string());
        // A file that every browser asks for, and answers of the API, are none.
        lines.filter(|line| !line.contains("favicon.ico") && !line.contains("Failed to load resource")).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _it_may_have_ended = self.driver.kill();
        let _reaped = self.driver.wait();
    }
}
