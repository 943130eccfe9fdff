//! Ten thousand random expressions against an implementation that looks at every minute, or second,
//! of a few days, in zones with daylight saving time.

use crate::zones::{ZONES, changes, named, parse, runs_between, series, unix, wall};
use chrono::{DateTime, Datelike, NaiveDate, Weekday};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use recurrence::{Series, Zone};

const EXPRESSIONS: usize = 10_000;
const DAY: i64 = 86_400;

/// An element of a field.
enum Element {
    Values { first: u32, last: u32, step: u32 },
    LastDay,
    LastWorkday,
    Workday(u32),
    LastWeekday(u32),
    NthWeekday(u32, u32),
}

struct Field {
    text: String,
    elements: Vec<Element>,
}

impl Field {
    fn is_star(&self) -> bool {
        self.text.starts_with('*')
    }

    fn has(&self, value: u32) -> bool {
        self.elements.iter().any(|element| match *element {
            Element::Values { first, last, step } => {
                (first..=last).contains(&value) && (value - first).is_multiple_of(step)
            }
            _ => false,
        })
    }
}

/// An expression, with what it means.
struct Expression {
    second: Field,
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

const MONTHS: [&str; 12] =
    ["jan", "FEB", "Mar", "apr", "may", "JUN", "jul", "aug", "SEP", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 8] = ["sun", "MON", "Tue", "wed", "thu", "FRI", "sat", "sun"];

fn value(dice: &mut SmallRng, value: u32, names: &[&str], least: u32) -> String {
    match names.get((value - least) as usize) {
        // as the end of a range, sun is 7
        Some(name) if dice.random_bool(0.4) && value != 7 => (*name).to_owned(),
        _ => value.to_string(),
    }
}

fn field(dice: &mut SmallRng, least: u32, most: u32, names: &[&str]) -> Field {
    if dice.random_bool(0.35) {
        let elements = vec![Element::Values { first: least, last: most, step: 1 }];
        return Field { text: "*".into(), elements };
    }
    let (mut texts, mut elements) = (Vec::new(), Vec::new());
    for _ in 0..[1, 1, 1, 2, 3][dice.random_range(0..5)] {
        let (mut first, mut last) =
            (dice.random_range(least..=most), dice.random_range(least..=most));
        if first > last {
            (first, last) = (last, first);
        }
        let step = dice.random_range(1..=(most - least) / 2);
        let range =
            format!("{}-{}", value(dice, first, names, least), value(dice, last, names, least));
        let (text, element) = match dice.random_range(0..10) {
            0..4 => (value(dice, first, names, least), (first, first, 1)),
            4..6 => (range, (first, last, 1)),
            6 => (format!("{range}/{step}"), (first, last, step)),
            _ => (format!("*/{step}"), (least, most, step)),
        };
        texts.push(text);
        elements.push(Element::Values { first: element.0, last: element.1, step: element.2 });
    }
    Field { text: texts.join(","), elements }
}

fn day(dice: &mut SmallRng) -> Field {
    let mut field = field(dice, 1, 31, &[]);
    let (text, element) = match dice.random_range(0..20) {
        0 => ("L".to_owned(), Element::LastDay),
        1 => ("LW".to_owned(), Element::LastWorkday),
        2 => {
            let day = dice.random_range(1..=31);
            (format!("{day}W"), Element::Workday(day))
        }
        3 => {
            let elements = vec![Element::Values { first: 1, last: 31, step: 1 }];
            return Field { text: "?".into(), elements };
        }
        _ => return field,
    };
    match field.is_star() {
        true => Field { text, elements: vec![element] },
        false => {
            field.text = format!("{},{text}", field.text);
            field.elements.push(element);
            field
        }
    }
}

fn weekday(dice: &mut SmallRng) -> Field {
    let mut field = field(dice, 0, 7, &WEEKDAYS);
    let day = dice.random_range(0..=7);
    let name = value(dice, day, &WEEKDAYS, 0);
    let (text, element) = match dice.random_range(0..12) {
        0 => (format!("{name}L"), Element::LastWeekday(day % 7)),
        1 | 2 => {
            let n = dice.random_range(1..=5);
            (format!("{name}#{n}"), Element::NthWeekday(day % 7, n))
        }
        _ => return field,
    };
    if field.is_star() {
        return Field { text, elements: vec![element] };
    }
    field.text = format!("{text},{}", field.text);
    field.elements.push(element);
    field
}

impl Expression {
    fn random(dice: &mut SmallRng) -> Expression {
        let second = match dice.random_bool(0.15) {
            true => field(dice, 0, 59, &[]),
            false => Field {
                text: String::new(),
                elements: vec![Element::Values { first: 0, last: 0, step: 1 }],
            },
        };
        Expression {
            second,
            minute: field(dice, 0, 59, &[]),
            hour: field(dice, 0, 23, &[]),
            day: day(dice),
            month: field(dice, 1, 12, &MONTHS),
            weekday: weekday(dice),
        }
    }

