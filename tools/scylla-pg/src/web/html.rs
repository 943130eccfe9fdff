//! Pieces of pages: times, numbers, plots, and the frame around them.

use super::snapshot::{Percentiles, Point};
use crate::output::duration;
use maud::{Markup, PreEscaped, html};
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

/// A whole number with its thousands apart.
pub fn number(value: impl Into<i128>) -> String {
    let value = value.into();
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

pub fn maybe_number(value: Option<i64>) -> Markup {
    match value {
        Some(value) => html! { (number(value)) },
        None => html! { span.quiet title="the server is still counting" { "…" } },
    }
}

pub fn rate(value: f64) -> Markup {
    match value {
        value if value < 0.05 => html! { span.quiet { "0" } },
        value if value < 100.0 => html! { (format!("{value:.1}")) },
        value => html! { (number(value as i64)) },
    }
}

pub fn seconds(value: Option<f64>) -> Markup {
    match value {
        Some(value) => html! { (duration(value)) },
        None => html! { span.quiet { "–" } },
    }
}

pub fn percentiles(values: &Percentiles) -> Markup {
    match values {
        Some([p50, p95, p99]) => html! {
            span title={ "half within " (duration(*p50)) ", 95 of 100 within " (duration(*p95)) ", 99 of 100 within " (duration(*p99)) ", in the last minutes" } {
                (short(*p50)) span.quiet { " / " } (short(*p95)) span.quiet { " / " } (short(*p99))
            }
        },
        None => html! { span.quiet { "–" } },
    }
}

/// A length of time in one unit.
fn short(seconds: f64) -> String {
    duration(seconds).split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Seconds since 1970 of a time as PostgreSQL or JSON writes it.
pub fn epoch(text: &str) -> Option<f64> {
    let (date, clock) = text.split_once([' ', 'T'])?;
    let mut parts = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let zone = clock.find(['Z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone);
    let mut parts = clock.splitn(3, ':').map(str::parse::<f64>);
    let mut next = || Some(parts.next().unwrap_or(Ok(0.0)).ok());
    let (hour, minute, second) = (next()??, next()??, next()??);
    let sign = if zone.starts_with('-') { -1.0 } else { 1.0 };
    let mut parts =
        zone.trim_start_matches(['Z', '+', '-']).splitn(2, ':').map(|it| it.parse().unwrap_or(0.0));
    let offset = sign * (parts.next().unwrap_or(0.0) * 3600.0 + parts.next().unwrap_or(0.0) * 60.0);
    // Days of the Gregorian calendar, counted from a March.
    let year = if month <= 2 { year - 1 } else { year };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * ((month + 9) % 12) + 2) / 5
        + day
        - 719_469;
    Some(days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second - offset)
}

pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// How long ago a time is, or how far ahead; the script shows the exact time in the reader's zone.
pub fn time(text: &str) -> Markup {
    let Some(at) = epoch(text) else { return html! { (text) } };
    let from_now = at - now();
    let relative = match from_now {
        ahead if ahead >= 0.5 => format!("in {}", duration(ahead)),
        behind if behind <= -1.0 => format!("{} ago", duration(-behind)),
        _ => "now".to_owned(),
    };
    let exact = text.replacen('T', " ", 1);
    let exact = exact.strip_suffix("+00").or(exact.strip_suffix('Z')).unwrap_or(&exact);
    html! {
        time datetime=(text.replacen(' ', "T", 1).replace("+00", "Z")) title={ (exact) " UTC" } { (relative) }
    }
}

pub fn maybe_time(text: Option<&str>) -> Markup {
    text.map_or_else(|| html! { span.quiet { "–" } }, time)
}

/// A name that a user chose: its letters do not change the order of those around it.
pub fn name(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// A part of a URL.
pub fn encode(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

/// A query string of what is not empty.
pub fn query(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}={}", encode(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

pub fn status(status: &str) -> Markup {
    html! { span.status.(status_class(status)) { (status) } }
}

pub fn status_class(status: &str) -> &'static str {
    let known = ["waiting", "ready", "running", "completed", "aborted", "cancelled"];
    known.iter().find(|it| **it == status).copied().unwrap_or("unknown")
}

/// A line of the last hour.
pub fn plot(
    history: &VecDeque<Point>,
    value: fn(&Point) -> f64,
    size: (f64, f64),
    label: &str,
) -> Markup {
    let (width, height) = size;
    let top = history.iter().map(value).fold(0.0, f64::max);
    let step = width / (super::snapshot::POINTS - 1) as f64;
    let start = width - step * history.len().saturating_sub(1) as f64;
    let points: Vec<String> = history
        .iter()
        .enumerate()
        .map(|(n, point)| {
            let y = if top > 0.0 { value(point) / top } else { 0.0 };
            format!("{:.1},{:.1}", start + step * n as f64, height - 1.5 - y * (height - 3.0))
        })
        .collect();
    let label = format!(
        "{label}: {} at most in the last hour",
        if top < 10.0 { format!("{top:.1}") } else { number(top as i64) }
    );
    html! {
        svg.plot viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="img" aria-label=(label) {
            title { (label) }
            @if history.len() > 1 {
                polygon.area points={ (format!("{start:.1},{height}")) " " (points.join(" ")) " " (format!("{width},{height}")) } {}
                polyline.line points=(points.join(" ")) {}
            } @else {
                line.line x1="0" y1=(height - 1.5) x2=(width) y2=(height - 1.5) {}
            }
        }
    }
}

/// A note in place of what cannot be shown.
pub fn notice(kind: &str, title: &str, detail: Option<&str>, hint: Option<&str>) -> Markup {
    html! {
        div.notice.(kind) role=(if kind == "error" { "alert" } else { "status" }) {
            p { strong { (title) } }
            @if let Some(detail) = detail { p { (detail) } }
            @if let Some(hint) = hint { p.hint { (hint) } }
        }
    }
}

pub const DOCTYPE: PreEscaped<&str> = PreEscaped("<!doctype html>");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact() {
        assert_eq!(number(0), "0");
        assert_eq!(number(-1234), "-1,234");
        assert_eq!(number(i64::MAX), "9,223,372,036,854,775,807");
    }

    #[test]
    fn times_are_read_in_each_form() {
        for (text, seconds) in [
            ("1970-01-01 00:00:00+00", 0.0),
            ("2026-11-25T15:07:14.5Z", 1_795_619_234.5),
            ("2026-11-25 17:07:14.5+02", 1_795_619_234.5),
            ("2026-11-25T09:37:14.5-05:30", 1_795_619_234.5),
            ("2000-02-29 00:00:00+00", 951_782_400.0),
            ("1969-12-31 23:59:59Z", -1.0),
        ] {
            assert_eq!(epoch(text), Some(seconds), "{text}");
        }
        for text in ["", "infinity", "2026-11-25", "now T"] {
            assert_eq!(epoch(text), None, "{text}");
        }
    }

    #[test]
    fn what_goes_into_a_url_is_encoded() {
        assert_eq!(query(&[("a", "x&y=ü"), ("b", "")]), "?a=x%26y%3D%C3%BC");
        assert_eq!(query(&[("b", "")]), "");
    }
}
