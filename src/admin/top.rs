//! `top`: the callers and routes that limits refused most.

use super::answer::{Failure, Reply, json};
use super::limits::parameters;
use crate::metrics::{Caller, Heavy, MAX_CALLERS, MAX_ROUTES, Refused};
use crate::proxy::access_log::time_text;
use crate::time::Timestamp;
use serde_json::{Value, json};

/// Lines of each list when nothing else is asked for.
const DEFAULT_LINES: usize = 20;

/// `query` may say `n`, the lines of each list.
pub fn answer(refused: &Refused, query: &str) -> Result<Reply, Failure> {
    let mut lines = DEFAULT_LINES;
    for (name, value) in parameters(query)? {
        let number = value.parse().ok().filter(|number| (1..=MAX_CALLERS).contains(number));
        lines = number
            .filter(|_| name == "n")
            .ok_or_else(|| Failure::bad_request(format!("Only n may be asked for, from 1 to {MAX_CALLERS}.")))?;
    }
    let callers: Vec<Value> = refused.callers(lines).iter().map(|heavy| line(caller(&heavy.key), heavy)).collect();
    let routes: Vec<Value> =
        refused.routes(lines).iter().map(|heavy| line(json!({ "route": &*heavy.key }), heavy)).collect();
    Ok(json(&json!({
        "callers": callers,
        "routes": routes,
        "counted_at_most": { "callers": MAX_CALLERS, "routes": MAX_ROUTES },
    })))
}

fn caller(caller: &Caller) -> Value {
    match caller {
        Caller::Consumer(name) => json!({ "consumer": &**name }),
        Caller::Group(address) => json!({ "ip": address.to_string() }),
    }
}

fn line<K>(mut named: Value, heavy: &Heavy<K>) -> Value {
    named["refused"] = json!(heavy.count);
    named["refused_at_most_too_high_by"] = json!(heavy.error);
    named["last_limit"] = json!(&*heavy.limit);
    named["last_at"] = json!(time_text(Timestamp(heavy.at_ms)));
    named
}
