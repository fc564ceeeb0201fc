//! `commands`: send one, wait for it, fetch what it brought.

use crate::args::{CommandsCommand, RunArgs};
use crate::{CliError, Session, key, output, secret_file, table, time, wait};
use api_types::{Attested, Command, CommandState, CommandsCancel, CommandsGet, CommandsList, CommandsRun};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Largest payload read from a file or from standard input, bytes.
const PAYLOAD_BYTES_MAX: u64 = api_types::REQUEST_BYTES_MAX as u64;
/// Output of a command may hold what a host logs: its owner only.
const OUTPUT_MODE: u32 = 0o600;

pub(crate) async fn run(session: &Session, command: CommandsCommand) -> Result<ExitCode, CliError> {
    let tenant_id = session.tenant.clone();
    match command {
        CommandsCommand::Run(args) => send(session, args).await,
        CommandsCommand::Get { id } => {
            let command = session.client.call(&CommandsGet { tenant_id, command_id: id }).await?;
            session.print(&command, |command| one(command, time::now_ms()))
        }
        CommandsCommand::List { node, state, page } => {
            let mut request = CommandsList { tenant_id, node_id: node, state, cursor: page.cursor, limit: page.limit };
            let mut all = session.client.call(&request).await?;
            while page.limit.is_none() && all.next_cursor.is_some() {
                request.cursor = all.next_cursor.take();
                let more = session.client.call(&request).await?;
                all.items.extend(more.items);
                all.next_cursor = more.next_cursor;
            }
            session.print(&all, |page| list(&page.items, time::now_ms()))
        }
        CommandsCommand::Cancel { id, reason, key: given } => {
            let request = CommandsCancel { tenant_id, command_id: id, reason, idempotency_key: key(given.key) };
            let command = session.client.call(&request).await?;
            session.print(&command, |command| one(command, time::now_ms()))
        }
    }
}

async fn send(session: &Session, args: RunArgs) -> Result<ExitCode, CliError> {
    secret_file::check_new(args.out.as_deref())?;
    let request = CommandsRun {
        tenant_id: session.tenant.clone(),
        node_id: args.node,
        kind: args.kind,
        payload: args.payload.as_deref().map(payload).transpose()?,
        not_after_seconds: args.not_after,
        min_generation: args.min_generation,
        idempotency_key: key(args.key.key),
    };
    let mut command = session.client.call(&request).await?;
    if args.wait {
        command = wait::settled(session, command, args.timeout.map(Duration::from_secs)).await?;
    }
    if let Some(path) = args.out.as_deref().filter(|_| command.state == CommandState::Succeeded) {
        fetch_output(session, &command, path).await?;
    }
    output::print(session.format, &command, |command| one(command, time::now_ms()))?;
    let failed = command.state.is_terminal() && command.state != CommandState::Succeeded;
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The file appears only once its SHA-256 is the one in the result.
async fn fetch_output(session: &Session, command: &Command, path: &Path) -> Result<(), CliError> {
    let digest = command.result.as_ref().and_then(|result| result.get("blobSha256")).and_then(|value| value.as_str());
    let digest = digest
        .filter(|digest| !digest.is_empty())
        .ok_or_else(|| CliError::NoOutput { kind: command.kind.clone(), out: path.to_owned() })?;
    let bytes = session.client.blob(digest).await?;
    stdx::durable::write_file(path, &bytes, OUTPUT_MODE)?;
    eprintln!("{} written, {}, SHA-256 {digest}", path.display(), crate::nodes::bytes(bytes.len() as u64));
    Ok(())
}

fn payload(argument: &str) -> Result<serde_json::Value, CliError> {
    let text = match argument.strip_prefix('@') {
        None => argument.to_owned(),
        Some("-") => read(std::io::stdin().lock(), "standard input")?,
        Some(path) => {
            let file = std::fs::File::open(path)
                .map_err(|error| CliError::Usage(format!("cannot open the payload {path}: {error}")))?;
            read(file, path)?
        }
    };
    serde_json::from_str(&text).map_err(|error| CliError::Usage(format!("the payload is not JSON: {error}")))
}

fn read(from: impl Read, name: &str) -> Result<String, CliError> {
    let mut text = String::new();
    let result = from.take(PAYLOAD_BYTES_MAX + 1).read_to_string(&mut text);
    result.map_err(|error| CliError::Usage(format!("cannot read the payload from {name}: {error}")))?;
    if text.len() as u64 > PAYLOAD_BYTES_MAX {
        return Err(CliError::Usage(format!("the payload in {name} is longer than {PAYLOAD_BYTES_MAX} bytes")));
    }
    Ok(text)
}

pub(crate) fn list(commands: &[Command], now_ms: i64) -> String {
    let rows = commands.iter().map(|command| {
        vec![
            command.id.clone(),
            command.node_id.clone(),
            command.kind.clone(),
            state(command),
            command.code.clone().unwrap_or_default(),
            attested(command.attested).to_owned(),
            time::age(&command.created_at, now_ms),
        ]
    });
    table::render(&["ID", "NODE", "KIND", "STATE", "CODE", "ATTESTED", "AGE"], rows)
}

pub(crate) fn state(command: &Command) -> String {
    let name = serde_json::to_value(command.state).ok().and_then(|value| value.as_str().map(str::to_uppercase));
    name.unwrap_or_default()
}

fn attested(attested: Attested) -> &'static str {
    match attested {
        Attested::None => "none",
        Attested::Unverified => "unverified",
        Attested::Verified => "verified",
        Attested::Forged => "forged",
    }
}

pub(crate) fn one(command: &Command, now_ms: i64) -> String {
    let mut rows = vec![
        ("id", command.id.clone()),
        ("node", command.node_id.clone()),
        ("kind", command.kind.clone()),
        ("state", state(command)),
        ("attested", attested(command.attested).to_owned()),
    ];
    rows.extend(command.code.clone().map(|code| ("code", code)));
    rows.extend(command.message.clone().filter(|message| !message.is_empty()).map(|message| ("message", message)));
    rows.push(("attempts", command.attempts.to_string()));
    rows.push(("created", format!("{} ago", time::age(&command.created_at, now_ms))));
    if !command.state.is_terminal() {
        rows.push(("must start", time::until(&command.not_after, now_ms)));
    }
    if command.cancel_requested && !command.state.is_terminal() {
        rows.push(("cancel", "requested".to_owned()));
    }
    if let Some(result) = &command.result {
        rows.push(("result", serde_json::to_string_pretty(result).unwrap_or_default()));
    }
    table::record(&rows)
}
