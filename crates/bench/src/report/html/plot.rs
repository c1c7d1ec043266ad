//! Plots as SVG: for each rival a line of text and, below it, a bar or dots, so that long names need no margin and the
//! plot can be read on a phone. Lengths are in units of the drawing, which is [`WIDTH`] wide.

use std::fmt::Write as _;

use super::{anchor, class, escaped};
use crate::report::json::{RivalSummary, WorkloadSummary};
use crate::report::tables::shown;
use crate::statistics::Estimate;

const WIDTH: f64 = 380.0;
/// From the top of one rival to that of the next.
const ROW: f64 = 40.0;
/// From the top of a rival to the foot of its text, and to the middle of its bar.
const TEXT: f64 = 14.0;
const MIDDLE: f64 = 26.0;
const BAR: f64 = 11.0;
/// For the numbers of the axis.
const AXIS: f64 = 22.0;
/// Left and right of the axis, so that its numbers are not cut.
const MARGIN: f64 = 14.0;
/// Nearer to the side than this, a number has no room on both sides of its place.
const EDGE: f64 = 30.0;

/// From values to places.
#[derive(Debug, Clone, Copy)]
enum Scale {
    /// From the first to the second.
    Linear(f64, f64),
    /// The same for logarithms to base 10.
    Logarithmic(f64, f64),
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear(from, to) => (value - from) / (to - from),
            Self::Logarithmic(from, to) => (value.max(1e-9).log10() - from) / (to - from),
        };
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    }

    /// From below zero, or zero, to beyond all values.
    fn linear(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
        Self::Linear(low, if high > low { high } else { low + 1.0 })
    }

    /// Whole powers of ten around all values.
    fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|it| *it > 0.0)
            .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), it| (low.min(it), high.max(it)));
        if low > high {
            return Self::Logarithmic(0.0, 1.0);
        }
        let (from, to) = (low.log10().floor(), high.log10().ceil());
        Self::Logarithmic(from, if to > from { to } else { from + 1.0 })
    }

    /// Where the axis has a line and a number.
    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear(from, to) => {
                let step = step((to - from) / 4.0);
                let first = (from / step).ceil() as i64;
                (first..)
                    .map(|number| number as f64 * step)
                    .take_while(|it| *it <= to * (1.0 + 1e-9))
                    .collect()
            }
            Self::Logarithmic(from, to) => {
                (from as i32..=to as i32).map(|power| 10_f64.powi(power)).collect()
            }
        }
    }
}

