//! `draw`: the sections of a report as line plots, one SVG file each.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use plotters::prelude::*;

use crate::{Report, Row, curves::draw_curves};

/// A plot of one figure of one section.
struct Plot {
    section: &'static str,
    figure: &'static str,
    /// A figure drawn as a bar above each point: a standard deviation.
    bar: Option<&'static str>,
    file: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    wanted: fn(&Row) -> bool,
}

fn any(_row: &Row) -> bool {
    true
}

fn in_memory(row: &Row) -> bool {
    row.level == "memory"
}

/// Returns whether a row of `collie-bench training` names its collection policy.
fn by_policy(row: &Row) -> bool {
    row.subject.contains("(P")
}

fn without_policy(row: &Row) -> bool {
    !by_policy(row)
}

const PLOTS: [Plot; 17] = [
    Plot {
        section: "append",
        figure: "append_ns",
        bar: None,
        file: "append.svg",
        title: "Cost of one append, 1 thread, null sink",
        x: "bytes of a record",
        y: "ns",
        wanted: any,
    },
    Plot {
        section: "threads",
        figure: "appends_per_s",
        bar: None,
        file: "threads.svg",
        title: "Appends per second together, 64 B, null sink",
        x: "threads",
        y: "appends/s",
        wanted: any,
    },
    Plot {
        section: "threads",
        figure: "p999_us",
        bar: None,
        file: "threads-p999.svg",
        title: "p99.9 of one append, 64 B, null sink",
        x: "threads",
        y: "us",
        wanted: any,
    },
    Plot {
        section: "snapshot",
        figure: "snapshot_ns",
        bar: None,
        file: "txn-snapshot.svg",
        title: "Snapshot of a statement that cannot write, processor time",
        x: "threads",
        y: "ns",
        wanted: any,
    },
    Plot {
        section: "commits",
        figure: "commits_per_s",
        bar: None,
        file: "txn-commits.svg",
        title: "Commits per second without waiting for the disk, null sink, rows of their own",
        x: "threads",
        y: "commits/s",
        wanted: any,
    },
    Plot {
        section: "commit-latency",
        figure: "acknowledged_us",
        bar: None,
        file: "txn-commit-latency.svg",
        title: "From COMMIT to the answer, not waiting for the disk",
        x: "rows written",
        y: "us",
        wanted: in_memory,
    },
    Plot {
        section: "hot-row",
        figure: "commits_per_s",
        bar: None,
        file: "txn-hot-row.svg",
        title: "Durable commits per second on one row",
        x: "clients",
        y: "commits/s",
        wanted: any,
    },
    Plot {
        section: "hot-row",
        figure: "p99_us",
        bar: None,
        file: "txn-hot-row-p99.svg",
        title: "p99 of a durable commit on one row",
        x: "clients",
        y: "us",
        wanted: any,
    },
    Plot {
        section: "kv-wal-size",
        figure: "ops_per_s",
        bar: None,
        file: "kv-wal-size.svg",
        title: "fillrandom by the limit of the log, files of 4 MiB",
        x: "max_total_wal_size",
        y: "writes/s",
        wanted: any,
    },
    Plot {
        section: "kv-wal-size",
        figure: "log_peak_bytes",
        bar: None,
        file: "kv-wal-size-log.svg",
        title: "Most log that was kept at one time, by its limit",
        x: "max_total_wal_size",
        y: "bytes",
        wanted: any,
    },
    Plot {
        section: "kv-families",
        figure: "ops_per_s",
        bar: None,
        file: "kv-families.svg",
        title: "fillrandom by the number of column families, limit of the log 500 MB",
        x: "families",
        y: "writes/s",
        wanted: any,
    },
    Plot {
        section: "rate",
        figure: "seen_mean_us",
        bar: Some("seen_sd_us"),
        file: "replication-rate.svg",
        title: "Delay of a replica against the arrival rate of TPC-C, as a client sees it: mean, standard deviation above it",
        x: "transactions asked for a second",
        y: "us",
        wanted: without_policy,
    },
    Plot {
        section: "rate",
        figure: "seen_p99_us",
        bar: None,
        file: "replication-rate-p99.svg",
        title: "p99 of the delay of a replica against the arrival rate of TPC-C, as a client sees it",
        x: "transactions asked for a second",
        y: "us",
        wanted: without_policy,
    },
    Plot {
        section: "capacity",
        figure: "peak_ratio",
        bar: None,
        file: "replication-capacity.svg",
        title: "Replay flat out, by the peak that wrote the log on the same cores: below 1 a replica falls behind",
        x: "threads that write rows",
        y: "replay / peak",
        wanted: any,
    },
    Plot {
        section: "rate",
        figure: "delay_mean_us",
        bar: Some("delay_sd_us"),
        file: "training-rate.svg",
        title: "Delay of a replica that collects, by the primary's clock, against the arrival rate of TPC-C: mean, deviation above it",
        x: "transactions asked for a second",
        y: "us",
        wanted: by_policy,
    },
    Plot {
        section: "fig-5-3",
        figure: "loss_percent_ci95",
        bar: None,
        file: "training-fig-5-3.svg",
        title: "Throughput of TPC-C that is lost by exporting so many metrics (points below 0 are left out)",
        x: "metrics a transaction",
        y: "%",
        wanted: any,
    },
    Plot {
        section: "sample",
        figure: "call_ns",
        bar: None,
        file: "training-sample.svg",
        title: "Cost of a measured call of nothing, by the probability that it is a sample",
        x: "probability",
        y: "ns",
        wanted: any,
    },
];

