//! `bcd status`: one question to the running daemon.

use crate::args::{Format, StatusArgs};
use crate::failed;
use agent::config::{self, Build};
use agent::status;
use serde_json::Value;
use std::process::ExitCode;

pub fn run(args: &StatusArgs, build: Build) -> ExitCode {
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => match config::load(&args.config, build) {
            Ok(config) => config.socket_path,
            Err(error) => return failed("bcd status", &error),
        },
    };
    match status::ask(&socket) {
        Ok(document) => {
            match args.format {
                Format::Json => println!("{document}"),
                Format::Text => print!("{}", text(&document)),
            }
            ExitCode::SUCCESS
        }
        Err(error) => failed("bcd status", &error),
    }
}

/// One line a fact.
fn text(document: &Value) -> String {
    let mut out = String::new();
    let Some(members) = document.as_object() else { return format!("{document}\n") };
    for (name, value) in members {
        match value {
            Value::Null => {}
            Value::String(text) => out.push_str(&format!("{name}: {text}\n")),
            Value::Object(inner) => {
                for (key, value) in inner {
                    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    out.push_str(&format!("{name}.{key}: {shown}\n"));
                }
            }
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) => items.iter().for_each(|item| out.push_str(&format!("{name}: {item}\n"))),
            other => out.push_str(&format!("{name}: {other}\n")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_as_one_line_a_fact() {
        let document = serde_json::json!({
            "nodeId": "node_1", "connected": true, "sessionEpoch": null,
            "certificate": {"serial": "ab", "notAfterMs": 5}, "conditions": [],
        });
        assert_eq!(
            text(&document),
            "nodeId: node_1\nconnected: true\ncertificate.serial: ab\ncertificate.notAfterMs: 5\n"
        );
    }
}
