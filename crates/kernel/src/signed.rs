//! How a signature lies in columns: body, key id and signature as they are, the certificate chain as
//! one value, each certificate after its length.

use crate::db::{Row, StoreError};
use model::frame::Signed;

/// A chain as one value: for each certificate its length, four bytes big-endian, and its DER.
pub fn encode_chain(chain: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for der in chain {
        let length = u32::try_from(der.len()).expect("a certificate fits a frame");
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(der);
    }
    bytes
}

/// The reverse of [`encode_chain`].
pub fn decode_chain(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut chain = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (der, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        chain.push(der.to_vec());
        bytes = rest;
    }
    Some(chain)
}

/// Reads `body, kid, chain, signature`.
pub fn take(row: &mut Row<'_>) -> Result<Signed, StoreError> {
    let (body, kid) = (row.take()?, row.take()?);
    let chain: Vec<u8> = row.take()?;
    let chain = decode_chain(&chain).ok_or_else(|| StoreError::Corrupt("a certificate chain".to_owned()))?;
    Ok(Signed { body, kid, chain, signature: row.take()? })
}

/// Reads the same columns where all may be NULL.
pub fn take_opt(row: &mut Row<'_>) -> Result<Option<Signed>, StoreError> {
    let (body, kid) = (row.take::<Option<Vec<u8>>>()?, row.take::<Option<String>>()?);
    let (chain, signature) = (row.take::<Option<Vec<u8>>>()?, row.take::<Option<Vec<u8>>>()?);
    let (Some(body), Some(kid), Some(chain), Some(signature)) = (body, kid, chain, signature) else { return Ok(None) };
    let chain = decode_chain(&chain).ok_or_else(|| StoreError::Corrupt("a certificate chain".to_owned()))?;
    Ok(Some(Signed { body, kid, chain, signature }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_comes_back_as_it_was_and_a_cut_one_does_not() {
        let chain = vec![vec![1, 2, 3], Vec::new(), vec![0; 300]];
        let bytes = encode_chain(&chain);
        assert_eq!(decode_chain(&bytes), Some(chain));
        assert_eq!(decode_chain(&[]), Some(Vec::new()));
        assert_eq!(decode_chain(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode_chain(&[0, 0]), None);
    }
}
