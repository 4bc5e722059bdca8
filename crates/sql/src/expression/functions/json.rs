//! Functions and operators of json and jsonb.

use relational::{DataType, Error, Numeric, Result, SqlState, Value};

use super::{Call, Definition, array, int4, invalid, text};
use crate::values::json::{Json, parse};
use crate::values::{Settings, value_text};

pub(super) const TABLE: &[Definition] = &[
    ("op:->", "jsonb,text -> jsonb", child),
    ("op:->", "jsonb,int4 -> jsonb", nth),
    ("op:->", "json,text -> json", |call| part(call, member(call)?)),
    ("op:->", "json,int4 -> json", |call| part(call, element(call)?)),
    ("op:->>", "jsonb,text -> text", |call| plain(member(call)?)),
    ("op:->>", "jsonb,int4 -> text", |call| plain(element(call)?)),
    ("op:->>", "json,text -> text", |call| plain(member(call)?)),
    ("op:->>", "json,int4 -> text", |call| plain(element(call)?)),
    ("op:#>", "jsonb,text[] -> jsonb", |call| part(call, path(call)?)),
    ("op:#>", "json,text[] -> json", |call| part(call, path(call)?)),
    ("op:#>>", "jsonb,text[] -> text", |call| plain(path(call)?)),
    ("op:#>>", "json,text[] -> text", |call| plain(path(call)?)),
    ("jsonb_extract_path", "jsonb,text... -> jsonb", |call| part(call, steps(call)?)),
    ("jsonb_extract_path_text", "jsonb,text... -> text", |call| plain(steps(call)?)),
    ("json_extract_path", "json,text... -> json", |call| part(call, steps(call)?)),
    ("json_extract_path_text", "json,text... -> text", |call| plain(steps(call)?)),
    ("op:@>", "jsonb,jsonb -> bool", |call| Ok(Value::Bool(at(call, 0)?.contains(&at(call, 1)?)))),
    ("op:<@", "jsonb,jsonb -> bool", |call| Ok(Value::Bool(at(call, 1)?.contains(&at(call, 0)?)))),
    ("op:?", "jsonb,text -> bool", |call| Ok(Value::Bool(has(&at(call, 0)?, call.text(1))))),
    ("op:?|", "jsonb,text[] -> bool", |call| {
        let whole = at(call, 0)?;
        Ok(Value::Bool(keys(call).iter().any(|key| has(&whole, key))))
    }),
    ("op:?&", "jsonb,text[] -> bool", |call| {
        let whole = at(call, 0)?;
        Ok(Value::Bool(keys(call).iter().all(|key| has(&whole, key))))
    }),
    ("op:||", "jsonb,jsonb -> jsonb", concat),
    ("op:-", "jsonb,text -> jsonb", |call| {
        let key = call.text(1).to_owned();
        without(call, |name| *name == key)
    }),
    ("op:-", "jsonb,text[] -> jsonb", |call| {
        let names = keys(call);
        without(call, move |name| names.contains(name))
    }),
    ("op:-", "jsonb,int4 -> jsonb", |call| match at(call, 0)? {
        Json::Array(mut items) => {
            let place =
                if call.int(1) < 0 { call.int(1) + items.len() as i64 } else { call.int(1) };
            if let Ok(place) = usize::try_from(place)
                && place < items.len()
            {
                items.remove(place);
            }
            jsonb(&Json::Array(items))
        }
        _ => Err(invalid("cannot delete from object using integer index")),
    }),
    ("op:#-", "jsonb,text[] -> jsonb", |call| {
        let mut whole = at(call, 0)?;
        change(&mut whole, &keys(call), &mut |_| None, false);
        jsonb(&whole)
    }),
    ("jsonb_set", "jsonb,text[],jsonb -> jsonb", |call| set(call, true)),
    ("jsonb_set", "jsonb,text[],jsonb,bool -> jsonb", |call| set(call, call.bool(3))),
    ("array_to_json", "anyarray -> json stable", |call| {
        let data_type = call.types.first().cloned().unwrap_or(DataType::Text);
        text(to_json(call.value(0), &data_type, &call.context.settings)?.to_string())
    }),
    ("__jsonb_values", "jsonb -> jsonb[]", |call| {
        let values = members(call)?.into_iter().map(|(_, value)| jsonb(&value));
        array(&DataType::Jsonb, values.collect::<Result<_>>()?)
    }),
    ("__json_values", "json -> json[]", |call| {
        let values = members(call)?.into_iter().map(|(_, value)| text(value.to_string()));
        array(&DataType::Json, values.collect::<Result<_>>()?)
    }),
    ("__jsonb_values_text", "jsonb -> text[]", values_text),
    ("__json_values_text", "json -> text[]", values_text),
    ("__jsonb_names", "jsonb -> text[]", names),
    ("__json_names", "json -> text[]", names),
    ("jsonb_typeof", "jsonb -> text", |call| text(at(call, 0)?.kind())),
    ("json_typeof", "json -> text", |call| text(at(call, 0)?.kind())),
    ("jsonb_array_length", "jsonb -> int4", array_length),
    ("json_array_length", "json -> int4", array_length),
    ("jsonb_pretty", "jsonb -> text", |call| {
        let mut out = String::new();
        pretty(&at(call, 0)?, 0, &mut out);
        text(out)
    }),
    ("jsonb_strip_nulls", "jsonb -> jsonb", |call| jsonb(&stripped(at(call, 0)?))),
    ("to_json", "any -> json null stable", |call| {
        if call.value(0).is_null() {
            return Ok(Value::Null);
        }
        text(compact(&to_json(call.value(0), &call.types[0], &call.context.settings)?))
    }),
    ("to_jsonb", "any -> jsonb null stable", |call| {
        if call.value(0).is_null() {
            return Ok(Value::Null);
        }
        jsonb(&to_json(call.value(0), &call.types[0], &call.context.settings)?)
    }),
    ("jsonb_build_object", "any... -> jsonb null stable", |call| jsonb(&built_object(call)?)),
    ("json_build_object", "any... -> json null stable", |call| {
        text(built_object(call)?.to_string())
    }),
    ("jsonb_build_array", "any... -> jsonb null stable", |call| jsonb(&built_array(call)?)),
    ("json_build_array", "any... -> json null stable", |call| text(built_array(call)?.to_string())),
    ("jsonb_build_object", "-> jsonb", |_| Ok(Value::Jsonb("{}".into()))),
    ("jsonb_build_array", "-> jsonb", |_| Ok(Value::Jsonb("[]".into()))),
    ("__json_elements", "jsonb -> jsonb[]", |call| match at(call, 0)? {
        Json::Array(items) => array(&DataType::Jsonb, items.iter().map(value).collect()),
        _ => Err(invalid("cannot extract elements from an object")),
    }),
    ("__json_elements_text", "jsonb -> text[]", |call| match at(call, 0)? {
        Json::Array(items) => {
            let texts: Result<Vec<Value>> =
                items.into_iter().map(|item| plain(Some(item))).collect();
            array(&DataType::Text, texts?)
        }
        _ => Err(invalid("cannot extract elements from an object")),
    }),
    ("__json_keys", "jsonb -> text[]", |call| match at(call, 0)? {
        Json::Object(members) => array(
            &DataType::Text,
            members.iter().map(|(key, _)| Value::text(key.as_str())).collect(),
        ),
        other => Err(invalid(format!("cannot call jsonb_object_keys on a {}", other.kind()))),
    }),
];

