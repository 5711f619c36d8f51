//! A network as Graphviz text: one box per layer, a cluster per recurrent group.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Family, Graph, Node, grouped};

/// Returns the whole graph in the language of Graphviz.
pub(super) fn write(graph: &Graph) -> String {
    let mut out = String::from(
        "digraph network {\n  rankdir=TB;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];\n  \
         edge [fontname=\"sans-serif\", fontsize=9, color=\"#607080\"];\n",
    );
    let mut groups: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        groups.entry(node.group.as_deref()).or_default().push(index);
    }
    for (number, (group, members)) in groups.iter().enumerate() {
        let indent = if group.is_some() { "    " } else { "  " };
        if let Some(name) = group {
            let _ = writeln!(
                out,
                "  subgraph cluster_{number} {{\n    label={};\n    style=dashed;",
                quoted(name)
            );
        }
        for &index in members {
            let _ = writeln!(
                out,
                "{indent}n{index} [{}];",
                attributes(&graph.nodes[index])
            );
        }
        if group.is_some() {
            out.push_str("  }\n");
        }
    }
    for edge in &graph.edges {
        let mut attributes = Vec::new();
        if !edge.label.is_empty() {
            attributes.push(format!("label={}", quoted(&edge.label)));
        }
        if edge.delayed {
            attributes.push("style=dashed, constraint=false".to_owned());
        }
        let attributes = if attributes.is_empty() {
            String::new()
        } else {
            format!(" [{}]", attributes.join(", "))
        };
        let _ = writeln!(out, "  n{} -> n{}{attributes};", edge.from, edge.to);
    }
    out.push_str("}\n");
    out
}

fn attributes(node: &Node) -> String {
    let mut label = format!("{}\n{}", node.name, node.detail);
    if node.values > 0 {
        let _ = write!(label, "\n{} values", grouped(node.values));
    }
    format!(
        "label={}, fillcolor=\"{}\"",
        quoted(&label),
        colour(node.family)
    )
}

/// The fill of a layer's box.
pub(super) fn colour(family: Family) -> &'static str {
    match family {
        Family::Data => "#d6e8fa",
        Family::Trained => "#ffe9c7",
        Family::Plain => "#f2f2f2",
        Family::StandIn => "#ffffff",
        Family::Output => "#d9f2d9",
    }
}

fn quoted(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_clusters_labels_and_dashes() {
        let text = write(&Graph::new(&super::super::tests::model()));
        assert!(text.contains("label=\"group\";"), "{text}");
        assert!(
            text.contains("emb<1>\\nmixed 4 tanh drop 0.5\\n40 values"),
            "{text}"
        );
        assert!(text.contains("n0 -> n2 [label=\"table\"];"), "{text}");
        assert!(
            text.contains("n5 -> n4 [style=dashed, constraint=false];"),
            "{text}"
        );
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quoted("a\"b\\"), "\"a\\\"b\\\\\"");
    }
}
