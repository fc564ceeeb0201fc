//! The fleet's id: the trust domain of its SPIFFE ids, made once by `pki init`.

use crate::key;
use std::fmt;
use std::sync::Arc;

/// Longest fleet id, in bytes: one DNS label, so that it fits wherever a trust domain does.
pub const FLEET_ID_BYTES_MAX: usize = 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fleet id is 1 to {FLEET_ID_BYTES_MAX} of a-z 0-9 - . _, starting with a letter or digit")]
pub struct FleetIdError;

/// The id of a fleet, `fleet-<26>` in lower case (SPIFFE trust domains have no upper case).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FleetId(Arc<str>);

impl FleetId {
    pub fn random() -> Self {
        let id = stdx::id::encode(u128::from_be_bytes(key::random())).to_ascii_lowercase();
        Self(format!("fleet-{id}").into())
    }

    pub fn parse(text: &str) -> Result<Self, FleetIdError> {
        let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let rest =
            text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte));
        if first && rest && text.len() <= FLEET_ID_BYTES_MAX { Ok(Self(text.into())) } else { Err(FleetIdError) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FleetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FleetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_id_fits_a_trust_domain() {
        let made = FleetId::random();
        assert_eq!(FleetId::parse(made.as_str()), Ok(made));
        for bad in ["", "Fleet", "-a", "a/b", "a b", &"x".repeat(64)] {
            assert_eq!(FleetId::parse(bad), Err(FleetIdError), "{bad:?}");
        }
    }
}
