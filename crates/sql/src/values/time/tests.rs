use super::*;

#[test]
fn days_and_dates_are_inverse() {
    let mut day = -2_451_545_i64;
    while day < 2_145_031_948 {
        let (year, month, of_month) = civil_from_days(day);
        assert_eq!(days_from_civil(year, month, of_month), day);
        assert!((1..=month_days(year, month)).contains(&of_month));
        day += 9_973;
    }
    assert_eq!(civil_from_days(0), (2000, 1, 1));
    assert_eq!(civil_from_days(-1), (1999, 12, 31));
}

#[test]
fn a_month_has_at_most_its_days_after_an_addition() {
    let start = days_from_civil(2024, 1, 31) * DAY;
    let sum = plus_interval(start, (1, 0, 0), None).unwrap();
    assert_eq!(timestamp_text(sum), "2024-02-29 00:00:00");
}

#[test]
fn a_day_in_a_zone_may_have_another_length() {
    let zone = Zone::named("Europe/Berlin");
    let settings = crate::values::Settings { zone: zone.unwrap(), ..Default::default() };
    let start = parse_timestamptz("2024-03-30 12:00", &settings).unwrap();
    let by_day = plus_interval(start, (0, 1, 0), zone).unwrap();
    let by_hours = plus_interval(start, (0, 0, 24 * HOUR), zone).unwrap();
    assert_eq!(timestamptz_text(by_day, settings.zone), "2024-03-31 12:00:00+02");
    assert_eq!(timestamptz_text(by_hours, settings.zone), "2024-03-31 13:00:00+02");
}

#[test]
fn zones_print_a_text_that_reads_back() {
    for text in ["UTC", "Europe/Berlin", "5", "-3.5", "EST", "-05:30", "UTC+3:30", "AAA4"] {
        let zone = Zone::parse(text).unwrap();
        assert_eq!(Zone::parse(&zone.to_string()), Some(zone), "{text} {zone}");
    }
    assert_eq!(Zone::parse("nowhere"), None);
}

#[test]
fn the_sign_of_a_posix_zone_points_west() {
    for (text, east) in [
        ("+03", -3 * 3600),
        ("3", -3 * 3600),
        ("-05:30", 5 * 3600 + 1800),
        ("UTC+3", -3 * 3600),
        ("<x>-3", 3 * 3600),
        ("+25:00", -25 * 3600),
    ] {
        assert_eq!(Zone::posix(text), Some(Zone::Fixed(east)), "{text}");
    }
    for text in ["", "nowhere", "+168", "1:60", "+0330", "1:2:3:4", "+-3", "Europe/5", "+"] {
        assert_eq!(Zone::posix(text), None, "{text}");
    }
    // A setting of hours alone points east.
    assert_eq!(Zone::parse("+03"), Some(Zone::Fixed(3 * 3600)));
    assert_eq!(Zone::parse("-05:30"), Some(Zone::Fixed(5 * 3600 + 1800)));
}
