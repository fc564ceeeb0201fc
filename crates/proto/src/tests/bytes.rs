//! Bytes that nobody encoded: any, and encoded ones that were damaged.

use super::strategies;
use crate::*;
use proptest::prelude::*;
use proptest::sample::Index;

/// What a damaged link or a hostile peer does to bytes.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Repeat(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), 1..=255u8).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, new)| Damage::Insert(at, new)),
        any::<Index>().prop_map(Damage::Repeat),
    ]
}

fn apply(bytes: &mut Vec<u8>, damages: &[Damage]) {
    for damage in damages {
        let at = |index: &Index| index.index(bytes.len() + 1);
        match damage {
            Damage::Flip(index, bits) => {
                let at = at(index);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Damage::Cut(index) => {
                let at = at(index);
                bytes.truncate(at);
            }
            Damage::Insert(index, new) => {
                let at = at(index);
                bytes.splice(at..at, new.iter().copied());
            }
            Damage::Repeat(index) => {
                let tail = bytes[at(index)..].to_vec();
                bytes.extend(tail);
            }
        }
    }
}

/// Every entry for outside bytes. What translates must also encode to something that translates to the
/// same value: a relay or a journal may pass it on.
fn decode_all(bytes: &[u8]) {
    if let Ok(frame) = decode_agent_frame(bytes) {
        let again = encode_agent_frame(frame.clone()).expect("not longer than it came");
        assert_eq!(decode_agent_frame(&again), Ok(frame));
    }
    if let Ok(frame) = decode_gateway_frame(bytes) {
        let again = encode_gateway_frame(frame.clone()).expect("not longer than it came");
        assert_eq!(decode_gateway_frame(&again), Ok(frame));
    }
    if let Ok(body) = decode_body(bytes) {
        assert_eq!(decode_body(&encode_body(&body)), Ok(body));
    }
    if let Ok(body) = decode_desired_state(bytes) {
        assert_eq!(decode_desired_state(&encode_desired_state(&body)), Ok(body));
    }
    if let Ok(report) = decode_report(bytes) {
        assert_eq!(decode_report(&encode_report(&report)), Ok(report));
    }
    if let Ok(result) = decode_result(bytes) {
        assert_eq!(decode_result(&encode_result(&result)), Ok(result));
    }
    if let Ok(statement) = decode_statement(bytes) {
        assert_eq!(decode_statement(&encode_statement(&statement)), Ok(statement));
    }
    if let Ok(tags) = scan_tags(bytes) {
        assert!(tags.is_sorted() && tags.iter().all(|tag| *tag > 0));
    }
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    proptest::collection::vec(damage(), 1..4)
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        decode_all(&bytes);
    }

    #[test]
    fn no_damaged_frame_panics(
        agent in strategies::agent_frame(),
        gateway in strategies::gateway_frame(),
        damages in damages(),
    ) {
        let agent = encode_agent_frame(agent).expect("within the bound");
        let gateway = encode_gateway_frame(gateway).expect("within the bound");
        for mut bytes in [agent, gateway] {
            apply(&mut bytes, &damages);
            decode_all(&bytes);
        }
    }

    #[test]
    fn no_damaged_body_panics(
        body in strategies::body(),
        report in strategies::report(),
        statement in strategies::statement(),
        damages in damages(),
    ) {
        for mut bytes in [encode_body(&body), encode_report(&report), encode_statement(&statement)] {
            apply(&mut bytes, &damages);
            decode_all(&bytes);
        }
    }

    #[test]
    fn a_scan_finds_the_fields_that_are_set(min_generation in 1..9u64, batch in "[a-z]{0,3}", id in "[a-z]{0,3}") {
        let wire = v1::CommandBody { id: id.clone(), min_generation, batch_id: batch.clone(), ..Default::default() };
        let expected: Vec<u32> = [(1, !id.is_empty()), (8, true), (16, !batch.is_empty())]
            .into_iter()
            .filter_map(|(tag, set)| set.then_some(tag))
            .collect();
        prop_assert_eq!(scan_tags(&wire.encode_to_vec()), Ok(expected));
    }
}

#[test]
fn a_field_this_build_does_not_know_is_found_in_an_empty_message() {
    // A spec of a later build: field 77, bytes "ab", twice.
    let mut later = Vec::new();
    prost::encoding::bytes::encode(77, &b"ab".to_vec(), &mut later);
    let twice = [later.clone(), later].concat();
    assert_eq!(v1::NodeSpec::decode(twice.as_slice()), Ok(v1::NodeSpec::default()), "the generated code drops it");
    assert_eq!(scan_tags(&twice), Ok(vec![77]));
    assert_eq!(scan_tags(&[]), Ok(vec![]));
    assert!(matches!(scan_tags(&twice[..3]), Err(WireError::Decode { .. })), "a cut field is no field");
    assert!(matches!(scan_tags(&[0x00, 0x01]), Err(WireError::Decode { .. })), "no field has number 0");
}
