//! Typed ids. Each is a short printable string; a value that came from outside is checked once,
//! where it enters, by `parse`.

use std::fmt;
use std::sync::Arc;

/// Longest id accepted from outside, in bytes.
pub const ID_BYTES_MAX: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be 1 to {ID_BYTES_MAX} of A-Z a-z 0-9 _ -, starting with a letter or digit")]
pub struct IdError {
    pub what: &'static str,
}

fn is_well_formed(text: &str) -> bool {
    let first_ok = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest_ok = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    first_ok && rest_ok && text.len() <= ID_BYTES_MAX
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a value from outside.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                if is_well_formed(text) { Ok(Self(text.into())) } else { Err(IdError { what: $what }) }
            }

            /// A value this side made itself.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(/** A node of the fleet, `node_<26>`. */ NodeId, "a node id");
id!(/** A command: 26 characters, the journal's deduplication key. */ CommandId, "a command id");
id!(/** One journal of one node; a journal that was lost is replaced by one with another id. */ JournalId, "a journal id");
id!(/** One boot of a host's kernel (`/proc/sys/kernel/random/boot_id`). */ BootId, "a boot id");
id!(/** One start of the daemon process. */ IncarnationId, "an incarnation id");
id!(/** One gateway process. */ GatewayId, "a gateway id");
id!(/** A site, `site_<26>` or the name an operator gave. */ SiteId, "a site id");
id!(/** A pool, `pool_<26>`. */ PoolId, "a pool id");
id!(/** A tenant, `tenant_<26>`. */ TenantId, "a tenant id");
id!(/** A principal of a tenant, `principal_<26>`. */ PrincipalId, "a principal id");
id!(/** A join token's public half, `jt_<26>`. */ TokenId, "a token id");
id!(/** Devices of one node given to one reservation, `alloc_<26>`. Names files and a slice. */ AllocationId, "an allocation id");
id!(/** What a tenant asked for, `res_<26>`. */ ReservationId, "a reservation id");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_from_outside_are_checked() {
        assert!(NodeId::parse("node_01J").is_ok());
        for bad in ["", "-x", "_x", "a b", "a/b", "a\0", &"x".repeat(81)] {
            assert!(NodeId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
