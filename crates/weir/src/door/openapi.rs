//! The API's own description: OpenAPI 3.1.
//!
//! Owns: the document. Driven by: `api`.

use serde_json::{Map, Value, json};
use weir_native::SECTIONS;

use super::api::TYPES;
use crate::compile::document::SINGLE;

/// What a request about the configuration can meet besides.
const OF_CHANGES: [(u16, &str); 9] = [
    (404, "There is nothing of this name"),
    (409, "What is checked when it comes into force refuses it: a port that is taken, for one"),
    (411, "The body has no length"),
    (412, "Another version is in force"),
    (413, "The body is too large"),
    (415, "The body is of another type"),
    (422, "The configuration has errors, which `diagnostics` lists"),
    (428, "If-Match is missing"),
    (500, "A fault of the server"),
];

/// What a request about what runs can meet besides.
const OF_LIVE: [(u16, &str); 6] = [
    (404, "There is nothing of this name"),
    (411, "The body has no length"),
    (413, "The body is too large"),
    (415, "The body is of another type"),
    (422, "It is refused"),
    (501, "What runs is in a process of its own"),
];

/// The document.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    of_itself(&mut paths);
    of_configuration(&mut paths);
    of_versions(&mut paths);
    of_what_runs(&mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir", "version": "1", "license": { "name": "the same as the program's" },
            "description": "Reads and changes a running Weir. Objects of the configuration are those of weir.yaml, as JSON or YAML."
        },
        "paths": paths,
        "security": [{ "token": [] }, {}],
        "components": { "securitySchemes": {
            "token": { "type": "http", "scheme": "bearer", "description": "Not needed by root and by Weir's own user on a unix socket." }
        }, "schemas": schemas() }
    })
}

fn of_itself(paths: &mut Map<String, Value>) {
    paths.insert(
        "/v1".into(),
        read("entrance", "Who you are, and where things are", &reference("Entrance"), &[]),
    );
    paths.insert(
        "/v1/openapi.json".into(),
        read("openapi", "This document", &json!({ "type": "object" }), &[]),
    );
    paths.insert("/v1/audit".into(), read("audit", "Who changed what, oldest first", &list("Entry"), &[]));
}

fn of_configuration(paths: &mut Map<String, Value>) {
    let section = |all: Vec<&str>| {
        json!({
            "name": "section", "in": "path", "required": true, "schema": { "type": "string", "enum": all }
        })
    };
    let lists: Vec<&str> = SECTIONS.into_iter().filter(|one| !SINGLE.contains(one)).collect();
    let any = json!({});
    let changeable = |id: &str, about: &str, parameters: Value| {
        json!({
            "parameters": parameters,
            "get": reads(&format!("get_{id}"), about, &any),
            "put": change(&format!("put_{id}"), "Makes or replaces it", &TYPES, &[200, 201]),
            "patch": change(&format!("patch_{id}"), "Changes fields of it (RFC 7396)", &TYPES, &[200]),
            "delete": change(&format!("delete_{id}"), "Takes it away", &[], &[200])
        })
    };
    let about = "The configuration in force, without secrets. Without the API's changes: DELETE";
    paths.insert("/v1/config".into(), changeable("config", about, json!([])));
    let about =
        "All objects of a section. Changed like this are only sections of one object: process and resolver";
    paths.insert(
        "/v1/config/{section}".into(),
        changeable("section", about, json!([section(SECTIONS.to_vec())])),
    );
    let key = text("key", "Its key, its name, or its address");
    let parameters = json!([section(lists.clone()), key]);
    paths.insert("/v1/config/{section}/{key}".into(), changeable("object", "One object", parameters));
    let field = text("field", "A field of it, or a path of fields, keys and numbers with slashes between");
    let mut inside = changeable("field", "What is inside of an object", json!([section(lists), key, field]));
    inside["post"] = change("add_item", "Adds an item to a list", &TYPES, &[201]);
    paths.insert("/v1/config/{section}/{key}/{field}".into(), inside);
}

