//! Load that pgbench cannot make: binary parameters, workers that wait, listeners.
//!
//! driver CONNECTION work CLIENTS SECONDS SIZE: owns tasks of the queue `bench` and returns them,
//! SIZE at a time. Prints how many transactions were made, and how many per second. driver
//! CONNECTION joined CLIENTS SECONDS SIZE: the same, returning and owning the next in one
//! statement. driver CONNECTION worker CONCURRENCY SECONDS: the worker of clients/rust, whose
//! handler does nothing. Prints how many tasks were returned per second, and how many in all.
//! driver CONNECTION submit CLIENTS SECONDS SIZE: submits SIZE tasks at a time. Prints the same.
//! driver CONNECTION wake-cancel N: how long after a cancel its worker's wait_for_event returns
//! driver CONNECTION wake-work|wake-notify N: how long after a submission a worker hears of it, N
//! times. Prints the median, the 99th percentile and the maximum, in milliseconds. driver
//! CONNECTION listen N: N sessions that listen, until the standard input ends.

mod connection;
mod load;
mod wake;
mod worker;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let numbers: Vec<usize> = words.iter().skip(2).filter_map(|word| word.parse().ok()).collect();
    match (words.as_slice(), numbers.as_slice()) {
        ([to, "work", ..], [clients, seconds, size]) => {
            load::run(to, *clients, *seconds, *size, load::work)
        }
        ([to, "joined", ..], [clients, seconds, size]) => {
            load::run(to, *clients, *seconds, *size, load::joined)
        }
        ([to, "worker", ..], [concurrency, seconds]) => worker::run(to, *concurrency, *seconds),
        ([to, "submit", ..], [clients, seconds, size]) => {
            load::run(to, *clients, *seconds, *size, load::submit)
        }
        ([to, "wake-work", ..], [count]) if *count > 0 => wake::by_waiting(to, *count),
        ([to, "wake-notify", ..], [count]) if *count > 0 => wake::by_notification(to, *count),
        ([to, "wake-cancel", ..], [count]) if *count > 0 => wake::by_cancelling(to, *count),
        ([to, "listen", ..], [count]) => wake::listen(to, *count),
        _ => {
            eprintln!(
                "driver CONNECTION work|joined|submit CLIENTS SECONDS SIZE, worker CONCURRENCY SECONDS, or \
                 wake-work|wake-notify|wake-cancel|listen N"
            );
            std::process::exit(2);
        }
    }
}
