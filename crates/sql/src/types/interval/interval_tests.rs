//! Tests of text forms against a list, of round trips in every style, of order, and of arithmetic at its limits.
//! `io_answers.tsv`, `expected.tsv` and `tests/sql/intervals.sql` hold PostgreSQL's answers.

use proptest::prelude::*;

use super::*;

const STYLES: [IntervalStyle; 4] =
    [IntervalStyle::Postgres, IntervalStyle::PostgresVerbose, IntervalStyle::SqlStandard, IntervalStyle::Iso8601];

fn shown(interval: Interval, style: IntervalStyle) -> String {
    let mut out = Vec::new();
    write_interval(interval, style, &mut out);
    String::from_utf8(out).expect("ASCII")
}

/// Returns the three fields, which `==` does not distinguish.
fn fields(interval: Interval) -> (i32, i32, i64) {
    (interval.months, interval.days, interval.micros)
}

fn read(text: &str, typmod: i32) -> String {
    match parse_interval(text, typmod, IntervalStyle::Postgres) {
        Ok(interval) => shown(interval, IntervalStyle::Postgres),
        Err(error) => format!("{error:?}"),
    }
}

fn any_interval() -> impl Strategy<Value = Interval> {
    let small = (-30_i32..30, -40_i32..40, -100_000_000_000_i64..100_000_000_000);
    let edge = prop::sample::select(vec![0, 1, -1, i32::MAX, i32::MIN]);
    let edges = (edge.clone(), edge, prop::sample::select(vec![0, 1, -1, i64::MAX, i64::MIN]));
    prop_oneof![any::<(i32, i32, i64)>(), small, edges].prop_map(|(months, days, micros)| Interval {
        months,
        days,
        micros,
    })
}

/// Goal: each form that the documentation names is read. Method: one text of each form, with the text that it prints
/// as.
#[test]
fn every_common_form_is_read() {
    for (text, expected) in [
        ("1 day 02:03:04", "1 day 02:03:04"),
        ("1-2", "1 year 2 mons"),
        ("-1-2 +3 -4:05:06", "-1 years -2 mons +3 days -04:05:06"),
        ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
        ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("P00010203T040506", "1 year 2 mons 3 days 04:05:06"),
        ("P1W", "7 days"),
        ("@ 1 minute", "00:01:00"),
        ("@ 1 hour 2 mins ago", "-01:02:00"),
        ("1.5 months", "1 mon 15 days"),
        ("1.5 years", "1 year 6 mons"),
        ("2 weeks 1d2h", "15 days 02:00:00"),
        ("1 century 2 decades 3 millennia", "3120 years"),
        ("1:02", "01:02:00"),
        ("1:02.5", "00:01:02.5"),
        ("17", "00:00:17"),
        ("3 ms 5 us", "00:00:00.003005"),
        ("1 2:3", "1 day 02:03:00"),
    ] {
        assert_eq!(read(text, -1), expected, "{text}");
    }
}

/// Goal: texts that are not intervals, or are too large, are refused with PostgreSQL's codes. Method: a text for each
/// case.
#[test]
fn refusals_tell_syntax_from_fields_out_of_range() {
    let syntax = |text: &str| format!("22007: invalid input syntax for type interval: \"{text}\"");
    for text in [
        "",
        "x",
        "1 fortnight",
        "1 day 2 days",
        "ago",
        "1 ago",
        "P",
        "PY",
        "P1H",
        "1 quarter",
        "- .5",
        "\u{e9}",
        "infinity",
    ] {
        assert_eq!(read(text, -1), syntax(text), "{text}");
    }
    for text in ["3000000000 days", "1:60:00", "1-12", "99999999999999999999", "P1e20D"] {
        assert_eq!(read(text, -1), format!("22015: interval field value out of range: \"{text}\""), "{text}");
    }
    assert_eq!(read("178956970 years 8 months", -1), "22008: interval out of range");
}

/// Goal: the fields of a type decide the unit of a number and the fields that are kept. Method: each range, with and
/// without a precision.
#[test]
fn modifiers_choose_the_unit_and_cut_below_it() {
    let mask = |bits: &[i32]| bits.iter().map(|bit| 1 << bit).sum::<i32>().into();
    let (month, year, day, hour, minute, second) = (1, 2, 3, 10, 11, 12);
    for (range, text, expected, name) in [
        (mask(&[year]), "2", "2 years", " year"),
        (mask(&[month]), "14", "1 year 2 mons", " month"),
        (mask(&[year, month]), "3", "3 mons", " year to month"),
        (mask(&[day]), "1", "1 day", " day"),
        (mask(&[hour]), "1:59", "01:00:00", " hour"),
        (mask(&[day, hour]), "1 2", "1 day 02:00:00", " day to hour"),
        (mask(&[day, hour, minute]), "1 2:03:04", "1 day 02:03:00", " day to minute"),
        (mask(&[minute, second]), "2:03", "00:02:03", " minute to second"),
        (mask(&[second]), "4.5", "00:00:04.5", " second"),
    ] {
        let typmod = modifier::encode(&[range]).expect("a range of SQL");
        let interval = parse_interval(text, typmod, IntervalStyle::Postgres).expect("an interval");
        assert_eq!(shown(modifier::apply(interval, typmod), IntervalStyle::Postgres), expected, "{text} of {name}");
        assert_eq!(modifier::display(typmod), name);
    }
    let rounded = modifier::encode(&[mask(&[day, hour, minute, second]), 2]).expect("a range of SQL");
    assert_eq!(modifier::display(rounded), " day to second(2)");
    let half = Interval { months: 1, days: 1, micros: -1_005_000 };
    assert_eq!(fields(modifier::apply(half, rounded)), (1, 1, -1_010_000));
    assert_eq!(modifier::encode(&[0x7FFF]).expect("all fields"), -1);
    for wrong in [&[5_i64][..], &[], &[4, 1, 1], &[1 << 40]] {
        assert_eq!(format!("{:?}", modifier::encode(wrong).unwrap_err()), "22023: invalid INTERVAL type modifier");
    }
}