fn of_versions(paths: &mut Map<String, Value>) {
    let number = json!({ "name": "version", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 1 } });
    let none = [(404, "This version is not kept")];
    let of_one = |mut item: Value| {
        item["parameters"] = json!([number]);
        item
    };
    paths.insert(
        "/v1/versions".into(),
        read("versions", "Versions that were in force, newest first", &list("Version"), &[]),
    );
    let one = read("version", "A version, and what it changed", &reference("Version"), &none);
    paths.insert("/v1/versions/{version}".into(), of_one(one));
    let config = read("version_config", "The configuration of a version", &json!({}), &none);
    paths.insert("/v1/versions/{version}/config".into(), of_one(config));
    let mut diff = read("version_diff", "What another version changed", &reference("Diff"), &none);
    diff["get"]["parameters"] = json!([{
        "name": "to", "in": "query", "description": "The other version; the one in force by itself",
        "schema": { "type": "integer", "minimum": 1 }
    }]);
    paths.insert("/v1/versions/{version}/diff".into(), of_one(diff));
    let rollback = change("rollback", "Has the API decide what it decided in that version", &[], &[200]);
    paths.insert(
        "/v1/versions/{version}/rollback".into(),
        json!({ "parameters": [number], "post": rollback }),
    );
}

fn of_what_runs(paths: &mut Map<String, Value>) {
    let (pool, any) = (text("pool", "Its name"), json!({ "type": "object" }));
    let all = json!({ "type": "array", "items": { "type": "object" } });
    let apart = [(404, "There is nothing of this name"), (501, "What runs is in a process of its own")];
    let mut status =
        read("status", "Figures of all that runs: the document that the dashboard reads", &any, &apart);
    status["get"]["parameters"] = json!([
        { "name": "requests", "in": "query", "description": "Entries of each list of requests", "schema": { "type": "integer", "minimum": 0 } },
        { "name": "pool", "in": "query", "description": "With the endpoints of this pool in any case", "schema": { "type": "string" } }
    ]);
    paths.insert("/v1/status".into(), status);
    paths.insert("/v1/pools".into(), read("pools", "Pools as they run", &all, &apart));
    let mut one = read("pool", "A pool as it runs", &any, &apart);
    one["parameters"] = json!([pool]);
    paths.insert("/v1/pools/{pool}".into(), one);
    let given = json!({ "type": "array", "items": reference("Endpoint") });
    paths.insert("/v1/pools/{pool}/endpoints".into(), json!({
        "parameters": [pool],
        "get": { "operationId": "endpoints", "summary": "Endpoints as they run", "responses": answers(&[(200, &all)], &apart) },
        "put": live("put_endpoints", "Replaces the endpoints until that is taken back", Some(&given)),
        "delete": live("delete_endpoints", "The configuration's endpoints again", None)
    }));
    paths.insert("/v1/pools/{pool}/endpoints/{endpoint}".into(), json!({
        "parameters": [pool, text("endpoint", "Its name")],
        "get": { "operationId": "endpoint", "summary": "An endpoint as it runs", "responses": answers(&[(200, &any)], &apart) },
        "patch": live("patch_endpoint", "Weight and state, until they are taken back", Some(&reference("EndpointChange")))
    }));
    paths.insert("/v1/certificates".into(), read("certificates", "Certificates in use", &all, &apart));
    paths.insert("/v1/certificates/{name}".into(), json!({
        "parameters": [text("name", "Where the configuration has it from, with slashes as %2F")],
        "put": live("put_certificate", "Uses another one until that is taken back", Some(&reference("KeyPair"))),
        "delete": live("delete_certificate", "The configuration's again", None)
    }));
}

fn schemas() -> Value {
    let (text, number) = (json!({ "type": "string" }), json!({ "type": "integer", "minimum": 0 }));
    let short = json!({ "type": "integer", "minimum": 0, "maximum": 4_294_967_295u32 });
    let texts = json!({ "type": "array", "items": text });
    let objects = json!({ "type": "array", "items": reference("Diagnostic") });
    json!({
        "Problem": object(&["type", "title", "status", "detail"], json!({
            "type": text, "title": text, "status": number, "detail": text, "diagnostics": objects
        })),
        "Diagnostic": object(&["code", "severity", "message"], json!({
            "code": text, "severity": { "enum": ["note", "warning", "error"] }, "message": text,
            "pointer": { "type": "string", "description": "Where in the document that was checked (RFC 6901)" },
            "about": text, "help": texts, "related": { "type": "array", "items": { "type": "object" } }
        })),
        "Entrance": object(&["weir", "you", "links"], json!({
            "weir": text, "version": { "type": ["integer", "null"] }, "links": texts,
            "you": object(&["name", "role"], json!({ "name": text, "role": { "enum": ["read", "operate", "configure"] } }))
        })),
        "Entry": object(&["time", "who", "what", "outcome"], json!({
            "time": text, "who": text, "what": text, "outcome": text
        })),
        "Version": object(&["version", "since", "who", "what", "changes", "decided_here"], json!({
            "version": number, "since": text, "who": text, "what": text, "changes": texts, "decided_here": texts
        })),
        "Diff": object(&["from", "to", "changes"], json!({ "from": number, "to": number, "changes": texts })),
        "Changed": object(&["version", "changes", "diagnostics"], json!({
            "version": number, "changes": texts, "diagnostics": objects, "dry_run": { "type": "boolean" },
            "not_kept": { "type": "string", "description": "Why it will not be there after a restart" }
        })),
        "Done": object(&["done"], json!({ "done": { "type": "boolean" } })),
        "Endpoint": closed(&["name", "address"], json!({
            "name": text, "address": text, "weight": short, "backup": { "type": "boolean" }, "max_connections": short,
            "max_fails": short, "fail_timeout_ms": number, "slow_start_ms": number, "down": { "type": "boolean" },
            "drain": { "type": "boolean" }
        })),
        "EndpointChange": closed(&[], json!({
            "weight": { "type": ["integer", "null"], "minimum": 0, "maximum": 4_294_967_295u32 },
            "state": { "enum": ["as_configured", "ready", "drain", "maintenance"] }
        })),
        "KeyPair": closed(&["chain", "key"], json!({ "chain": text, "key": text }))
    })
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

fn closed(required: &[&str], properties: Value) -> Value {
    let mut value = object(required, properties);
    value["additionalProperties"] = json!(false);
    value
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn list(name: &str) -> Value {
    json!({ "type": "array", "items": reference(name) })
}

fn text(name: &str, about: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "description": about, "schema": { "type": "string", "minLength": 1 } })
}

