//! Rate-limit fields read by an independent structured-field parser.

use super::Response;
use std::collections::BTreeMap;

/// One item of a list: its name and its whole-number parameters.
pub type Item = (String, BTreeMap<String, i64>);

/// The items of a structured field that must parse; its lines are joined first.
#[track_caller]
pub fn items(response: &Response, name: &str) -> Vec<Item> {
    let value = response.all(name).join(", ");
    let list: sfv::List = sfv::Parser::new(&value).parse().unwrap_or_else(|error| panic!("{name}: {value}: {error}"));
    list.iter()
        .map(|entry| {
            let sfv::ListEntry::Item(item) = entry else { panic!("{name}: {value}: an inner list") };
            let label = item.bare_item.as_string().unwrap_or_else(|| panic!("{name}: {value}: not a string"));
            let numbers = item.params.iter().filter_map(|(key, value)| {
                value.as_integer().map(|number| (key.as_str().to_string(), i64::from(number)))
            });
            (label.as_str().to_string(), numbers.collect())
        })
        .collect()
}

/// The parameter of the item with that name.
#[track_caller]
pub fn parameter(response: &Response, field: &str, item: &str, parameter: &str) -> i64 {
    let items = items(response, field);
    let found = items.iter().find(|(name, _)| name == item).and_then(|(_, parameters)| parameters.get(parameter));
    *found.unwrap_or_else(|| panic!("{field} has no {item};{parameter}: {items:?}"))
}

/// What the `ietf` dialect says is left of a limit.
#[track_caller]
pub fn left_of(response: &Response, limit: &str) -> i64 {
    parameter(response, "ratelimit", limit, "r")
}
