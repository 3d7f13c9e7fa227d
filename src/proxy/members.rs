//! The members of a body that the gateway makes: their names, their order, their values.
//!
//! The built-in JSON, `application/problem+json` and templates all write from one [`Members`], so that they cannot
//! tell different things. The names are API: they are never renamed.

use crate::algorithm::Units;
use crate::policy::limit_text::thousandths;
use std::borrow::Cow;

/// One member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Error,
    Message,
    Limit,
    Remaining,
    Window,
    RetryAfterSeconds,
    ResetAt,
    Policy,
    Layer,
    Cost,
    RequestId,
    DocumentationUrl,
    UpgradeUrl,
}

impl Member {
    /// In the order in which bodies have them.
    pub const ALL: [Self; 13] = [
        Self::Error,
        Self::Message,
        Self::Limit,
        Self::Remaining,
        Self::Window,
        Self::RetryAfterSeconds,
        Self::ResetAt,
        Self::Policy,
        Self::Layer,
        Self::Cost,
        Self::RequestId,
        Self::DocumentationUrl,
        Self::UpgradeUrl,
    ];

    /// The name in bodies and templates.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Message => "message",
            Self::Limit => "limit",
            Self::Remaining => "remaining",
            Self::Window => "window",
            Self::RetryAfterSeconds => "retry_after_seconds",
            Self::ResetAt => "reset_at",
            Self::Policy => "policy",
            Self::Layer => "layer",
            Self::Cost => "cost",
            Self::RequestId => "request_id",
            Self::DocumentationUrl => "documentation_url",
            Self::UpgradeUrl => "upgrade_url",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|member| member.name() == name)
    }

    /// Whether its value is a number.
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Limit | Self::Remaining | Self::RetryAfterSeconds | Self::Cost)
    }
}

/// The value of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value<'a> {
    /// Not to be told, or not known.
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Integer(i64),
    /// Told in requests.
    Cost(Units),
}

/// The values of one answer.
#[derive(Clone, Debug, Default)]
pub struct Members<'a> {
    values: [Value<'a>; Member::ALL.len()],
}

impl<'a> Members<'a> {
    pub fn get(&self, member: Member) -> &Value<'a> {
        &self.values[member as usize]
    }

    pub fn set(&mut self, member: Member, value: Value<'a>) {
        self.values[member as usize] = value;
    }

    pub fn text(&mut self, member: Member, text: impl Into<Cow<'a, str>>) {
        self.set(member, Value::Text(text.into()));
    }

    /// Writes the members that have a value as those of a JSON object, the first with a comma before it where `more`
    /// were written already.
    pub fn write_json(&self, out: &mut Vec<u8>, mut more: bool) {
        for member in Member::ALL {
            let value = self.get(member);
            if *value == Value::Absent {
                continue;
            }
            if more {
                out.push(b',');
            }
            more = true;
            write_json_string(out, member.name());
            out.push(b':');
            match value {
                Value::Text(text) => write_json_string(out, text),
                other => out.extend_from_slice(other.plain().as_bytes()),
            }
        }
    }
}

impl Value<'_> {
    /// The value as text, not escaped; nothing when absent.
    pub fn plain(&self) -> Cow<'_, str> {
        match self {
            Self::Absent => Cow::Borrowed(""),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Integer(number) => Cow::Owned(number.to_string()),
            Self::Cost(units) => Cow::Owned(thousandths(*units)),
        }
    }
}

/// A JSON string with its quotes (RFC 8259 section 7).
pub fn write_json_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing a string into memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_members_is_that_of_their_values() {
        for (index, member) in Member::ALL.into_iter().enumerate() {
            assert_eq!(member as usize, index);
            assert_eq!(Member::by_name(member.name()), Some(member));
        }
        assert_eq!(Member::by_name("Limit"), None);
    }

    #[test]
    fn absent_members_are_left_out_and_a_cost_has_no_noise() {
        let mut members = Members::default();
        members.text(Member::Error, "a\"b\u{2028}\n");
        members.set(Member::Limit, Value::Integer(7));
        members.set(Member::Cost, Value::Cost(2_500));
        let mut out = Vec::new();
        members.write_json(&mut out, false);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), "\"error\":\"a\\\"b\u{2028}\\n\",\"limit\":7,\"cost\":2.5");
    }
}
