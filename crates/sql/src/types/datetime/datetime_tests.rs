//! Tests of the calendar against a day-by-day count, of time zones, and of limits. Text forms are tested with `io`.

use proptest::prelude::*;

use super::*;
use crate::types::TextContext;

/// Goal: the calendar is right on every day around its turning points. Method: count days one by one over 1,600 years.
#[test]
fn calendar_agrees_with_counting_days() {
    let (mut year, mut month, mut day) = (-400, 1, 1);
    for days in days_from_civil(-400, 1, 1)..=days_from_civil(1_200, 12, 31) {
        assert_eq!(civil_from_days(days), (year, month, day));
        assert_eq!(days_from_civil(year, month, day), days);
        day += 1;
        if day > days_in_month(year, month) {
            (month, day) = (month + 1, 1);
        }
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
}

/// Goal: known days have PostgreSQL's numbers. Method: epoch, Unix epoch and both ends of the range.
#[test]
fn known_days_have_their_numbers() {
    assert_eq!(days_from_civil(2000, 1, 1), 0);
    assert_eq!(days_from_civil(1970, 1, 1), UNIX_EPOCH_DAYS);
    assert_eq!(days_from_civil(-4713, 11, 24), DATE_MIN);
    assert_eq!(days_from_civil(5_874_898, 1, 1), DATE_END);
    assert_eq!(i64::from(DATE_MIN) * DAY_US, TIMESTAMP_MIN);
    assert_eq!(i64::from(days_from_civil(294_277, 1, 1)) * DAY_US, TIMESTAMP_END);
    assert_eq!(days_from_civil(i32::MAX, 1, 1), i32::MAX);
}

/// Goal: conversions between dates and timestamps keep infinities and limits. Method: both ends.
#[test]
fn conversion_keeps_infinities_and_limits() {
    assert_eq!(date_to_timestamp(i32::MAX).unwrap(), i64::MAX);
    assert_eq!(date_to_timestamp(DATE_MIN).unwrap(), TIMESTAMP_MIN);
    assert_eq!(format!("{:?}", date_to_timestamp(DATE_END - 1).unwrap_err()), "22008: date out of range for timestamp");
    assert_eq!(timestamp_to_date(-1), -1);
    assert_eq!(timestamp_to_time(-1), DAY_US - 1);
}

/// Goal: the order of fields follows the setting. Method: one ambiguous date in each order.
#[test]
fn ambiguous_dates_follow_the_date_order() {
    for (order, expected) in
        [(DateOrder::Mdy, (2003, 1, 2)), (DateOrder::Dmy, (2003, 2, 1)), (DateOrder::Ymd, (2001, 2, 3))]
    {
        let context = TextContext { date_order: order, ..TextContext::default() };
        assert_eq!(civil_from_days(parse_date("01/02/03", &context).unwrap()), expected);
        assert_eq!(civil_from_days(parse_date("2003-02-01", &context).unwrap()), (2003, 2, 1));
    }
    let refused = parse_date("18/1/1999", &TextContext::default()).unwrap_err();
    assert_eq!(refused.report().hint.as_deref(), Some("Perhaps you need a different \"datestyle\" setting."));
}

/// Goal: zones that are offsets are read, others are refused with a clear error. Method: a table.
#[test]
fn zones_are_offsets_or_refused() {
    for (text, seconds) in [
        ("UTC", 0),
        ("Etc/UTC", 0),
        ("gmt", 0),
        ("3", -10_800),
        ("-8", 28_800),
        ("02:30", -9_000),
        ("+5:30:15", -19_815),
        ("UTC+99", -99 * 3_600),
        ("Etc/GMT-14", 50_400),
        ("UTC+3", -10_800),
        ("<+02>-02", 7_200),
        ("pst", -28_800),
    ] {
        assert_eq!(parse_zone(text).unwrap(), seconds, "{text}");
    }
    for text in ["Europe/Berlin", "nowhere", "", "UTC+168", "-12.5", "+0530"] {
        assert_eq!(
            format!("{:?}", parse_zone(text).unwrap_err()),
            format!("22023: time zone \"{text}\" not recognized")
        );
    }
    let refused = parse_timestamptz("2024-01-01 00:00 America/New_York", &TextContext::default()).unwrap_err();
    assert_eq!(format!("{refused:?}"), "22023: time zone \"america/new_york\" not recognized");
}

proptest! {
    /// Goal: the calendar functions are inverse to each other everywhere. Method: random days of the whole 32-bit
    /// range.
    #[test]
    fn calendar_round_trips(days: i32) {
        let (year, month, day) = civil_from_days(days);
        prop_assert!((1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day));
        prop_assert_eq!(days_from_civil(year, month, day), days);
    }
}