/// The next round number: 1, 2 or 5 times a power of ten.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|it| it * power)
        .find(|it| *it >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// What a request costs over the baseline: bars with intervals.
pub(super) fn costs(workload: &WorkloadSummary) -> String {
    let rows: Vec<(&RivalSummary, Estimate)> =
        workload.rivals.iter().filter_map(|it| Some((it, it.over_baseline_us?))).collect();
    let frame = Frame {
        id: format!("{}-cost", anchor(&workload.name)),
        title: "CPU time over the baseline, us a request",
        caption: "Bars: medians. Lines: 95 % intervals. Shorter is better.",
    };
    bars(&frame, &rows, 1)
}

/// Answers a second: bars with intervals.
pub(super) fn throughput(workload: &WorkloadSummary) -> Option<String> {
    let rows: Vec<(&RivalSummary, Estimate)> =
        workload.rivals.iter().filter_map(|it| Some((it, it.requests_per_second?))).collect();
    let frame = Frame {
        id: format!("{}-throughput", anchor(&workload.name)),
        title: "Requests a second, closed loop",
        caption: "Bars: medians. Lines: 95 % intervals. Longer is better.",
    };
    (!rows.is_empty()).then(|| bars(&frame, &rows, 0))
}

/// What a plot is called.
struct Frame {
    /// Of the drawing, and the start of those of its parts.
    id: String,
    title: &'static str,
    caption: &'static str,
}

impl Frame {
    /// The figure around what is drawn, with the same in words for who does not see it.
    fn around(&self, height: f64, description: &str, drawn: &str) -> String {
        let Self { id, title, caption } = self;
        format!(
            "<figure>\n<h3>{title}</h3>\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{}</desc>\n{drawn}</svg>\n\
             <figcaption>{caption}</figcaption>\n</figure>\n",
            escaped(description)
        )
    }
}

fn bars(frame: &Frame, rows: &[(&RivalSummary, Estimate)], decimals: usize) -> String {
    let scale = Scale::linear(rows.iter().flat_map(|(_, it)| [it.low, it.median, it.high]));
    let height = rows.len() as f64 * ROW + AXIS;
    let mut drawn = axis(scale, height);
    let mut description = String::new();
    let zero = scale.place(0.0);
    for (place, (rival, value)) in rows.iter().enumerate() {
        let top = place as f64 * ROW;
        let shown = shown(Some(*value), decimals);
        drawn.push_str(&label(rival, top, &shown));
        let (end, middle) = (scale.place(value.median), top + MIDDLE);
        let _ = writeln!(
            drawn,
            "<rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"1.5\"/>",
            class(rival),
            zero.min(end),
            middle - BAR / 2.0,
            (end - zero).abs().max(1.0)
        );
        let (low, high) = (scale.place(value.low), scale.place(value.high));
        let _ = writeln!(
            drawn,
            "<path class=\"whisker\" fill=\"none\" d=\"M{low:.1} {:.1}v8M{low:.1} {middle:.1}H{high:.1}M{high:.1} {:.1}v8\"/>",
            middle - 4.0,
            middle - 4.0
        );
        let _ = write!(description, "{}: {shown}. ", rival.name);
    }
    frame.around(height, &description, &drawn)
}

/// Latencies of each on one axis of logarithms.
pub(super) fn latencies(workload: &WorkloadSummary) -> Option<String> {
    let rows: Vec<_> = workload.rivals.iter().filter_map(|it| Some((it, it.latency_us.as_ref()?))).collect();
    if rows.is_empty() {
        return None;
    }
    let values = rows.iter().flat_map(|(_, it)| it.percentiles().map(|(_, value)| value.median));
    let scale = Scale::logarithmic(values);
    let height = rows.len() as f64 * ROW + AXIS;
    let mut drawn = axis(scale, height);
    let mut description = String::new();
    for (place, (rival, latency)) in rows.iter().enumerate() {
        let top = place as f64 * ROW;
        let behind = if latency.kept_up() { "" } else { "queued; " };
        let percentiles = latency.percentiles();
        let told = format!("{behind}p50 {}, p99 {}", time(latency.p50.median), time(latency.p99.median));
        drawn.push_str(&label(rival, top, &told));
        let middle = top + MIDDLE;
        let places = percentiles.map(|(_, value)| scale.place(value.median));
        let [first, .., last] = places;
        let _ = writeln!(drawn, "<path class=\"rule\" d=\"M{first:.1} {middle:.1}H{last:.1}\"/>");
        // From the last to the first, so that the median is on top.
        for (number, at) in places.into_iter().enumerate().rev() {
            drawn.push_str(&mark(number, at, middle, class(rival)));
        }
        let _ = write!(description, "{}: ", rival.name);
        for (name, value) in percentiles {
            let _ = write!(description, "{name} {}, ", time(value.median));
        }
        description.truncate(description.trim_end_matches(", ").len());
        description.push_str(". ");
    }
    let frame = Frame {
        id: format!("{}-latency", anchor(&workload.name)),
        title: "Latency at a held rate",
        caption: "Disc: p50; ring: p90; diamond: p99; bar: p99.9. Medians over the rounds, on an axis of powers of ten. \
                  Further left is better.",
    };
    Some(frame.around(height, &description, &drawn))
}

/// One mark for each percentile, told apart by form and not by colour.
fn mark(number: usize, x: f64, y: f64, class: &str) -> String {
    match number {
        0 => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>\n"),
        1 => format!("<circle class=\"hollow {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>\n"),
        2 => format!("<path class=\"{class}\" d=\"M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z\"/>\n", y - 5.5),
        _ => format!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"3\" height=\"12\"/>\n",
            x - 1.5,
            y - 6.0
        ),
    }
}

/// The name of a rival, and its figures at the other end of the line.
fn label(rival: &RivalSummary, top: f64, told: &str) -> String {
    // What does not fit beside the figures is in the table.
    let room = 52_usize.saturating_sub(told.chars().count());
    let name = if rival.name.chars().count() > room {
        let kept: String = rival.name.chars().take(room.saturating_sub(1)).collect();
        format!("{kept}…")
    } else {
        rival.name.clone()
    };
    let y = top + TEXT;
    let weight = if rival.ours { " font-weight=\"600\"" } else { "" };
    format!(
        "<text x=\"{MARGIN}\" y=\"{y}\"{weight}>{}</text>\n\
         <text class=\"quiet\" x=\"{}\" y=\"{y}\" text-anchor=\"end\">{}</text>\n",
        escaped(&name),
        WIDTH - MARGIN,
        escaped(told)
    )
}

