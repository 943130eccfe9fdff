//! The text that Prometheus reads.

use super::collect::{EVENTS, Histogram, Queue, Snapshot};
use std::fmt::{Display, Write};
use std::time::Duration;

/// The bounds that are told of the server's 31: each from 1 ms to 65 s, and every second one to 4.7
/// hours.
const BOUNDS: [usize; 21] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24];

const STATES: [&str; 3] = ["waiting", "ready", "running"];
const LIMITS: [&str; 4] = ["max_running", "max_per_second", "max_ready", "max_running_per_group"];

const EVENT_HELP: [&str; 9] = [
    "Tasks that were submitted.",
    "Ownerships that began.",
    "Tasks that were completed.",
    "Tasks that were aborted.",
    "Tasks that were cancelled.",
    "Ownerships that ended with a retry.",
    "Ownerships that workers gave back by yield.",
    "Leases that expired.",
    "Tasks that became ready when their time came.",
];

/// None: the database does not answer.
pub fn text(snapshot: Option<&Snapshot>, took: Duration) -> String {
    let mut page = Page(String::new());
    let up = u8::from(snapshot.is_some());
    page.gauge("scylla_up", "Whether the database answered with the numbers of scylla.", up);
    let took = took.as_secs_f64();
    page.gauge("scylla_scrape_duration_seconds", "How long it took to get the numbers.", took);
    if let Some(snapshot) = snapshot {
        page.server(snapshot);
        page.queues(&snapshot.queues);
        page.schedules(snapshot);
    }
    page.0
}

