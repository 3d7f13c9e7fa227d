//! Which part of a line means what: the maps of the formats that are known, and the one that an operator writes as
//! `--fields ip=client.addr,time=ts,method=verb,path=url`.
//!
//! A value on the right is the number of a column (from 1; text in quotes or brackets is one column) or a name: of a
//! member of a JSON object (`a.b` is the member `b` of the member `a`) or of a `name=value` pair. Numbers and names are
//! not mixed, since a line is of one form.

use http::HeaderName;
use std::str::FromStr;

/// Headers that a map may name.
const MAX_HEADERS: usize = 16;

/// A thing that a line may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Ip,
    Time,
    /// Seconds from the request's arrival to `Time`.
    DurationS,
    /// The same in milliseconds.
    DurationMs,
    Method,
    /// A path, with or without a query, or a whole URL.
    Path,
    /// A request line: method, target and perhaps the version.
    Request,
    Host,
    Status,
    Consumer,
    KeyId,
    // What only our own lines say.
    DecidedAt,
    Decision,
    Limit,
    Error,
    Upstream,
    Route,
    /// An index into [`Map::headers`].
    Header(usize),
}

/// Slots that are not headers.
pub const PLAIN_SLOTS: usize = 17;

impl Slot {
    /// Its place among the plain slots; absent for a header.
    pub fn place(self) -> Option<usize> {
        Some(match self {
            Self::Ip => 0,
            Self::Time => 1,
            Self::DurationS => 2,
            Self::DurationMs => 3,
            Self::Method => 4,
            Self::Path => 5,
            Self::Request => 6,
            Self::Host => 7,
            Self::Status => 8,
            Self::Consumer => 9,
            Self::KeyId => 10,
            Self::DecidedAt => 11,
            Self::Decision => 12,
            Self::Limit => 13,
            Self::Error => 14,
            Self::Upstream => 15,
            Self::Route => 16,
            Self::Header(_) => return None,
        })
    }
}

/// What an operator may name.
const NAMES: [(&str, Slot); 11] = [
    ("ip", Slot::Ip),
    ("time", Slot::Time),
    ("method", Slot::Method),
    ("path", Slot::Path),
    ("request", Slot::Request),
    ("host", Slot::Host),
    ("status", Slot::Status),
    ("consumer", Slot::Consumer),
    ("key_id", Slot::KeyId),
    ("duration_s", Slot::DurationS),
    ("duration_ms", Slot::DurationMs),
];

/// The members of our own lines.
const OWN: [(&str, Slot); 14] = [
    ("client_ip", Slot::Ip),
    ("time", Slot::Time),
    ("duration_ms", Slot::DurationMs),
    ("method", Slot::Method),
    ("path", Slot::Path),
    ("status", Slot::Status),
    ("consumer", Slot::Consumer),
    ("key_id", Slot::KeyId),
    ("decided_at", Slot::DecidedAt),
    ("decision", Slot::Decision),
    ("limit", Slot::Limit),
    ("error", Slot::Error),
    ("upstream", Slot::Upstream),
    ("route", Slot::Route),
];

/// `ip - user [time] "request" status …`, as nginx and Apache have it.
const COMBINED: [(usize, Slot); 5] =
    [(1, Slot::Ip), (3, Slot::Consumer), (4, Slot::Time), (5, Slot::Request), (6, Slot::Status)];

/// A member of a JSON object, and what is inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub name: Box<str>,
    pub slot: Option<Slot>,
    pub inside: Vec<Member>,
}

/// Where the slots are found in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// By name, for JSON objects and pairs. Empty: by column.
    pub members: Vec<Member>,
    /// Column numbers from 1, ascending.
    pub columns: Vec<(usize, Slot)>,
    pub headers: Vec<HeaderName>,
}

/// Which map a line is read by.
#[derive(Clone, Debug)]
pub enum Format {
    /// Our own JSON or text, or the combined format, each line by its looks.
    Known {
        own: Map,
        combined: Map,
    },
    Given(Map),
}

impl Format {
    pub fn known() -> Self {
        let mut own = Map { members: Vec::new(), columns: Vec::new(), headers: Vec::new() };
        for (name, slot) in OWN {
            own.add_member(name, slot);
        }
        let combined = Map { members: Vec::new(), columns: COMBINED.to_vec(), headers: Vec::new() };
        Self::Known { own, combined }
    }

