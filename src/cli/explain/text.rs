//! An explanation for people.

use super::{Explanation, LimitView, RouteView};
use std::fmt::Write as _;

/// Lines of a word and what there is to say; what goes on stands below it.
pub fn of(explanation: &Explanation) -> String {
    let mut text = format!("{} {}\n\n", visible(&explanation.method), visible(&explanation.target));
    let mut line = |word: &str, said: &str| {
        let _ = writeln!(text, "{word:<10}{said}");
    };
    if let (Some(path), Some(forwarded)) = (&explanation.path, &explanation.forwarded_path) {
        let differs = if path == forwarded { String::new() } else { format!("   (upstream: {forwarded})") };
        line("path", &format!("{path}{differs}"));
    }
    line("host", explanation.host.as_deref().unwrap_or("none"));
    if let Some(route) = &explanation.route {
        route_lines(route, &mut line);
    }
    caller_lines(explanation, &mut line);
    if let Some(cost) = explanation.cost {
        line("cost", &cost.to_string());
    }
    line("draws on", explanation.draws_on);
    for (index, limit) in explanation.limits.iter().enumerate() {
        limit_lines(if index == 0 { "limits" } else { "" }, limit, &mut line);
    }
    let answer = &explanation.answer;
    match (answer.status, answer.error) {
        (Some(status), Some(error)) => line("answer", &format!("{status} {error}: {}", answer.why)),
        _ => line("answer", &format!("forwarded: {}", answer.why)),
    }
    text
}

fn route_lines(route: &RouteView, line: &mut impl FnMut(&str, &str)) {
    let by =
        if route.pattern == route.name { String::new() } else { format!(", by its pattern \"{}\"", route.pattern) };
    line("route", &format!("\"{}\"{by}", route.name));
    for beaten in &route.beats {
        line("", &format!("before \"{}\": {}", beaten.pattern, beaten.why));
    }
    for (name, value) in &route.parameters {
        line("", &format!("{name} = {value}"));
    }
    if !route.skips.is_empty() {
        line("", &format!("skips the limits of: {}", route.skips.join(", ")));
    }
    line("upstream", &route.upstream);
}

fn caller_lines(explanation: &Explanation, line: &mut impl FnMut(&str, &str)) {
    let caller = &explanation.caller;
    let group =
        if caller.counts_as == caller.address { String::new() } else { format!(", counts as {}", caller.counts_as) };
    line("address", &format!("{}{group}: {}", caller.address, caller.address_from));
    if caller.exempt {
        line("", "in `exempt` of [client_ip]: no limit applies");
    }
    if let (Some(key), Some(consumer)) = (&caller.key_id, &caller.consumer) {
        line("caller", &format!("{consumer}, by the key {key}"));
    }
    line("tier", &format!("{}: {}", caller.tier, caller.tier_because));
}

fn limit_lines(word: &str, limit: &LimitView, line: &mut impl FnMut(&str, &str)) {
    let burst = limit.burst.as_ref().map(|burst| format!(" (at once {burst})")).unwrap_or_default();
    let shadow = if limit.mode == "shadow" { ", in shadow: refuses nobody" } else { "" };
    let LimitView { name, layer, cost, quota, algorithm, counter, .. } = limit;
    line(word, &format!("{name} ({layer}): {cost} of {quota}{burst}, {algorithm}{shadow}"));
    line("", &format!("  counter {counter}"));
}

/// What was typed, without what could steer a terminal.
fn visible(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
