//! `openapi.json` (OpenAPI 3.1), made from the table of verbs, so that it cannot say anything else than
//! the router does.

use api_types::{Effect, ErrorBody, VERBS, Verb};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

const SCHEMAS: &str = "/components/schemas";

/// The document for an API mounted at `base_path`.
pub(crate) fn document(base_path: &str, version: &str) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = SCHEMAS.into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for verb in VERBS {
        paths.insert(format!("{base_path}/{}", verb.name), json!({"post": operation(verb, &mut generator)}));
    }
    let event = generator.subschema_for::<api_types::Event>();
    paths.insert(format!("{base_path}/watch"), json!({"get": watch(&event)}));
    paths.insert(format!("{base_path}/blobs/{{sha256}}"), json!({"get": blob()}));
    let error = generator.subschema_for::<ErrorBody>();
    let refusal = json!({
        "description": "What is wrong, with a code and a request id",
        "content": {"application/json": {"schema": error}},
    });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "better-compute",
            "version": version,
            "summary": "Bare-metal GPU fleets: nodes, commands, events.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "description": "bct_<id>.<secret>"}},
            "responses": {"Refusal": refusal},
            "schemas": generator.take_definitions(true),
        },
    })
}

fn operation(verb: &Verb, generator: &mut SchemaGenerator) -> Value {
    let request = (verb.request_schema)(generator);
    let response = (verb.response_schema)(generator);
    let (resource, _) = verb.name.split_once('.').unwrap_or((verb.name, ""));
    json!({
        "operationId": verb.name,
        "summary": verb.summary,
        "tags": [resource],
        "x-action": verb.action,
        "x-idempotent": verb.effect == Effect::Mutation,
        "requestBody": {"required": true, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": response}}},
            "default": {"$ref": "#/components/responses/Refusal"},
        },
    })
}

fn watch(event: &schemars::Schema) -> Value {
    let text = |name: &str, place: &str, description: &str| json!({"name": name, "in": place, "required": false, "schema": {"type": "string"}, "description": description});
    json!({
        "operationId": "watch",
        "summary": "Follows events as server-sent events; the id of each is its position.",
        "tags": ["events"],
        "parameters": [
            text("topic", "query", "A topic, or a prefix of topics that ends in a dot."),
            text("nodeId", "query", "An id or a unique name."),
            text("cursor", "query", "Start after this position; without it, at what happens from now on."),
            text("Last-Event-ID", "header", "As cursor; a reconnecting reader sends it."),
        ],
        "responses": {
            "200": {"description": "A stream; `data` is an Event", "content": {"text/event-stream": {"schema": event}}},
            "default": {"$ref": "#/components/responses/Refusal"},
        },
    })
}

fn blob() -> Value {
    json!({
        "operationId": "blobs.get",
        "summary": "Output of a command that is too large for its result.",
        "tags": ["commands"],
        "parameters": [{
            "name": "sha256", "in": "path", "required": true, "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        }],
        "responses": {
            "200": {"description": "The bytes", "content": {"application/octet-stream": {}}},
            "default": {"$ref": "#/components/responses/Refusal"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_the_document_with_schemas_that_resolve() {
        let document = document("/api/compute", "0.1.0");
        assert_eq!(document["openapi"], "3.1.0");
        for verb in VERBS {
            let operation = &document["paths"][format!("/api/compute/{}", verb.name)]["post"];
            assert_eq!(operation["operationId"], verb.name);
            for schema in [
                &operation["requestBody"]["content"]["application/json"]["schema"],
                &operation["responses"]["200"]["content"]["application/json"]["schema"],
            ] {
                let reference = schema["$ref"].as_str().unwrap_or_else(|| panic!("{}: {schema}", verb.name));
                let name = reference.strip_prefix("#/components/schemas/").expect("local");
                assert!(document["components"]["schemas"].get(name).is_some(), "{reference}");
            }
        }
        let mut references = Vec::new();
        collect(&document, &mut references);
        for reference in references {
            let pointer = reference.strip_prefix('#').expect("local");
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }

    fn collect(value: &Value, references: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                references.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| collect(value, references));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }
}