/// Lines from top to bottom, and their numbers.
fn axis(scale: Scale, height: f64) -> String {
    let mut out = String::new();
    for tick in scale.ticks() {
        let (x, foot) = (scale.place(tick), height - AXIS);
        let number = match scale {
            Scale::Linear(..) => number(tick),
            Scale::Logarithmic(..) => time(tick),
        };
        // At the ends, a number that stood in the middle would be cut.
        let (x_of_number, anchor) = match x {
            left if left < EDGE => (MARGIN, "start"),
            right if right > WIDTH - EDGE => (WIDTH - MARGIN, "end"),
            _ => (x, "middle"),
        };
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} 0V{foot:.1}\"/>\n\
             <text class=\"quiet\" x=\"{x_of_number:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{number}</text>",
            foot + 15.0
        );
    }
    out
}

fn number(value: f64) -> String {
    match value.abs() {
        thousands if thousands >= 10_000.0 => format!("{}k", value / 1000.0),
        // No longer than it must be, and without a minus before zero.
        _ => format!("{}", (value * 1000.0).round() / 1000.0 + 0.0),
    }
}

/// Microseconds in the unit that suits them.
fn time(microseconds: f64) -> String {
    let (value, unit) = match microseconds {
        long if long >= 1e6 => (microseconds / 1e6, "s"),
        long if long >= 1e3 => (microseconds / 1e3, "ms"),
        _ => (microseconds, "us"),
    };
    if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::summary;
    use crate::rival::{AGAIN, BASELINE};

    #[test]
    fn numbers_and_times_are_short() {
        let rows =
            [(0.0, "0"), (-0.0, "0"), (2.5, "2.5"), (0.1 + 0.2, "0.3"), (20_000.0, "20k"), (-4.0, "-4")];
        for (value, expected) in rows {
            assert_eq!(number(value), expected);
        }
        let rows =
            [(0.5, "0.5 us"), (100.0, "100 us"), (1234.0, "1.2 ms"), (2e6, "2 s"), (123_456.0, "123 ms")];
        for (value, expected) in rows {
            assert_eq!(time(value), expected);
        }
    }

    #[test]
    fn an_axis_has_a_few_round_numbers_and_holds_all_values() {
        for values in [vec![3.0, 105.4], vec![-2.5, 0.3], vec![18_000.0], vec![0.0], vec![0.001], vec![]] {
            let scale = Scale::linear(values.iter().copied());
            let ticks = scale.ticks();
            assert!((2..=6).contains(&ticks.len()), "{values:?}: {ticks:?}");
            assert!(ticks.contains(&0.0), "{values:?}: {ticks:?}");
            for value in values {
                assert!((MARGIN..=WIDTH - MARGIN).contains(&scale.place(value)));
            }
        }
        let scale = Scale::logarithmic([90.0, 12_000.0].into_iter());
        assert_eq!(scale.ticks(), [10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
        assert_eq!(Scale::logarithmic([].into_iter()).ticks(), [1.0, 10.0]);
        assert_eq!(Scale::logarithmic([100.0].into_iter()).ticks(), [100.0, 1000.0]);
    }

    #[test]
    fn a_longer_bar_is_a_higher_cost() {
        let plot = costs(&summary().workloads[0]);
        let width = |class: &str| -> f64 {
            let (_, rest) = plot.split_once(&format!("<rect class=\"{class}\"")).unwrap();
            rest.split_once("width=\"").unwrap().1.split('"').next().unwrap().parse().unwrap()
        };
        // 60 and 15 microseconds.
        assert!((width("native") / width("ours") - 4.0).abs() < 0.05, "{plot}");
        assert!(plot.contains("jwt_reject: 15.0 [15.0, 15.0]"), "the description has the figures: {plot}");
        assert!(plot.contains(&format!(">{AGAIN}<")) && !plot.contains(&format!(">{BASELINE}<")));
    }

    #[test]
    fn a_name_that_does_not_fit_is_cut_in_the_plot() {
        let mut summary = summary();
        let long = "a-module-with-a-name-that-nobody-would-choose-but-for-a-test";
        summary.workloads[0].rivals[3].name = long.to_owned();
        let plot = costs(&summary.workloads[0]);
        assert!(plot.contains("…</text>") && plot.contains(&format!("{long}: 15.0")), "{plot}");
    }
}
