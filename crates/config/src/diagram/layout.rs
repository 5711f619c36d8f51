//! Lays a network out in rows: every arrow points down, few arrows cross, and boxes are below their inputs.
//!
//! The classic algorithm for layered graphs: rows by longest path, invisible waypoints where an arrow crosses a row, a
//! few sweeps that order each row by the mean position of its neighbours, then columns from the same means without
//! overlap. Nothing is random: the same network yields the same picture.

use super::{Graph, Node, grouped};

/// Height of a box, in SVG units.
pub(super) const BOX_HEIGHT: f64 = 46.0;
const ROW_STEP: f64 = 92.0;
const GAP: f64 = 22.0;
const MARGIN: f64 = 24.0;
const SWEEPS: usize = 12;

/// Positions of all boxes and arrows, in SVG units.
pub(super) struct DiagramLayout {
    /// Width of the whole picture.
    pub width: f64,
    pub height: f64,
    /// Centre and width of each box.
    pub boxes: Vec<PlacedBox>,
    /// The points of each arrow, from box to box; empty for delayed ones, which are drawn from the boxes.
    pub paths: Vec<Vec<(f64, f64)>>,
}

/// Centre and width of one box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PlacedBox {
    pub x: f64,
    pub y: f64,
    pub width: f64,
}

/// A box or a waypoint.
struct Item {
    row: usize,
    width: f64,
    above: Vec<usize>,
    below: Vec<usize>,
    x: f64,
}

/// Computes the layout of a graph.
pub(super) fn place(graph: &Graph) -> DiagramLayout {
    let rows = rows(graph);
    let mut items: Vec<Item> = graph
        .nodes
        .iter()
        .zip(&rows)
        .map(|(node, &row)| Item {
            row,
            width: box_width(node),
            above: Vec::new(),
            below: Vec::new(),
            x: 0.0,
        })
        .collect();
    let chains = chains(graph, &mut items);
    let mut order = first_order(&items);
    for sweep in 0..SWEEPS {
        reorder(&mut order, &items, sweep % 2 == 0);
    }
    columns(&order, &mut items);
    finish(graph, &items, &chains)
}

fn box_width(node: &Node) -> f64 {
    let second = if node.values > 0 {
        format!("{} · {}", node.detail, grouped(node.values))
    } else {
        node.detail.clone()
    };
    let letters = node.name.chars().count().max(second.chars().count());
    20.0 + 6.6 * letters as f64
}

/// The row of each box: one below the lowest of those it uses. Layers are in execution order.
fn rows(graph: &Graph) -> Vec<usize> {
    let mut rows = vec![0; graph.nodes.len()];
    let mut uses = vec![Vec::new(); graph.nodes.len()];
    for edge in graph.edges.iter().filter(|edge| points_down(edge)) {
        uses[edge.to].push(edge.from);
    }
    for node in 0..rows.len() {
        rows[node] = uses[node]
            .iter()
            .map(|&used| rows[used] + 1)
            .max()
            .unwrap_or(0);
    }
    // A box that uses nothing is just above its first user, not at the top of a deep network.
    for node in 0..rows.len() {
        if uses[node].is_empty() {
            let users = graph
                .edges
                .iter()
                .filter(|edge| points_down(edge) && edge.from == node);
            if let Some(first) = users.map(|edge| rows[edge.to]).min() {
                rows[node] = first - 1;
            }
        }
    }
    rows
}

/// Delayed arrows, and any that contradict execution order, do not decide rows.
fn points_down(edge: &super::Edge) -> bool {
    !edge.delayed && edge.from < edge.to
}

/// Connects the items, with a waypoint in every row that an arrow passes; returns the items of each arrow.
fn chains(graph: &Graph, items: &mut Vec<Item>) -> Vec<Vec<usize>> {
    let mut chains = Vec::with_capacity(graph.edges.len());
    for edge in &graph.edges {
        if !points_down(edge) {
            chains.push(Vec::new());
            continue;
        }
        let mut chain = vec![edge.from];
        for row in items[edge.from].row + 1..items[edge.to].row {
            items.push(Item {
                row,
                width: 4.0,
                above: Vec::new(),
                below: Vec::new(),
                x: 0.0,
            });
            chain.push(items.len() - 1);
        }
        chain.push(edge.to);
        for pair in chain.windows(2) {
            items[pair[0]].below.push(pair[1]);
            items[pair[1]].above.push(pair[0]);
        }
        chains.push(chain);
    }
    chains
}

fn first_order(items: &[Item]) -> Vec<Vec<usize>> {
    let count = items.iter().map(|item| item.row + 1).max().unwrap_or(0);
    let mut order = vec![Vec::new(); count];
    for (index, item) in items.iter().enumerate() {
        order[item.row].push(index);
    }
    order
}

/// Sorts each row by the mean position of its neighbours in the row before (or after).
fn reorder(order: &mut [Vec<usize>], items: &[Item], downwards: bool) {
    let mut position = vec![0.0; items.len()];
    let number = |row: &[usize], position: &mut [f64]| {
        for (place, &item) in row.iter().enumerate() {
            position[item] = place as f64;
        }
    };
    for row in order.iter() {
        number(row, &mut position);
    }
    let count = order.len();
    for step in 0..count {
        let row = if downwards { step } else { count - 1 - step };
        let mut keyed: Vec<(f64, usize)> = order[row]
            .iter()
            .map(|&item| {
                let neighbours = if downwards {
                    &items[item].above
                } else {
                    &items[item].below
                };
                (mean(neighbours, &position).unwrap_or(position[item]), item)
            })
            .collect();
        keyed.sort_by(|left, right| left.0.total_cmp(&right.0));
        order[row] = keyed.into_iter().map(|(_, item)| item).collect();
        number(&order[row], &mut position);
    }
}

