//! One line to its values: JSON objects, `name=value` pairs and columns, as a [`Map`] says.
//!
//! Nothing is copied that need not be. What a line says twice is taken as it comes last; what is not wanted is not
//! looked at, but a JSON object must be whole.

use super::fields::{Format, Map, Member, PLAIN_SLOTS, Slot};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// A value of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value<'a> {
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Number(f64),
}

/// The values of a line.
#[derive(Debug, Default)]
pub struct Raw<'a> {
    plain: [Value<'a>; PLAIN_SLOTS],
    /// Indices into the map's headers and their values.
    pub headers: SmallVec<[(usize, Cow<'a, str>); 2]>,
}

impl<'a> Raw<'a> {
    fn set(&mut self, slot: Slot, value: Value<'a>) {
        match (slot, slot.place()) {
            (_, Some(place)) => self.plain[place] = value,
            (Slot::Header(index), None) => match value {
                Value::Text(text) => self.headers.push((index, text)),
                Value::Number(number) => self.headers.push((index, number.to_string().into())),
                Value::Absent => {}
            },
            (_, None) => {}
        }
    }

    /// The value of a slot that is not a header.
    pub fn value(&self, slot: Slot) -> &Value<'a> {
        slot.place().map_or(&Value::Absent, |place| &self.plain[place])
    }

    /// A text that says something: `-` stands for nothing.
    pub fn text(&self, slot: Slot) -> Option<&str> {
        match self.value(slot) {
            Value::Text(text) if !matches!(&**text, "" | "-") => Some(text),
            _ => None,
        }
    }

    /// A number, written as one or as text.
    pub fn number(&self, slot: Slot) -> Option<f64> {
        match self.value(slot) {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            Value::Absent => None,
        }
    }
}

/// Reads a line, or says why it cannot be read.
pub fn read<'a>(line: &'a [u8], format: &Format) -> Result<Raw<'a>, &'static str> {
    let is_object = line.first() == Some(&b'{');
    let map = match format {
        Format::Given(map) => map,
        Format::Known { own, combined } => {
            if is_object || line.starts_with(b"time=") {
                own
            } else {
                combined
            }
        }
    };
    let mut raw = Raw::default();
    if !map.columns.is_empty() {
        columns(line, map, &mut raw);
    } else if is_object {
        object(line, &map.members, &mut raw)?;
    } else {
        pairs(line, map, &mut raw)?;
    }
    Ok(raw)
}

fn object<'a>(line: &'a [u8], members: &[Member], raw: &mut Raw<'a>) -> Result<(), &'static str> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let walked = Walk { members, slot: None, raw }.deserialize(&mut deserializer);
    walked.and_then(|()| deserializer.end()).map_err(|_| "it is not a whole JSON object")
}

/// Goes through a value, taking what the members name.
struct Walk<'m, 'r, 'de> {
    members: &'m [Member],
    /// What the value is itself, if it is a plain one.
    slot: Option<Slot>,
    raw: &'r mut Raw<'de>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Walk<'_, '_, 'de> {
    fn set(self, value: Value<'de>) {
        if let Some(slot) = self.slot {
            self.raw.set(slot, value);
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.set(Value::Text(Cow::Borrowed(text)));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.set(Value::Text(Cow::Owned(text.to_owned())));
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.set(Value::Number(number as f64));
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.set(Value::Number(number as f64));
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.set(Value::Number(number));
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.set(Value::Text(Cow::Borrowed(if value { "true" } else { "false" })));
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.set(Value::Absent);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(found) = map.next_key_seed(Key(self.members))? {
            match found {
                Some(member) => {
                    let walk = Walk { members: &member.inside, slot: member.slot, raw: &mut *self.raw };
                    map.next_value_seed(walk)?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A member's name, looked up as it stands in the line.
struct Key<'m>(&'m [Member]);

impl<'de, 'm> DeserializeSeed<'de> for Key<'m> {
    type Value = Option<&'m Member>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'m> Visitor<'_> for Key<'m> {
    type Value = Option<&'m Member>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|member| *member.name == *name))
    }
}

/// `name=value name="a value"`, the quoted ones as in JSON.
fn pairs<'a>(line: &'a [u8], map: &Map, raw: &mut Raw<'a>) -> Result<(), &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8")?;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or("it is not a list of name=value")?;
        let length = if after.starts_with('"') {
            quoted_length(after.as_bytes()).ok_or("a quote is not closed")?
        } else {
            after.find(' ').unwrap_or(after.len())
        };
        let (value, after) = after.split_at(length);
        if let Some(slot) = map.pair(name) {
            let value = match value.strip_prefix('"') {
                Some(_) if value.contains('\\') => {
                    Cow::Owned(serde_json::from_str(value).map_err(|_| "a quoted value cannot be read")?)
                }
                Some(_) => Cow::Borrowed(&value[1..length - 1]),
                None => Cow::Borrowed(value),
            };
            raw.set(slot, Value::Text(value));
        }
        rest = after.trim_start();
    }
    Ok(())
}

/// Bytes from a quote to the one that closes it, both counted.
fn quoted_length(bytes: &[u8]) -> Option<usize> {
    let mut place = 1;
    loop {
        match bytes.get(place)? {
            b'"' => return Some(place + 1),
            b'\\' => place += 2,
            _ => place += 1,
        }
    }
}

/// Columns between blanks; text in quotes or brackets is one.
fn columns<'a>(line: &'a [u8], map: &Map, raw: &mut Raw<'a>) {
    let (mut place, mut number) = (0, 0);
    let mut wanted = map.columns.iter().peekable();
    while let Some((column, _)) = wanted.peek() {
        while matches!(line.get(place), Some(b' ' | b'\t')) {
            place += 1;
        }
        if place >= line.len() {
            return;
        }
        let rest = &line[place..];
        let (length, value) = match rest[0] {
            b'"' => {
                let length = quoted_length(rest).unwrap_or(rest.len());
                (length, &rest[1..length.saturating_sub(1).max(1)])
            }
            b'[' => {
                let length = memchr::memchr(b']', rest).map_or(rest.len(), |end| end + 1);
                (length, &rest[..length])
            }
            _ => {
                let length = memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
                (length, &rest[..length])
            }
        };
        place += length;
        number += 1;
        if *column == number {
            while let Some((_, slot)) = wanted.next_if(|(column, _)| *column == number) {
                raw.set(*slot, Value::Text(unescaped(value)));
            }
        }
    }
}

/// Without the `\xHH`, `\"` and `\\` that nginx and Apache write; a byte that is no text is the character of its number.
fn unescaped(value: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', value).is_none()
        && let Ok(text) = std::str::from_utf8(value)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, after)) = rest.split_first() {
        let (letter, taken) = match (first, after) {
            (b'\\', [b'x', digits @ ..]) => match digits.get(..2).and_then(hex_byte) {
                Some(byte) => (byte, 3),
                None => (b'\\', 0),
            },
            (b'\\', [next @ (b'"' | b'\\'), ..]) => (*next, 1),
            (byte, _) => (*byte, 0),
        };
        text.push(char::from(letter));
        rest = &after[taken..];
    }
    Cow::Owned(text)
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests;
