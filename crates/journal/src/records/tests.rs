use super::*;
use proptest::prelude::*;

fn signed_strategy() -> impl Strategy<Value = Signed> {
    (any::<Vec<u8>>(), "[a-f0-9]{0,32}", proptest::collection::vec(any::<Vec<u8>>(), 0..3), any::<Vec<u8>>())
        .prop_map(|(body, kid, chain, signature)| Signed { body, kid, chain, signature })
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let id = || "[a-zA-Z0-9][a-zA-Z0-9_-]{0,30}";
    let time = || any::<i64>().prop_map(ServerTimeMs);
    prop_oneof![
        (id(), id(), time(), time()).prop_map(|(node, journal, birth, time_mark)| Mutation::Created {
            node_id: NodeId::new(node),
            journal_id: JournalId::new(journal),
            birth,
            time_mark,
        }),
        (id(), 0..Kind::ALL.len(), any::<u64>(), any::<[bool; 3]>(), id(), time()).prop_map(
            |(command, kind, seq, [retry_safe, self_terminating, attested], incarnation, at)| {
                let kind = Kind::ALL[kind];
                Mutation::Accepted(Accepted {
                    id: CommandId::new(command),
                    kind,
                    lane: kind.spec().lane,
                    seq,
                    retry_safe,
                    self_terminating,
                    attested,
                    incarnation: IncarnationId::new(incarnation),
                    at,
                })
            }
        ),
        (id(), id())
            .prop_map(|(command, boot)| Mutation::Running { id: CommandId::new(command), boot_id: BootId::new(boot) }),
        (id(), 0..Outcome::ALL.len(), any::<Vec<u8>>(), proptest::option::of(signed_strategy()), id(), time())
            .prop_map(|(command, outcome, result, node_sig, boot, at)| Mutation::Done {
                id: CommandId::new(command),
                settled: Settled { outcome: Outcome::ALL[outcome], result, node_sig },
                boot_id: BootId::new(boot),
                at,
            }),
        proptest::collection::vec(id(), 0..4)
            .prop_map(|ids| Mutation::ResultsAcked(ids.into_iter().map(CommandId::new).collect())),
        proptest::collection::vec(id(), 0..4)
            .prop_map(|ids| Mutation::Swept(ids.into_iter().map(CommandId::new).collect())),
        (any::<u64>(), 0..3usize, any::<Vec<u8>>(), proptest::option::of(signed_strategy())).prop_map(
            |(seq, class, report, node_sig)| Mutation::Event(Event {
                seq,
                class: EventClass::ALL[class],
                report,
                node_sig
            })
        ),
        any::<Vec<u64>>().prop_map(Mutation::EventsDropped),
        any::<u64>().prop_map(Mutation::EventsAcked),
        any::<u64>().prop_map(Mutation::Epoch),
        time().prop_map(Mutation::TimeMark),
        (".{0,9}", time()).prop_map(|(jti, expires_at)| Mutation::TicketUsed { jti, expires_at }),
        proptest::collection::vec(".{0,9}", 0..4).prop_map(Mutation::TicketsForgotten),
        (any::<u64>(), ".{0,9}", signed_strategy()).prop_map(|(generation, spec_hash, signed)| Mutation::Spec {
            generation,
            spec_hash,
            signed
        }),
    ]
}

proptest! {
    #[test]
    fn every_mutation_round_trips(mutation in mutation()) {
        prop_assert_eq!(decode(&encode(&mutation)), Ok(mutation));
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, mutation in mutation(), at: prop::sample::Index, mask in 1u8..) {
        prop_assert!(decode(&bytes).is_ok() || decode(&bytes).is_err());
        let mut flipped = encode(&mutation);
        let at = at.index(flipped.len());
        flipped[at] ^= mask;
        prop_assert!(decode(&flipped).is_ok() || decode(&flipped).is_err());
    }
}