/// Goal: fractions are carried down and nothing wraps. Method: products and normal forms with known results, and those
/// that overflow.
#[test]
fn multiples_and_normal_forms_cascade_and_refuse_to_wrap() {
    let of = |text: &str| parse_interval(text, -1, IntervalStyle::Postgres).expect("an interval");
    let same =
        |interval: Result<Interval, SqlError>, text: &str| assert_eq!(fields(interval.unwrap()), fields(of(text)));
    same(of("1 mon").checked_mul(0.5), "15 days");
    same(of("1 month 1 day").checked_div(3.0), "10 days 08:00");
    same(of("1 day").checked_mul(-1.5), "-1 day -12:00");
    same(of("35 days 25:00").justify_interval(), "1 mon 6 days 01:00");
    same(of("1 mon -1 day 1:00").justify_interval(), "29 days 01:00");
    same(of("2 days -1 hour").justify_hours(), "1 day 23:00");
    same(of("1 mon -1 day").justify_days(), "29 days");
    let largest = Interval { months: i32::MAX, days: i32::MAX, micros: i64::MAX };
    let smallest = Interval { months: i32::MIN, days: i32::MIN, micros: i64::MIN };
    for refused in [
        largest.checked_mul(2.0),
        largest.checked_mul(f64::NAN),
        largest.checked_mul(f64::INFINITY),
        smallest.checked_div(0.5),
        smallest.checked_neg(),
        largest.checked_add(of("1 us")),
        largest.justify_hours(),
        largest.justify_days(),
        largest.justify_interval(),
    ] {
        assert_eq!(format!("{:?}", refused.unwrap_err()), "22008: interval out of range");
    }
    assert_eq!(format!("{:?}", largest.checked_div(0.0).unwrap_err()), "22012: division by zero");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: printed text reads back as the same fields. Method: random and extreme intervals in each style, read in
    /// the same style; only the smallest value of a field, which has no positive counterpart for `ago`, may be refused.
    #[test]
    fn text_round_trips_in_every_style(interval in any_interval()) {
        for style in STYLES {
            let text = shown(interval, style);
            match parse_interval(&text, -1, style) {
                Ok(read) => prop_assert_eq!(fields(read), fields(interval), "{:?}: {}", style, text),
                // The smallest value has no positive counterpart.
                Err(error) => {
                    let smallest = interval.months == i32::MIN || interval.days == i32::MIN || interval.micros == i64::MIN;
                    prop_assert!(smallest, "{:?}: {}: {:?}", style, text, error);
                }
            }
        }
    }

    /// Goal: order, equality and keys follow the length (I2), and each length has an interval. Method: random pairs.
    #[test]
    fn order_is_that_of_the_length(a in any_interval(), b in any_interval()) {
        prop_assert_eq!(a.cmp(&b), a.span_us().cmp(&b.span_us()));
        let back = Interval::from_span_us(a.span_us()).expect("the length of an interval");
        prop_assert_eq!(back, a);
    }

    /// Goal: sums and differences undo each other if they fit. Method: random pairs.
    #[test]
    fn sums_undo_differences(a in any_interval(), b in any_interval()) {
        if let Ok(sum) = a.checked_add(b) {
            prop_assert_eq!(fields(sum.checked_sub(b).expect("it was that")), fields(a));
        }
        if let Ok(justified) = a.justify_interval() {
            prop_assert_eq!(justified, a);
            let signs = [justified.months.signum().into(), justified.days.signum().into(), justified.micros.signum()];
            prop_assert!(!(signs.contains(&1) && signs.contains(&-1)), "{:?}", justified);
        }
    }

    /// Goal: no client text panics (SQL-7), and applying a modifier twice changes nothing more. Method: words, numbers
    /// and punctuation of intervals in any order.
    #[test]
    fn no_text_panics(
        text in prop_oneof![
            ".{0,30}",
            "[-+@.:0-9a-zPTYMDHSW/ ]{0,40}",
            "([-+]?[0-9]{0,20}([.:-][0-9]{0,12}){0,3} ?(d|day|mons?|years?|h|us|ago|@|week|c|mil)? ?){0,27}",
            "P[-0-9.eYMDWT:]{0,24}",
        ],
        range in prop::sample::select(vec![-1, 4 << 16 | 0xFFFF, 8 << 16 | 3, 0x1C08 << 16 | 0xFFFF, 0x1800 << 16 | 2]),
        style in prop::sample::select(STYLES.to_vec()),
    ) {
        if let Ok(interval) = parse_interval(&text, range, style) {
            let applied = modifier::apply(interval, range);
            prop_assert_eq!(fields(modifier::apply(applied, range)), fields(applied));
        }
    }
}
