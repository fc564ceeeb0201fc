//! What `dev` prints: commands that work when pasted into another terminal.

use super::layout::Layout;
use anyhow::Context;
use api_types::Node;
use std::io::Write;
use std::path::Path;

pub(crate) fn print(layout: &Layout, nodes: &[Node]) -> anyhow::Result<()> {
    let programs = std::env::current_exe()?;
    let programs = programs.parent().context("this program lies in no folder")?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let node = nodes.first().map(|node| node.id.as_str());
    let text = text(programs, &layout.node_config(), &layout.logs(), node, host.trim());
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(()),
    }
}

fn text(programs: &Path, config: &Path, logs: &Path, node: Option<&str>, host: &str) -> String {
    let mut lines = vec![format!("export PATH={}:$PATH", quoted(&programs.display().to_string())), String::new()];
    lines.push("better-compute nodes list".to_owned());
    if let Some(node) = node {
        lines.push(format!("better-compute commands run {node} diag.nvml --wait"));
        lines.push(format!("better-compute commands run {node} node.reboot --wait"));
        lines.push(format!("better-compute commands list --node {node}"));
    }
    lines.push("better-compute events watch".to_owned());
    let config = quoted(&config.display().to_string());
    lines.extend([
        String::new(),
        "# This machine as a node, with what it is really made of:".to_owned(),
        "better-compute join-tokens create --pool dev --out ./token".to_owned(),
        format!("bcd join --config {config} < ./token && bcd node --config {config}"),
        "# and, while it runs, in yet another terminal:".to_owned(),
        format!("better-compute commands run {} inventory.refresh --wait", quoted(host)),
        format!("better-compute commands run {} logs.collect --wait --out logs.tar.zst", quoted(host)),
        String::new(),
        format!("# Logs are in {}. Ctrl-C here ends everything.", logs.display()),
    ]);
    lines.join("\n") + "\n"
}

/// For a POSIX shell.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_first_line_sets_the_path_and_the_rest_can_be_pasted() {
        let (programs, config) = (Path::new("/opt/bc/bin"), Path::new("/home/a b/.dev/node/config.toml"));
        expect![[r#"
            export PATH=/opt/bc/bin:$PATH

            better-compute nodes list
            better-compute commands run node_01 diag.nvml --wait
            better-compute commands run node_01 node.reboot --wait
            better-compute commands list --node node_01
            better-compute events watch

            # This machine as a node, with what it is really made of:
            better-compute join-tokens create --pool dev --out ./token
            bcd join --config '/home/a b/.dev/node/config.toml' < ./token && bcd node --config '/home/a b/.dev/node/config.toml'
            # and, while it runs, in yet another terminal:
            better-compute commands run box inventory.refresh --wait
            better-compute commands run box logs.collect --wait --out logs.tar.zst

            # Logs are in /home/a b/.dev/logs. Ctrl-C here ends everything.
        "#]].assert_eq(&text(programs, config, Path::new("/home/a b/.dev/logs"), Some("node_01"), "box"));
    }

    #[test]
    fn a_path_is_quoted_only_when_it_must_be() {
        assert_eq!(quoted("/a/b-c_d.e"), "/a/b-c_d.e");
        assert_eq!(quoted("/a b"), "'/a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
