//! Where the data server is: named outright, or found by asking sentinels.

use redis::{Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisConnectionInfo, RedisError};
use std::fmt;
use std::time::Duration;

/// A server to connect to. Shown without user and password.
#[derive(Clone)]
pub enum Target {
    /// One server, or a name behind which the right one stands.
    Single(ConnectionInfo),
    /// The master that sentinels know under a name.
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        master: String,
        /// Credentials and database of the data servers.
        data: RedisConnectionInfo,
    },
}

impl Target {
    /// Whether another server is the one by now. Sentinels demote an old master only some ten seconds after a planned switch, and what
    /// it counts until then is lost; so they are asked.
    pub async fn has_moved(&self, from: &ConnectionAddr, timeout: Duration) -> bool {
        match self {
            Self::Single(_) => false,
            Self::Sentinel { sentinels, master, .. } => {
                find_master(sentinels, master, timeout).await.is_ok_and(|address| address != *from)
            }
        }
    }

    /// A client for the server as it is known now; sentinels are asked, one after another, each with the timeout.
    pub async fn client(&self, timeout: Duration) -> Result<Client, RedisError> {
        match self {
            Self::Single(server) => Client::open(server.clone()),
            Self::Sentinel { sentinels, master, data } => {
                let address = find_master(sentinels, master, timeout).await?;
                Client::open(address.into_connection_info()?.set_redis_settings(data.clone()))
            }
        }
    }
}

async fn find_master(
    sentinels: &[ConnectionInfo],
    master: &str,
    timeout: Duration,
) -> Result<ConnectionAddr, RedisError> {
    let mut last = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel is configured"));
    for sentinel in sentinels {
        match tokio::time::timeout(timeout, ask(sentinel, master)).await {
            Ok(Ok(address)) => return Ok(address),
            Ok(Err(error)) => last = error,
            Err(_) => last = RedisError::from((ErrorKind::Io, "a sentinel did not answer in time")),
        }
    }
    Err(last)
}

async fn ask(sentinel: &ConnectionInfo, master: &str) -> Result<ConnectionAddr, RedisError> {
    let client = Client::open(sentinel.clone())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let known: Option<(String, u16)> =
        redis::cmd("SENTINEL").arg("get-master-addr-by-name").arg(master).query_async(&mut connection).await?;
    let unknown = || RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "the sentinel knows no such master"));
    known.map(|(host, port)| ConnectionAddr::Tcp(host, port)).ok_or_else(unknown)
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(server) => write!(formatter, "{}", server.addr()),
            Self::Sentinel { master, .. } => write!(formatter, "master {master}"),
        }
    }
}
