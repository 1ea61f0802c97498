//! The parser of metrics that other tests use.

use collie_clients_tests::metrics::Metrics;

/// Goal: the parser refuses wrong input, so that its acceptance proves something. Method: one correct text, and
/// variants of it with one mistake each.
#[test]
fn mistakes_are_refused() {
    let right =
        "# HELP a_total So many.\n# TYPE a_total counter\na_total{x=\"1\",y=\"q\\\"\"} 7\na_total{x=\"2\"} 0.5\n";
    let metrics = Metrics::read(right).expect("it is right");
    assert_eq!(metrics.labelled("a_total", &[("x", "1"), ("y", "q\"")]), Some(7.0));
    for (from, to) in [
        ("0.5\n", "0.5"),
        ("0.5", "NaN"),
        ("0.5", "-1"),
        ("0.5", "x"),
        ("{x=\"2\"}", "{x=\"1\",y=\"q\\\"\"}"),
        ("{x=\"2\"}", "{x=\"2\",x=\"3\"}"),
        ("{x=\"2\"}", "{x=\"2}"),
        ("a_total{x=\"2\"}", "b_total"),
        ("# TYPE a_total counter", "# TYPE a_total gauge"),
        ("# TYPE a_total counter\n", ""),
        ("# HELP a_total So many.\n", ""),
        ("a_total{x=\"2\"} 0.5\n", "# HELP a_total So many.\n# TYPE a_total counter\na_total 1\n"),
    ] {
        let wrong = right.replacen(from, to, 1);
        assert_ne!(wrong, right, "{from}");
        assert!(Metrics::read(&wrong).is_err(), "{wrong}");
    }
}