/// Returns the value of a member of an object.
pub(super) fn child(call: &Call<'_>) -> Result<Value> {
    part(call, member(call)?)
}

/// Returns an element of an array by its place.
pub(super) fn nth(call: &Call<'_>) -> Result<Value> {
    part(call, element(call)?)
}

fn at(call: &Call<'_>, place: usize) -> Result<Json> {
    parse(call.text(place))
}

fn jsonb(json: &Json) -> Result<Value> {
    Ok(value(json))
}

fn value(json: &Json) -> Value {
    Value::Jsonb(json.to_string().into())
}

/// Returns a part as the type that the call returns.
fn part(call: &Call<'_>, found: Option<Json>) -> Result<Value> {
    match (found, call.returns) {
        (None, _) => Ok(Value::Null),
        (Some(found), DataType::Jsonb) => jsonb(&found),
        (Some(found), _) => text(found.to_string()),
    }
}

/// Returns a part as text: strings without quotes, JSON's null as NULL.
fn plain(found: Option<Json>) -> Result<Value> {
    match found {
        None | Some(Json::Null) => Ok(Value::Null),
        Some(Json::Text(found)) => text(found),
        Some(other) => text(other.to_string()),
    }
}

fn member(call: &Call<'_>) -> Result<Option<Json>> {
    Ok(at(call, 0)?.member(call.text(1)).cloned())
}

