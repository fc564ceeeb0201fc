//! Every verb's handler, and the dispatch from its name. A verb of the table without a handler does
//! not compile into [`dispatch`]; a test calls each of them.

mod access;
mod commands;
mod events;
mod nodes;
mod places;

use crate::call::Handle;
use crate::refusal::Refusal;
use api_types::*;

/// Names of sites and pools, characters.
const NAME_CHARS_MAX: usize = 63;

/// Calls a generic function with the request type of a verb.
pub(crate) trait Visitor {
    type Output;
    fn visit<R: Handle + Send + Sync + 'static>(self) -> Self::Output
    where
        R::Response: Send;
}

macro_rules! dispatch {
    ($($request:ident),+ $(,)?) => {
        /// Visits with the request type of `verb`; `None` when there is no such verb.
        pub(crate) fn dispatch<V: Visitor>(verb: &str, visitor: V) -> Option<V::Output> {
            match verb {
                $(<$request as Request>::VERB => Some(visitor.visit::<$request>()),)+
                _ => None,
            }
        }
    };
}

dispatch! {
    ApiTokensCreate, ApiTokensList, ApiTokensRevoke, CommandsCancel, CommandsGet, CommandsList, CommandsRun, EventsList,
    FleetGet, JoinTokensCreate, JoinTokensList, JoinTokensRevoke, NodesGet, NodesList, NodesRevoke, PoolsCreate,
    PoolsGet, PoolsList, SitesCreate, SitesGet, SitesList,
}

/// 1 to 63 of a-z 0-9 -, starting with a letter, as host names and URLs take them.
fn check_name(field: &str, name: &str) -> Result<(), Refusal> {
    let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    let rest = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if starts && rest && name.len() <= NAME_CHARS_MAX {
        return Ok(());
    }
    let rule = format!("1 to {NAME_CHARS_MAX} of a-z 0-9 -, starting with a letter");
    Err(Refusal::invalid(format!("{field} is {name:?}; it must be {rule}")))
}

/// Text for people: bounded, without control characters.
fn check_text(field: &str, text: &str, chars_max: usize) -> Result<(), Refusal> {
    if (1..=chars_max).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{field} must be 1 to {chars_max} characters without control characters")))
}
