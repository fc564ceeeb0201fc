//! The development fleet, through the API: its site, its pool, a token for the simulated nodes, and when
//! those are there.

use super::layout::Layout;
use anyhow::Context;
use api_types::{ConnectionState, FleetGet, JoinTokensCreate, Node, NodesList, PoolsCreate, SiteKind, SitesCreate};
use client::{Client, ClientConfig, RetryPolicy};
use std::path::Path;
use std::time::Duration;

/// Between looks at the nodes.
const POLL: Duration = Duration::from_millis(200);
/// The simulated nodes join at once; a token left behind is of no use to anybody later.
const TOKEN_TTL_S: u64 = 3600;

pub(crate) struct Fleet {
    client: Client,
    /// The id of the site `dev`.
    pub site: String,
    /// The id of the pool `dev`.
    pool: String,
}

impl Fleet {
    /// The keys are fixed, so the second start finds what the first one made.
    pub async fn prepare(layout: &Layout, bearer: &str) -> anyhow::Result<Self> {
        let config = ClientConfig { url: layout.api_url(), token: bearer.to_owned(), retry: RetryPolicy::default() };
        let client = Client::new(&config)?;
        let site = SitesCreate {
            name: Some("dev".to_owned()),
            kind: SiteKind::Shared,
            region: "local".to_owned(),
            idempotency_key: "dev-site".to_owned(),
            ..SitesCreate::default()
        };
        let site = client.call(&site).await.context("cannot make the site `dev`")?.id;
        let pool = PoolsCreate {
            site_id: site.clone(),
            name: "dev".to_owned(),
            idempotency_key: "dev-pool".to_owned(),
            ..PoolsCreate::default()
        };
        let pool = client.call(&pool).await.context("cannot make the pool `dev`")?.id;
        Ok(Self { client, site, pool })
    }

    /// A fresh token for as many nodes as are simulated, in a private file.
    pub async fn write_join_token(&self, uses: u32, path: &Path) -> anyhow::Result<()> {
        let request = JoinTokensCreate {
            pool_id: self.pool.clone(),
            ttl_seconds: TOKEN_TTL_S,
            max_uses: Some(uses),
            idempotency_key: format!("dev-{}", stdx::id::random(&mut rand::rng())),
            ..JoinTokensCreate::default()
        };
        let token = self.client.call(&request).await.context("cannot make a join token")?.token;
        let token = token.context("a new join token came without its bearer")?;
        Ok(stdx::durable::write_file(path, format!("{token}\n").as_bytes(), 0o600)?)
    }

    /// Waits until that many nodes are connected and have told what they are made of.
    pub async fn wait_for_nodes(&self, count: u32) -> anyhow::Result<Vec<Node>> {
        let mut last_shown = None;
        loop {
            // Counting is cheap; the nodes with all they are made of are read once enough are connected.
            let fleet = self.client.call(&FleetGet::default()).await.context("cannot read the fleet")?;
            if fleet.nodes.connected >= u64::from(count) {
                let there: Vec<Node> = self.nodes().await?.into_iter().filter(is_there).collect();
                if there.len() >= count as usize {
                    return Ok(there);
                }
            }
            if last_shown != Some(fleet.nodes.connected) {
                eprintln!("{} of {count} nodes are connected", fleet.nodes.connected);
                last_shown = Some(fleet.nodes.connected);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn nodes(&self) -> anyhow::Result<Vec<Node>> {
        let mut request = NodesList { limit: Some(api_types::PAGE_MAX), ..NodesList::default() };
        let mut nodes = Vec::new();
        loop {
            let page = self.client.call(&request).await.context("cannot list the nodes")?;
            nodes.extend(page.items);
            request.cursor = page.next_cursor;
            if request.cursor.is_none() {
                return Ok(nodes);
            }
        }
    }
}

fn is_there(node: &Node) -> bool {
    node.connection.state == ConnectionState::Connected && node.inventory.is_some()
}
