//! `keys`: makes keys, turns keys into the digests that stand in a file, and lists what stands there.
//!
//! A key is printed once, when it is made, and is read from standard input alone: what stands in arguments is seen by
//! everybody on the machine. A stanza is read back by the reader of keys files before it is shown.

mod list;
mod secret;

use super::output::{self, fail};
use crate::config;
use crate::request::credential::MAX_KEY_BYTES;
use clap::{Args, Subcommand};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

/// Makes, hashes and lists API keys.
#[derive(Args)]
pub struct Keys {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Make a key: print it once, and the TOML with its digest for the keys file.
    ///
    /// The key stands in the first line and is stored nowhere: hand it to its owner. The rest goes into the file that
    /// `auth.keys_file` names; then check the configuration and reload.
    Create(Create),
    /// Read one key from standard input and print its digest as TOML.
    ///
    /// With --consumer it is a whole entry for the keys file. A key is never taken from an argument, where other users of the
    /// machine and the shell's history would see it.
    Hash(Hash),
    /// List ids, consumers, tiers, expiry and state of all keys; never secrets or digests.
    List(list::List),
}

#[derive(Args)]
struct Create {
    /// Who the key is for; one who has keys already gets one more
    #[arg(long, value_name = "NAME")]
    consumer: String,
    /// The consumer's tier
    #[arg(long, value_name = "TIER")]
    tier: String,
    /// What logs and metrics call the key [default: the consumer and a few random digits]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// From when on the key is refused: 2027-01-01, or 2027-01-01T08:00:00+01:00 [default: never]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// What the key begins with, for people and for scanners that look for leaked secrets
    #[arg(long, value_name = "PREFIX", default_value = "slg")]
    prefix: String,
}

#[derive(Args)]
struct Hash {
    /// Print an entry for this consumer
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// The consumer's tier; left out where the consumer is in the file already
    #[arg(long, value_name = "TIER", requires = "consumer")]
    tier: Option<String>,
    /// What logs and metrics call the key [default: the consumer and a few random digits]
    #[arg(long, value_name = "ID", requires = "consumer")]
    id: Option<String>,
    /// From when on the key is refused [default: never]
    #[arg(long, value_name = "TIME", requires = "consumer")]
    expires: Option<String>,
}

impl Keys {
    pub fn run(self) -> ExitCode {
        match self.command {
            KeysCommand::Create(create) => finish(create.text()),
            KeysCommand::Hash(hash) => finish(read_key().and_then(|key| hash.text(&key))),
            KeysCommand::List(list) => list.run(),
        }
    }
}

fn finish(text: Result<String, String>) -> ExitCode {
    match text {
        Ok(text) => output::print(&text),
        Err(message) => fail(&message, super::EXIT_USAGE),
    }
}

impl Create {
    fn text(&self) -> Result<String, String> {
        let key = secret::create(&self.prefix)?;
        let tier = Some(self.tier.as_str());
        let stanza = stanza(&self.consumer, tier, self.id.as_deref(), self.expires.as_deref(), &key)?;
        Ok(format!("{key}\n\n# For the keys file. The key above is shown this once and stored nowhere.\n{stanza}"))
    }
}

impl Hash {
    fn text(&self, key: &str) -> Result<String, String> {
        match &self.consumer {
            None => Ok(format!("sha256 = \"{}\"\n", secret::digest(key))),
            Some(consumer) => stanza(consumer, self.tier.as_deref(), self.id.as_deref(), self.expires.as_deref(), key),
        }
    }
}

/// One key, without the end of its line. No message repeats it.
fn read_key() -> Result<String, String> {
    if io::stdin().is_terminal() {
        eprint!("key: ");
    }
    let mut text = String::new();
    // One byte more than a key, its line end and what shows that there is more.
    let read = io::stdin().take(MAX_KEY_BYTES as u64 + 3).read_to_string(&mut text);
    read.map_err(|error| format!("standard input cannot be read: {error}"))?;
    let key = text.trim_end_matches(['\r', '\n']);
    if key.is_empty() {
        return Err("there is no key on standard input: printf %s \"$KEY\" | sluicegate keys hash".to_owned());
    }
    if key.len() > MAX_KEY_BYTES || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("this is not one key: up to {MAX_KEY_BYTES} visible ASCII characters on one line"));
    }
    if secret::checksum_fits(key) == Some(false) {
        eprintln!("warning: the checksum in this key is wrong: is it mistyped, or cut?");
    }
    Ok(key.to_owned())
}

/// The entry of a key in a keys file, proved by reading it.
fn stanza(
    consumer: &str,
    tier: Option<&str>,
    id: Option<&str>,
    expires: Option<&str>,
    key: &str,
) -> Result<String, String> {
    let id = match id {
        Some(id) => id.to_owned(),
        None => format!("{consumer}-{}", secret::suffix()?),
    };
    let (consumer, quoted_id) = (bare_or_quoted(consumer), value(&id));
    let table = match tier {
        Some(tier) => format!("[consumers.{consumer}]\ntier = {}\n\n", value(tier)),
        None => String::new(),
    };
    let mut entry = format!("[[consumers.{consumer}.keys]]\nid = {quoted_id}\nsha256 = \"{}\"\n", secret::digest(key));
    if let Some(expires) = expires {
        let _ = writeln!(entry, "expires = {}", instant(expires)?);
    }
    // Without the consumer's own table there is no tier; the one that stands in the file already does for it.
    let proof = if tier.is_some() {
        format!("{table}{entry}")
    } else {
        format!("[consumers.{consumer}]\ntier = \"any\"\n{entry}")
    };
    if let Some(problem) = config::problems_of_keys(&proof).into_iter().next() {
        let hint = problem.hint.map(|hint| format!("\n  help: {hint}")).unwrap_or_default();
        return Err(format!("{}{hint}", problem.message));
    }
    let known =
        if tier.is_some() { "# Without the next two lines when the consumer is in the file already.\n" } else { "" };
    Ok(format!("{known}{table}{entry}"))
}

/// A day alone is its beginning in UTC.
fn instant(text: &str) -> Result<String, String> {
    let is_time = text.bytes().all(|byte| byte.is_ascii_digit() || b"-:.+TtZz".contains(&byte));
    if !is_time || text.is_empty() {
        return Err(format!("\"{}\" is not a time such as 2027-01-01T00:00:00Z", text.escape_default()));
    }
    let is_day = text.len() == 10 && text.bytes().filter(|byte| *byte == b'-').count() == 2;
    Ok(if is_day { format!("{text}T00:00:00Z") } else { text.to_owned() })
}

fn bare_or_quoted(text: &str) -> String {
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_bare { text.to_owned() } else { quoted(text) }
}

/// A string value of the configuration: a dollar sign begins no variable.
fn value(text: &str) -> String {
    quoted(&text.replace('$', "$$"))
}

/// A basic string of TOML, whatever the text holds.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out + "\""
}
