//! Where machines stand and how they get in: sites, pools, join tokens. A name or an id that is taken
//! is a refusal of its own.

mod join_tokens;
mod pools;
mod sites;

pub use join_tokens::{
    JoinTokenRow, NewJoinToken, create_join_token, get_join_token, list_join_tokens, revoke_join_token,
};
pub use pools::{NewPool, PoolRow, PoolUpdate, UpdateError, create_pool, get_pool, list_pools, update_pool};
pub use sites::{NewSite, SiteRow, create_site, get_site, list_sites};

use crate::db::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// What is missing, as `site site_…`.
    #[error("there is no {0}")]
    NoSuch(String),
    #[error("the name {0} is taken")]
    NameTaken(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}
