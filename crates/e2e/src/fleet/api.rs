//! The API as any program sees it: HTTP/1.1, a bearer token, JSON. Written on sockets on purpose, so that the
//! tests hold for the wire and not for our own client.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A refusal by the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
}

/// What came back.
#[derive(Clone, Debug)]
pub enum Answer {
    Done(Value),
    Refused(Refusal),
}

#[derive(Clone, Debug)]
pub struct Api {
    pub address: SocketAddr,
    pub token: String,
}

impl Api {
    /// One attempt; an error is a connection that broke before the whole answer.
    pub fn attempt(&self, verb: &str, request: &Value) -> Result<Answer> {
        self.connect()?.attempt(verb, request)
    }

    pub fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Connection { api: self.clone(), stream: BufReader::new(stream) })
    }

    /// Tries until the API answers, with the same request and so with the same key; a refusal is an error.
    pub fn call(&self, verb: &str, request: &Value) -> Result<Value> {
        crate::wait::until(&format!("an answer to {verb}"), crate::wait::LONG, || {
            match self.attempt(verb, request)? {
                Answer::Done(value) => Ok(Some(Ok(value))),
                Answer::Refused(refusal) if refusal.code == "UNAVAILABLE" => bail!("{refusal:?}"),
                Answer::Refused(refusal) => Ok(Some(Err(refusal))),
            }
        })?
        .map_err(|refusal| anyhow::anyhow!("{verb} {request} is refused: {refusal:?}"))
    }

    /// All items of a list verb, page after page.
    pub fn list(&self, verb: &str, mut request: Value) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            let mut page = self.call(verb, &request)?;
            let Some(more) = page["items"].as_array_mut() else { bail!("{verb} answers no items: {page}") };
            items.append(more);
            match &page["nextCursor"] {
                Value::Null => return Ok(items),
                cursor => request["cursor"] = cursor.clone(),
            }
        }
    }

    pub fn nodes(&self) -> Result<Vec<Value>> {
        self.list("nodes.list", json!({}))
    }

    pub fn command(&self, id: &str) -> Result<Value> {
        self.call("commands.get", &json!({ "commandId": id }))
    }

    pub fn run(&self, node: &str, kind: &str, payload: Value, key: &str) -> Result<Value> {
        let mut request = json!({ "nodeId": node, "kind": kind, "idempotencyKey": key });
        if !payload.is_null() {
            request["payload"] = payload;
        }
        self.call("commands.run", &request)
    }

    /// Waits until the command is settled.
    pub fn settled(&self, id: &str) -> Result<Value> {
        crate::wait::until(&format!("the end of command {id}"), crate::wait::LONG, || {
            let command = self.command(id)?;
            Ok(is_settled(&command).then_some(command))
        })
    }
}

/// Whether a command's state is terminal.
pub fn is_settled(command: &Value) -> bool {
    matches!(command["state"].as_str(), Some("succeeded" | "failed" | "rejected" | "cancelled" | "expired"))
}

/// A connection that serves one call after the other.
pub struct Connection {
    api: Api,
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub fn attempt(&mut self, verb: &str, request: &Value) -> Result<Answer> {
        let body = serde_json::to_vec(request)?;
        let head = format!(
            "POST /api/compute/{verb} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.api.address,
            self.api.token,
            body.len()
        );
        let (status, body) = self.exchange(&[head.as_bytes(), &body].concat())?;
        let value: Value = serde_json::from_slice(&body).context("the answer is not JSON")?;
        if status < 300 {
            return Ok(Answer::Done(value));
        }
        let text = |key: &str| value["error"][key].as_str().unwrap_or_default().to_owned();
        Ok(Answer::Refused(Refusal { status, code: text("code"), message: text("message") }))
    }

    /// The bytes of a blob.
    pub fn blob(&mut self, sha256: &str) -> Result<Vec<u8>> {
        let head = format!(
            "GET /api/compute/blobs/{sha256} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
            self.api.address, self.api.token
        );
        let (status, body) = self.exchange(head.as_bytes())?;
        if status >= 300 {
            bail!("no blob {sha256}: {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }

    fn exchange(&mut self, request: &[u8]) -> Result<(u16, Vec<u8>)> {
        self.stream.get_mut().write_all(request)?;
        read_answer(&mut self.stream)
    }

    /// One attempt that must succeed.
    pub fn must(&mut self, verb: &str, request: &Value) -> Result<Value> {
        match self.attempt(verb, request)? {
            Answer::Done(value) => Ok(value),
            Answer::Refused(refusal) => bail!("{verb} {request} is refused: {refusal:?}"),
        }
    }
}

/// Status and body, whole.
fn read_answer(reader: &mut impl BufRead) -> Result<(u16, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no HTTP answer")?;
    let mut length = None;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            bail!("the answer ends in its head");
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>()?);
        }
    }
    let mut body = vec![0; length.context("an answer without a length")?];
    reader.read_exact(&mut body)?;
    Ok((status, body))
}
