//! One control plane as a client sees it: its URL, the bearer token, the HTTP connection pool.

use crate::{ClientError, RetryPolicy};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use std::time::Duration;

/// A connection that is not made by then is tried again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest silence on a stream; the server sends a comment more often.
const READ_TIMEOUT: Duration = Duration::from_secs(45);

/// What a client needs to know.
#[derive(Clone)]
pub struct ClientConfig {
    /// `http://host:port` or `https://host`; without a path the API's default one is added.
    pub url: String,
    /// `bct_<id>.<secret>`.
    pub token: String,
    pub retry: RetryPolicy,
}

/// Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    /// Without a slash at its end.
    pub(crate) base: String,
    pub(crate) retry: RetryPolicy,
}

impl Client {
    pub fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        let base = base_url(&config.url)?;
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // A provider that somebody else installed meanwhile serves as well.
            rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        }
        let mut headers = HeaderMap::new();
        let mut bearer =
            HeaderValue::from_str(&format!("Bearer {}", config.token)).map_err(|_| ClientError::BadToken)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            // A redirect would carry the token to wherever it points.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("better-compute/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(ClientError::Setup)?;
        Ok(Self { http, base, retry: config.retry.clone() })
    }

    /// The URL all paths are below.
    pub fn base_url(&self) -> &str {
        &self.base
    }
}

fn base_url(text: &str) -> Result<String, ClientError> {
    let bad = |reason| ClientError::BadUrl { url: text.to_owned(), reason };
    let url = Url::parse(text).map_err(|_| bad("it does not parse"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("its scheme is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it carries credentials; the token has its own place"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("it has a query or a fragment"));
    }
    let whole = url.as_str().trim_end_matches('/');
    let path = url.path().trim_end_matches('/');
    Ok(if path.is_empty() { format!("{whole}{}", api_types::BASE_PATH) } else { whole.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_the_default_one() {
        for (given, base) in [
            ("http://127.0.0.1:8420", "http://127.0.0.1:8420/api/compute"),
            ("http://127.0.0.1:8420/", "http://127.0.0.1:8420/api/compute"),
            ("https://x.example/fleet/api/", "https://x.example/fleet/api"),
        ] {
            assert_eq!(base_url(given).expect("accepted"), base);
        }
        for bad in ["", "127.0.0.1:80", "ftp://x", "http://u:p@x", "http://x?a=b"] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }
}
