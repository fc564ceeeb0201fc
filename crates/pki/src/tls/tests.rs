use super::*;
use crate::bundle::Bundle;
use crate::ca::{LEAF_LIFE_MS, NODE_LIFE_MS};
use crate::testing::{FLEET, HOUR_MS, IMPOSTOR, NOW_MS, SERVER, node_identity};
use rustls::client::ClientSessionMemoryCache;
use rustls::{ClientConnection, Connection, HandshakeKind, ServerConnection};
use std::io::{Read, Write};

fn clock(at_ms: i64) -> Clock {
    Arc::new(move || at_ms)
}

fn server() -> ServerConfig {
    server_config(&FLEET.serving, clock(NOW_MS)).expect("config")
}

fn client_of(fleet: &Bundle, identity: Option<&TlsIdentity>, at_ms: i64) -> ClientConfig {
    client_config(vec![fleet.pins().serving_ca_spki_pin], identity, clock(at_ms)).expect("config")
}

/// Which side refused.
#[derive(Debug, PartialEq)]
enum Refused {
    ByClient(Error),
    ByServer(Error),
}

struct Connected {
    client: Connection,
    server: Connection,
}

fn transfer(from: &mut Connection, to: &mut Connection) -> Result<bool, Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).expect("memory");
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).expect("memory");
        to.process_new_packets()?;
    }
    Ok(!bytes.is_empty())
}

