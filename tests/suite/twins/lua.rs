//! The shipped Lua files in an embedded Lua 5.1, with what Redis would add: `struct`, and one sorted set.

use mlua::{Function, Lua, LuaString, Table, Value, Variadic};
use sluicegate::algorithm::{Algorithm, Quota, State, Units, Wait, Window};
use sluicegate::store::redis::script::{TWINS, Twin};
use sluicegate::time::Millis;
use std::cell::RefCell;
use std::rc::Rc;

/// Entries of a sorted set in order: score and member.
type Entries = Rc<RefCell<Vec<(f64, Vec<u8>)>>>;

/// One algorithm's functions in Lua, and its state.
pub struct LuaCounter {
    lua: Lua,
    functions: Table,
    pub is_log: bool,
    /// Three numbers, where the state is that.
    pub cells: [f64; 3],
    entries: Entries,
}

impl LuaCounter {
    pub fn new(algorithm: &dyn Algorithm) -> Self {
        let twin = TWINS.iter().find(|twin| twin.name == algorithm.name());
        let twin = twin.unwrap_or_else(|| panic!("{} has no twin in Lua", algorithm.name()));
        let (lua, entries) = (Lua::new(), Entries::default());
        lua.globals().set("struct", packing(&lua)).expect("a global");
        lua.globals().set("redis", sorted_set(&lua, &entries)).expect("a global");
        let functions = lua.load(library(twin)).set_name(twin.prefix).eval().expect("the shipped files are Lua");
        Self { lua, functions, is_log: twin.is_log, cells: [0.0; 3], entries }
    }

    /// The instants and costs of the log.
    pub fn log(&self) -> Vec<(i64, Units)> {
        let entry = |(at, member): &(f64, Vec<u8>)| (*at as i64, double(&member[8..]) as i64);
        self.entries.borrow().iter().map(entry).collect()
    }

    pub fn put_log(&self, entries: Vec<(f64, Vec<u8>)>) {
        *self.entries.borrow_mut() = entries;
    }

    fn function(&self, name: &str) -> Option<Function> {
        self.functions.get(name).expect("a table of functions")
    }

    #[track_caller]
    fn must(&self, name: &str) -> Function {
        self.function(name).unwrap_or_else(|| panic!("no function {name}"))
    }

    fn state(&self) -> [Value; 3] {
        if self.is_log {
            return [Value::String(self.lua.create_string("log").expect("memory")), Value::Nil, Value::Nil];
        }
        self.cells.map(Value::Number)
    }

    fn view(&self, quota: &Quota, now: i64) -> Table {
        let [a, b, c] = self.state();
        self.must("at").call((row(&self.lua, quota), a, b, c, now as f64)).expect("no state raises an error")
    }

    fn ask(&self, name: &str, quota: &Quota, now: i64, cost: Units) -> i64 {
        let answer: f64 = self
            .must(name)
            .call((row(&self.lua, quota), self.view(quota, now), now as f64, cost as f64))
            .expect("no state raises an error");
        whole(answer)
    }

    pub fn remaining(&self, quota: &Quota, now: i64) -> Units {
        self.ask("remaining", quota, now, 0)
    }

    pub fn wait(&self, quota: &Quota, now: i64, cost: Units) -> Wait {
        match self.ask("wait", quota, now, cost) {
            -1 => Wait::Never,
            0 => Wait::Now,
            span => Wait::After(Millis(span)),
        }
    }

    pub fn delay(&self, quota: &Quota, now: i64) -> i64 {
        if self.function("delay").is_some() { self.ask("delay", quota, now, 0) } else { 0 }
    }

    pub fn reset(&self, quota: &Quota, now: i64) -> i64 {
        self.ask("reset", quota, now, 0)
    }

    pub fn fresh_at(&self, quota: &Quota, now: i64) -> i64 {
        self.ask("fresh_at", quota, now, 0)
    }

    pub fn charge(&mut self, quota: &Quota, now: i64, cost: Units, delay: i64) {
        if cost > 0 {
            let view = self.view(quota, now);
            let row = row(&self.lua, quota);
            let charge = self.must("charge");
            charge.call::<()>((row, &view, now as f64, cost as f64, delay as f64)).expect("no state raises an error");
            self.take(view);
        }
    }

    /// `debit` or `refund`.
    pub fn correct(&mut self, name: &str, quota: &Quota, now: i64, at: i64, cost: Units) {
        let [a, b, c] = self.state();
        let arguments = (row(&self.lua, quota), a, b, c, now as f64, at as f64, cost as f64);
        let view: Option<Table> = self.must(name).call(arguments).expect("no state raises an error");
        if let Some(view) = view {
            self.take(view);
        }
    }

    fn take(&mut self, view: Table) {
        if !self.is_log {
            self.cells = [1, 2, 3].map(|place| view.get(place).expect("a state is three numbers"));
        }
    }

    /// The state as Rust has it.
    pub fn agrees_with(&self, state: &State) -> bool {
        match state {
            State::Log(log) => log.entries().map(|(at, cost)| (at.0, cost)).eq(self.log()),
            State::Cells(cells) if self.is_log => *cells == [0; 3] && self.log().is_empty(),
            State::Cells(cells) => cells.map(|cell| cell as f64) == self.cells,
        }
    }
}

