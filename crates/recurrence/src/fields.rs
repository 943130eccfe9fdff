//! The fields of a cron expression, checked before the crate that reads them sees them: it replaces
//! the names of months and weekdays wherever they occur, and passes over empty elements of a list.

use std::fmt;

/// Why an expression is refused: a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Refuses with a sentence.
pub fn invalid<T>(sentence: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid(sentence.into()))
}

/// What a field may contain.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// The names of its values, the least first.
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const DAY: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const WEEKDAY: Field = Field { name: "day of week", least: 0, most: 7, names: &WEEKDAYS };
const FIELDS: [Field; 6] = [
    Field { name: "second", least: 0, most: 59, names: &[] },
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    DAY,
    Field { name: "month", least: 1, most: 12, names: &MONTHS },
    WEEKDAY,
];

/// Words for common expressions.
const NICKNAMES: [(&str, &str); 7] = [
    ("@YEARLY", "0 0 1 1 *"),
    ("@ANNUALLY", "0 0 1 1 *"),
    ("@MONTHLY", "0 0 1 * *"),
    ("@WEEKLY", "0 0 * * 0"),
    ("@DAILY", "0 0 * * *"),
    ("@MIDNIGHT", "0 0 * * *"),
    ("@HOURLY", "0 * * * *"),
];
const KNOWN_NICKNAMES: &str =
    "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @reboot and @restart";

/// The six fields of an expression, seconds first, with numbers for names.
pub fn fields(text: &str) -> Result<[String; 6], Invalid> {
    let text = text.trim().to_ascii_uppercase();
    let text = match NICKNAMES.iter().find(|(name, _)| *name == text) {
        Some((_, fields)) => fields,
        None if text.starts_with('@') => {
            let text = text.to_ascii_lowercase();
            return invalid(format!("\"{text}\" is not one of {KNOWN_NICKNAMES}."));
        }
        None => text.as_str(),
    };
    let mut parts: Vec<&str> = text.split_ascii_whitespace().collect();
    let count = parts.len();
    if count == 5 {
        parts.insert(0, "0");
    }
    let Ok(parts) = <[&str; 6]>::try_from(parts) else {
        return invalid(format!("A cron expression has five or six fields, not {count}."));
    };
    let mut fields = <[String; 6]>::default();
    for ((to, field), part) in fields.iter_mut().zip(&FIELDS).zip(parts) {
        *to = field.read(part)?;
    }
    Ok(fields)
}

/// Whether a day field restricts nothing, as cron sees it: it begins with a star.
pub fn is_star(field: &str) -> bool {
    field.starts_with('*')
}

impl Field {
    fn is_day(&self) -> bool {
        self.name == DAY.name
    }

    fn is_weekday(&self) -> bool {
        self.name == WEEKDAY.name
    }

    fn read(&self, text: &str) -> Result<String, Invalid> {
        // As pg_cron writes the last day.
        let text = if text == "$" && self.is_day() { "L" } else { text };
        if text == "?" && (self.is_day() || self.is_weekday()) {
            return Ok(text.to_owned());
        }
        let elements: Vec<&str> = text.split(',').collect();
        if elements.contains(&"L") && elements.contains(&"LW") {
            return invalid("L and LW cannot be in one list.");
        }
        let read: Result<Vec<String>, Invalid> =
            elements.into_iter().map(|element| self.element(element)).collect();
        Ok(read?.join(","))
    }

    fn element(&self, element: &str) -> Result<String, Invalid> {
        if self.is_day() && (element == "L" || element == "LW") {
            return Ok(element.to_owned());
        }
        if self.is_day()
            && let Some(day) = element.strip_suffix('W')
        {
            return Ok(format!("{}W", self.value(day)?));
        }
        if self.is_weekday()
            && let Some(day) = element.strip_suffix('L')
        {
            return Ok(format!("{}L", self.value(day.strip_suffix('#').unwrap_or(day))?));
        }
        if self.is_weekday()
            && let Some((day, number)) = element.split_once('#')
        {
            return match number {
                "1" | "2" | "3" | "4" | "5" => Ok(format!("{}#{number}", self.value(day)?)),
                _ => invalid(format!("\"{element}\" does not name a first to fifth weekday.")),
            };
        }
        let Some((range, step)) = element.split_once('/') else { return self.range(element) };
        match number(step) {
            Some(step @ 1..) if range == "*" || range.contains('-') => {
                Ok(format!("{}/{step}", self.range(range)?))
            }
            _ => invalid(format!("\"{element}\" is no step: it takes the form */n or a-b/n.")),
        }
    }

    /// A star, a value, or a range of values.
    fn range(&self, text: &str) -> Result<String, Invalid> {
        if text == "*" {
            return Ok(text.to_owned());
        }
        let Some((first, last)) = text.split_once('-') else {
            return Ok(self.value(text)?.to_string());
        };
        let (first, mut end) = (self.value(first)?, self.value(last)?);
        // Sunday ends a week as well.
        if self.is_weekday() && last == "SUN" && first > 0 {
            end = 7;
        }
        match first <= end {
            true => Ok(format!("{first}-{end}")),
            false => invalid(format!("The range \"{text}\" ends before it begins.")),
        }
    }

    /// A value, as a number or by its name.
    fn value(&self, text: &str) -> Result<u32, Invalid> {
        let Field { name, least, most, names } = self;
        if let Some(at) = names.iter().position(|name| *name == text) {
            return Ok(least + at as u32);
        }
        match number(text) {
            Some(value) if (*least..=*most).contains(&value) => Ok(value),
            Some(value) => {
                invalid(format!("The field {name} is from {least} to {most}, not {value}."))
            }
            None => invalid(format!("\"{text}\" is not valid in the field {name}.")),
        }
    }
}

/// A short decimal number.
fn number(text: &str) -> Option<u32> {
    let is_short = (1..=4).contains(&text.len());
    (is_short && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}