fn element(call: &Call<'_>) -> Result<Option<Json>> {
    Ok(at(call, 0)?.element(call.int(1)).cloned())
}

fn keys(call: &Call<'_>) -> Vec<String> {
    let text = |item: &Value| match item {
        Value::Text(text) => Some(text.to_string()),
        _ => None,
    };
    call.items(1).iter().filter_map(text).collect()
}

fn path(call: &Call<'_>) -> Result<Option<Json>> {
    if call.items(1).iter().any(Value::is_null) {
        return Ok(None);
    }
    Ok(at(call, 0)?.path(keys(call).iter().map(String::as_str)).cloned())
}

fn steps(call: &Call<'_>) -> Result<Option<Json>> {
    let names = (1..call.arguments.len()).map(|at| call.text(at));
    Ok(at(call, 0)?.path(names).cloned())
}

fn has(json: &Json, key: &str) -> bool {
    match json {
        Json::Object(_) => json.member(key).is_some(),
        Json::Array(items) => items.iter().any(|item| *item == Json::Text(key.to_owned())),
        Json::Text(text) => text == key,
        _ => false,
    }
}

fn concat(call: &Call<'_>) -> Result<Value> {
    jsonb(&match (at(call, 0)?, at(call, 1)?) {
        (Json::Object(mut left), Json::Object(right)) => {
            left.extend(right);
            Json::object(left)
        }
        (left, right) => {
            let items = |json: Json| match json {
                Json::Array(items) => items,
                other => vec![other],
            };
            let mut all = items(left);
            all.extend(items(right));
            Json::Array(all)
        }
    })
}

fn without(call: &Call<'_>, gone: impl Fn(&String) -> bool) -> Result<Value> {
    jsonb(&match at(call, 0)? {
        Json::Object(members) => {
            Json::Object(members.into_iter().filter(|(key, _)| !gone(key)).collect())
        }
        Json::Array(items) => Json::Array(
            items
                .into_iter()
                .filter(|item| !matches!(item, Json::Text(text) if gone(text)))
                .collect(),
        ),
        _ => return Err(invalid("cannot delete from scalar")),
    })
}

/// Replaces the part at a path by what `with` makes of it; nothing removes it.
fn change(
    here: &mut Json,
    path: &[String],
    with: &mut dyn FnMut(Option<Json>) -> Option<Json>,
    create: bool,
) {
    let Some((first, rest)) = path.split_first() else { return };
    match here {
        Json::Object(members) => {
            let found = members.iter().position(|(key, _)| key == first);
            match (found, rest.is_empty()) {
                (Some(at), false) => change(&mut members[at].1, rest, with, create),
                (Some(at), true) => match with(Some(members[at].1.clone())) {
                    Some(new) => members[at].1 = new,
                    None => drop(members.remove(at)),
                },
                (None, true) if create => {
                    if let Some(new) = with(None) {
                        members.push((first.clone(), new));
                        *here = Json::object(std::mem::take(members));
                    }
                }
                _ => {}
            }
        }
        Json::Array(items) => {
            let Ok(place) = first.trim().parse::<i64>() else { return };
            let place = if place < 0 { place + items.len() as i64 } else { place };
            match usize::try_from(place).ok().filter(|place| *place < items.len()) {
                Some(at) if rest.is_empty() => match with(Some(items[at].clone())) {
                    Some(new) => items[at] = new,
                    None => drop(items.remove(at)),
                },
                Some(at) => change(&mut items[at], rest, with, create),
                None if create && rest.is_empty() => {
                    if let Some(new) = with(None) {
                        let at = if place < 0 { 0 } else { items.len() };
                        items.insert(at, new);
                    }
                }
                None => {}
            }
        }
        _ => {}
    }
}

fn set(call: &Call<'_>, create: bool) -> Result<Value> {
    let mut whole = at(call, 0)?;
    let new = at(call, 2)?;
    change(&mut whole, &keys(call), &mut |_| Some(new.clone()), create);
    jsonb(&whole)
}

fn array_length(call: &Call<'_>) -> Result<Value> {
    match at(call, 0)? {
        Json::Array(items) => int4(items.len() as i64),
        _ => Err(invalid("cannot get array length of a non-array")),
    }
}

fn stripped(json: Json) -> Json {
    match json {
        Json::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(key, value)| (key, stripped(value))).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(stripped).collect()),
        other => other,
    }
}

