//! Draws charts as SVG, for files; the page draws its own on a canvas.

use std::ops::RangeInclusive;

use crate::series::Point;

/// A curve of a chart.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// `#rrggbb`.
    pub colour: &'static str,
    /// In the order of training.
    pub points: Vec<Point>,
    /// Draws a dot at each point; for curves with few points.
    pub dots: bool,
}

/// A chart: curves over samples, and marks.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The name of the metric.
    pub title: String,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Samples at which an event happened.
    pub marks: Vec<f64>,
}

/// What a chart is drawn on. Positions are in pixels from the upper left corner.
pub trait Paper {
    /// A line through points.
    fn line(&mut self, points: &[(f64, f64)], colour: &str, width: f64);
    /// Draws a filled circle around this position.
    fn dot(&mut self, at: (f64, f64), colour: &str);
    /// Text that begins, is centred or ends at a position on its base line.
    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str, colour: &str);
}

/// How text is aligned to its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins at the position.
    Start,
    /// It is centred on the position.
    Middle,
    /// It ends at the position.
    End,
}

/// Width and height of a chart in units of [`Paper`].
pub const SIZE: (f64, f64) = (860.0, 316.0);

const INK: &str = "#1d2327";
const FAINT: &str = "#8a959c";
const LINE: &str = "#e4e7e9";

impl Chart {
    /// Draws the chart; its upper left corner is at the left edge, `above` from the top.
    pub fn draw(&self, paper: &mut dyn Paper, above: f64) {
        let (left, right, top, bottom) = (60.0, SIZE.0 - 14.0, above + 34.0, above + SIZE.1 - 44.0);
        let (low, high) = self.values().into_inner();
        let end = self.end();
        let x = |samples: f64| left + samples / end * (right - left);
        let y = |value: f64| bottom - (value - low) / (high - low) * (bottom - top);
        paper.text((left - 46.0, above + 16.0), Anchor::Start, &self.title, INK);
        for value in ticks(low, high, 5) {
            paper.line(&[(left, y(value)), (right, y(value))], LINE, 1.0);
            paper.text(
                (left - 7.0, y(value) + 4.0),
                Anchor::End,
                &number(value),
                FAINT,
            );
        }
        for value in ticks(0.0, end, 8) {
            // The last one ends at the edge of the picture.
            let anchor = if x(value) > right - 12.0 {
                Anchor::End
            } else {
                Anchor::Middle
            };
            paper.text((x(value), bottom + 17.0), anchor, &samples(value), FAINT);
        }
        let middle = (left + right) / 2.0;
        let axis = "samples of all trainers";
        paper.text((middle, bottom + 35.0), Anchor::Middle, axis, FAINT);
        for mark in &self.marks {
            paper.line(&[(x(*mark), top), (x(*mark), bottom)], "#d9b26a", 1.0);
        }
        let mut legend = right;
        for curve in self.curves.iter().rev() {
            let places: Vec<(f64, f64)> = curve
                .points
                .iter()
                .map(|p| (x(p.samples), y(p.value)))
                .collect();
            paper.line(&places, curve.colour, 1.6);
            if curve.dots {
                places
                    .iter()
                    .for_each(|place| paper.dot(*place, curve.colour));
            }
            paper.text(
                (legend, above + 16.0),
                Anchor::End,
                &curve.label,
                curve.colour,
            );
            if curve.label.is_empty() {
                continue;
            }
            legend -= 14.0 + 7.0 * curve.label.chars().count() as f64;
        }
    }

    fn end(&self) -> f64 {
        let ends = self.curves.iter().filter_map(|curve| curve.points.last());
        ends.map(|point| point.samples).fold(1.0, f64::max)
    }

    /// What the vertical axis spans: all finite values, with some room.
    fn values(&self) -> RangeInclusive<f64> {
        let values = || {
            self.curves
                .iter()
                .flat_map(|curve| &curve.points)
                .map(|point| point.value)
        };
        let finite = || values().filter(|value| value.is_finite());
        let (low, high) = (
            finite().fold(f64::INFINITY, f64::min),
            finite().fold(f64::NEG_INFINITY, f64::max),
        );
        if low > high {
            return 0.0..=1.0;
        }
        let room = if high > low {
            (high - low) * 0.06
        } else {
            high.abs().max(1.0) * 0.1
        };
        let bottom = if low >= 0.0 {
            (low - room).max(0.0)
        } else {
            low - room
        };
        bottom..=high + room
    }
}

/// At most about `most` round numbers between `low` and `high`.
fn ticks(low: f64, high: f64, most: u32) -> Vec<f64> {
    let rough = (high - low) / f64::from(most);
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| rough <= *step);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil();
    (0..=2 * most)
        .map(|n| (first + f64::from(n)) * step)
        .take_while(|tick| *tick <= high)
        .collect()
}

fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

fn samples(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", number(v / 1e6)),
        v if v >= 1e3 => format!("{}k", number(v / 1e3)),
        v => number(v),
    }
}

/// Several charts, one below the other, as one SVG file.
pub fn svg_file(charts: &[Chart]) -> String {
    let mut paper = Svg(String::new());
    for (number, chart) in charts.iter().enumerate() {
        chart.draw(&mut paper, number as f64 * SIZE.1);
    }
    let (width, height) = (SIZE.0, SIZE.1 * charts.len().max(1) as f64);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
        paper.0
    )
}

/// A chart as the text of an SVG image.
pub fn svg(chart: &Chart) -> String {
    let mut paper = Svg(String::new());
    chart.draw(&mut paper, 0.0);
    let (width, height) = SIZE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\">\n<title>{}</title>\n{}</svg>\n",
        escaped(&chart.title),
        paper.0
    )
}

struct Svg(String);

impl Paper for Svg {
    fn line(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        let places: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        self.0 += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"/>\n",
            places.join(" ")
        );
    }

    fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        self.0 += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>\n");
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str, colour: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.0 += &format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>\n",
            escaped(text)
        );
    }
}

/// Text for HTML and SVG: markup is escaped, and characters that cannot be shown are left out.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || crate::logs::is_hidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_drawn_and_names_are_text() {
        let points = |n: u64| {
            (0..n)
                .map(|i| Point {
                    order: i,
                    samples: i as f64,
                    t: 0.0,
                    value: i as f64,
                })
                .collect()
        };
        let chart = Chart {
            title: "<script>".into(),
            curves: vec![Curve {
                label: "a & b".into(),
                colour: "#2f6fab",
                points: points(3),
                dots: true,
            }],
            marks: vec![1.0],
        };
        let text = svg(&chart);
        assert!(
            text.contains("a &amp; b") && !text.contains("<script>"),
            "{text}"
        );
        assert_eq!(text.matches("<circle").count(), 3);
        let empty = Chart {
            title: "e".into(),
            curves: vec![],
            marks: vec![],
        };
        assert!(svg(&empty).contains("</svg>"));
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(
            ticks(0.0, 1.0, 5),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(
            (number(0.6000000000000001), samples(12_500.0)),
            ("0.6".into(), "12.5k".into())
        );
        assert!(ticks(1.0, 1.0, 5).is_empty() && ticks(0.0, f64::INFINITY, 5).is_empty());
    }
}
