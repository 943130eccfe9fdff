//! A process of the server, as the operating system knows it.

use crate::Server;

/// How often a process has slept.
pub fn sleeps(pid: i32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process");
    let line = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a count").trim().parse().expect("a number")
}

/// The processor time that a process has used, in ticks of 10 ms.
pub fn processor_time(pid: i32) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields[11..13].iter().map(|it| it.parse::<i64>().expect("a number")).sum()
}

/// The memory that a process has of its own, in kB; `None` when it has ended.
pub fn own_memory(pid: i32) -> Option<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim_end_matches("kB").trim().parse().ok()
}

/// Lets a process take only so many more bytes than it has now. It is stopped meanwhile: one that
/// grew after it was measured would be above its limit already, and could not even report an error.
pub fn spare_memory(pid: i32, bytes: u64) {
    run(&["kill", "-STOP", &pid.to_string()]);
    let status = loop {
        let path = format!("/proc/{pid}/status");
        let status = std::fs::read_to_string(path).expect("the process");
        if status.lines().any(|line| line.starts_with("State:\tT")) {
            break status;
        }
        std::thread::yield_now();
    };
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("VmSize");
    let kilobytes: u64 = line.trim_end_matches("kB").trim().parse().expect("a number");
    limit_memory(pid, &(kilobytes * 1024 + bytes).to_string());
    run(&["kill", "-CONT", &pid.to_string()]);
}

/// Limits the address space of a process.
pub fn limit_memory(pid: i32, bytes: &str) {
    run(&["prlimit", "--pid", &pid.to_string(), &format!("--as={bytes}:")]);
}

/// As the server's own user.
fn run(command: &[&str]) {
    let mut child = Server::spawn(command[0], &command[1..]);
    assert!(child.wait().expect("its end").success(), "{command:?}");
}
