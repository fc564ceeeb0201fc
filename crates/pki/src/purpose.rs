//! What a signature is for. The purpose is part of what is signed, so bytes signed for one purpose
//! never verify for another (`completion.md`, "PKI, joining, attestation").

use std::fmt;

/// First bytes of everything that is signed.
const DOMAIN: &[u8] = b"bettercompute/sig/v1";

macro_rules! purposes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// The purposes a key of the fleet signs for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Purpose { $($(#[$doc])* $variant),+ }

        impl Purpose {
            pub const ALL: &'static [Purpose] = &[$(Purpose::$variant),+];

            /// The name as it is signed and as certificates carry it.
            pub const fn name(self) -> &'static str {
                match self { $(Purpose::$variant => $name),+ }
            }
        }
    };
}

purposes! {
    /// JoinService to a daemon: its certificate. Pinned key.
    JoinResponse = "join-response",
    /// JoinService to daemons: the command-signing roots. Pinned key.
    TrustBundle = "trust-bundle",
    /// A worker: the control plane's time.
    ServerTime = "server-time",
    /// A worker: one command.
    Command = "command",
    /// A worker: a node's specification.
    DesiredState = "desired-state",
    /// A node: what came of an attested command.
    CommandResult = "command-result",
    /// A node: a report that the control plane acts on.
    EventReport = "event-report",
    /// A node, with its current key: its next certificate, so that a relay cannot attach a request of its own.
    RenewalRequest = "renewal-request",
    /// A node: a request for a secret.
    SecretRequest = "secret-request",
    /// A site agent: it saw this machine.
    DiscoveryAssertion = "discovery-assertion",
    /// A release key: the files of a version.
    ReleaseManifest = "release-manifest",
    /// An image signer: an operating system image.
    Image = "image",
    /// An approver: a batch of destructive commands.
    BatchApproval = "batch-approval",
    /// An agent on the WebSocket fallback.
    SessionProofAgent = "session-proof-agent",
    /// A gateway on the WebSocket fallback.
    SessionProofGateway = "session-proof-gateway",
}

impl Purpose {
    pub fn parse(text: &str) -> Option<Purpose> {
        Purpose::ALL.iter().copied().find(|purpose| purpose.name() == text)
    }

    /// The bytes a signature covers: domain, NUL, purpose, NUL, body. No purpose contains NUL, so two
    /// different pairs of purpose and body never have the same bytes.
    pub fn signing_input(self, body: &[u8]) -> Vec<u8> {
        let name = self.name().as_bytes();
        let mut input = Vec::with_capacity(DOMAIN.len() + name.len() + 2 + body.len());
        input.extend_from_slice(DOMAIN);
        input.push(0);
        input.extend_from_slice(name);
        input.push(0);
        input.extend_from_slice(body);
        input
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_signed_bytes_are_domain_purpose_and_body() {
        assert_eq!(Purpose::ServerTime.signing_input(b"12"), b"bettercompute/sig/v1\0server-time\x0012");
        assert_eq!(Purpose::ALL.len(), 15);
        for purpose in Purpose::ALL {
            assert_eq!(Purpose::parse(purpose.name()), Some(*purpose));
            assert!(!purpose.name().contains('\0'));
        }
        assert_eq!(Purpose::parse("Command"), None);
    }

    proptest! {
        #[test]
        fn two_purposes_never_share_an_input(
            one in 0..Purpose::ALL.len(), other in 0..Purpose::ALL.len(),
            body in proptest::collection::vec(any::<u8>(), 0..40), rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let same = one == other && body == rest;
            let inputs_equal = Purpose::ALL[one].signing_input(&body) == Purpose::ALL[other].signing_input(&rest);
            prop_assert_eq!(inputs_equal, same);
        }
    }
}