fn read(id: &str, about: &str, schema: &Value, others: &[(u16, &str)]) -> Value {
    json!({ "get": { "operationId": id, "summary": about, "responses": answers(&[(200, schema)], others) } })
}

/// Reading the configuration.
fn reads(id: &str, about: &str, schema: &Value) -> Value {
    let none = [(404, "There is nothing of this name"), (409, "This configuration cannot be shown")];
    let mut responses = answers(&[(200, schema)], &none);
    responses["304"] = json!({ "description": "It is the version that If-None-Match names" });
    json!({
        "operationId": id, "summary": about, "responses": responses,
        "parameters": [header("If-None-Match", "Answers 304 if this version is in force")]
    })
}

/// Changing the configuration; without types it has no body.
fn change(id: &str, about: &str, types: &[&str], statuses: &[u16]) -> Value {
    let changed = reference("Changed");
    let good: Vec<(u16, &Value)> = statuses.iter().map(|status| (*status, &changed)).collect();
    // What is inside of an object may be anything.
    let schema =
        if id.ends_with("field") || id == "add_item" { json!({}) } else { json!({ "type": "object" }) };
    let mut value = json!({
        "operationId": id, "summary": about, "description": "Needs the role configure.",
        "parameters": [
            { "name": "dry_run", "in": "query", "description": "Checks, and changes nothing", "schema": { "type": "boolean" } },
            header("If-Match", "The version that the change is made for, or *. A dry run needs none"),
        ],
        "responses": answers(&good, &OF_CHANGES)
    });
    if !types.is_empty() {
        let content: Map<String, Value> =
            types.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": schema }))).collect();
        value["requestBody"] = json!({ "required": true, "content": content });
    }
    value
}

/// Changing what runs.
fn live(id: &str, about: &str, body: Option<&Value>) -> Value {
    let mut value = json!({
        "operationId": id, "summary": about, "description": "Needs the role operate.",
        "responses": answers(&[(200, &reference("Done"))], &OF_LIVE)
    });
    if let Some(schema) = body {
        value["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    value
}

fn header(name: &str, about: &str) -> Value {
    json!({ "name": name, "in": "header", "description": about, "schema": { "type": "string" } })
}

/// Responses with data, those that are particular to a request, and those that any may get.
fn answers(good: &[(u16, &Value)], others: &[(u16, &str)]) -> Value {
    let any = [
        (400, "It is malformed"),
        (401, "A token is needed"),
        (403, "This is not allowed"),
        (405, "It takes other methods"),
        (421, "It is meant for another host"),
        (429, "Too many failures"),
        (503, "Not at the moment"),
    ];
    let mut all = Map::new();
    for (status, schema) in good {
        let content =
            json!({ "application/json": { "schema": schema }, "application/yaml": { "schema": schema } });
        all.insert(status.to_string(), json!({ "description": "Done", "content": content }));
    }
    for (status, about) in others.iter().chain(&any) {
        let content = json!({ "application/problem+json": { "schema": reference("Problem") } });
        all.insert(status.to_string(), json!({ "description": about, "content": content }));
    }
    Value::Object(all)
}
