//! The schemas that are shipped know the keys that the reader knows, and take every configuration that is shown.

use crate::docs::{blocks, pages, read, root};
use crate::tidy::{assert_none, files};
use regex::Regex;
use serde_json::{Map, Value};
use sluicegate::algorithm::ALGORITHMS;
use sluicegate::config;
use std::collections::BTreeSet;

/// A key that no table has.
const UNKNOWN: &str = "no_table_has_this_key";

/// Keywords that say nothing of validity.
const ANNOTATIONS: [&str; 6] = ["$schema", "$defs", "title", "description", "default", "format"];

struct Schema {
    whole: Value,
    is_keys: bool,
}

fn main_schema() -> Schema {
    Schema { whole: schema("config/sluicegate.schema.json"), is_keys: false }
}

fn keys_schema() -> Schema {
    Schema { whole: schema("config/keys.schema.json"), is_keys: true }
}

fn schema(path: &str) -> Value {
    serde_json::from_str(&read(&root().join(path))).expect("it is JSON")
}

impl Schema {
    fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str() {
            Some(path) => {
                let target = self.whole.pointer(path.trim_start_matches('#'));
                self.resolve(target.unwrap_or_else(|| panic!("{path} leads nowhere")))
            }
            None => schema,
        }
    }

    /// Complaints about a value, each with its path.
    fn check(&self, schema: &Value, value: &Value, path: &str) -> Vec<String> {
        let keywords = schema.as_object().unwrap_or_else(|| panic!("{path}: no schema"));
        keywords.iter().flat_map(|(keyword, rule)| self.keyword(schema, keyword, rule, value, path)).collect()
    }

    fn keyword(&self, schema: &Value, keyword: &str, rule: &Value, value: &Value, path: &str) -> Vec<String> {
        let wrong =
            |is_wrong: bool| if is_wrong { vec![format!("{path}: {keyword} {rule}, not {value}")] } else { vec![] };
        let list = || rule.as_array().expect("a list").iter();
        match keyword {
            "$ref" => self.check(self.resolve(schema), value, path),
            "anyOf" => wrong(list().all(|each| !self.check(each, value, path).is_empty())),
            "allOf" => list().flat_map(|each| self.check(each, value, path)).collect(),
            "enum" => wrong(!list().any(|each| each == value)),
            "type" => wrong(!is_of_type(rule.as_str().expect("one type"), value)),
            "pattern" => {
                let pattern = Regex::new(rule.as_str().expect("a pattern")).expect("a valid pattern");
                wrong(value.as_str().is_some_and(|text| !pattern.is_match(text)))
            }
            "minimum" => wrong(value.as_f64().is_some_and(|number| number < rule.as_f64().expect("a number"))),
            "maximum" => wrong(value.as_f64().is_some_and(|number| number > rule.as_f64().expect("a number"))),
            "minLength" => {
                wrong(value.as_str().is_some_and(|text| (text.len() as u64) < rule.as_u64().expect("a length")))
            }
            "maxLength" => {
                wrong(value.as_str().is_some_and(|text| text.len() as u64 > rule.as_u64().expect("a length")))
            }
            "minItems" => {
                wrong(value.as_array().is_some_and(|items| (items.len() as u64) < rule.as_u64().expect("a length")))
            }
            "required" => {
                wrong(value.is_object() && list().any(|key| value.get(key.as_str().expect("a key")).is_none()))
            }
            "items" => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
                items.flat_map(|(index, item)| self.check(rule, item, &format!("{path}[{index}]"))).collect()
            }
            "properties" | "patternProperties" | "additionalProperties" => {
                self.members(schema, keyword, rule, value, path)
            }
            known if ANNOTATIONS.contains(&known) => Vec::new(),
            unknown => panic!("{path}: this test does not know the keyword {unknown}"),
        }
    }

    fn members(&self, schema: &Value, keyword: &str, rule: &Value, value: &Value, path: &str) -> Vec<String> {
        let none = Map::new();
        let patterns = schema["patternProperties"].as_object().unwrap_or(&none);
        let matches = |pattern: &str, key: &str| Regex::new(pattern).expect("a valid pattern").is_match(key);
        let mut found = Vec::new();
        for (key, member) in value.as_object().unwrap_or(&none) {
            let below = format!("{path}.{key}");
            let is_named =
                schema["properties"].get(key).is_some() || patterns.keys().any(|pattern| matches(pattern, key));
            match keyword {
                "properties" => found.extend(rule.get(key).iter().flat_map(|rule| self.check(rule, member, &below))),
                "patternProperties" => {
                    let rules = patterns.iter().filter(|(pattern, _)| matches(pattern, key));
                    found.extend(rules.flat_map(|(_, rule)| self.check(rule, member, &below)));
                }
                _ if is_named => {}
                _ if rule == &Value::Bool(false) => found.push(format!("{below} is no key")),
                _ => found.extend(self.check(rule, member, &below)),
            }
        }
        found
    }

    /// What is wrong with a text of TOML.
    fn complaints(&self, text: &str) -> Vec<String> {
        let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        self.check(&self.whole, &json(&toml::Value::Table(table)), "")
    }

    /// Every table below a schema: how to write a value into it, and its keys.
    fn tables(
        &self,
        schema: &Value,
        wrap: &dyn Fn(toml::Value) -> toml::Value,
        found: &mut Vec<(toml::Value, BTreeSet<String>)>,
    ) {
        let schema = self.resolve(schema);
        for part in ["anyOf", "allOf"].iter().filter_map(|keyword| schema[*keyword].as_array()).flatten() {
            self.tables(part, wrap, found);
        }
        if schema.get("items").is_some() {
            self.tables(&schema["items"], &|inside| wrap(toml::Value::Array(vec![inside])), found);
        }
        for named in schema["patternProperties"].as_object().into_iter().flat_map(Map::values) {
            self.tables(named, &|inside| wrap(table("name", inside)), found);
        }
        let Some(properties) = schema["properties"].as_object() else { return };
        found.push((wrap(table(UNKNOWN, toml::Value::Integer(1))), properties.keys().cloned().collect()));
        for (key, member) in properties {
            self.tables(member, &|inside| wrap(table(key, inside)), found);
        }
    }
}

