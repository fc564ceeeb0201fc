//! Against a server that plays a script: one recorded answer a connection.

use crate::*;
use api_types::{ErrorCode, NodesList};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Answers connections with `answers` in turn and keeps what it was asked. An empty answer hangs up.
async fn play(answers: Vec<String>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.expect("accept");
            let mut request = Vec::new();
            let mut buffer = [0u8; 4096];
            while !is_complete(&request) {
                let count = socket.read(&mut buffer).await.expect("read");
                if count == 0 {
                    break;
                }
                request.extend_from_slice(&buffer[..count]);
            }
            seen.lock().expect("lock").push(String::from_utf8_lossy(&request).to_lowercase());
            socket.write_all(answer.as_bytes()).await.expect("write");
        }
    });
    let retry =
        RetryPolicy { attempts_max: 3, delay_first: Duration::from_millis(1), delay_most: Duration::from_millis(2) };
    (Client::new(&ClientConfig { url, token: "bct_1.s".into(), retry }).expect("client"), asked)
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    body.len() >= length
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn error(code: &str) -> String {
    format!(r#"{{"error":{{"code":"{code}","message":"m","requestId":"req_1"}}}}"#)
}

#[tokio::test]
async fn a_lost_answer_and_an_unavailable_store_are_tried_again_with_the_same_bytes() {
    let answers = vec![
        String::new(),
        answer("503 x", &error("UNAVAILABLE")),
        answer("200 OK", r#"{"items":[],"nextCursor":"a"}"#),
    ];
    let (client, asked) = play(answers).await;
    let page = client.call(&NodesList::default()).await.expect("third attempt");
    assert_eq!(page.next_cursor.as_deref(), Some("a"));
    let asked = asked.lock().expect("lock").clone();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|request| *request == asked[0]));
    assert!(asked[0].starts_with("post /api/compute/nodes.list http/1.1"), "{}", asked[0]);
    assert!(asked[0].contains("authorization: bearer bct_1.s"), "{}", asked[0]);
}

#[tokio::test]
async fn a_refusal_is_not_tried_again() {
    let (client, asked) = play(vec![answer("404 x", &error("NOT_FOUND")), String::new()]).await;
    let refused = client.call(&NodesList::default()).await.expect_err("refused");
    assert_eq!(refused.code(), Some(ErrorCode::NotFound));
    assert!(refused.to_string().contains("req_1"), "{refused}");
    assert_eq!(asked.lock().expect("lock").len(), 1);
}

#[tokio::test]
async fn an_answer_of_something_else_is_said_to_be_that() {
    let (client, _) = play(vec![answer("301 x", "<html>")]).await;
    let error = client.call(&NodesList::default()).await.expect_err("not the API");
    assert!(matches!(error, ClientError::NotTheApi { status: 301, .. }), "{error}");
}

fn event(position: u64) -> String {
    format!(
        "id: {position}\ndata: {{\"position\":{position},\"topic\":\"t\",\"tenantId\":\"root\",\"key\":\"k\",\"at\":\"x\",\"payload\":null}}\n\n"
    )
}

fn stream(parts: &[String]) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{}", parts.concat())
}

#[tokio::test]
async fn a_watch_goes_on_from_the_last_position_without_gap_or_double() {
    let ready = "event: position\nid: 4\ndata: {}\n\n".to_owned();
    let cut_in_the_middle = event(6)[..20].to_owned();
    let again = "event: position\nid: 5\ndata: {}\n\n".to_owned();
    let answers = vec![
        stream(&[ready, event(5), cut_in_the_middle]),
        String::new(),
        stream(&[again, event(5), event(6), event(9)]),
    ];
    let (client, asked) = play(answers).await;
    let mut watch = client.watch(WatchFilter { topic: Some("node.".into()), ..WatchFilter::default() });
    let mut positions = Vec::new();
    while positions.last() != Some(&9) {
        if let WatchItem::Event(event) = watch.next().await.expect("item") {
            positions.push(event.position);
        }
    }
    assert_eq!(positions, [5, 6, 9]);
    let asked = asked.lock().expect("lock").clone();
    assert!(asked[0].starts_with("get /api/compute/watch?topic=node. "), "{}", asked[0]);
    assert!(!asked[0].contains("last-event-id"), "{}", asked[0]);
    assert!(asked[2].contains("last-event-id: 5"), "{}", asked[2]);
}

#[tokio::test]
async fn an_expired_cursor_ends_a_watch() {
    let (client, _) = play(vec![answer("410 Gone", &error("CURSOR_EXPIRED"))]).await;
    let mut watch = client.watch(WatchFilter { after: Some(1), ..WatchFilter::default() });
    assert_eq!(watch.next().await.expect_err("expired").code(), Some(ErrorCode::CursorExpired));
}

#[tokio::test]
async fn a_blob_with_other_bytes_is_refused() {
    let (client, _) = play(vec![answer("200 OK", "abc"), answer("200 OK", "abd")]).await;
    let digest = stdx::hex::sha256_hex(b"abc");
    assert_eq!(client.blob(&digest).await.expect("genuine"), b"abc");
    assert!(matches!(client.blob(&digest).await, Err(ClientError::BlobDigest { .. })));
}