fn pretty(json: &Json, depth: usize, out: &mut String) {
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"    ".repeat(depth));
    };
    match json {
        Json::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                indent(out, depth + 1);
                out.push_str(&super::string::json_text(key));
                out.push_str(": ");
                pretty(value, depth + 1, out);
            }
            indent(out, depth);
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (at, value) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                indent(out, depth + 1);
                pretty(value, depth + 1, out);
            }
            indent(out, depth);
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Returns a document without blanks between its parts.
fn compact(json: &Json) -> String {
    match json {
        Json::Array(items) => {
            let parts: Vec<String> = items.iter().map(compact).collect();
            format!("[{}]", parts.join(","))
        }
        other => other.to_string(),
    }
}

/// Returns the document that stands for a value.
pub(crate) fn to_json(value: &Value, data_type: &DataType, settings: &Settings) -> Result<Json> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int2(number) => Json::Number(Numeric::from(i64::from(*number))),
        Value::Int4(number) => Json::Number(Numeric::from(i64::from(*number))),
        Value::Int8(number) => Json::Number(Numeric::from(*number)),
        Value::Numeric(number) if number.finite().is_some() => Json::Number(number.clone()),
        Value::Float4(number) if number.is_finite() => number_of(&value_text(value, settings))?,
        Value::Float8(number) if number.is_finite() => number_of(&value_text(value, settings))?,
        Value::Jsonb(document) => parse(document)?,
        Value::Text(document) if *data_type == DataType::Json => parse(document)?,
        Value::Timestamp(_) | Value::TimestampTz(_) => {
            Json::Text(iso(&value_text(value, settings)))
        }
        Value::Array(array) => nested(&array.values, &array.dimensions, &array.element, settings)?,
        other => Json::Text(value_text(other, settings)),
    })
}

fn number_of(text: &str) -> Result<Json> {
    text.parse().map(Json::Number)
}

/// Returns a timestamp with `T` between day and clock and whole minutes in its offset.
fn iso(text: &str) -> String {
    let text = text.replacen(' ', "T", 1);
    match text.rfind(['+', '-']) {
        Some(at) if at > 10 && text.len() == at + 3 => format!("{text}:00"),
        _ => text,
    }
}

fn nested(
    values: &[Value],
    dimensions: &[relational::ArrayDimension],
    element: &DataType,
    settings: &Settings,
) -> Result<Json> {
    let Some((first, rest)) = dimensions.split_first() else { return Ok(Json::Array(Vec::new())) };
    let items: Result<Vec<Json>> = if rest.is_empty() {
        values.iter().map(|value| to_json(value, element, settings)).collect()
    } else {
        let width = values.len() / (first.length.max(1) as usize);
        values.chunks(width.max(1)).map(|part| nested(part, rest, element, settings)).collect()
    };
    items.map(Json::Array)
}

fn built_object(call: &Call<'_>) -> Result<Json> {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(invalid("argument list must have even number of elements")
            .with_hint("The arguments must consist of alternating keys and values."));
    }
    let mut members = Vec::new();
    for (pair, types) in call.arguments.chunks(2).zip(call.types.chunks(2)) {
        if pair[0].is_null() {
            return Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, "key must not be null"));
        }
        let key = value_text(&pair[0], &call.context.settings);
        members.push((key, to_json(&pair[1], &types[1], &call.context.settings)?));
    }
    Ok(Json::object(members))
}

fn built_array(call: &Call<'_>) -> Result<Json> {
    let pairs = call.arguments.iter().zip(call.types);
    let items: Result<Vec<Json>> =
        pairs.map(|(value, data_type)| to_json(value, data_type, &call.context.settings)).collect();
    items.map(Json::Array)
}

/// Returns the members of an object, or 22023.
fn members(call: &Call<'_>) -> Result<Vec<(String, Json)>> {
    match at(call, 0)? {
        Json::Object(members) => Ok(members),
        other => {
            let message = format!("cannot call this function on {} value", other.kind());
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn names(call: &Call<'_>) -> Result<Value> {
    let names = members(call)?.into_iter().map(|(name, _)| Value::text(name));
    array(&DataType::Text, names.collect())
}

fn values_text(call: &Call<'_>) -> Result<Value> {
    let values = members(call)?.into_iter().map(|(_, value)| plain(Some(value)));
    array(&DataType::Text, values.collect::<Result<_>>()?)
}
