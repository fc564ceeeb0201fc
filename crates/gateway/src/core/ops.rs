//! The store operations of a gateway as values, and the one function that runs them. The shell runs
//! it on the store's writer; the simulation on a store in memory.

use super::Facts;
use kernel::db::{StoreError, Tx};
use kernel::events::Handlers;
use kernel::sessions::{CertFacts, Outgoing, ResumeError, SessionAnswer};
use kernel::settings;
use model::frame::{CommandUpdate, EventBatch, Hello, InventoryReport, StatusReport};
use model::{CommandId, GatewayId, JournalId, NodeId, SessionEnd};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum StoreOp {
    Accept { certificate: CertFacts, hello: Box<Hello> },
    Updates { node: NodeId, updates: Vec<CommandUpdate> },
    ResumeDone { node: NodeId, epoch: u64, in_flight: Vec<CommandId> },
    Events { node: NodeId, epoch: u64, batch: EventBatch },
    Status { node: NodeId, epoch: u64, report: StatusReport, publish: bool },
    Inventory { node: NodeId, epoch: u64, report: InventoryReport },
    Close { node: NodeId, epoch: u64, code: SessionEnd },
    Touch { heard: Vec<(NodeId, u64)> },
    Dispatch { epochs: Arc<BTreeMap<NodeId, u64>> },
    Cancels,
    Closings { epochs: BTreeMap<NodeId, u64> },
    Facts,
}

#[derive(Debug)]
pub enum StoreReply {
    Answer(SessionAnswer),
    /// Terminal updates to acknowledge.
    Ingested(Vec<CommandId>),
    /// What to send again; `None` when the epoch is no longer the node's.
    Resumed(Option<Vec<Outgoing>>),
    EventsStored(Option<(JournalId, u64)>),
    /// `reading`: the session waited with its next frame.
    Written {
        reading: bool,
    },
    Outgoing(Vec<Outgoing>),
    Cancels(Vec<(NodeId, u64, CommandId, String)>),
    Closings(Vec<(NodeId, u64, SessionEnd)>),
    Facts(Facts),
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpFailure {
    /// Nothing of it is stored.
    NotStored,
    /// It may have been stored.
    Unknown,
}

/// Runs one operation in the caller's transaction.
pub fn execute(
    tx: &mut Tx<'_>,
    gateway: &GatewayId,
    handlers: &Handlers,
    op: StoreOp,
) -> Result<StoreReply, StoreError> {
    match op {
        StoreOp::Accept { certificate, hello } => {
            kernel::sessions::accept_session(tx, gateway, &certificate, &hello).map(StoreReply::Answer)
        }
        StoreOp::Updates { node, updates } => {
            let ingested = kernel::updates::ingest_updates(tx, &node, &updates)?;
            Ok(StoreReply::Ingested(ingested.acks))
        }
        StoreOp::ResumeDone { node, epoch, in_flight } => {
            match kernel::sessions::resume_done(tx, gateway, &node, epoch, &in_flight) {
                Ok(outgoing) => Ok(StoreReply::Resumed(Some(outgoing))),
                Err(ResumeError::EpochLost) => Ok(StoreReply::Resumed(None)),
                Err(ResumeError::Store(error)) => Err(error),
            }
        }
        StoreOp::Events { node, epoch, batch } => {
            let acked = kernel::events::ingest_events(tx, handlers, &node, epoch, &batch)?;
            Ok(StoreReply::EventsStored(acked.map(|seq| (batch.journal_id, seq))))
        }
        StoreOp::Status { node, epoch, report, publish } => {
            kernel::status::write_status(tx, &node, epoch, &report, publish)?;
            Ok(StoreReply::Written { reading: false })
        }
        StoreOp::Inventory { node, epoch, report } => {
            kernel::status::write_inventory(tx, &node, epoch, &report)?;
            Ok(StoreReply::Written { reading: true })
        }
        StoreOp::Close { node, epoch, code } => {
            kernel::sessions::close_session(tx, &node, epoch, code)?;
            Ok(StoreReply::Written { reading: false })
        }
        StoreOp::Touch { heard } => {
            kernel::sessions::gateway_heartbeat(tx, gateway)?;
            kernel::sessions::touch_sessions(tx, gateway, &heard)?;
            Ok(StoreReply::Written { reading: false })
        }
        StoreOp::Dispatch { epochs } => kernel::sessions::dispatch(tx, gateway, &epochs).map(StoreReply::Outgoing),
        StoreOp::Cancels => kernel::sessions::pending_cancels(tx, gateway).map(StoreReply::Cancels),
        StoreOp::Closings { epochs } => {
            let closings = kernel::sessions::sessions_to_close(tx, gateway, &epochs)?;
            let with_epochs = closings.into_iter().filter_map(|(node, code)| {
                let epoch = *epochs.get(&node)?;
                Some((node, epoch, code))
            });
            Ok(StoreReply::Closings(with_epochs.collect()))
        }
        StoreOp::Facts => {
            let now = tx.now()?;
            let server_time = settings::get_signed(tx, settings::SERVER_TIME)?.map(|(signed, _)| signed);
            let trust_bundle = settings::get_signed(tx, settings::TRUST_BUNDLE)?.map(|(signed, _)| signed);
            Ok(StoreReply::Facts(Facts { server_time, trust_bundle, now }))
        }
    }
}
