//! The table of verbs. A verb that is not here has no route, no schema and no client call.

use crate::*;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a verb changes anything. A mutation has an `idempotencyKey` and is audited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Read,
    Mutation,
}

/// A request of the API: the value that a `POST {basePath}/{VERB}` carries.
pub trait Request: Serialize + DeserializeOwned + JsonSchema {
    type Response: Serialize + DeserializeOwned + JsonSchema;
    /// `<resource>.<verb>`.
    const VERB: &'static str;
    const EFFECT: Effect;

    /// The key of a mutation; `None` for a read.
    fn idempotency_key(&self) -> Option<&str>;
    /// The tenant the caller acts for, when it is not the principal's own.
    fn tenant_id(&self) -> Option<&str>;
}

/// One row of the table, without its types.
pub struct Verb {
    pub name: &'static str,
    pub effect: Effect,
    /// One sentence.
    pub summary: &'static str,
    /// The action that authorization decides.
    pub action: &'static str,
    pub request_schema: fn(&mut SchemaGenerator) -> Schema,
    pub response_schema: fn(&mut SchemaGenerator) -> Schema,
}

macro_rules! key {
    (Read, $self:ident) => {
        None
    };
    (Mutation, $self:ident) => {
        Some(&$self.idempotency_key)
    };
}

macro_rules! verbs {
    ($($request:ident -> $response:ident, $name:literal, $effect:ident, $action:literal, $summary:literal;)+) => {
        /// Every verb of the API, by name.
        pub const VERBS: &[Verb] = &[$(Verb {
            name: $name,
            effect: Effect::$effect,
            summary: $summary,
            action: $action,
            request_schema: |generator| generator.subschema_for::<$request>(),
            response_schema: |generator| generator.subschema_for::<$response>(),
        }),+];

        $(impl Request for $request {
            type Response = $response;
            const VERB: &'static str = $name;
            const EFFECT: Effect = Effect::$effect;

            fn idempotency_key(&self) -> Option<&str> {
                key!($effect, self)
            }

            fn tenant_id(&self) -> Option<&str> {
                self.tenant_id.as_deref()
            }
        })+
    };
}

verbs! {
    ApiTokensCreate -> ApiToken, "apiTokens.create", Mutation, "compute:api-tokens:manage", "Makes an API token.";
    ApiTokensList -> ApiTokenPage, "apiTokens.list", Read, "compute:api-tokens:read", "Lists API tokens.";
    ApiTokensRevoke -> ApiToken, "apiTokens.revoke", Mutation, "compute:api-tokens:manage", "Revokes an API token.";
    CommandsCancel -> Command, "commands.cancel", Mutation, "compute:commands:run", "Asks for a command to be given up.";
    CommandsGet -> Command, "commands.get", Read, "compute:commands:read", "Reads one command.";
    CommandsList -> CommandPage, "commands.list", Read, "compute:commands:read", "Lists commands, newest first.";
    CommandsRun -> Command, "commands.run", Mutation, "compute:commands:run", "Sends a command to a node.";
    EventsList -> EventPage, "events.list", Read, "compute:events:read", "Lists events in commit order.";
    FleetGet -> Fleet, "fleet.get", Read, "compute:fleet:read", "Describes the fleet and the caller.";
    JoinTokensCreate -> JoinToken, "joinTokens.create", Mutation, "compute:join-tokens:manage", "Makes a join token.";
    JoinTokensList -> JoinTokenPage, "joinTokens.list", Read, "compute:join-tokens:read", "Lists join tokens.";
    JoinTokensRevoke -> JoinToken, "joinTokens.revoke", Mutation, "compute:join-tokens:manage", "Revokes a join token.";
    NodesGet -> Node, "nodes.get", Read, "compute:nodes:read", "Reads one node.";
    NodesList -> NodePage, "nodes.list", Read, "compute:nodes:read", "Lists nodes.";
    NodesRevoke -> Node, "nodes.revoke", Mutation, "compute:nodes:manage", "Revokes a node for good.";
    PoolsCreate -> Pool, "pools.create", Mutation, "compute:pools:manage", "Makes a pool.";
    PoolsGet -> Pool, "pools.get", Read, "compute:pools:read", "Reads one pool.";
    PoolsList -> PoolPage, "pools.list", Read, "compute:pools:read", "Lists pools.";
    SitesCreate -> Site, "sites.create", Mutation, "compute:sites:manage", "Makes a site.";
    SitesGet -> Site, "sites.get", Read, "compute:sites:read", "Reads one site.";
    SitesList -> SitePage, "sites.list", Read, "compute:sites:read", "Lists sites.";
}

/// The row of a verb.
pub fn verb(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name == name)
}