    fn text(&self) -> String {
        let fields =
            [&self.second, &self.minute, &self.hour, &self.day, &self.month, &self.weekday];
        fields.map(|field| field.text.as_str()).join(" ").trim().to_owned()
    }

    fn matches_day(&self, date: NaiveDate) -> bool {
        if !self.month.has(date.month()) {
            return false;
        }
        let weekday = date.weekday().num_days_from_sunday();
        let last = (date + chrono::Months::new(1)).with_day(1).and_then(|it| it.pred_opt());
        let last = last.expect("a last day");
        let by_day = self.day.has(date.day())
            || self.day.elements.iter().any(|element| match *element {
                Element::LastDay => date.day() == last.with_month(date.month()).unwrap().day(),
                Element::LastWorkday => {
                    let end = end_of_month(date);
                    date == (0..3).map(|n| end - chrono::Days::new(n)).find(works).unwrap()
                }
                Element::Workday(day) => date.with_day(day).is_some_and(|it| date == nearest(it)),
                _ => false,
            });
        let by_weekday = self.weekday.has(weekday)
            || weekday == 0 && self.weekday.has(7)
            || self.weekday.elements.iter().any(|element| match *element {
                Element::LastWeekday(day) => {
                    weekday == day && (date + chrono::Days::new(7)).month() != date.month()
                }
                Element::NthWeekday(day, n) => weekday == day && date.day().div_ceil(7) == n,
                _ => false,
            });
        match self.day.is_star() || self.weekday.is_star() {
            true => by_day && by_weekday,
            false if self.day.text == "?" => by_weekday,
            false => by_day || by_weekday,
        }
    }

