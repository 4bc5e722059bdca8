//! A plan as JSON, from its lines: their indentation is the tree.

use serde_json::{Map, Value, json};

/// Properties of the node above, rather than nodes.
const PROPERTIES: [&str; 2] = ["Key", "Filter"];

/// Returns an array with one object: `Plan` has the tree, beside it is what the execution took.
pub(super) fn to_json(lines: &[String]) -> String {
    let mut whole = Map::new();
    let mut nodes = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        let text = text.strip_prefix("->").unwrap_or(text).trim();
        let (name, rest) = text.split_once(": ").unwrap_or((text, ""));
        // Behind the tree come lines about the execution.
        if number > 0 && depth == 0 {
            whole.insert(name.to_owned(), measure(rest));
        } else {
            nodes.push((depth, name, rest));
        }
    }
    let plan = node(&mut nodes.into_iter().peekable()).unwrap_or_default();
    let mut object = Map::from_iter([("Plan".to_owned(), plan)]);
    object.append(&mut whole);
    serde_json::to_string_pretty(&json!([object])).unwrap_or_default()
}

/// Returns a number, if a text is one with or without `ms` behind it.
fn measure(text: &str) -> Value {
    let number = text.trim_end_matches(" ms").parse::<f64>().ok();
    let integer = text.parse::<u64>().ok();
    integer.map(Value::from).or(number.map(Value::from)).unwrap_or_else(|| text.into())
}

type Lines<'a> = std::iter::Peekable<std::vec::IntoIter<(usize, &'a str, &'a str)>>;

/// Returns the next node, with all that are deeper.
fn node(lines: &mut Lines<'_>) -> Option<Value> {
    let (depth, name, rest) = lines.next()?;
    let mut object = Map::from_iter([("Node Type".to_owned(), Value::from(name))]);
    if !rest.is_empty() {
        object.insert("Description".to_owned(), rest.into());
    }
    let mut below = Vec::new();
    while let Some((deeper, name, rest)) = lines.peek().copied() {
        if deeper <= depth {
            break;
        }
        if PROPERTIES.contains(&name) {
            object.insert(name.to_owned(), rest.into());
            lines.next();
        } else {
            below.extend(node(lines));
        }
    }
    if !below.is_empty() {
        object.insert("Plans".to_owned(), below.into());
    }
    Some(object.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_becomes_a_tree_and_measures_stand_beside_it() {
        let lines = [
            "SortExec: expr=[a]",
            "  HashJoinExec: mode=Left",
            "    Index Scan using t_pkey",
            "        Key: a",
            "    BigtableScan: u",
            "Rows: 3",
            "Execution Time: 0.250 ms",
        ];
        let text = to_json(&lines.map(str::to_owned));
        let found: Value = serde_json::from_str(&text).unwrap();
        let want = json!([{
            "Plan": {
                "Node Type": "SortExec",
                "Description": "expr=[a]",
                "Plans": [{
                    "Node Type": "HashJoinExec",
                    "Description": "mode=Left",
                    "Plans": [
                        {"Node Type": "Index Scan using t_pkey", "Key": "a"},
                        {"Node Type": "BigtableScan", "Description": "u"}
                    ]
                }]
            },
            "Rows": 3,
            "Execution Time": 0.25
        }]);
        assert_eq!(found, want);
    }
}
