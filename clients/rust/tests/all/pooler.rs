//! Through PgBouncer in transaction mode: the client prepares no named statement.

use std::{
    env, fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use scylla_pg::{Client, HandlerError, NewTask, NewTasks, Task, Worker};
use tokio::net::TcpListener;

use crate::server::{folder, kill, millis, queue, repository, serve, shared, until};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_and_a_client_behind_pgbouncer() {
    let program = env::var("SCYLLA_PGBOUNCER").expect("run the tests by clients/rust/test");
    let server = shared();
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let folder = folder("pooler");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let config = folder.join("pgbouncer.ini");
    let (to, user) = (server.port, &server.user);
    // as before 1.21, prepared statements are not followed
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={to} user={user}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 6\n"
    );
    fs::write(&config, text).unwrap();
    let pooler = Pooler(
        Command::new(repository().join("scripts/pg"))
            .args(["run-as-server", &program])
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // it is a child of the script
            .spawn()
            .unwrap(),
    );
    let mut pooled = server.clone_address();
    pooled.port = port;
    let client = Client::connect(pooled.connector());
    until("the pooler is there", async || client.about().await.ok()).await;

    let queue = queue();
    let heard = Arc::new(Mutex::new(vec![]));
    let hearing = heard.clone();
    client.submit_many(NewTasks::new(&queue, 0..1_000).action("work")).await.unwrap();
    let builder = Worker::builder(pooled.connector())
        .queue(&queue)
        .concurrency(8)
        .lease(Duration::from_secs(5));
    let builder = builder.grace(Duration::ZERO);
    let serving = serve(
        builder
            .handler("work", async |task: Task<i32>| {
                tokio::time::sleep(millis(2)).await;
                Ok::<_, HandlerError>(task.spec)
            })
            .handler("sleep", move |task: Task<i32>| {
                let hearing = hearing.clone();
                async move {
                    let cause = task.stopped().await;
                    hearing.lock().unwrap().push(cause);
                    Err::<(), HandlerError>(cause.into())
                }
            }),
    );
    serving.until("all have run", |stats| stats.completed == 1_000).await;
    let id = client.submit(NewTask::new(&queue, 7).action("work").post_result()).await.unwrap();
    assert_eq!(client.result::<i32>(id, SOON).await.unwrap(), 7);
    let id = client.submit(NewTask::new(&queue, 1).action("sleep")).await.unwrap();
    serving.until("it runs", |stats| stats.owned == 1_002).await;
    client.cancel(id).await.unwrap();
    serving.until("it is stopped", |stats| stats.cancelled == 1).await;
    assert_eq!(heard.lock().unwrap().len(), 1);
    let stats = serving.stop().await;
    assert_eq!((stats.completed, stats.lost, stats.reconnects), (1_001, 0, 0));
    drop(pooler);
}

struct Pooler(Child);

impl Drop for Pooler {
    fn drop(&mut self) {
        // from 1.23 on, PgBouncer waits for its clients at SIGTERM
        kill(-(self.0.id() as i32), "KILL");
        let _ = self.0.wait();
    }
}