    fn matches_time(&self, local: i64) -> bool {
        let time = local.rem_euclid(DAY) as u32;
        self.second.has(time % 60) && self.minute.has(time / 60 % 60) && self.hour.has(time / 3_600)
    }
}

fn end_of_month(date: NaiveDate) -> NaiveDate {
    (date.with_day(1).unwrap() + chrono::Months::new(1)).pred_opt().unwrap()
}

fn works(date: &NaiveDate) -> bool {
    !matches!(date.weekday(), Weekday::Sat | Weekday::Sun)
}

/// The nearest workday of the same month.
fn nearest(date: NaiveDate) -> NaiveDate {
    let near = [0i64, -1, 1, -2, 2].map(|n| date + chrono::TimeDelta::days(n));
    *near.iter().find(|it| works(it) && it.month() == date.month()).unwrap()
}

fn date(day: i64) -> NaiveDate {
    DateTime::from_timestamp(day * DAY, 0).expect("a day").date_naive()
}

/// The runs in a window, found by looking at each of its minutes or seconds: a local time counts
/// when clocks first show it, or when they jump over it. Clocks change on the half hour.
fn naive(expression: &Expression, zone: &dyn Zone, from: i64, until: i64) -> Vec<i64> {
    let step = if expression.second.text.is_empty() { 60 } else { 1 };
    let start = from - DAY;
    let offsets: Vec<i64> = (start..until).step_by(1_800).map(|at| zone.offset(at)).collect();
    let local = |at: i64| at + offsets[((at - start) / 1_800) as usize];
    let first = start.div_euclid(DAY) - 1;
    let days: Vec<bool> = (first..first + 8).map(|day| expression.matches_day(date(day))).collect();
    let matches = |local: i64| {
        expression.matches_time(local) && days[(local.div_euclid(DAY) - first) as usize]
    };
    // the latest time that clocks have shown
    let ends = (start + 1_800..=from).step_by(1_800).map(|end| local(end - step));
    let mut latest = ends.max().expect("a day");
    let mut found = Vec::new();
    for at in (from..until).step_by(step as usize) {
        let shown = local(at);
        if (latest + step..=shown).step_by(step as usize).any(matches) {
            found.push(at);
        }
        latest = latest.max(shown);
    }
    found
}

#[track_caller]
fn compare(it: &Series, expression: &Expression, from: i64, until: i64) -> usize {
    let expected = naive(expression, it.zone, from, until);
    let found = runs_between(it, wall(from), wall(until), &expression.text());
    let found: Vec<i64> = found.into_iter().map(unix).collect();
    assert_eq!(found, expected, "{} from {from} until {until}", expression.text());
    expected.len()
}

#[test]
fn random_expressions_match_what_every_minute_says() {
    let seed = std::env::var("SCYLLA_SEED").ok().and_then(|it| it.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    println!("SCYLLA_SEED={seed}");
    let mut dice = SmallRng::seed_from_u64(seed);
    let zones = ZONES.map(named);
    let changes: Vec<Vec<i64>> = zones.iter().map(|zone| changes(zone)).collect();
    let (mut refused, mut runs, mut empty) = (0, 0, 0);
    for _ in 0..EXPRESSIONS {
        let expression = Expression::random(&mut dice);
        let text = expression.text();
        let recurrence = match parse(&text) {
            Ok(recurrence) => recurrence,
            Err(why) => {
                let any = (0..146_097).any(|day| expression.matches_day(date(day)));
                assert!(!any, "{text} was refused: {why}");
                refused += 1;
                continue;
            }
        };
        // a day in minutes, two hours in seconds
        let width = if expression.second.text.is_empty() { DAY } else { 7_200 };
        for (zone, changes) in zones.iter().zip(&changes) {
            let it = series(&recurrence, zone);
            // where clocks change
            let change = changes[dice.random_range(0..changes.len())];
            let from = (change - dice.random_range(0..width)).div_euclid(1_800) * 1_800;
            let at_change = compare(&it, &expression, from, from + width);
            // and at its next day, which may be far away
            let start = dice.random_range(0..30_000);
            let mut days = start..start + 146_097;
            let day = days.find(|day| expression.matches_day(date(*day))).expect(&text);
            let first = unix(it.first(wall(start * DAY + DAY)).expect(&text));
            let local = first + zone.offset(first);
            if day > start + 1 {
                // the day as clocks show it; what a clock jumps over runs a little later
                assert!((day * DAY..day * DAY + DAY + 7_200).contains(&local), "{text}: {day}");
            }
            let from = first - first.rem_euclid(1_800) - width / 2;
            let at_day = compare(&it, &expression, from, from + width);
            runs += at_change + at_day;
            empty += usize::from(at_change == 0);
        }
    }
    println!("{EXPRESSIONS} expressions, {refused} of them never match; {runs} runs compared");
    assert!(refused < EXPRESSIONS / 100, "{refused} were refused");
    assert!(runs > 100 * EXPRESSIONS && empty < 4 * EXPRESSIONS, "{runs} runs, {empty} empty");
}
