//! Mutations as bytes. Field numbers are never reused: an older journal must still read.

use model::frame::{Event, Settled, Signed};
use model::{BootId, CommandId, EventClass, IncarnationId, JournalId, Kind, Lane, NodeId, Outcome, ServerTimeMs};
use node_core::{Accepted, Mutation};
use prost::{Message, Oneof};

/// A sound record that this version cannot read: a newer one wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record has no {0} that this version knows")]
pub struct RecordError(pub &'static str);

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(oneof = "Part", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14")]
    part: Option<Part>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Part {
    #[prost(message, tag = "1")]
    Created(CreatedPart),
    #[prost(message, tag = "2")]
    Accepted(AcceptedPart),
    #[prost(message, tag = "3")]
    Running(RunningPart),
    #[prost(message, tag = "4")]
    Done(DonePart),
    #[prost(message, tag = "5")]
    ResultsAcked(IdsPart),
    #[prost(message, tag = "6")]
    Swept(IdsPart),
    #[prost(message, tag = "7")]
    Event(EventPart),
    #[prost(message, tag = "8")]
    EventsDropped(SeqsPart),
    #[prost(uint64, tag = "9")]
    EventsAcked(u64),
    #[prost(uint64, tag = "10")]
    Epoch(u64),
    #[prost(sint64, tag = "11")]
    TimeMark(i64),
    #[prost(message, tag = "12")]
    Spec(SpecPart),
    #[prost(message, tag = "13")]
    TicketUsed(TicketPart),
    #[prost(message, tag = "14")]
    TicketsForgotten(IdsPart),
}

#[derive(Clone, PartialEq, Message)]
struct TicketPart {
    #[prost(string, tag = "1")]
    jti: String,
    #[prost(sint64, tag = "2")]
    expires_at_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct CreatedPart {
    #[prost(string, tag = "1")]
    node_id: String,
    #[prost(string, tag = "2")]
    journal_id: String,
    #[prost(sint64, tag = "3")]
    birth_ms: i64,
    #[prost(sint64, tag = "4")]
    time_mark_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct AcceptedPart {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    lane: String,
    #[prost(uint64, tag = "4")]
    seq: u64,
    #[prost(bool, tag = "5")]
    retry_safe: bool,
    #[prost(bool, tag = "6")]
    self_terminating: bool,
    #[prost(bool, tag = "7")]
    attested: bool,
    #[prost(string, tag = "8")]
    incarnation: String,
    #[prost(sint64, tag = "9")]
    at_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct RunningPart {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    boot_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct DonePart {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    outcome: String,
    #[prost(bytes = "vec", tag = "3")]
    result: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    node_sig: Option<SignedPart>,
    #[prost(string, tag = "5")]
    boot_id: String,
    #[prost(sint64, tag = "6")]
    at_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct IdsPart {
    #[prost(string, repeated, tag = "1")]
    ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct SeqsPart {
    #[prost(uint64, repeated, tag = "1")]
    seqs: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct EventPart {
    #[prost(uint64, tag = "1")]
    seq: u64,
    #[prost(string, tag = "2")]
    class: String,
    #[prost(bytes = "vec", tag = "3")]
    report: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    node_sig: Option<SignedPart>,
}

#[derive(Clone, PartialEq, Message)]
struct SpecPart {
    #[prost(uint64, tag = "1")]
    generation: u64,
    #[prost(string, tag = "2")]
    spec_hash: String,
    #[prost(message, optional, tag = "3")]
    signed: Option<SignedPart>,
}

#[derive(Clone, PartialEq, Message)]
struct SignedPart {
    #[prost(bytes = "vec", tag = "1")]
    body: Vec<u8>,
    #[prost(string, tag = "2")]
    kid: String,
    #[prost(bytes = "vec", repeated, tag = "3")]
    chain: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "4")]
    signature: Vec<u8>,
}

/// One mutation as one record.
pub fn encode(mutation: &Mutation) -> Vec<u8> {
    let part = match mutation.clone() {
        Mutation::Created { node_id, journal_id, birth, time_mark } => Part::Created(CreatedPart {
            node_id: node_id.to_string(),
            journal_id: journal_id.to_string(),
            birth_ms: birth.0,
            time_mark_ms: time_mark.0,
        }),
        Mutation::Accepted(accepted) => Part::Accepted(AcceptedPart {
            id: accepted.id.to_string(),
            kind: accepted.kind.name().to_owned(),
            lane: accepted.lane.name().to_owned(),
            seq: accepted.seq,
            retry_safe: accepted.retry_safe,
            self_terminating: accepted.self_terminating,
            attested: accepted.attested,
            incarnation: accepted.incarnation.to_string(),
            at_ms: accepted.at.0,
        }),
        Mutation::Running { id, boot_id } => {
            Part::Running(RunningPart { id: id.to_string(), boot_id: boot_id.to_string() })
        }
        Mutation::Done { id, settled, boot_id, at } => Part::Done(DonePart {
            id: id.to_string(),
            outcome: settled.outcome.name().to_owned(),
            result: settled.result,
            node_sig: settled.node_sig.map(signed_part),
            boot_id: boot_id.to_string(),
            at_ms: at.0,
        }),
        Mutation::ResultsAcked(ids) => Part::ResultsAcked(ids_part(&ids)),
        Mutation::Swept(ids) => Part::Swept(ids_part(&ids)),
        Mutation::Event(event) => Part::Event(EventPart {
            seq: event.seq,
            class: event.class.name().to_owned(),
            report: event.report,
            node_sig: event.node_sig.map(signed_part),
        }),
        Mutation::EventsDropped(seqs) => Part::EventsDropped(SeqsPart { seqs }),
        Mutation::EventsAcked(seq) => Part::EventsAcked(seq),
        Mutation::Epoch(epoch) => Part::Epoch(epoch),
        Mutation::TimeMark(mark) => Part::TimeMark(mark.0),
        Mutation::Spec { generation, spec_hash, signed } => {
            Part::Spec(SpecPart { generation, spec_hash, signed: Some(signed_part(signed)) })
        }
        Mutation::TicketUsed { jti, expires_at } => Part::TicketUsed(TicketPart { jti, expires_at_ms: expires_at.0 }),
        Mutation::TicketsForgotten(ids) => Part::TicketsForgotten(IdsPart { ids }),
    };
    Record { part: Some(part) }.encode_to_vec()
}

/// The reverse of [`encode`].
pub fn decode(record: &[u8]) -> Result<Mutation, RecordError> {
    let record = Record::decode(record).map_err(|_| RecordError("form"))?;
    Ok(match record.part.ok_or(RecordError("part"))? {
        Part::Created(part) => Mutation::Created {
            node_id: NodeId::parse(&part.node_id).map_err(|_| RecordError("node id"))?,
            journal_id: JournalId::parse(&part.journal_id).map_err(|_| RecordError("journal id"))?,
            birth: ServerTimeMs(part.birth_ms),
            time_mark: ServerTimeMs(part.time_mark_ms),
        },
        Part::Accepted(part) => Mutation::Accepted(Accepted {
            id: command_id(&part.id)?,
            kind: Kind::parse(&part.kind).ok_or(RecordError("kind"))?,
            lane: Lane::parse(&part.lane).ok_or(RecordError("lane"))?,
            seq: part.seq,
            retry_safe: part.retry_safe,
            self_terminating: part.self_terminating,
            attested: part.attested,
            incarnation: IncarnationId::parse(&part.incarnation).map_err(|_| RecordError("incarnation"))?,
            at: ServerTimeMs(part.at_ms),
        }),
        Part::Running(part) => Mutation::Running { id: command_id(&part.id)?, boot_id: boot_id(&part.boot_id)? },
        Part::Done(part) => Mutation::Done {
            id: command_id(&part.id)?,
            settled: Settled {
                outcome: Outcome::parse(&part.outcome).ok_or(RecordError("outcome"))?,
                result: part.result,
                node_sig: part.node_sig.map(signed),
            },
            boot_id: boot_id(&part.boot_id)?,
            at: ServerTimeMs(part.at_ms),
        },
        Part::ResultsAcked(part) => Mutation::ResultsAcked(command_ids(part)?),
        Part::Swept(part) => Mutation::Swept(command_ids(part)?),
        Part::Event(part) => Mutation::Event(Event {
            seq: part.seq,
            class: EventClass::parse(&part.class).ok_or(RecordError("event class"))?,
            report: part.report,
            node_sig: part.node_sig.map(signed),
        }),
        Part::EventsDropped(part) => Mutation::EventsDropped(part.seqs),
        Part::EventsAcked(seq) => Mutation::EventsAcked(seq),
        Part::Epoch(epoch) => Mutation::Epoch(epoch),
        Part::TimeMark(mark) => Mutation::TimeMark(ServerTimeMs(mark)),
        Part::Spec(part) => Mutation::Spec {
            generation: part.generation,
            spec_hash: part.spec_hash,
            signed: part.signed.map(signed).ok_or(RecordError("spec"))?,
        },
        Part::TicketUsed(part) => Mutation::TicketUsed { jti: part.jti, expires_at: ServerTimeMs(part.expires_at_ms) },
        Part::TicketsForgotten(part) => Mutation::TicketsForgotten(part.ids),
    })
}

fn command_id(text: &str) -> Result<CommandId, RecordError> {
    CommandId::parse(text).map_err(|_| RecordError("command id"))
}

fn boot_id(text: &str) -> Result<BootId, RecordError> {
    BootId::parse(text).map_err(|_| RecordError("boot id"))
}

fn ids_part(ids: &[CommandId]) -> IdsPart {
    IdsPart { ids: ids.iter().map(ToString::to_string).collect() }
}

fn command_ids(part: IdsPart) -> Result<Vec<CommandId>, RecordError> {
    part.ids.iter().map(|id| command_id(id)).collect()
}

fn signed_part(signed: Signed) -> SignedPart {
    let Signed { body, kid, chain, signature } = signed;
    SignedPart { body, kid, chain, signature }
}

fn signed(part: SignedPart) -> Signed {
    let SignedPart { body, kid, chain, signature } = part;
    Signed { body, kid, chain, signature }
}

#[cfg(test)]
mod tests;
