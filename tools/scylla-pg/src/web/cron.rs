//! Schedules in plain words.

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// What an expression means, where that is short to say.
pub fn in_words(expression: &str) -> Option<String> {
    let text = expression.trim().to_lowercase();
    let named = match text.as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        other => other,
    };
    if named.starts_with("every ") {
        return Some(named.to_owned());
    }
    let fields: Vec<&str> = named.split_whitespace().collect();
    let fields = match fields.as_slice() {
        ["0", rest @ ..] if rest.len() == 5 => rest,
        rest if rest.len() == 5 => rest,
        _ => return None,
    };
    let &[minute, hour, day, month, weekday] = fields else { return None };
    let number = |text: &str, end: u32| text.parse::<u32>().ok().filter(|it| *it < end);
    let step = |text: &str| text.strip_prefix("*/").and_then(|it| it.parse::<u32>().ok());
    let on = match (day, month, weekday) {
        ("*", "*", "*") => "every day".to_owned(),
        ("*", "*", "1-5" | "mon-fri") => "Monday to Friday".to_owned(),
        ("*", "*", days) => {
            let names: Option<Vec<&str>> = days.split(',').map(weekday_name).collect();
            format!("on {}", names?.join(", "))
        }
        (day, "*", "*") => format!("on day {} of each month", number(day, 32)?),
        _ => return None,
    };
    let every_day = on == "every day";
    let at = match (minute, hour) {
        ("*", "*") => "every minute".to_owned(),
        (minute, "*") if step(minute).is_some() => format!("every {} minutes", step(minute)?),
        (minute, "*") => format!("every hour at {} past", number(minute, 60)?),
        ("0", hour) if step(hour).is_some() => format!("every {} hours", step(hour)?),
        (minute, hour) => {
            let time = format!("at {:02}:{:02}", number(hour, 24)?, number(minute, 60)?);
            return Some(format!("{on} {time}"));
        }
    };
    Some(if every_day { at } else { format!("{at}, {on}") })
}

fn weekday_name(text: &str) -> Option<&'static str> {
    let by_number = text.parse::<usize>().ok().filter(|it| *it <= 7).map(|it| DAYS[it % 7]);
    by_number.or_else(|| {
        DAYS.iter().find(|day| text.len() == 3 && day.to_lowercase().starts_with(text)).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn common_expressions_are_said_in_words() {
        for (expression, words) in [
            ("* * * * *", "every minute"),
            ("*/5 * * * *", "every 5 minutes"),
            ("7 * * * *", "every hour at 7 past"),
            ("0 */6 * * *", "every 6 hours"),
            ("30 9 * * *", "every day at 09:30"),
            ("0 30 9 * * *", "every day at 09:30"),
            ("30 9 * * 1-5", "Monday to Friday at 09:30"),
            ("0 0 * * sun,3", "on Sunday, Wednesday at 00:00"),
            ("*/10 * * * 7", "every 10 minutes, on Sunday"),
            ("0 4 1 * *", "on day 1 of each month at 04:00"),
            ("@daily", "every day at 00:00"),
            ("every 30 seconds", "every 30 seconds"),
        ] {
            assert_eq!(in_words(expression).as_deref(), Some(words), "{expression}");
        }
        for other in ["1,2 * * * *", "0 0 1 1 *", "*/5 * * * * *", "0 25 * * *", "x", ""] {
            assert_eq!(in_words(other), None, "{other}");
        }
    }
}