/// The x, the y, and the height of the bar above it.
type Point = (f64, f64, f64);

/// Returns the lines of a plot, by subject, in the order of the table.
fn lines(rows: &[Row], plot: &Plot) -> Vec<(String, Vec<Point>)> {
    let mut lines: Vec<(String, Vec<Point>)> = Vec::new();
    for row in rows.iter().filter(|row| (plot.wanted)(row)) {
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

fn draw_one(path: &Path, plot: &Plot, lines: &[(String, Vec<Point>)], machine: &str) -> anyhow::Result<()> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let (x, y) = (range(points().map(|point| point.0)), range(points().flat_map(|point| [point.1, point.1 + point.2])));
    let failed = |error: &dyn std::fmt::Display| anyhow!("cannot draw {}: {error}", path.display());
    let root = SVGBackend::new(path, (960, 600)).into_drawing_area();
    root.fill(&WHITE).map_err(|e| failed(&e))?;
    let title = root.titled(plot.title, ("sans-serif", 20)).map_err(|e| failed(&e))?;
    let (area, foot) = title.split_vertically(540);
    foot.draw(&Text::new(machine.to_owned(), (10, 5), ("sans-serif", 12))).map_err(|e| failed(&e))?;
    let mut builder = ChartBuilder::on(&area);
    builder.margin(10).x_label_area_size(40).y_label_area_size(90);
    let mut chart = builder.build_cartesian_2d(x.log_scale(), y.log_scale()).map_err(|e| failed(&e))?;
    let number = |value: &f64| crate::report::digits(*value);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(plot.x).y_desc(plot.y).x_label_formatter(&number).y_label_formatter(&number).max_light_lines(1);
    mesh.draw().map_err(|e| failed(&e))?;
    for (at, (subject, points)) in lines.iter().enumerate() {
        let own = subject.starts_with("collie");
        let color = Palette99::pick(at).to_rgba();
        let style = color.stroke_width(if own { 4 } else { 2 });
        let bar = |&(x, y, bar): &Point| PathElement::new([(x, y), (x, y + bar)], color.stroke_width(1));
        let bars = points.iter().filter(|(_, _, bar)| *bar > 0.0).map(bar);
        chart.draw_series(bars).map_err(|e| failed(&e))?;
        let line = LineSeries::new(points.iter().map(|&(x, y, _)| (x, y)), style).point_size(4);
        let drawn = chart.draw_series(line).map_err(|e| failed(&e))?;
        drawn.label(subject).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    let mut labels = chart.configure_series_labels();
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK).position(SeriesLabelPosition::UpperLeft);
    labels.draw().map_err(|e| failed(&e))?;
    root.present().map_err(|e| failed(&e))?;
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
        draw_one(&path, plot, &lines, &machine)?;
        drawn.push(path);
    }
    drawn.extend(draw_curves(report, dir, &machine)?);
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
        let machine = Machine {
            cores: 2,
            processor: "a processor".to_owned(),
            kernel: "1".to_owned(),
            file_system: "f".to_owned(),
            optimized: true,
        };
        let report = Report { machine, runs: 3, sections: vec![append, threads] };
        let dir = tempfile::tempdir().unwrap();
        let drawn = draw(&report, dir.path()).unwrap();
        assert_eq!(drawn, [dir.path().join("append.svg")]);
        let svg = std::fs::read_to_string(&drawn[0]).unwrap();
        for word in ["<svg", "collie mutex", "mutex, buffered", "2 cores, a processor", "bytes of a record"] {
            assert!(svg.contains(word), "no {word}");
        }
        assert!(svg.ends_with(">\n"));
    }
}
