//! Where the data server is: named outright, or found by asking sentinels.

use super::connection::Server;
use redis::{ErrorKind, RedisError};
use std::fmt;
use std::time::Duration;

/// A server to connect to. Shown without user and password.
#[derive(Clone)]
pub enum Target {
    /// One server, or a name behind which the right one stands.
    Single(Server),
    /// The master that sentinels know under a name.
    Sentinel {
        sentinels: Vec<Server>,
        master: String,
        /// How the data servers are spoken to, wherever they are.
        data: Server,
    },
}

impl Target {
    /// Whether another server is the one by now. Sentinels demote an old master only some ten seconds after a planned switch, and what
    /// it counts until then is lost; so they are asked.
    pub async fn has_moved(&self, from: &Server, timeout: Duration) -> bool {
        match self {
            Self::Single(_) => false,
            Self::Sentinel { .. } => self.server(timeout).await.is_ok_and(|server| !server.is_at(from)),
        }
    }

    /// The server as it is known now; sentinels are asked, one after another, each with the timeout.
    pub async fn server(&self, timeout: Duration) -> Result<Server, RedisError> {
        let (sentinels, master, data) = match self {
            Self::Single(server) => return Ok(server.clone()),
            Self::Sentinel { sentinels, master, data } => (sentinels, master, data),
        };
        let mut last = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel is configured"));
        for sentinel in sentinels {
            match ask(sentinel, master, timeout).await {
                Ok((host, port)) => return Ok(data.at(&host, port)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

async fn ask(sentinel: &Server, master: &str, timeout: Duration) -> Result<(String, u16), RedisError> {
    let connection = sentinel.connect(timeout, timeout).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(master);
    let known: Option<(String, u16)> = command.query_async(&mut connection.channel()).await?;
    known
        .ok_or_else(|| RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "the sentinel knows no such master")))
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(server) => write!(formatter, "{server}"),
            Self::Sentinel { master, .. } => write!(formatter, "master {master}"),
        }
    }
}
