//! The transport of one session: frames out through a bounded queue, frames in one at a time. It knows
//! nothing of what a frame means.

use crate::transport::Client;
use model::SessionEnd;
use model::frame::{AgentFrame, GatewayFrame};
use proto::v1;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Response, Status, Streaming};

/// Frames that wait for the network. A gateway that lets this many pile up has stopped reading.
const FRAMES_WAITING_MAX: usize = 512;
/// The last frames of a session that ends get this long to leave; what does not make it is said again.
const CLOSING_MOST: Duration = Duration::from_millis(500);

type Opening = Pin<Box<dyn Future<Output = Result<Response<Streaming<v1::GatewayFrame>>, Status>> + Send>>;

/// A session that ends.
pub type Closing = tokio::task::JoinHandle<()>;

enum Inbound {
    /// A gateway may answer the call only once it has read `Hello`.
    Opening(Opening),
    Open(Box<Streaming<v1::GatewayFrame>>),
}

/// What came in.
#[derive(Debug)]
pub enum Incoming {
    Frame(GatewayFrame),
    /// No frame, or one beyond its bound.
    Bad(SessionEnd, String),
    /// The transport is gone.
    Gone(String),
}

pub struct Link {
    outbox: mpsc::Sender<v1::AgentFrame>,
    inbound: Inbound,
}

impl Link {
    /// Begins the call. Frames may be sent at once.
    pub fn open(mut client: Client) -> Self {
        let (outbox, frames) = mpsc::channel(FRAMES_WAITING_MAX);
        let opening = Box::pin(async move { client.session(ReceiverStream::new(frames)).await });
        Self { outbox, inbound: Inbound::Opening(opening) }
    }

    /// Queues a frame. False when the queue is full or the transport is gone.
    pub fn send(&self, frame: AgentFrame) -> bool {
        self.outbox.try_send(v1::AgentFrame::from(frame)).is_ok()
    }

    /// The next frame. Cancel-safe: the call being opened is kept here, and a frame is taken whole or not at
    /// all.
    pub async fn next(&mut self) -> Incoming {
        if let Inbound::Opening(opening) = &mut self.inbound {
            match opening.await {
                Ok(response) => self.inbound = Inbound::Open(Box::new(response.into_inner())),
                Err(status) => return ended(&status),
            }
        }
        let Inbound::Open(frames) = &mut self.inbound else { unreachable!("opened above") };
        match frames.message().await {
            Ok(Some(frame)) => match GatewayFrame::try_from(frame) {
                Ok(frame) => Incoming::Frame(frame),
                Err(error) => Incoming::Bad(SessionEnd::ProtocolError, stdx::error::chain(&error)),
            },
            Ok(None) => Incoming::Gone("the gateway closed the session".to_owned()),
            Err(status) => ended(&status),
        }
    }

    /// Lets queued frames leave, then ends the call. Returns at once; what it returns ends within a bounded
    /// time.
    pub fn close(self) -> Closing {
        let Self { outbox, inbound } = self;
        drop(outbox);
        tokio::spawn(async {
            if tokio::time::timeout(CLOSING_MOST, drain(inbound)).await.is_err() {
                tracing::debug!("the gateway did not close the session");
            }
        })
    }
}

async fn drain(inbound: Inbound) {
    let mut frames = match inbound {
        Inbound::Opening(opening) => match opening.await {
            Ok(response) => Box::new(response.into_inner()),
            Err(_) => return,
        },
        Inbound::Open(frames) => frames,
    };
    loop {
        match frames.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return,
            // Letting go of what came in would reset the call, and the last frames out with it.
            Err(_) => tokio::time::sleep(CLOSING_MOST).await,
        }
    }
}

/// tonic refuses a message beyond the bound, or one that does not decode, with a status of its own.
fn ended(status: &Status) -> Incoming {
    match status.code() {
        Code::OutOfRange => Incoming::Bad(SessionEnd::FrameTooLarge, status.message().to_owned()),
        Code::Internal if status.message().contains("decode") => {
            Incoming::Bad(SessionEnd::ProtocolError, status.message().to_owned())
        }
        code => Incoming::Gone(format!("{code:?}: {}", status.message())),
    }
}
