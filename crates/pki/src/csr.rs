//! Certificate requests (PKCS #10, RFC 2986): the proof that whoever asks holds the key. A request
//! names nothing; what a node is called and may do is decided by JoinService.

use crate::der;
use crate::key::{CertificateSigner, KeyPair, PublicKey};
use rcgen::{CertificateParams, DistinguishedName};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

/// Longest request read, in bytes.
pub const CSR_BYTES_MAX: usize = 4096;

/// AlgorithmIdentifier of ecdsa-with-SHA256, 1.2.840.10045.4.3.2, without parameters (RFC 5758).
const ECDSA_WITH_SHA256: [u8; 12] = [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsrError {
    #[error("not a certificate request in DER of at most {CSR_BYTES_MAX} bytes")]
    Der,
    #[error("the request's key is not P-256")]
    Key,
    #[error("the request is not one signature with ECDSA and SHA-256 in DER")]
    Algorithm,
    #[error("the request is not signed by its own key")]
    Signature,
}

/// A request for a certificate of `key`, DER.
pub fn create(key: &KeyPair) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&CertificateSigner(key)).expect("an empty request of a P-256 key encodes");
    request.der().to_vec()
}

/// The key that a request proves possession of.
pub fn verify(request_der: &[u8]) -> Result<PublicKey, CsrError> {
    if request_der.len() > CSR_BYTES_MAX {
        return Err(CsrError::Der);
    }
    let (rest, request) = X509CertificationRequest::from_der(request_der).map_err(|_| CsrError::Der)?;
    if !rest.is_empty() {
        return Err(CsrError::Der);
    }
    let info = &request.certification_request_info;
    let key = PublicKey::from_spki(info.subject_pki.raw).map_err(|_| CsrError::Key)?;
    // A use of a token binds to the hash of the request, so a request must have one spelling; the parser
    // is lenient about tags, hence the comparison with what it should have read.
    let signature = &request.signature_value;
    let written = der::sequence(&[info.raw.to_vec(), ECDSA_WITH_SHA256.to_vec(), der::bit_string(&signature.data)]);
    if written != request_der {
        return Err(CsrError::Algorithm);
    }
    if !key.verifies_der(info.raw, &signature.data) {
        return Err(CsrError::Signature);
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_proves_its_own_key() {
        let key = KeyPair::generate();
        assert_eq!(verify(&create(&key)), Ok(*key.public()));
    }

    #[test]
    fn a_request_for_a_key_one_does_not_hold_is_refused() {
        let (mine, theirs) = (KeyPair::generate(), KeyPair::generate());
        let mut request = create(&mine);
        let at = request.windows(65).position(|bytes| bytes == mine.public().point()).expect("the point is there");
        request[at..at + 65].copy_from_slice(theirs.public().point());
        assert_eq!(verify(&request), Err(CsrError::Signature));
    }

    #[test]
    fn no_flipped_bit_is_accepted() {
        let request = create(&KeyPair::generate());
        for at in 0..request.len() {
            let mut flipped = request.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(verify(&flipped).is_err(), "byte {at}");
        }
        assert_eq!(verify(&request[..request.len() - 1]), Err(CsrError::Der));
        assert_eq!(verify(&[request.as_slice(), b"x"].concat()), Err(CsrError::Der));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(verify(&bytes).is_err());
        }
    }
}
