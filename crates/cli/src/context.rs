//! Contexts: the control planes a person works with, their tokens, and which one is selected.
//!
//! `$XDG_CONFIG_HOME/better-compute/contexts.json`, else `~/.config/better-compute/contexts.json`, 0600, written
//! durably. `BETTER_COMPUTE_URL` and `BETTER_COMPUTE_TOKEN` go before any context.

use crate::args::{ContextCommand, Globals};
use crate::{CliError, output, table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const CONTEXTS_BYTES_MAX: u64 = 1 << 20;
const URL_VARIABLE: &str = "BETTER_COMPUTE_URL";
const TOKEN_VARIABLE: &str = "BETTER_COMPUTE_TOKEN";

/// One control plane and who we are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub url: String,
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error(
        "neither XDG_CONFIG_HOME nor HOME is set, so there is no place for contexts.json; set {URL_VARIABLE} and {TOKEN_VARIABLE}"
    )]
    NoHome,
    #[error("cannot read or write the contexts")]
    File(#[from] stdx::durable::DurableError),
    #[error("{} is readable by others (mode {mode:o}) and holds tokens; run: chmod 600 {}", path.display(), path.display())]
    Exposed { path: PathBuf, mode: u32 },
    #[error("{} does not parse; repair or remove it", path.display())]
    Parse {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot write the contexts as JSON")]
    Encode(#[source] serde_json::Error),
    #[error(
        "no context is selected; run `better-compute dev`, or `better-compute context use NAME`, or set {URL_VARIABLE} and {TOKEN_VARIABLE}"
    )]
    NoneSelected,
    #[error("there is no context {name:?}; there are: {there}")]
    Unknown { name: String, there: String },
    #[error("{set} is set and {missing} is not; set both, or neither")]
    HalfSet { set: &'static str, missing: &'static str },
}

impl ContextError {
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::NoneSelected | Self::Unknown { .. } | Self::HalfSet { .. } | Self::NoHome)
    }
}

impl Contexts {
    /// Where the file is for this user.
    pub fn default_path() -> Result<PathBuf, ContextError> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        let config = config.or_else(|| set("HOME").map(|home| home.join(".config"))).ok_or(ContextError::NoHome)?;
        Ok(config.join("better-compute").join("contexts.json"))
    }

    /// An absent file is an empty one.
    pub fn read(path: &Path) -> Result<Self, ContextError> {
        let Some(bytes) = stdx::durable::read_bounded(path, CONTEXTS_BYTES_MAX)? else { return Ok(Self::default()) };
        let mode = std::fs::metadata(path).map_or(0, |stat| stat.mode() & 0o777);
        if mode & 0o077 != 0 {
            return Err(ContextError::Exposed { path: path.to_owned(), mode });
        }
        serde_json::from_slice(&bytes).map_err(|source| ContextError::Parse { path: path.to_owned(), source })
    }

    /// Durable before it returns.
    pub fn write(&self, path: &Path) -> Result<(), ContextError> {
        if let Some(directory) = path.parent() {
            stdx::durable::create_directory(directory, 0o700)?;
        }
        let mut bytes = serde_json::to_vec_pretty(self).map_err(ContextError::Encode)?;
        bytes.push(b'\n');
        Ok(stdx::durable::write_file(path, &bytes, 0o600)?)
    }

    pub fn get(&self, name: &str) -> Result<&Context, ContextError> {
        self.contexts.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            ContextError::Unknown { name: name.to_owned(), there }
        })
    }
}

