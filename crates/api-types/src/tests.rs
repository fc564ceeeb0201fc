use super::*;
use serde_json::json;

#[test]
fn an_unknown_key_of_a_request_is_refused_and_named() {
    let error = serde_json::from_value::<CommandsRun>(
        json!({"nodeId": "n", "kind": "diag.nvml", "idempotencyKey": "k", "notAfter": 1}),
    )
    .expect_err("refused");
    assert!(error.to_string().contains("notAfter"), "{error}");
    let nested = json!({"siteId": "s", "name": "p", "policy": {"adoptoin": "auto"}, "idempotencyKey": "k"});
    assert!(serde_json::from_value::<PoolsCreate>(nested).is_err(), "nested objects refuse too");
}

#[test]
fn a_response_may_grow_keys() {
    let body = json!({"items": [], "nextCursor": "7", "total": 9});
    assert_eq!(serde_json::from_value::<NodePage>(body).expect("read").next_cursor.as_deref(), Some("7"));
}

#[test]
fn verbs_are_sorted_unique_and_named_resource_dot_verb() {
    let names: Vec<&str> = VERBS.iter().map(|verb| verb.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted);
    for name in names {
        assert_eq!(name.split('.').filter(|part| !part.is_empty()).count(), 2, "{name}");
    }
}

#[test]
fn every_mutation_demands_an_idempotency_key_and_every_request_refuses_unknown_keys() {
    for verb in VERBS {
        let mut generator = schemars::SchemaGenerator::default();
        (verb.request_schema)(&mut generator);
        let name = verb.name;
        let definitions = generator.take_definitions(true);
        let schema = definitions
            .values()
            .find(|schema| {
                schema["properties"].get("tenantId").is_some() && schema["additionalProperties"] == json!(false)
            })
            .unwrap_or_else(|| panic!("{name} has no closed request schema"));
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        assert_eq!(required.contains(&json!("idempotencyKey")), verb.effect == Effect::Mutation, "{name}");
    }
}

#[test]
fn an_error_round_trips_with_its_code_as_written() {
    for code in ErrorCode::ALL {
        let error = ApiError { code: *code, message: "m".into(), details: json!({"a": 1}), request_id: "r".into() };
        let text = serde_json::to_string(&ErrorBody { error: error.clone() }).expect("serialize");
        assert!(text.contains(&format!("\"code\":\"{code}\"")), "{text}");
        assert_eq!(serde_json::from_str::<ErrorBody>(&text).expect("parse").error, error);
        assert!((400..600).contains(&code.status()));
    }
}