/// A whole handshake over memory, until neither side has more to say.
fn connect_to(name: &str, client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Result<Connected, Refused> {
    let name = server_name(name, None).expect("name");
    let mut client = Connection::Client(ClientConnection::new(client, name).expect("client"));
    let mut server = Connection::Server(ServerConnection::new(server).expect("server"));
    loop {
        let sent = transfer(&mut client, &mut server).map_err(Refused::ByServer)?;
        let answered = transfer(&mut server, &mut client).map_err(Refused::ByClient)?;
        if !sent && !answered {
            assert!(!client.is_handshaking() && !server.is_handshaking());
            return Ok(Connected { client, server });
        }
    }
}

fn connect(client: ClientConfig, server: ServerConfig) -> Result<Connected, Refused> {
    connect_to(SERVER, Arc::new(client), Arc::new(server))
}

fn refusal(result: Result<Connected, Refused>) -> Refused {
    result.map(|_| ()).expect_err("must be refused")
}

#[test]
fn a_node_and_its_gateway_speak_tls_1_3_and_h2() {
    let identity = node_identity(&FLEET);
    let mut up = connect(client_of(&FLEET, Some(&identity), NOW_MS), server()).expect("connected");
    assert_eq!(up.server.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    assert_eq!((up.client.alpn_protocol(), up.server.alpn_protocol()), (Some(ALPN), Some(ALPN)));
    assert_eq!(up.server.peer_certificates(), Some(identity.chain.as_slice()));
    up.client.writer().write_all(b"hello").expect("write");
    transfer(&mut up.client, &mut up.server).expect("transfer");
    let mut got = [0; 5];
    up.server.reader().read_exact(&mut got).expect("read");
    assert_eq!(&got, b"hello");
}

#[test]
fn a_client_without_a_certificate_may_connect_to_join() {
    let up = connect(client_of(&FLEET, None, NOW_MS), server()).expect("connected");
    assert_eq!(up.server.peer_certificates(), None);
}

#[test]
fn a_gateway_of_another_pin_is_refused() {
    let refused = refusal(connect(client_of(&IMPOSTOR, None, NOW_MS), server()));
    let Refused::ByClient(Error::InvalidCertificate(CertificateError::Other(why))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(why.to_string(), ServingVerifyError::Pin.to_string());
}

#[test]
fn showing_the_pinned_authority_is_not_enough() {
    // An impostor that sends the true CA certificate behind a leaf of its own.
    let mut forged = IMPOSTOR.serving.clone();
    forged.chain = vec![forged.chain[0].clone(), FLEET.public.serving_ca.clone()];
    let server = server_config(&forged, clock(NOW_MS)).expect("config");
    let untrusted = Refused::ByClient(Error::InvalidCertificate(CertificateError::UnknownIssuer));
    assert_eq!(refusal(connect(client_of(&FLEET, None, NOW_MS), server)), untrusted);
    // And one that has the true leaf but sends no authority at all.
    let mut alone = FLEET.serving.clone();
    alone.chain.truncate(1);
    let server = server_config(&alone, clock(NOW_MS)).expect("config");
    assert!(matches!(refusal(connect(client_of(&FLEET, None, NOW_MS), server)), Refused::ByClient(_)));
}

#[test]
fn a_gateway_must_hold_the_key_of_its_certificate() {
    let other = crate::key::KeyPair::generate();
    let chain = FLEET.serving.chain.clone();
    assert!(matches!(
        server_config(&TlsIdentity { chain: chain.clone(), key: other.clone() }, clock(NOW_MS)),
        Err(TlsError::Identity(_))
    ));
    let mut config = server();
    let stolen = CertifiedKey::new(chain, other.tls_signer().expect("signer"));
    config.cert_resolver = Arc::new(SingleCertAndKey::from(stolen));
    let bad = Refused::ByClient(Error::InvalidCertificate(CertificateError::BadSignature));
    assert_eq!(refusal(connect(client_of(&FLEET, None, NOW_MS), config)), bad);
}

#[test]
fn a_gateway_must_carry_the_name_that_was_asked_for() {
    let client = Arc::new(client_of(&FLEET, None, NOW_MS));
    for name in [SERVER, "127.0.0.1", "[::1]"] {
        assert!(connect_to(name, client.clone(), Arc::new(server())).is_ok(), "{name}");
    }
    for name in ["other.example", "127.0.0.2", "sub.gateway.example"] {
        let wrong = Refused::ByClient(Error::InvalidCertificate(CertificateError::NotValidForName));
        assert_eq!(refusal(connect_to(name, client.clone(), Arc::new(server()))), wrong, "{name}");
    }
    let by_address = server_name("10.0.0.9", Some(SERVER)).expect("name");
    assert_eq!(by_address, ServerName::try_from(SERVER).expect("name"));
    assert!(server_name("a b", None).is_err());
}

#[test]
fn a_gateways_certificate_is_judged_by_the_callers_time() {
    let at = |at_ms| connect(client_of(&FLEET, None, at_ms), server()).map(|_| ());
    assert_eq!(at(NOW_MS - HOUR_MS), Ok(()));
    let expired = Refused::ByClient(Error::InvalidCertificate(CertificateError::Expired));
    assert_eq!(at(NOW_MS + LEAF_LIFE_MS + 1000), Err(expired));
    let early = Refused::ByClient(Error::InvalidCertificate(CertificateError::NotValidYet));
    assert_eq!(at(-1), Err(early));
}

#[test]
fn an_expired_or_foreign_client_certificate_passes_tls_so_that_the_gateway_can_answer() {
    let identity = node_identity(&FLEET);
    let late_ms = NOW_MS + 100 * NODE_LIFE_MS;
    let late_server = server_config(&FLEET.serving, clock(late_ms)).expect("config");
    let up = connect(client_of(&FLEET, Some(&identity), late_ms), late_server).expect("connected");
    let shown = up.server.peer_certificates().expect("shown");
    let verdict = verify::verify_node_chain(&shown[0], &FLEET.public.node_trust(), late_ms, 0);
    assert!(matches!(verdict, Err(verify::NodeVerifyError::Expired { .. })));

    let foreign = node_identity(&IMPOSTOR);
    let up = connect(client_of(&FLEET, Some(&foreign), NOW_MS), server()).expect("connected");
    let shown = up.server.peer_certificates().expect("shown");
    let verdict = verify::verify_node_chain(&shown[0], &FLEET.public.node_trust(), NOW_MS, 0);
    assert_eq!(verdict, Err(verify::NodeVerifyError::WrongFleet));
}

#[test]
fn a_client_without_the_key_of_its_certificate_is_refused() {
    let victim = node_identity(&FLEET);
    let thief = crate::key::KeyPair::generate();
    let mut config = client_of(&FLEET, None, NOW_MS);
    let stolen = CertifiedKey::new(victim.chain.clone(), thief.tls_signer().expect("signer"));
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(stolen));
    let bad = Refused::ByServer(Error::InvalidCertificate(CertificateError::BadSignature));
    assert_eq!(refusal(connect(config, server())), bad);
}

#[test]
fn no_session_is_resumed_even_by_a_client_that_would() {
    let identity = node_identity(&FLEET);
    let mut config = client_of(&FLEET, Some(&identity), NOW_MS);
    config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(8)));
    let (client_config, server_config) = (Arc::new(config), Arc::new(server()));
    for _ in 0..3 {
        let up = connect_to(SERVER, client_config.clone(), server_config.clone()).expect("connected");
        assert_eq!(up.server.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(up.client.handshake_kind(), Some(HandshakeKind::Full));
        assert!(up.server.peer_certificates().is_some());
        let Connection::Client(client) = up.client else { panic!("a client") };
        assert_eq!(client.tls13_tickets_received(), 0);
    }
}

/// Each of these alone would do; a change of one must not silently lean on the other.
#[test]
fn nothing_that_could_resume_a_session_is_switched_on() {
    let config = server();
    assert_eq!(config.send_tls13_tickets, 0);
    assert!(!config.session_storage.can_cache());
    assert!(!config.ticketer.enabled());
    assert_eq!(config.max_early_data_size, 0);
}

#[test]
fn tls_1_2_and_other_protocols_are_not_spoken() {
    let old = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedAuthority { pins: Vec::new() }))
        .with_no_client_auth();
    assert!(matches!(refusal(connect(old, server())), Refused::ByServer(_)));
    let mut other = client_of(&FLEET, None, NOW_MS);
    other.alpn_protocols = vec![b"http/1.1".to_vec()];
    assert_eq!(refusal(connect(other, server())), Refused::ByServer(Error::NoApplicationProtocol));
}
