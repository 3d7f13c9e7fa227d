//! TLS towards clients: the certificate for the name, both protocols, renewal without a dropped connection.

use crate::support::authority::{Authority, Signed};
use crate::support::client::{UPGRADE, render};
use crate::support::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;

type Secure = StreamOwned<ClientConnection, TcpStream>;

/// A TLS listener on a free port with these certificates.
fn listener(certificates: &[&Signed]) -> (SocketAddr, String) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let tables = certificates.iter().map(|signed| {
        let Signed { certificate, key } = signed;
        format!("[[server.tls]]\nlisten = \"{address}\"\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n")
    });
    (address, tables.collect())
}

fn certificate_of(file: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).expect("the authority wrote it")
}

/// A handshake as `name`, trusting the authority alone.
fn handshake(
    address: SocketAddr,
    name: &'static str,
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
) -> io::Result<Secure> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate_of(&authority.file())).expect("it is an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("ring has them");
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(name).expect("it is a name");
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut secure = StreamOwned::new(connection, socket);
    while secure.conn.is_handshaking() {
        secure.conn.complete_io(&mut secure.sock)?;
    }
    Ok(secure)
}

fn shown(secure: &Secure) -> CertificateDer<'static> {
    secure.conn.peer_certificates().expect("it showed one")[0].clone().into_owned()
}

/// The status of a request on a connection that is kept.
fn ask(secure: &mut Secure, path: &str, headers: &[(&str, &str)]) -> io::Result<String> {
    secure.write_all(&render("GET", path, headers, b""))?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok") && !answer.ends_with(b"}") && !answer.ends_with(b"\r\n\r\n") {
        let mut piece = [0; 4096];
        match secure.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => answer.extend_from_slice(&piece[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&answer[9..12]).into_owned())
}

#[test]
fn the_name_that_a_client_asks_for_chooses_the_certificate() {
    let authority = Authority::new();
    let one = authority.sign("one", &["one.test", "www.one.test"]);
    let wild = authority.sign("wild", &["*.two.test"]);
    let exact = authority.sign("exact", &["api.two.test"]);
    let (address, tables) = listener(&[&one, &wild, &exact]);
    let _gateway = Setup::default().toml(&tables).start();
    let vectors = [("one.test", &one), ("WWW.one.test", &one), ("a.two.test", &wild), ("api.two.test", &exact)];
    for (name, expected) in vectors {
        let secure = handshake(address, name, &authority, rustls::ALL_VERSIONS).expect(name);
        assert_eq!(shown(&secure), certificate_of(&expected.certificate), "{name}");
    }
    for unknown in ["a.b.two.test", "two.test", "three.test"] {
        let error = handshake(address, unknown, &authority, rustls::ALL_VERSIONS).expect_err(unknown).to_string();
        assert!(error.contains("not valid for name"), "{unknown} was shown the first one: {error}");
    }
}

#[test]
fn both_versions_of_tls_are_spoken_and_the_upstream_is_told_the_scheme() {
    let authority = Authority::new();
    let signed = authority.sign("one", &["one.test"]);
    let (address, tables) = listener(&[&signed]);
    let gateway = Setup::default().client_ip("limits = [{ rate = \"2/h\" }]").toml(&tables).start();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut secure = handshake(address, "one.test", &authority, &[version]).expect("a version of 2008 or later");
        assert_eq!(ask(&mut secure, "/", &[]).expect("an answer"), "200", "{version:?}");
        assert_eq!(gateway.upstream.last().header("x-forwarded-proto"), Some("https"));
    }
    let mut third = handshake(address, "one.test", &authority, rustls::ALL_VERSIONS).expect("both are spoken");
    assert_eq!(ask(&mut third, "/", &[]).expect("an answer"), "429");
    assert_eq!(ask(&mut third, "/", &[]).expect("the connection is kept"), "429");
}

