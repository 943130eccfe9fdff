//! The final state of the tasks, checked against the files.

use std::{collections::HashMap, path::Path, time::SystemTime};

use scylla_pg::{tokio_postgres::Client, uuid::Uuid};

use crate::{
    checksum::{Checksum, checksum},
    options::{QUEUE, Result},
    progress::{end_line, per_second, status_counts},
};

/// How many results are computed again.
const SAMPLE: usize = 200;

pub struct Outcome {
    /// The path of each task.
    pub submitted: HashMap<Uuid, String>,
    pub started: SystemTime,
    /// The worker that was killed.
    pub killed: Option<String>,
}

pub async fn report(client: &Client, outcome: &Outcome) -> Result<()> {
    end_line();
    let last = client
        .query_one("select max(updated) from scylla.tasks where queue = $1", &[&QUEUE])
        .await?;
    let time = last.get::<_, SystemTime>(0).duration_since(outcome.started)?;
    let counts = status_counts(client).await?;
    let counts: Vec<_> = counts.iter().map(|(status, count)| format!("{status} {count}")).collect();
    println!("== by status: {}", counts.join(", "));
    let total = outcome.submitted.len();
    println!(
        "== {total} tasks in {:.1} s: {} tasks/s",
        time.as_secs_f64(),
        per_second(total, time)
    );

    let rescued = rescued(client, outcome.killed.as_deref()).await?;
    check(client, &outcome.submitted).await?;
    print_entries(client, rescued).await
}

/// Checks that other workers completed the killed worker's tasks; returns one of these.
async fn rescued(client: &Client, killed: Option<&str>) -> Result<Option<Uuid>> {
    let Some(killed) = killed else {
        println!("== no worker was killed: too few files");
        return Ok(None);
    };
    let rows = client
        .query(
            "select id, status = 'completed' and owner <> $2 from scylla.tasks \
         where queue = $1 and history @> \
             jsonb_build_array(jsonb_build_object('_typ', 'TaskTimeout', 'worker', $2::text))",
            &[&QUEUE, &killed],
        )
        .await?;
    let done = rows.iter().filter(|row| row.get::<_, Option<bool>>(1) == Some(true)).count();
    println!(
        "== {} tasks had been taken by {killed}; {done} of them were done by others",
        rows.len()
    );
    if rows.is_empty() || done != rows.len() {
        return Err("tasks of the killed worker were not done by others".into());
    }
    Ok(Some(rows[0].get(0)))
}

/// Every file's task is completed, and a sample of the results is right.
async fn check(client: &Client, submitted: &HashMap<Uuid, String>) -> Result<()> {
    let rows = client
        .query(
            "select id, status, result ->> 'sha256', (result ->> 'size')::bigint \
         from scylla.tasks where queue = $1",
            &[&QUEUE],
        )
        .await?;
    let step = (rows.len() / SAMPLE).max(1);
    let (mut found, mut sampled) = (0, 0);
    for (number, row) in rows.iter().enumerate() {
        let (id, status): (Uuid, &str) = (row.get(0), row.get(1));
        let path =
            submitted.get(&id).ok_or_else(|| format!("task {id} was not submitted by this job"))?;
        if status != "completed" {
            return Err(format!("the task of {path} is {status}").into());
        }
        found += 1;
        if number % step == 0 {
            let result = Checksum { sha256: row.get(2), size: row.get(3) };
            if checksum(Path::new(path), || true)? != Some(result) {
                return Err(format!("the result for {path} is wrong").into());
            }
            sampled += 1;
        }
    }
    if found != submitted.len() {
        return Err(format!("{} tasks are lost", submitted.len() - found).into());
    }
    println!(
        "== every file's task is completed, none lost; {sampled} results computed again: right"
    );
    Ok(())
}

/// Prints three entries of settled tasks, including one that the killed worker had leased.
async fn print_entries(client: &Client, rescued: Option<Uuid>) -> Result<()> {
    let others = 3 - rescued.iter().len() as i64;
    let rows = client
        .query(
            "select id from scylla.tasks where queue = $1 and id is distinct from $2 limit $3",
            &[&QUEUE, &rescued, &others],
        )
        .await?;
    for id in rescued.into_iter().chain(rows.iter().map(|row| row.get(0))) {
        let entry = client.query_one("select jsonb_pretty(scylla.task($1))", &[&id]).await?;
        let note = if rescued == Some(id) { ", which the killed worker had held" } else { "" };
        println!("== scylla.task('{id}'){note}\n{}", entry.get::<_, &str>(0));
    }
    Ok(())
}
