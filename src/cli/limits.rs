//! `limits show` and `limits reset`: the counters of one caller, through the admin port of the running gateway.

use super::{File, ask_admin};
use crate::load::{self, Source};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Shows or resets the counters of one caller.
#[derive(Args)]
pub struct Limits {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// What the caller has left of each limit.
    Show(Whose),
    /// Reset every counter of the caller, on all layers; the gateway's log tells of it.
    Reset(Whose),
}

#[derive(Args)]
struct Whose {
    #[command(flatten)]
    file: File,
    #[command(flatten)]
    caller: Caller,
    /// A value that splits limits further, as `header:x-tenant=a`, `param:id=7`, `host=a.example` or `method=GET`
    #[arg(long = "with", value_name = "NAME=VALUE")]
    with: Vec<String>,
    /// Print the answer of the admin port as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[group(required = true, multiple = true)]
struct Caller {
    /// The consumer's name
    #[arg(long, value_name = "NAME", conflicts_with = "key_id")]
    consumer: Option<String>,
    /// The address of a caller without a key
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<String>,
    /// The id of one of the consumer's keys
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
}

impl Limits {
    /// Exit code 1 when the gateway cannot be asked, or says no.
    pub fn run(self) -> ExitCode {
        let (method, whose) = match self.action {
            Action::Show(whose) => ("GET", whose),
            Action::Reset(whose) => ("DELETE", whose),
        };
        let json = whose.json;
        match whose.ask(method) {
            Ok(answer) if json => println!("{answer:#}"),
            Ok(answer) if method == "GET" => print!("{}", shown(&answer)),
            Ok(answer) => print!("{}", told(&answer)),
            Err(message) => {
                eprintln!("sluicegate: {message}");
                return ExitCode::FAILURE;
            }
        }
        ExitCode::SUCCESS
    }
}

impl Whose {
    fn ask(self, method: &str) -> Result<Value, String> {
        let path = self.file.path();
        let checked = load::check(&Source::File(path.clone()), 1);
        let errors = checked.rendered_errors().join("\n");
        let config = checked.config.ok_or_else(|| format!("{} is refused:\n{errors}", path.display()))?;
        let Caller { consumer, ip, key_id } = self.caller;
        let named = [("consumer", consumer), ("ip", ip), ("key_id", key_id)];
        let named = named.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        let with = self.with.iter().map(|with| with.split_once('=').unwrap_or((with, "")));
        let query: Vec<String> = named.chain(with).map(|(name, value)| ask_admin::parameter(name, value)).collect();
        ask_admin::ask(&config.admin, method, &format!("/api/v1/limits?{}", query.join("&")))
    }
}

/// `acme (pro)`, `203.0.113.7`.
fn caller(answer: &Value) -> String {
    let text = |key: &str| answer["caller"][key].as_str();
    let consumer = text("consumer").map(|name| format!("{name} ({})", text("tier").unwrap_or_default()));
    [consumer, text("ip").map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>().join(" at ")
}

/// What splits the counter beside the caller: `route=GET /a method=GET`.
fn split(line: &Value) -> String {
    let parts = line["counter"].as_object().into_iter().flatten();
    let parts = parts.filter(|(tag, _)| !matches!(tag.as_str(), "consumer" | "ip"));
    parts.map(|(tag, value)| format!("  {tag}={}", value.as_str().unwrap_or_default())).collect()
}

fn shown(answer: &Value) -> String {
    let mut out = format!("{}, store {}\n", caller(answer), answer["store"].as_str().unwrap_or_default());
    let lines = answer["limits"].as_array().map_or(&[][..], Vec::as_slice);
    let is_untouched = |line: &Value| line["used"].as_f64() == Some(0.0);
    // Each route has counters of its own; those that nothing was charged to would hide the others.
    let hidden = |line: &Value| is_untouched(line) && line["layer"] == "endpoint";
    for line in lines.iter().filter(|line| !hidden(line)) {
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        let left = match (line["remaining"].as_f64(), line["capacity"].as_f64()) {
            (Some(remaining), Some(capacity)) => format!("{remaining} of {capacity} left"),
            _ => "unknown: the store did not answer".to_owned(),
        };
        let reset = line["reset_seconds"].as_i64().filter(|_| !is_untouched(line));
        let reset = reset.map(|seconds| format!(", reset in {seconds} s")).unwrap_or_default();
        let stand_in = if line["stand_in"] == true { ", by this gateway alone" } else { "" };
        let shadow = if line["mode"] == "shadow" { ", shadow" } else { "" };
        let _ = writeln!(
            out,
            "  {:<8} {:<24} {left}{reset} ({}{shadow}{stand_in}){}",
            text("layer"),
            text("limit"),
            text("rate"),
            split(line)
        );
    }
    let untouched = lines.iter().filter(|line| hidden(line)).count();
    if untouched > 0 {
        let _ = writeln!(out, "  and {untouched} of routes, untouched");
    }
    out + &open(answer)
}

fn told(answer: &Value) -> String {
    let lines = answer["reset"].as_array().map_or(&[][..], Vec::as_slice);
    let mut out =
        format!("{}: {} reset\n", caller(answer), crate::policy::limit_text::counted(lines.len() as i64, "counter"));
    for line in lines {
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        let _ = writeln!(out, "  {:<8} {}{}", text("layer"), text("limit"), split(line));
    }
    out + &open(answer)
}

fn open(answer: &Value) -> String {
    let lines = answer["open"].as_array().into_iter().flatten();
    lines.fold(String::new(), |mut out, line| {
        let tags = line["not_said"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let tags: Vec<&str> = tags.collect();
        let limit = line["limit"].as_str().unwrap_or_default();
        let _ =
            writeln!(out, "  {limit} is split by {} too, which was not said: there may be more", tags.join(" and "));
        out
    })
}