fn mean(neighbours: &[usize], position: &[f64]) -> Option<f64> {
    let sum: f64 = neighbours.iter().map(|&item| position[item]).sum();
    (!neighbours.is_empty()).then(|| sum / neighbours.len() as f64)
}

/// Assigns a column to every item: near its neighbours, in the order of its row, without overlap.
fn columns(order: &[Vec<usize>], items: &mut [Item]) {
    for row in order {
        let mut x = 0.0;
        for &item in row {
            items[item].x = x + items[item].width / 2.0;
            x += items[item].width + GAP;
        }
    }
    for sweep in 0..SWEEPS {
        for step in 0..order.len() {
            let row = if sweep % 2 == 0 {
                step
            } else {
                order.len() - 1 - step
            };
            let desired: Vec<f64> = order[row]
                .iter()
                .map(|&item| desired(&items[item], items))
                .collect();
            settle(&order[row], &desired, items);
        }
    }
}

/// The mean column of the neighbours above and below.
fn desired(item: &Item, items: &[Item]) -> f64 {
    let neighbours = || item.above.iter().chain(&item.below);
    let sum: f64 = neighbours().map(|&neighbour| items[neighbour].x).sum();
    match neighbours().count() {
        0 => item.x,
        count => sum / count as f64,
    }
}

/// Moves the items of a row as near to their desired columns as order and widths allow: the mean of the leftmost and
/// the rightmost such placement.
fn settle(row: &[usize], desired: &[f64], items: &mut [Item]) {
    let distance = |items: &[Item], left: usize, right: usize| {
        (items[left].width + items[right].width) / 2.0 + GAP
    };
    let mut rightmost = desired.to_vec();
    for index in 1..row.len() {
        let least = rightmost[index - 1] + distance(items, row[index - 1], row[index]);
        rightmost[index] = rightmost[index].max(least);
    }
    let mut leftmost = desired.to_vec();
    for index in (1..row.len()).rev() {
        let most = leftmost[index] - distance(items, row[index - 1], row[index]);
        leftmost[index - 1] = leftmost[index - 1].min(most);
    }
    for (index, &item) in row.iter().enumerate() {
        items[item].x = (leftmost[index] + rightmost[index]) / 2.0;
    }
}

fn finish(graph: &Graph, items: &[Item], chains: &[Vec<usize>]) -> DiagramLayout {
    let left = items
        .iter()
        .map(|item| item.x - item.width / 2.0)
        .fold(f64::INFINITY, f64::min);
    let right = items
        .iter()
        .map(|item| item.x + item.width / 2.0)
        .fold(f64::NEG_INFINITY, f64::max);
    let rows = items.iter().map(|item| item.row + 1).max().unwrap_or(0);
    let x = |item: &Item| item.x - left + MARGIN;
    let y = |item: &Item| item.row as f64 * ROW_STEP + BOX_HEIGHT / 2.0 + MARGIN;
    let boxes = items[..graph.nodes.len()]
        .iter()
        .map(|item| PlacedBox {
            x: x(item),
            y: y(item),
            width: item.width,
        })
        .collect();
    let paths = chains
        .iter()
        .map(|chain| {
            let mut points: Vec<(f64, f64)> = chain
                .iter()
                .map(|&item| (x(&items[item]), y(&items[item])))
                .collect();
            if let Some(first) = points.first_mut() {
                first.1 += BOX_HEIGHT / 2.0;
            }
            if let Some(last) = points.last_mut() {
                last.1 -= BOX_HEIGHT / 2.0;
            }
            points
        })
        .collect();
    let (width, height) = if items.is_empty() {
        (2.0 * MARGIN, 2.0 * MARGIN)
    } else {
        (
            right - left + 2.0 * MARGIN,
            (rows - 1) as f64 * ROW_STEP + BOX_HEIGHT + 2.0 * MARGIN,
        )
    };
    DiagramLayout {
        width,
        height,
        boxes,
        paths,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> (Graph, DiagramLayout) {
        let graph = Graph::new(&super::super::tests::model());
        let layout = place(&graph);
        (graph, layout)
    }

    #[test]
    fn arrows_point_down() {
        let (graph, layout) = layout();
        for (edge, path) in graph.edges.iter().zip(&layout.paths) {
            assert_eq!(edge.delayed, path.is_empty());
            assert!(path.windows(2).all(|pair| pair[0].1 < pair[1].1));
        }
    }

    #[test]
    fn boxes_do_not_overlap_and_are_inside() {
        let (_, layout) = layout();
        for (index, one) in layout.boxes.iter().enumerate() {
            assert!(one.x - one.width / 2.0 >= MARGIN - 1e-6);
            assert!(one.x + one.width / 2.0 <= layout.width - MARGIN + 1e-6);
            for other in &layout.boxes[index + 1..] {
                let apart = (one.x - other.x).abs() >= (one.width + other.width) / 2.0;
                assert!(one.y != other.y || apart, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_late_input_stands_near_its_user() {
        let (graph, layout) = layout();
        let place = |name: &str| {
            let index = graph
                .nodes
                .iter()
                .position(|node| node.name == name)
                .unwrap();
            layout.boxes[index].y
        };
        assert_eq!(place("cost") - place("label"), ROW_STEP);
        assert_eq!(place("cost") - place("word"), 5.0 * ROW_STEP);
    }

    #[test]
    fn an_empty_network_is_an_empty_picture() {
        let layout = place(&Graph::new(&crate::ModelConfig::default()));
        assert_eq!((layout.width, layout.boxes.len()), (2.0 * MARGIN, 0));
    }
}
