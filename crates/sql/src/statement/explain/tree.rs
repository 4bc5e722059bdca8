//! A plan as a tree and as JSON, from its lines: their indentation is the tree.

use serde_json::{Map, Value, json};

/// Properties of the node above, rather than nodes.
const PROPERTIES: [&str; 2] = ["Key", "Filter"];

/// A step of a plan, with the steps that give it rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanNode {
    /// Name of the step, such as `SortExec`.
    pub name: String,
    /// Properties of the step by their names: its description first, if it has one.
    pub properties: Vec<(String, String)>,
    /// The steps below it in the tree.
    pub inputs: Vec<PlanNode>,
}

/// Returns the tree of a plan; nothing if there is no line.
pub(crate) fn plan_of(lines: &[String]) -> Option<PlanNode> {
    read(lines).0
}

/// Returns an array with one object: `Plan` has the tree, beside it is what the execution took.
pub(super) fn to_json(lines: &[String]) -> String {
    let (plan, measures) = read(lines);
    let plan = plan.as_ref().map(json_of).unwrap_or_default();
    let mut object = Map::from_iter([("Plan".to_owned(), plan)]);
    object.extend(measures.into_iter().map(|(name, text)| (name.to_owned(), measure(text))));
    serde_json::to_string_pretty(&json!([object])).unwrap_or_default()
}

/// Returns the tree, and the lines about the execution, which come behind it.
fn read(lines: &[String]) -> (Option<PlanNode>, Vec<(&str, &str)>) {
    let (mut nodes, mut measures) = (Vec::new(), Vec::new());
    for (number, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        let text = text.strip_prefix("->").unwrap_or(text).trim();
        let (name, rest) = text.split_once(": ").unwrap_or((text, ""));
        if number > 0 && depth == 0 {
            measures.push((name, rest));
        } else {
            nodes.push((depth, name, rest));
        }
    }
    (node(&mut nodes.into_iter().peekable()), measures)
}

/// Returns a number, if a text is one with or without `ms` behind it.
fn measure(text: &str) -> Value {
    let number = text.trim_end_matches(" ms").parse::<f64>().ok();
    let integer = text.parse::<u64>().ok();
    integer.map(Value::from).or(number.map(Value::from)).unwrap_or_else(|| text.into())
}

type Lines<'a> = std::iter::Peekable<std::vec::IntoIter<(usize, &'a str, &'a str)>>;

/// Returns the next node, with all that are deeper.
fn node(lines: &mut Lines<'_>) -> Option<PlanNode> {
    let (depth, name, rest) = lines.next()?;
    let mut found = PlanNode { name: name.to_owned(), properties: Vec::new(), inputs: Vec::new() };
    if !rest.is_empty() {
        found.properties.push(("Description".to_owned(), rest.to_owned()));
    }
    while let Some((deeper, name, rest)) = lines.peek().copied() {
        if deeper <= depth {
            break;
        }
        if PROPERTIES.contains(&name) {
            found.properties.push((name.to_owned(), rest.to_owned()));
            lines.next();
        } else {
            found.inputs.extend(node(lines));
        }
    }
    Some(found)
}

fn json_of(node: &PlanNode) -> Value {
    let mut object = Map::from_iter([("Node Type".to_owned(), Value::from(node.name.as_str()))]);
    for (name, text) in &node.properties {
        object.insert(name.clone(), text.as_str().into());
    }
    if !node.inputs.is_empty() {
        let below: Vec<Value> = node.inputs.iter().map(json_of).collect();
        object.insert("Plans".to_owned(), below.into());
    }
    object.into()
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