/// A label's name and value, as they are written.
fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('\n', r"\n").replace('"', "\\\"");
    format!("{name}=\"{value}\"")
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[&str], value: impl Display) {
        self.0.push_str(name);
        for (n, label) in labels.iter().enumerate() {
            self.0.push(if n == 0 { '{' } else { ',' });
            self.0.push_str(label);
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn server(&mut self, snapshot: &Snapshot) {
        let server = &snapshot.server;
        self.family("scylla_info", "gauge", "The versions of the server's library.");
        let version = label("version", &snapshot.version);
        let protocol = label("protocol", &snapshot.protocol.to_string());
        self.sample("scylla_info", &[&version, &protocol], 1);
        if !server.standby {
            let help = "Whether the database hands out tasks.";
            self.gauge("scylla_open", help, u8::from(server.open));
            let help = "Whether a scheduler serves the database.";
            self.gauge("scylla_scheduler_up", help, u8::from(server.scheduled));
            if let Some(lag) = server.lag {
                self.gauge("scylla_scheduler_lag_seconds", "How late the scheduler is.", lag);
            }
            let help = "For how long the oldest task is due that has not fired.";
            self.gauge("scylla_oldest_due_seconds", help, server.due);
        }
        let queued = (server.board_used - server.leased).max(0);
        let free = (server.board_size - server.board_used).max(0);
        let name = "scylla_board_slots";
        self.family(name, "gauge", "The slots of the board, for all databases of the server.");
        for (state, slots) in [("leased", server.leased), ("queued", queued), ("free", free)] {
            self.sample(name, &[&label("state", state)], slots);
        }
        let name = "scylla_board_lanes";
        self.family(name, "gauge", "The lanes of the board, for all databases of the server.");
        let free = (server.lanes - server.lanes_used).max(0);
        for (state, lanes) in [("used", server.lanes_used), ("free", free)] {
            self.sample(name, &[&label("state", state)], lanes);
        }
        if let Some(transactions) = server.xmin_transactions {
            let help = "How many transactions ago the oldest one began that keeps dead rows.";
            self.gauge("scylla_xmin_age_transactions", help, transactions);
        }
        if let Some(seconds) = server.xmin_seconds {
            let help = "The age of the oldest transaction of this database that keeps dead rows.";
            self.gauge("scylla_xmin_age_seconds", help, seconds);
        }
    }

    fn queues(&mut self, queues: &[Queue]) {
        let labels: Vec<_> = queues.iter().map(|queue| label("queue", &queue.name)).collect();
        let with_labels = || queues.iter().zip(&labels);

        self.family("scylla_tasks", "gauge", "The unfinished tasks.");
        for (queue, label_) in with_labels() {
            for (state, tasks) in STATES.iter().zip(queue.tasks) {
                if let Some(tasks) = tasks {
                    self.sample("scylla_tasks", &[label_, &label("state", state)], tasks);
                }
            }
        }
        let name = "scylla_oldest_ready_seconds";
        self.family(name, "gauge", "How long the oldest ready task has waited for a worker.");
        for (queue, label) in with_labels().filter(|(queue, _)| queue.tasks[1].is_some()) {
            self.sample(name, &[label], queue.oldest_ready.unwrap_or(0.0).max(0.0));
        }
        let name = "scylla_queue_paused";
        self.family(name, "gauge", "Whether the queue is paused.");
        for (queue, label) in with_labels() {
            self.sample(name, &[label], u8::from(queue.paused));
        }
        let name = "scylla_workers";
        self.family(name, "gauge", "Workers that have tasks or called within the last minute.");
        for (queue, label) in with_labels() {
            self.sample(name, &[label], queue.workers);
        }
        self.family("scylla_limit", "gauge", "The limits of the queue.");
        for (queue, label_) in with_labels() {
            for (kind, limit) in LIMITS.iter().zip(queue.limits) {
                if let Some(limit) = limit {
                    self.sample("scylla_limit", &[label_, &label("kind", kind)], limit);
                }
            }
        }

        let counted: Vec<_> = with_labels()
            .filter_map(|(queue, label)| Some((queue.counters.as_ref()?, label.as_str())))
            .collect();
        for (n, (event, help)) in EVENTS.iter().zip(EVENT_HELP).enumerate() {
            let name = format!("scylla_tasks_{event}_total");
            self.family(&name, "counter", help);
            for (counters, label) in &counted {
                self.sample(&name, &[label], counters.events[n]);
            }
        }
        let help = "How long tasks were ready before a worker owned them.";
        let waited = counted.iter().map(|(counters, label)| (&counters.ready_to_owned, *label));
        self.histograms("scylla_ready_to_owned_seconds", help, waited);
        let help = "How long the last ownership of settled tasks took.";
        let ran = counted.iter().map(|(counters, label)| (&counters.owned_to_settled, *label));
        self.histograms("scylla_owned_to_settled_seconds", help, ran);
    }

    fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        histograms: impl Iterator<Item = (&'a Histogram, &'a str)>,
    ) {
        self.family(name, "histogram", help);
        let [bucket, sum, count] = ["bucket", "sum", "count"].map(|part| format!("{name}_{part}"));
        let bounds = BOUNDS.map(|n| (n, label("le", &((1_u64 << n) as f64 / 1000.0).to_string())));
        for (histogram, label_) in histograms {
            let (mut total, mut next) = (0, 0);
            for (bound, le) in &bounds {
                total += histogram.counts[next..=*bound].iter().sum::<i64>();
                next = bound + 1;
                self.sample(&bucket, &[label_, le], total);
            }
            total += histogram.counts[next..].iter().sum::<i64>();
            self.sample(&bucket, &[label_, "le=\"+Inf\""], total);
            self.sample(&sum, &[label_], histogram.sum);
            self.sample(&count, &[label_], total);
        }
    }

    fn schedules(&mut self, snapshot: &Snapshot) {
        let schedules = &snapshot.schedules;
        let labels: Vec<_> = schedules.iter().map(|it| label("schedule", &it.name)).collect();
        let name = "scylla_schedule_next_run_timestamp_seconds";
        self.family(name, "gauge", "When the schedule runs next.");
        for (schedule, label) in schedules.iter().zip(&labels) {
            if let Some(next) = schedule.next {
                self.sample(name, &[label], next);
            }
        }
        let name = "scylla_schedule_skipped_total";
        self.family(name, "counter", "Runs of the schedule that were skipped.");
        for (schedule, label) in schedules.iter().zip(&labels) {
            self.sample(name, &[label], schedule.skipped);
        }
        let name = "scylla_names_omitted";
        self.family(name, "gauge", "Queues and schedules beyond --max-names.");
        let omitted =
            [("queue", snapshot.queues_omitted), ("schedule", snapshot.schedules_omitted)];
        for (kind, omitted) in omitted {
            self.sample(name, &[&label("kind", kind)], omitted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn values_of_labels_are_escaped() {
        let value = "a \"b\"\\n\nc\r\u{e9}";
        assert_eq!(label("queue", value), "queue=\"a \\\"b\\\"\\\\n\\nc\r\u{e9}\"");
    }
}
