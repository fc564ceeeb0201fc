//! Waiting for a command to settle: `/watch` wakes, a poll behind it makes sure.

use crate::progress::Progress;
use crate::{CliError, Session, commands};
use api_types::{Command, CommandsGet};
use client::{ClientError, Watch, WatchFilter};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Between polls while nothing wakes us.
const POLL: Duration = Duration::from_secs(2);

/// Returns the command once it is settled.
pub(crate) async fn settled(
    session: &Session,
    mut command: Command,
    limit: Option<Duration>,
) -> Result<Command, CliError> {
    let deadline = limit.map(|limit| (Instant::now() + limit, limit));
    let mut progress = Progress::start();
    let filter =
        WatchFilter { topic: Some("command.".to_owned()), node_id: Some(command.node_id.clone()), after: None };
    let mut watch = Some(session.client.watch(filter));
    let result = loop {
        progress.say(&line(&command));
        if command.state.is_terminal() {
            break Ok(command);
        }
        let poll_at = Instant::now() + POLL;
        let wake_at = deadline.map_or(poll_at, |(at, _)| at.min(poll_at));
        wake(&mut watch, wake_at).await;
        match deadline {
            Some((at, limit)) if Instant::now() >= at => {
                break Err(CliError::WaitedTooLong { id: command.id, seconds: limit.as_secs() });
            }
            _ => {}
        }
        let request = CommandsGet { tenant_id: session.tenant.clone(), command_id: command.id.clone() };
        match session.client.call(&request).await {
            Ok(read) => command = read,
            // The control plane may be restarting; the command is stored, so waiting goes on.
            Err(error) if may_pass(&error) => {
                progress.say("the control plane does not answer; waiting for it");
            }
            Err(error) => break Err(error.into()),
        }
    };
    progress.finish();
    result
}

/// Returns when the watch yields anything, or at `at`. A watch that fails for good is given up for the poll.
async fn wake(watch: &mut Option<Watch>, at: Instant) {
    if let Some(open) = watch {
        match timeout_at(at, open.next()).await {
            Ok(Ok(_)) | Err(_) => return,
            Ok(Err(_)) => *watch = None,
        }
    }
    tokio::time::sleep_until(at).await;
}

fn line(command: &Command) -> String {
    let state = commands::state(command);
    let attempts = if command.attempts > 1 { format!(", delivery {}", command.attempts) } else { String::new() };
    format!("{} {}: {state}{attempts}", command.kind, command.id)
}

/// Whether the control plane may be back by the next look.
fn may_pass(error: &ClientError) -> bool {
    matches!(error, ClientError::Unreachable { .. } | ClientError::NotTheApi { status: 502..=504, .. })
        || error.code() == Some(api_types::ErrorCode::Unavailable)
}
