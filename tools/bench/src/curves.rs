//! `draw_curves`: draws the series of a section, one SVG file per plot: lines, points around them, and marks of events
//! at the foot.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use plotters::prelude::*;

use crate::report::Series;
use crate::{Report, Section};

/// A plot of the series of one section.
struct Curves {
    section: &'static str,
    /// Key of the series drawn as lines.
    line: &'static str,
    /// Key of the series drawn as points around the lines.
    points: Option<&'static str>,
    /// Key of the series drawn as marks at the foot.
    marks: Option<&'static str>,
    /// Whether the x axis is logarithmic (powers of ten).
    tenfold: bool,
    file: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
}

const CURVES: [Curves; 5] = [
    Curves {
        section: "time",
        line: "seen_running_mean_us",
        points: Some("seen_second_us"),
        marks: Some("delivery"),
        tenfold: false,
        file: "replication-time.svg",
        title: "Delay of a replica at 80 % of flat out, as a client sees it: seconds of all runs, running mean; ticks: Delivery",
        x: "seconds",
        y: "us",
    },
    Curves {
        section: "time",
        line: "delay_second_us",
        points: None,
        marks: None,
        tenfold: false,
        file: "training-time.svg",
        title: "Delay of a replica that collects at 80 % of the knee, by the primary's clock: seconds of all runs, one after the other",
        x: "seconds",
        y: "us",
    },
    Curves {
        section: "fig-1-1",
        line: "delay_second_us",
        points: None,
        marks: None,
        tenfold: false,
        file: "training-fig-1-1.svg",
        title: "Delay of a replica that samples everything by six system calls, as a client sees it, second by second",
        x: "seconds",
        y: "us",
    },
    Curves {
        section: "tpcc",
        line: "txn_per_s",
        points: None,
        marks: None,
        tenfold: false,
        file: "tpcc-seconds.svg",
        title: "TPC-C, all transactions, second by second of the first run",
        x: "seconds",
        y: "transactions/s",
    },
    Curves {
        section: "tpcc",
        line: "new_order_us",
        points: None,
        marks: None,
        tenfold: true,
        file: "tpcc-latency.svg",
        title: "Latency of TPC-C's New-Order that one of so many exceeds, all runs",
        x: "one of",
        y: "us",
    },
];

/// Draws a plot of each section that has series into `dir`; returns the files.
///
/// # Errors
/// Those of the operating system for the files.
pub(crate) fn draw_curves(report: &Report, dir: &Path, machine: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut drawn = Vec::new();
    for curves in &CURVES {
        let section = report.sections.iter().find(|section| section.name == curves.section);
        let has_line = |section: &&Section| {
            section.series.iter().any(|of| of.key == curves.line && of.points.iter().any(|(_, y)| *y > 0.0))
        };
        let Some(section) = section.filter(has_line) else { continue };
        let path = dir.join(curves.file);
        draw_one(&path, curves, section, machine)
            .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
        drawn.push(path);
    }
    Ok(drawn)
}

fn draw_one(path: &Path, curves: &Curves, section: &Section, machine: &str) -> Result<(), Box<dyn std::error::Error>> {
    let keys = [Some(curves.line), curves.points, curves.marks];
    let place = |x: f64| if curves.tenfold { x.max(1.0).log10() } else { x };
    let all = || section.series.iter().filter(|of| keys.contains(&Some(of.key))).flat_map(|of| &of.points);
    let x_max = all().map(|(x, _)| place(*x)).fold(0.0, f64::max);
    let values = || all().map(|(_, y)| *y).filter(|y| *y > 0.0);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(1.0, f64::max));
    // The foot, below all values, is for the marks.
    let foot = low.min(high) / 2.0;
    let root = SVGBackend::new(path, (960, 600)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = root.titled(curves.title, ("sans-serif", 18))?;
    let (area, below) = title.split_vertically(540);
    below.draw(&Text::new(machine.to_owned(), (10, 5), ("sans-serif", 12)))?;
    let mut builder = ChartBuilder::on(&area);
    builder.margin(10).x_label_area_size(40).y_label_area_size(90);
    let mut chart = builder.build_cartesian_2d(0.0..x_max * 1.02 + 0.1, (foot..high * 1.5).log_scale())?;
    let number = |value: &f64| crate::report::digits(*value);
    let of_place = |x: &f64| number(&if curves.tenfold { 10_f64.powf(*x) } else { *x });
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(curves.x).y_desc(curves.y).x_label_formatter(&of_place).y_label_formatter(&number).max_light_lines(1);
    mesh.draw()?;
    let mut subjects: Vec<&str> = Vec::new();
    for of in &section.series {
        if !subjects.contains(&of.subject.as_str()) {
            subjects.push(&of.subject);
        }
    }
    for (at, subject) in subjects.iter().enumerate() {
        let color = Palette99::pick(at).to_rgba();
        let of = |key: Option<&str>| section.series.iter().find(|of| of.subject == *subject && Some(of.key) == key);
        let positive =
            |of: &Series| of.points.iter().filter(|(_, y)| *y > 0.0).map(|(x, y)| (place(*x), *y)).collect::<Vec<_>>();
        if let Some(of) = of(curves.points) {
            chart.draw_series(positive(of).into_iter().map(|at| Circle::new(at, 2, color.mix(0.4).filled())))?;
        }
        if let Some(of) = of(Some(curves.line)) {
            let style = color.stroke_width(3);
            let drawn = chart.draw_series(LineSeries::new(positive(of), style))?;
            drawn.label(*subject).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        if let Some(of) = of(curves.marks) {
            // The marks of each subject have their own line.
            let y = foot * (1.0 + 0.3 * crate::txn::count_of(at));
            let tick =
                |(x, _): &(f64, f64)| PathElement::new([(place(*x), y), (place(*x), y * 1.2)], color.stroke_width(1));
            chart.draw_series(of.points.iter().map(tick))?;
        }
    }
    let mut labels = chart.configure_series_labels();
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK).position(SeriesLabelPosition::UpperRight);
    labels.draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    /// Goal: points, mean and marks of each subject are drawn, and a section without series is left out. Method: one
    /// section with two subjects, then the same without points.
    #[test]
    fn curves_are_drawn_for_a_section_with_series() {
        let mut section = Section::new("time", "?");
        for subject in ["collie", "PostgreSQL"] {
            let of = |key, points: &[(f64, f64)]| Series { subject: subject.to_owned(), key, points: points.to_vec() };
            section.series.push(of("seen_second_us", &[(0.5, 100.0), (1.5, 300.0)]));
            section.series.push(of("seen_running_mean_us", &[(0.5, 100.0), (1.5, 200.0)]));
            section.series.push(of("delivery", &[(0.7, 0.0)]));
        }
        let (processor, kernel, file_system) = ("p".to_owned(), "k".to_owned(), "f".to_owned());
        let machine = Machine { cores: 2, processor, kernel, file_system, optimized: true };
        let mut report = Report { machine, runs: 1, sections: vec![section] };
        let dir = tempfile::tempdir().unwrap();
        let drawn = draw_curves(&report, dir.path(), "a machine").unwrap();
        assert_eq!(drawn, [dir.path().join("replication-time.svg")]);
        let svg = std::fs::read_to_string(&drawn[0]).unwrap();
        for word in ["<svg", "collie", "PostgreSQL", "a machine", "seconds", "<circle"] {
            assert!(svg.contains(word), "no {word}");
        }
        report.sections[0].series.iter_mut().for_each(|of| of.points.clear());
        assert!(draw_curves(&report, dir.path(), "a machine").unwrap().is_empty());
    }
}