/// What this invocation uses, in order: the flag, the environment, the selected context.
pub(crate) fn resolve(globals: &Globals) -> Result<Context, ContextError> {
    let read = || Contexts::read(&Contexts::default_path()?);
    if let Some(name) = &globals.context {
        return read()?.get(name).cloned();
    }
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (variable(URL_VARIABLE), variable(TOKEN_VARIABLE)) {
        (Some(url), Some(token)) => Ok(Context { url, token, tenant: None }),
        (Some(_), None) => Err(ContextError::HalfSet { set: URL_VARIABLE, missing: TOKEN_VARIABLE }),
        (None, Some(_)) => Err(ContextError::HalfSet { set: TOKEN_VARIABLE, missing: URL_VARIABLE }),
        (None, None) => {
            let contexts = read()?;
            let name = contexts.current.clone().ok_or(ContextError::NoneSelected)?;
            contexts.get(&name).cloned()
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    selected: bool,
    url: String,
    /// The public half only.
    token_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

impl Shown {
    fn new(name: Option<&str>, selected: bool, context: &Context) -> Self {
        let token_id = context.token.split('.').next().unwrap_or_default().to_owned();
        let (url, tenant) = (context.url.clone(), context.tenant.clone());
        Self { name: name.map(str::to_owned), selected, url, token_id, tenant }
    }
}

pub(crate) fn run(globals: &Globals, command: ContextCommand) -> Result<ExitCode, CliError> {
    match command {
        ContextCommand::List => {
            let contexts = Contexts::read(&Contexts::default_path()?)?;
            let is_selected = |name: &str| contexts.current.as_deref() == Some(name);
            let shown =
                contexts.contexts.iter().map(|(name, context)| Shown::new(Some(name), is_selected(name), context));
            output::print(globals.format, &shown.collect::<Vec<_>>(), |rows| show(rows))?;
        }
        ContextCommand::Use { name } => {
            let path = Contexts::default_path()?;
            let mut contexts = Contexts::read(&path)?;
            contexts.get(&name)?;
            contexts.current = Some(name.clone());
            contexts.write(&path)?;
            eprintln!("context {name} is selected");
        }
        ContextCommand::Show => {
            let context = resolve(globals)?;
            let contexts = Contexts::read(&Contexts::default_path()?)?;
            let name = contexts.contexts.iter().find(|(_, known)| **known == context).map(|(name, _)| name.as_str());
            let selected = name.is_some() && contexts.current.as_deref() == name;
            let shown = Shown::new(name, selected, &context);
            output::print(globals.format, &shown, |row| show(std::slice::from_ref(row)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(rows: &[Shown]) -> String {
    let rows = rows.iter().map(|row| {
        let selected = if row.selected { "yes" } else { "" };
        [
            row.name.as_deref().unwrap_or("(environment)"),
            selected,
            &row.url,
            &row.token_id,
            row.tenant.as_deref().unwrap_or(""),
        ]
        .map(str::to_owned)
        .to_vec()
    });
    table::render(&["NAME", "SELECTED", "URL", "TOKEN ID", "TENANT"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn contexts_are_kept_in_a_private_file_and_an_exposed_one_is_refused() {
        let directory = tempfile::tempdir().expect("tempdir");
        let path = directory.path().join("a/b/contexts.json");
        assert_eq!(Contexts::read(&path).expect("absent"), Contexts::default());
        let context = Context { url: "http://127.0.0.1:1".into(), token: "bct_1.secret".into(), tenant: None };
        let mut contexts = Contexts { current: Some("dev".into()), ..Contexts::default() };
        contexts.contexts.insert("dev".into(), context.clone());
        contexts.write(&path).expect("write");
        assert_eq!(Contexts::read(&path).expect("read"), contexts);
        assert_eq!(std::fs::metadata(&path).expect("stat").mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("chmod");
        assert!(matches!(Contexts::read(&path), Err(ContextError::Exposed { mode: 0o644, .. })));
    }

    #[test]
    fn an_unknown_context_names_those_there_are() {
        let mut contexts = Contexts::default();
        assert!(contexts.get("x").expect_err("none").to_string().ends_with("there are: none"));
        for name in ["prod", "dev"] {
            contexts.contexts.insert(name.into(), Context { url: "u".into(), token: "t".into(), tenant: None });
        }
        assert!(contexts.get("x").expect_err("none").to_string().ends_with("there are: dev, prod"));
    }

    #[test]
    fn showing_a_context_never_shows_its_secret() {
        let context = Context { url: "u".into(), token: "bct_1.secret".into(), tenant: None };
        let shown = Shown::new(Some("dev"), true, &context);
        let text = show(std::slice::from_ref(&shown)) + &serde_json::to_string(&shown).expect("json");
        assert!(text.contains("bct_1") && !text.contains("secret"), "{text}");
    }
}