    /// The header names that slots refer to.
    pub fn headers(&self) -> &[HeaderName] {
        match self {
            Self::Known { .. } => &[],
            Self::Given(map) => &map.headers,
        }
    }
}

impl Map {
    /// A name is a member as it stands and, when it has dots, a way through nested ones.
    fn add_member(&mut self, name: &str, slot: Slot) {
        add(&mut self.members, &[name], slot);
        let steps: Vec<&str> = name.split('.').collect();
        if steps.len() > 1 {
            add(&mut self.members, &steps, slot);
        }
    }

    /// The slot of a `name=value` pair.
    pub fn pair(&self, name: &str) -> Option<Slot> {
        self.members.iter().find(|member| *member.name == *name).and_then(|member| member.slot)
    }
}

fn add(members: &mut Vec<Member>, steps: &[&str], slot: Slot) {
    let Some((first, rest)) = steps.split_first() else { return };
    let place = members.iter().position(|member| *member.name == **first).unwrap_or_else(|| {
        members.push(Member { name: (*first).into(), ..Member::default() });
        members.len() - 1
    });
    if rest.is_empty() {
        members[place].slot = Some(slot);
    } else {
        add(&mut members[place].inside, rest, slot);
    }
}

impl FromStr for Map {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut map = Self { members: Vec::new(), columns: Vec::new(), headers: Vec::new() };
        let mut seen = Vec::new();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=WHERE"))?;
            let (name, value) = (name.trim(), value.trim());
            let slot = map.slot(name)?;
            if value.is_empty() {
                return Err(format!("`{name}` says not where it is"));
            }
            if seen.contains(&name) {
                return Err(format!("`{name}` is there twice"));
            }
            seen.push(name);
            match value.parse() {
                Ok(0) => return Err("columns are counted from 1".into()),
                Ok(column) => map.columns.push((column, slot)),
                Err(_) => map.add_member(value, slot),
            }
        }
        if !map.columns.is_empty() && !map.members.is_empty() {
            return Err("columns and names cannot be mixed".into());
        }
        let has = |name: &str| seen.contains(&name);
        if !has("ip") || !has("time") {
            return Err("`ip` and `time` are needed".into());
        }
        if !has("request") && !has("path") {
            return Err("`path` or `request` is needed".into());
        }
        map.columns.sort_by_key(|(column, _)| *column);
        Ok(map)
    }
}

impl Map {
    fn slot(&mut self, name: &str) -> Result<Slot, String> {
        if let Some((_, slot)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*slot);
        }
        let Some(header) = name.strip_prefix("header:") else {
            let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(format!("`{name}` is not known; there are {} and header:NAME", known.join(", ")));
        };
        let header = HeaderName::try_from(header).map_err(|_| format!("`{header}` is not the name of a header"))?;
        if self.headers.len() == MAX_HEADERS {
            return Err(format!("more than {MAX_HEADERS} headers"));
        }
        self.headers.push(header);
        Ok(Slot::Header(self.headers.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_of_columns_or_of_names() {
        let columns: Map = "time=2,ip=1,request=4,header:X-Tenant=9".parse().unwrap();
        let expected = [(1, Slot::Ip), (2, Slot::Time), (4, Slot::Request), (9, Slot::Header(0))];
        assert_eq!(columns.columns, expected);
        assert_eq!(columns.headers, ["x-tenant"]);
        let names: Map = "time=ts,ip=http.client.ip,path=url".parse().unwrap();
        assert_eq!((names.pair("ts"), names.pair("http.client.ip")), (Some(Slot::Time), Some(Slot::Ip)));
        let http = names.members.iter().find(|member| *member.name == *"http").unwrap();
        assert_eq!(http.inside[0].inside[0].slot, Some(Slot::Ip));
    }

    #[test]
    fn a_map_that_cannot_be_meant_is_refused_with_the_reason() {
        let vectors = [
            ("ip", "is not NAME=WHERE"),
            ("ip=1,time=2", "`path` or `request` is needed"),
            ("ip=1,path=2", "`ip` and `time` are needed"),
            ("ip=1,time=ts,path=3", "cannot be mixed"),
            ("ip=0,time=2,path=3", "counted from 1"),
            ("ip=1,time=2,path=3,ip=4", "is there twice"),
            ("adress=1,time=2,path=3", "`adress` is not known"),
            ("ip=,time=2,path=3", "says not where"),
            ("ip=1,time=2,path=3,header:ä=4", "not the name of a header"),
        ];
        for (text, reason) in vectors {
            let error = text.parse::<Map>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
