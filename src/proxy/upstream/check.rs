//! One check of one server: a GET on a connection of its own, good when the answer is 2xx or 3xx.
//!
//! On a fresh connection each time, because one that stands already says nothing of whether new ones can be made.

use super::Upstream;
use crate::config::model::{HealthCheck, UpstreamProtocol};
use crate::upstream::Member;
use http::header;
use pingora::Result;
use pingora::connectors::http::Connector;
use pingora::http::RequestHeader;
use pingora::protocols::http::client::HttpSession;

/// The most of an answer that is read, so that a short one ends its connection in peace.
const MAX_BODY_BYTES: usize = 64 << 10;

/// What checks call themselves.
const USER_AGENT: &str = "sluicegate-health-check";

impl Upstream {
    /// Checks a member. The error says in a few words what was wrong.
    pub async fn check(&self, connector: &Connector, member: &Member, rule: &HealthCheck) -> Result<(), String> {
        let timeout = rule.timeout.to_duration();
        let (status, mut session) = match tokio::time::timeout(timeout, self.ask(connector, member, rule)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(error.etype().as_str().to_owned()),
            Err(_) => return Err(format!("no answer within {} ms", rule.timeout.0)),
        };
        // The verdict stands; a body that does not end changes nothing.
        let _ = tokio::time::timeout(timeout, drain(&mut session)).await;
        if (200..400).contains(&status) { Ok(()) } else { Err(format!("status {status}")) }
    }

    async fn ask(&self, connector: &Connector, member: &Member, rule: &HealthCheck) -> Result<(u16, HttpSession)> {
        let mut peer = self.peer(member, None);
        // One deadline is over all of it.
        peer.options.connection_timeout = None;
        peer.options.total_connection_timeout = None;
        peer.options.max_h2_streams = 1;
        peer.options.h2_ping_interval = None;
        let (mut session, _) = connector.get_http_session(&peer).await?;
        session.set_read_timeout(None);
        session.set_write_timeout(None);
        session.write_request_header(Box::new(self.question(member, rule)?)).await?;
        session.finish_request_body().await?;
        session.read_response_header().await?;
        let status = session.response_header().map_or(0, |response| response.status.as_u16());
        Ok((status, session))
    }

    fn question(&self, member: &Member, rule: &HealthCheck) -> Result<RequestHeader> {
        let mut request = RequestHeader::build("GET", rule.path.as_bytes(), Some(3))?;
        let host = self.tls.as_ref().and_then(|tls| tls.written_name()).unwrap_or(&member.name);
        request.insert_header(header::HOST, host)?;
        request.insert_header(header::USER_AGENT, USER_AGENT)?;
        if self.protocol == UpstreamProtocol::Http1 {
            request.insert_header(header::CONNECTION, "close")?;
        }
        Ok(request)
    }
}

async fn drain(session: &mut HttpSession) {
    let mut read = 0;
    while read < MAX_BODY_BYTES
        && let Ok(Some(bytes)) = session.read_response_body().await
    {
        read += bytes.len();
    }
    session.shutdown().await;
}