#[test]
fn curl_speaks_either_protocol_over_tls() {
    let authority = Authority::new();
    let signed = authority.sign("one", &["one.test"]);
    let (address, tables) = listener(&[&signed]);
    let _gateway = Setup::default().client_ip("limits = [{ rate = \"2/h\" }]").toml(&tables).start();
    let curl = |protocol: &str| {
        let resolve = format!("one.test:{}:127.0.0.1", address.port());
        let url = format!("https://one.test:{}/", address.port());
        let mut command = Command::new("curl");
        command.args(["-sS", protocol, "--cacert", &authority.file(), "--resolve", &resolve, &url]);
        let output =
            command.args(["-o", "/dev/null", "-w", "%{http_code} %{http_version}"]).output().expect("curl runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert_eq!(curl("--http2"), "200 2");
    assert_eq!(curl("--http1.1"), "200 1.1");
    assert_eq!(curl("--http2"), "429 2");
    assert_eq!(curl("--http1.1"), "429 1.1");
}

#[test]
fn a_reload_renews_certificates_and_drops_no_connection() {
    let authority = Authority::new();
    let old = authority.sign("one", &["one.test"]);
    let (address, tables) = listener(&[&old]);
    let before = certificate_of(&old.certificate);
    let mut gateway = Setup::default().toml(&tables).start();
    let mut open = handshake(address, "one.test", &authority, rustls::ALL_VERSIONS).expect("it listens");
    assert_eq!(ask(&mut open, "/", &[]).expect("an answer"), "200");
    // The same files with another pair, as a renewal leaves them.
    let new = authority.sign("one", &["one.test"]);
    assert_eq!(gateway.hang_up(), Reload::Success);
    let renewed = handshake(address, "one.test", &authority, rustls::ALL_VERSIONS).expect("it listens");
    assert_eq!(shown(&renewed), certificate_of(&new.certificate));
    assert_ne!(shown(&renewed), before);
    assert_eq!(ask(&mut open, "/", &[]).expect("the old connection is still open"), "200");
}

#[test]
fn a_pair_that_does_not_fit_refuses_the_reload_and_the_old_one_stays() {
    let authority = Authority::new();
    let signed = authority.sign("one", &["one.test"]);
    let other = authority.sign("other", &["one.test"]);
    let (address, tables) = listener(&[&signed]);
    let mut gateway = Setup::default().toml(&tables).start();
    let expected = certificate_of(&signed.certificate);
    std::fs::copy(&other.key, &signed.key).expect("the files are ours");
    assert_eq!(gateway.hang_up(), Reload::Failure);
    assert!(gateway.log().contains("the key does not fit the certificate"), "{}", gateway.log());
    for broken in [&b"no pem at all"[..], b""] {
        std::fs::write(&signed.certificate, broken).expect("the files are ours");
        assert_eq!(gateway.hang_up(), Reload::Failure);
    }
    let secure = handshake(address, "one.test", &authority, rustls::ALL_VERSIONS).expect("it still listens");
    assert_eq!(shown(&secure), expected);
}

#[test]
fn addresses_of_tls_listeners_need_a_restart() {
    let authority = Authority::new();
    let signed = authority.sign("one", &["one.test"]);
    let ((_, first), (_, second)) = (listener(&[&signed]), listener(&[&signed]));
    let mut gateway = Setup::default().toml(&first).start();
    let reload = gateway.reload(|setup| setup.toml = setup.toml.replace(&first, &second));
    assert_eq!(reload, Reload::Failure);
    assert!(gateway.log().contains("restart"), "{}", gateway.log());
}

#[test]
fn a_client_that_speaks_the_wrong_one_of_both_is_told_or_closed() {
    let authority = Authority::new();
    let signed = authority.sign("one", &["one.test"]);
    let (address, tables) = listener(&[&signed]);
    let gateway = Setup::default().toml(&tables).start();
    let mut plain = Client::connect(address);
    plain.send(render("GET", "/", &[], b""));
    let told = plain.read_to_end();
    assert!(!told.starts_with(b"HTTP/"), "an alert at most, and the end");
    let error = handshake(gateway.files.data, "one.test", &authority, rustls::ALL_VERSIONS);
    assert!(error.is_err(), "the port in clear answers a handshake in clear");
    assert_eq!(gateway.upstream.count(), 0);
}

#[test]
fn a_tunnel_opens_over_tls_too() {
    let authority = Authority::new();
    let signed = authority.sign("one", &["one.test"]);
    let (address, tables) = listener(&[&signed]);
    let _gateway = Setup::default().toml(&tables).before_script(|_| Reply::upgrade());
    let mut secure = handshake(address, "one.test", &authority, rustls::ALL_VERSIONS).expect("it listens");
    assert_eq!(ask(&mut secure, "/ws", &UPGRADE).expect("an answer"), "101");
    secure.write_all(b"through and back").expect("the tunnel is open");
    let mut echoed = [0; 16];
    secure.read_exact(&mut echoed).expect("it comes back");
    assert_eq!(&echoed, b"through and back");
}
