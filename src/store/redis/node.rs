//! One server: its connection, its breaker, and a script run on it.

use super::address::Target;
use super::connection::brief;
use super::link::Link;
use super::script::Script;
use crate::store::StoreError;
use crate::store::breaker::Breaker;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long a probe's write lives.
const PROBE_LIFE_MS: u64 = 1000;

/// One Redis server.
pub struct Node {
    link: Arc<Link>,
    pub breaker: Arc<Breaker>,
}

/// Why a call failed.
pub enum CallError {
    /// There is no connection right now.
    NotConnected,
    Redis(RedisError),
    /// An answer of a type that the command never gives.
    Nonsense,
}

impl CallError {
    pub fn into_store_error(self) -> StoreError {
        match self {
            Self::NotConnected => StoreError::Unavailable("there is no connection".to_owned()),
            Self::Nonsense => StoreError::Nonsense("it is of another type"),
            Self::Redis(error) if error.code().is_some() => StoreError::Refused(brief(&error)),
            Self::Redis(error) => StoreError::Unavailable(brief(&error)),
        }
    }
}

impl Node {
    /// A node whose connection is kept by a task of its own; `connected` is told each time there is a new one.
    pub fn start(target: Target, timeout: Duration, connected: &Arc<Notify>) -> Arc<Self> {
        let link = Link::new(target, timeout, connected.clone());
        tokio::spawn(link.clone().keep());
        Arc::new(Self { link, breaker: Arc::default() })
    }

    /// Runs a script: by its hash and, should the server not know it, by its text, which teaches it. `asking` is for a slot that is
    /// being moved here.
    pub async fn run(
        &self,
        script: &Script,
        keys: &[String],
        argument: &[u8],
        asking: bool,
    ) -> Result<Vec<u8>, CallError> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len()).arg(keys).arg(argument);
            command
        };
        let answer = match self.send(command("EVALSHA", &script.sha1), asking).await {
            Err(CallError::Redis(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.send(command("EVAL", &script.text), asking).await
            }
            answer => answer,
        };
        match answer? {
            Value::BulkString(reply) => Ok(reply),
            _ => Err(CallError::Nonsense),
        }
    }

    async fn send(&self, command: Cmd, asking: bool) -> Result<Value, CallError> {
        let connection = match self.link.connection() {
            Some(connection) => connection,
            None => self.link.first_connection().await.ok_or(CallError::NotConnected)?,
        };
        let mut channel = connection.channel();
        let answer = if asking {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ASKING").ignore().add_command(command);
            pipeline.query_async::<(Value,)>(&mut channel).await.map(|(value,)| value).map_err(of_command)
        } else {
            command.query_async::<Value>(&mut channel).await
        };
        answer.map_err(|error| {
            if leads_nowhere(&error) {
                self.link.drop_connection(&connection);
            }
            CallError::Redis(error)
        })
    }

    /// Tries a real write if the breaker is open; true when this closed it. A connection over which the write gets no
    /// answer is given up: the server at its other end may be gone without a word.
    pub async fn probe(&self, key: &str) -> bool {
        if !self.breaker.is_open() {
            return false;
        }
        let Some(connection) = self.link.connection() else { return false };
        let mut channel = connection.channel();
        let mut command = redis::cmd("SET");
        command.arg(key).arg(1).arg("PX").arg(PROBE_LIFE_MS);
        let written = tokio::time::timeout(self.link.patience(), command.query_async::<Value>(&mut channel)).await;
        match written {
            Ok(Ok(Value::Okay)) => self.breaker.probe_succeeded(),
            // No Redis says anything else.
            Ok(Ok(_)) => false,
            Ok(Err(error)) => {
                if leads_nowhere(&error) {
                    self.link.drop_connection(&connection);
                }
                false
            }
            Err(_) => {
                self.link.drop_connection(&connection);
                false
            }
        }
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.link.connection().is_some()
    }

    /// Ends the task that keeps the connection.
    pub fn close(&self) {
        self.link.close();
    }
}

/// What a command of a pipeline was answered: the pipeline's own error tells no redirection.
fn of_command(error: RedisError) -> RedisError {
    let answered = error.clone().into_server_errors();
    answered.and_then(|errors| errors.first().map(|(_, error)| error.clone().into())).unwrap_or(error)
}

/// Whether the connection is broken, or leads to a server that is not the master (any more).
fn leads_nowhere(error: &RedisError) -> bool {
    let demoted = matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) | ErrorKind::AuthenticationFailed
    );
    demoted || error.is_connection_dropped() || error.is_unrecoverable_error() || error.kind() == ErrorKind::Parse
}