/// All files of a twin, and a table of what they define.
fn library(twin: &Twin) -> String {
    let names = ["at", "remaining", "wait", "delay", "charge", "debit", "refund", "reset", "fresh_at"];
    let fields: Vec<String> = names.iter().map(|name| format!("{name} = {}_{name}", twin.prefix)).collect();
    format!("{}\nreturn {{ {} }}", twin.files.concat(), fields.join(", "))
}

fn row(lua: &Lua, quota: &Quota) -> Table {
    let window = match quota.window {
        Window::Span(span) => span.0,
        Window::Month => -1,
        Window::Year => -2,
    };
    let max_wait = quota.max_wait.map_or(-1, |max_wait| max_wait.0);
    let fields = [quota.count, window, quota.capacity, max_wait].map(|field| field as f64);
    lua.create_sequence_from(fields).expect("memory")
}

#[track_caller]
pub fn whole(number: f64) -> i64 {
    assert!(number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0, "{number} is no exact integer");
    number as i64
}

fn double(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

/// As much of Redis' `struct` as is used: little-endian doubles.
fn packing(lua: &Lua) -> Table {
    let pack = |lua: &Lua, (_, numbers): (LuaString, Variadic<f64>)| {
        lua.create_string(numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
    };
    let unpack = |_: &Lua, (_, bytes): (LuaString, LuaString)| {
        Ok(bytes.as_bytes().chunks_exact(8).map(double).collect::<Variadic<f64>>())
    };
    let table = lua.create_table().expect("memory");
    table.set("pack", lua.create_function(pack).expect("memory")).expect("a field");
    table.set("unpack", lua.create_function(unpack).expect("memory")).expect("a field");
    table
}

fn sorted_set(lua: &Lua, entries: &Entries) -> Table {
    let table = lua.create_table().expect("memory");
    for name in ["call", "pcall"] {
        let entries = Rc::clone(entries);
        let call = move |lua: &Lua, words: Variadic<Value>| {
            let words: Vec<Vec<u8>> = words.iter().map(word).collect();
            command(lua, &mut entries.borrow_mut(), &words)
        };
        table.set(name, lua.create_function(call).expect("memory")).expect("a field");
    }
    table
}

/// An argument as Redis gets it.
fn word(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => number.to_string().into_bytes(),
        other => panic!("Redis takes no {}", other.type_name()),
    }
}

fn number(word: &[u8]) -> f64 {
    std::str::from_utf8(word).expect("numbers are text").parse().expect("a number")
}

/// Ranks from 0, or counted from the end when negative, as a range of places.
fn ranks(entries: &[(f64, Vec<u8>)], first: &[u8], last: &[u8]) -> std::ops::Range<usize> {
    let length = entries.len() as i64;
    let place = |word: &[u8]| if number(word) < 0.0 { length + number(word) as i64 } else { number(word) as i64 };
    let (first, end) = (place(first).max(0), (place(last) + 1).min(length));
    first as usize..(end.max(first) as usize).min(entries.len()).max((first as usize).min(entries.len()))
}

fn below(word: &[u8], score: f64) -> bool {
    match word.strip_prefix(b"(") {
        Some(exclusive) => score < number(exclusive),
        None => score <= number(word),
    }
}

fn command(lua: &Lua, entries: &mut Vec<(f64, Vec<u8>)>, words: &[Vec<u8>]) -> mlua::Result<Value> {
    let name = String::from_utf8_lossy(&words[0]).into_owned();
    let count = |count: usize| Ok(Value::Number(count as f64));
    match name.as_str() {
        "ZRANGE" => {
            let range = ranks(entries, &words[2], &words[3]);
            let reply = lua.create_table()?;
            for (at, member) in entries.get(range).unwrap_or_default() {
                reply.push(lua.create_string(member)?)?;
                reply.push(lua.create_string(at.to_string())?)?;
            }
            Ok(Value::Table(reply))
        }
        "ZRANGEBYSCORE" => {
            let found = entries.iter().find(|(at, _)| *at >= number(&words[2]) && *at <= number(&words[3]));
            let members = found.map(|(_, member)| lua.create_string(member)).transpose()?;
            Ok(Value::Table(lua.create_sequence_from(members)?))
        }
        "ZCOUNT" => count(entries.iter().filter(|(at, _)| below(&words[3], *at)).count()),
        "ZCARD" => count(entries.len()),
        "ZRANK" => count(entries.iter().position(|(_, member)| *member == words[2]).expect("it was just seen")),
        "ZREM" => {
            entries.retain(|(_, member)| *member != words[2]);
            count(1)
        }
        "ZREMRANGEBYRANK" => {
            let range = ranks(entries, &words[2], &words[3]);
            count(entries.drain(range).count())
        }
        "ZADD" => {
            for pair in words[2..].chunks_exact(2) {
                assert!(entries.iter().all(|(_, member)| *member != pair[1]), "a member is unique");
                entries.push((number(&pair[0]), pair[1].clone()));
            }
            entries.sort_by(|one, other| one.partial_cmp(other).expect("scores are numbers"));
            count(words.len() / 2 - 1)
        }
        "DEL" => {
            entries.clear();
            count(1)
        }
        _ => panic!("{name} is not a command that the twins use"),
    }
}
