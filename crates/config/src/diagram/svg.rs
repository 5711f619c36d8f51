//! Draws a laid-out network as an SVG with embedded style.

use std::fmt::Write;

use super::dot::colour;
use super::layout::{BOX_HEIGHT, DiagramLayout, PlacedBox};
use super::{Edge, Graph, Node, grouped};

const STYLE: &str = "text{font:11px system-ui,sans-serif;text-anchor:middle;fill:#1b2733}\
.name{font-weight:600}.box{stroke:#50616f;stroke-width:1}.inner{stroke-dasharray:4 3}\
.arrow{fill:none;stroke:#607080;stroke-width:1.3;marker-end:url(#head)}.delayed{stroke-dasharray:5 4}";

/// Returns the whole SVG document.
pub(super) fn write(graph: &Graph, layout: &DiagramLayout) -> String {
    let mut out = String::new();
    // Delayed arrows bend out to the right of the boxes.
    let room = if graph.edges.iter().any(|edge| edge.delayed) {
        60.0
    } else {
        0.0
    };
    let (width, height) = (layout.width + room, layout.height);
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">"
    );
    let _ = writeln!(
        out,
        "<style>{STYLE}</style>\n<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
         markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#607080\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    );
    for (edge, points) in graph.edges.iter().zip(&layout.paths) {
        arrow(edge, points, &layout.boxes, &mut out);
    }
    for (node, placed) in graph.nodes.iter().zip(&layout.boxes) {
        layer(node, placed, &mut out);
    }
    out.push_str("</svg>\n");
    out
}

fn arrow(edge: &Edge, points: &[(f64, f64)], boxes: &[PlacedBox], out: &mut String) {
    let path = if points.is_empty() {
        around(&boxes[edge.from], &boxes[edge.to])
    } else {
        along(points)
    };
    let class = if edge.delayed {
        "arrow delayed"
    } else {
        "arrow"
    };
    let _ = write!(out, "<path class=\"{class}\" d=\"{path}\">");
    if !edge.label.is_empty() {
        let _ = write!(out, "<title>{}</title>", escaped(&edge.label));
    }
    out.push_str("</path>\n");
}

/// A smooth line through the points, leaving and entering vertically.
fn along(points: &[(f64, f64)]) -> String {
    let mut path = format!("M{:.1} {:.1}", points[0].0, points[0].1);
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let middle = (y0 + y1) / 2.0;
        let _ = write!(
            path,
            "C{x0:.1} {middle:.1} {x1:.1} {middle:.1} {x1:.1} {y1:.1}"
        );
    }
    path
}

/// From the right side of one box to the right side of another, back up.
fn around(from: &PlacedBox, to: &PlacedBox) -> String {
    let (x0, x1) = (from.x + from.width / 2.0, to.x + to.width / 2.0);
    let bend = x0.max(x1) + 50.0;
    format!(
        "M{x0:.1} {:.1}C{bend:.1} {:.1} {bend:.1} {:.1} {x1:.1} {:.1}",
        from.y, from.y, to.y, to.y
    )
}

fn layer(node: &Node, placed: &PlacedBox, out: &mut String) {
    let class = if node.group.is_some() {
        "box inner"
    } else {
        "box"
    };
    let mut detail = node.detail.clone();
    if node.values > 0 {
        let _ = write!(detail, " · {}", grouped(node.values));
    }
    let mut title = format!("{}\n{}", node.name, node.detail);
    if let Some(group) = &node.group {
        let _ = write!(title, "\nin {group}");
    }
    if node.values > 0 {
        let _ = write!(title, "\n{} values", grouped(node.values));
    }
    let _ = writeln!(
        out,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BOX_HEIGHT}\" rx=\"6\" fill=\"{}\"/>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        escaped(&title),
        placed.x - placed.width / 2.0,
        placed.y - BOX_HEIGHT / 2.0,
        placed.width,
        colour(node.family),
        placed.x,
        placed.y - 4.0,
        escaped(&node.name),
        placed.x,
        placed.y + 13.0,
        escaped(&detail)
    );
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() && letter != '\n' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{DiagramFormat, diagram};
    use super::*;

    #[test]
    fn the_picture_has_every_layer_and_arrow() {
        let model = super::super::tests::model();
        let svg = diagram(&model, DiagramFormat::Svg);
        assert!(svg.starts_with("<svg xmlns="));
        assert!(svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<g>").count(), model.layers.len() - 1);
        assert_eq!(svg.matches("class=\"arrow").count(), 9);
        assert_eq!(svg.matches("class=\"arrow delayed\"").count(), 1);
        assert!(svg.contains("emb&lt;1&gt;"));
        assert!(!svg.contains("emb<1>"));
        assert_eq!(
            svg,
            diagram(&model, DiagramFormat::Svg),
            "nothing is random"
        );
    }

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escaped("a<b>&\"\u{1}"), "a&lt;b&gt;&amp;&quot;\u{fffd}");
    }
}
