//! The interface in OpenAPI's form, made from the inputs and outputs of the model.

use predict::Model;
use predict::model::OutputField;
use predict::sample::{InputField, expected};
use serde_json::{Map, Value, json};
use trainer::data::ElementKind;

/// The name of a model's pass, as responses have it.
pub(crate) fn pass_name(model: &Model) -> String {
    let name = model.located.directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

pub(crate) fn document(model: &Model, version: &str) -> Value {
    let sample = sample(&model.inputs);
    let prediction = prediction(&model.outputs);
    let error = json!({"type": "object", "properties": {"error": {"type": "string"}}});
    let reply = |description: &str, schema: Value| json!({"description": description, "content": {"application/json": {"schema": schema}}});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "A model of Canoe", "version": version},
        "paths": {
            "/predict": {"post": {
                "summary": "Outputs of one sample or of several",
                "requestBody": {"required": true, "content": {"application/json": {"schema": {"oneOf": [
                    sample,
                    {"type": "object", "required": ["samples"],
                     "properties": {"samples": {"type": "array", "items": sample}}},
                ]}}}},
                "responses": {
                    "200": reply("One prediction, or one per sample in the same order", json!({"oneOf": [
                        {"type": "object", "properties": {"prediction": prediction, "pass": {"type": "string"}}},
                        {"type": "object", "properties": {
                            "predictions": {"type": "array", "items": prediction}, "pass": {"type": "string"}}},
                    ]})),
                    "400": reply("A field is missing or wrong; the text names it", error.clone()),
                    "401": reply("The token is missing or wrong", error.clone()),
                    "413": reply("The body is too large", error.clone()),
                    "422": reply("The network cannot compute the sample", error.clone()),
                    "503": reply("Too many samples wait, or the server ends; try again later", error),
                },
            }},
            "/model": {"get": {"summary": "Inputs, outputs and the pass that is served", "responses": {"200": {"description": "JSON"}}}},
            "/healthz": {"get": {"summary": "Whether the server is ready", "responses": {"200": {"description": "It is"}}}},
            "/metrics": {"get": {"summary": "Metrics for Prometheus", "responses": {"200": {"description": "Text"}}}},
        },
    })
}

fn sample(inputs: &[InputField]) -> Value {
    let properties: Map<String, Value> = inputs
        .iter()
        .map(|input| (input.slot.name.clone(), input_schema(input)))
        .collect();
    let required: Vec<&str> = inputs
        .iter()
        .map(|input| input.slot.name.as_str())
        .collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn input_schema(input: &InputField) -> Value {
    let slot = &input.slot;
    let last = (slot.dim + slot.first as usize).saturating_sub(1);
    let id = json!({"type": "integer", "minimum": slot.first, "maximum": last});
    let number = json!({"type": "number"});
    let id_or_word = match input.dictionary {
        Some(_) => json!({"oneOf": [id, {"type": "string"}]}),
        None => id.clone(),
    };
    let mut schema = match slot.kind {
        ElementKind::Ids => id_or_word,
        ElementKind::Dense if slot.dim == 1 => number,
        ElementKind::Dense => {
            json!({"type": "array", "items": number, "minItems": slot.dim, "maxItems": slot.dim})
        }
        ElementKind::Binary => json!({"type": "array", "items": id_or_word}),
        ElementKind::Sparse => {
            json!({"type": "array", "items": {"type": "array", "prefixItems": [id_or_word, number]}})
        }
    };
    for _ in 0..slot.level {
        schema = json!({"type": "array", "items": schema});
    }
    let text = input.dictionary.is_some() && slot.level < 2;
    if text {
        schema = json!({"oneOf": [{"type": "string"}, schema]});
    }
    schema["description"] = json!(expected(slot, slot.level));
    schema
}

fn prediction(outputs: &[OutputField]) -> Value {
    let properties: Map<String, Value> = outputs
        .iter()
        .map(|output| {
            let label = json!({"type": ["string", "integer"]});
            let schema = if output.classes {
                json!({"type": "object", "properties": {"label": label, "scores": {"type": ["array", "object"]}}})
            } else {
                json!({"description": "a number, a label, or lists of them"})
            };
            (output.name.clone(), schema)
        })
        .collect();
    json!({"type": "object", "properties": properties})
}

/// Inputs and outputs for people and programs.
pub(crate) fn description(model: &Model) -> Value {
    let inputs: Vec<Value> = model
        .inputs
        .iter()
        .map(|input| {
            json!({
                "name": input.slot.name,
                "takes": expected(&input.slot, input.slot.level),
                "words": input.dictionary.is_some(),
            })
        })
        .collect();
    let outputs: Vec<Value> = model
        .outputs
        .iter()
        .map(|output| {
            let labels = output.labels.as_ref().map(|labels| labels.words());
            json!({"name": output.name, "width": output.width, "classes": output.classes, "labels": labels})
        })
        .collect();
    json!({"pass": pass_name(model), "inputs": inputs, "outputs": outputs})
}