fn table(key: &str, value: toml::Value) -> toml::Value {
    toml::Value::Table(std::iter::once((key.to_string(), value)).collect())
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        other => panic!("no type {other}"),
    }
}

fn json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(value) => Value::from(*value),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(items) => Value::Array(items.iter().map(json).collect()),
        toml::Value::Table(table) => {
            Value::Object(table.iter().map(|(key, value)| (key.clone(), json(value))).collect())
        }
    }
}

/// The keys that the reader expects beside an unknown one, as its message lists them.
fn expected_by_the_reader(schema: &Schema, text: &str) -> Option<BTreeSet<String>> {
    let loaded = if schema.is_keys {
        config::load_text("main", "", Some(text), &|_| None)
    } else {
        config::load_text("main", text, None, &|_| None)
    };
    let begins = format!("unknown key `{UNKNOWN}` in ");
    let message =
        loaded.problems.iter().map(|problem| &problem.message).find(|message| message.starts_with(&begins))?;
    let (_, listed) = message.rsplit_once("; expected ")?;
    let names = listed.split('`').skip(1).step_by(2).filter(|name| !name.starts_with("header:"));
    Some(names.map(str::to_string).collect())
}

#[test]
fn the_schemas_have_the_keys_of_the_reader_and_no_others() {
    let mut wrong = Vec::new();
    for (schema, least) in [(main_schema(), 30), (keys_schema(), 4)] {
        let mut tables = Vec::new();
        schema.tables(&schema.whole, &|inside| inside, &mut tables);
        assert!(tables.len() >= least, "only {} tables", tables.len());
        for (value, keys) in tables {
            let text = value.as_table().expect("the top level is a table").to_string();
            let expected = expected_by_the_reader(&schema, &text);
            if expected.as_ref() != Some(&keys) {
                wrong.push(format!("{text}: the reader has {expected:?}, the schema {keys:?}"));
            }
        }
    }
    assert_none("tables whose keys differ: see config/*.schema.json", wrong);
}

#[test]
fn every_configuration_that_is_shown_is_valid_by_its_schema() {
    let (main, keys) = (main_schema(), keys_schema());
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in files("config", &["toml"]) {
        let is_keys = path.ends_with("keys.toml") || path.to_string_lossy().ends_with(".keys.toml");
        let schema = if is_keys { &keys } else { &main };
        let text = read(&path);
        assert!(text.starts_with("#:schema "), "{}: editors find no schema", path.display());
        seen += 1;
        wrong.extend(schema.complaints(&text).into_iter().map(|complaint| format!("{}: {complaint}", path.display())));
    }
    for page in pages() {
        let text = read(&page);
        for (_, block) in blocks(&text).into_iter().filter(|(language, _)| *language == "toml") {
            let schema = if block.starts_with("# keys.toml\n") { &keys } else { &main };
            seen += 1;
            wrong.extend(
                schema.complaints(block).into_iter().map(|complaint| format!("{}: {complaint}", page.display())),
            );
        }
    }
    assert!(seen > 15, "only {seen} configurations");
    assert_none("not valid", wrong);
}

#[test]
fn mistakes_are_not_valid_by_the_schema() {
    let schema = main_schema();
    let route = |limit: &str| format!("[[routes]]\nmatch = \"*\"\nlimits = [{{ {limit} }}]\n");
    assert!(schema.complaints(&route("rate = \"${RATE}\"")).is_empty(), "variables are taken");
    let mistakes = [
        route("raet = \"5/min\""),
        route("rate = 5"),
        route("rate = \"0.5/s\""),
        route("rate = \"5/s\", algorithm = \"token_buckt\""),
        route("rate = \"5/s\", per = \"planet\""),
        "[server]\ndrain = 30\n".into(),
        "[server]\nthreads = -1\n".into(),
        "[[limits]]\nrate = \"5/s\"\n".into(),
        "[[routes]]\nmatch = \"no-slash\"\n".into(),
        "[headers]\ndialect = \"clasic\"\n".into(),
    ];
    let missed = mistakes.into_iter().filter(|text| schema.complaints(text).is_empty());
    assert_none("taken by the schema", missed.collect());
    assert!(!keys_schema().complaints("[consumers.a]\n[[consumers.a.keys]]\nid = \"a\"\nsha256 = \"1\"\n").is_empty());
}

#[test]
fn the_schemas_name_every_algorithm() {
    let names: Vec<Value> = ALGORITHMS.iter().map(|algorithm| Value::from(algorithm.name())).collect();
    for schema in [main_schema(), keys_schema()] {
        let listed = &schema.whole["$defs"]["limit"]["properties"]["algorithm"]["anyOf"][0]["enum"];
        assert!(names.iter().all(|name| listed.as_array().is_some_and(|listed| listed.contains(name))), "{listed}");
    }
}
