//! `draw`: the sections of a report as line plots, one SVG file each.

use std::error::Error;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use plotters::prelude::*;

use crate::{Report, Row};

/// A plot of one figure of one section, by [`Row::at`].
struct Plot {
    section: &'static str,
    figure: &'static str,
    /// A figure drawn as a bar above each point: a standard deviation.
    bar: Option<&'static str>,
    file: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    /// Whether the rows are those of `collie-bench training`, whose subjects name a collection policy, or of
    /// `collie-bench replication`, whose section has the same name.
    by_policy: Option<bool>,
}

const fn plot([section, figure, file]: [&'static str; 3], title: &'static str, [x, y]: [&'static str; 2]) -> Plot {
    Plot { section, figure, bar: None, file, title, x, y, by_policy: None }
}

const RATE: [&str; 2] = ["transactions asked for a second", "us"];

const PLOTS: [Plot; 15] = [
    plot(["append", "append_ns", "append.svg"], "Cost of one append, 1 thread, null sink", ["bytes of a record", "ns"]),
    plot(
        ["threads", "appends_per_s", "threads.svg"],
        "Appends per second together, 64 B, null sink",
        ["threads", "appends/s"],
    ),
    plot(["threads", "p999_us", "threads-p999.svg"], "p99.9 of one append, 64 B, null sink", ["threads", "us"]),
    plot(
        ["snapshot", "snapshot_ns", "txn-snapshot.svg"],
        "Snapshot of a statement that cannot write, processor time",
        ["threads", "ns"],
    ),
    plot(
        ["commits", "commits_per_s", "txn-commits.svg"],
        "Commits per second without waiting for the disk, null sink, rows of their own",
        ["threads", "commits/s"],
    ),
    plot(
        ["hot-row", "commits_per_s", "txn-hot-row.svg"],
        "Durable commits per second on one row",
        ["clients", "commits/s"],
    ),
    plot(["hot-row", "p99_us", "txn-hot-row-p99.svg"], "p99 of a durable commit on one row", ["clients", "us"]),
    plot(
        ["kv-wal-size", "ops_per_s", "kv-wal-size.svg"],
        "fillrandom by the limit of the log, files of 4 MiB",
        ["max_total_wal_size", "writes/s"],
    ),
    plot(
        ["kv-wal-size", "log_peak_bytes", "kv-wal-size-log.svg"],
        "Most log that was kept at one time, by its limit",
        ["max_total_wal_size", "bytes"],
    ),
    plot(
        ["kv-families", "ops_per_s", "kv-families.svg"],
        "fillrandom by the number of column families, limit of the log 500 MB",
        ["families", "writes/s"],
    ),
    Plot {
        bar: Some("seen_sd_us"),
        by_policy: Some(false),
        ..plot(
            ["rate", "seen_mean_us", "replication-rate.svg"],
            "Delay of a replica against the arrival rate of TPC-C, as a client sees it: mean, deviation above it",
            RATE,
        )
    },
    Plot {
        by_policy: Some(false),
        ..plot(
            ["rate", "seen_p99_us", "replication-rate-p99.svg"],
            "p99 of the delay of a replica against the arrival rate of TPC-C, as a client sees it",
            RATE,
        )
    },
    plot(
        ["capacity", "peak_ratio", "replication-capacity.svg"],
        "Replay flat out, by the peak that wrote the log on the same cores: below 1 a replica falls behind",
        ["threads that write rows", "replay / peak"],
    ),
    Plot {
        bar: Some("delay_sd_us"),
        by_policy: Some(true),
        ..plot(
            ["rate", "delay_mean_us", "training-rate.svg"],
            "Delay of a replica that collects, by the primary's clock, against the arrival rate of TPC-C",
            RATE,
        )
    },
    plot(
        ["sample", "call_ns", "training-sample.svg"],
        "Cost of a measured call of nothing, by the probability that it is a sample",
        ["probability", "ns"],
    ),
];

/// The x, the y, and the height of the bar above it.
type Point = (f64, f64, f64);

/// Returns the lines of a plot, by subject, in the order of the table.
fn lines(rows: &[Row], plot: &Plot) -> Vec<(String, Vec<Point>)> {
    let mut lines: Vec<(String, Vec<Point>)> = Vec::new();
    let is_wanted = |row: &&Row| plot.by_policy.is_none_or(|by_policy| by_policy == row.subject.contains("(P"));
    for row in rows.iter().filter(is_wanted) {
        // Both axes are logarithmic.
        let Some((x, y)) = row.at.zip(row.median(plot.figure)).filter(|(x, y)| *x > 0.0 && *y > 0.0) else { continue };
        let bar = plot.bar.and_then(|bar| row.median(bar)).unwrap_or(0.0);
        match lines.iter_mut().find(|(subject, _)| *subject == row.subject) {
            Some((_, points)) => points.push((x, y, bar)),
            None => lines.push((row.subject.clone(), vec![(x, y, bar)])),
        }
    }
    lines
}

fn range(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(0.0, f64::max);
    low / 1.25..high * 1.25
}

fn draw_one(path: &Path, plot: &Plot, lines: &[(String, Vec<Point>)], machine: &str) -> Result<(), Box<dyn Error>> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let (x, y) = (range(points().map(|point| point.0)), range(points().flat_map(|point| [point.1, point.1 + point.2])));
    let root = SVGBackend::new(path, (960, 600)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = root.titled(plot.title, ("sans-serif", 20))?;
    let (area, foot) = title.split_vertically(540);
    foot.draw(&Text::new(machine.to_owned(), (10, 5), ("sans-serif", 12)))?;
    let mut builder = ChartBuilder::on(&area);
    builder.margin(10).x_label_area_size(40).y_label_area_size(90);
    let mut chart = builder.build_cartesian_2d(x.log_scale(), y.log_scale())?;
    let number = |value: &f64| crate::report::digits(*value);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(plot.x).y_desc(plot.y).x_label_formatter(&number).y_label_formatter(&number).max_light_lines(1);
    mesh.draw()?;
    for (at, (subject, points)) in lines.iter().enumerate() {
        let own = subject.starts_with("collie");
        let color = Palette99::pick(at).to_rgba();
        let style = color.stroke_width(if own { 4 } else { 2 });
        let bar = |&(x, y, bar): &Point| PathElement::new([(x, y), (x, y + bar)], color.stroke_width(1));
        let bars = points.iter().filter(|(_, _, bar)| *bar > 0.0).map(bar);
        chart.draw_series(bars)?;
        let line = LineSeries::new(points.iter().map(|&(x, y, _)| (x, y)), style).point_size(4);
        let drawn = chart.draw_series(line)?;
        drawn.label(subject).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    let mut labels = chart.configure_series_labels();
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK).position(SeriesLabelPosition::UpperLeft);
    labels.draw()?;
    root.present()?;
    Ok(())
}

/// Draws a plot of each figure that the report contains into `dir`; returns the files.
///
/// # Errors
/// Those of the operating system for `dir` and the files.
pub fn draw(report: &Report, dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let machine = format!("{}; median of {} runs", report.machine, report.runs);
    let mut drawn = Vec::new();
    for plot in &PLOTS {
        let Some(rows) = report.rows(plot.section) else { continue };
        let lines = lines(rows, plot);
        if lines.is_empty() {
            continue;
        }
        let path = dir.join(plot.file);
        draw_one(&path, plot, &lines, &machine).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
        drawn.push(path);
    }
    for path in &drawn {
        // The drawing library ends its files without a newline.
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !text.ends_with('\n') {
            std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Section};

    /// Goal: a plot names its subjects and machine, and a section that was not run is left out. Method: two sections,
    /// one of them without a figure.
    #[test]
    fn a_plot_is_drawn_for_each_section_with_figures() {
        let mut append = Section::new("append", "?");
        for (subject, ns) in [("collie mutex", 20.0), ("mutex, buffered", 30.0)] {
            for (at, factor) in [(64.0, 1.0), (256.0, 1.5), (1024.0, 4.0)] {
                append.rows.push(Row::new(subject, "c", "memory", "r").at(at).runs("append_ns", &[ns * factor]));
            }
        }
        let threads = Section::new("threads", "?");
        let machine = Machine::of_tests();
        let report = Report { machine, runs: 3, sections: vec![append, threads] };
        let dir = tempfile::tempdir().unwrap();
        let drawn = draw(&report, dir.path()).unwrap();
        assert_eq!(drawn, [dir.path().join("append.svg")]);
        let svg = std::fs::read_to_string(&drawn[0]).unwrap();
        for word in ["<svg", "collie mutex", "mutex, buffered", "2 cores, p", "bytes of a record"] {
            assert!(svg.contains(word), "no {word}");
        }
        assert!(svg.ends_with(">\n"));
    }
}
