//! A proxy between a client and a server: notes statements, and loses answers.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
};

use scylla_pg::{Connector, tokio_postgres::NoTls};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::server::{Server, millis};

#[derive(Default)]
pub struct Seen {
    pub statements: Mutex<Vec<String>>,
    /// The answers to so many statements with `return_many` are lost.
    pub lose: AtomicI32,
    /// How much later statements arrive, in milliseconds.
    pub delay: AtomicUsize,
    /// The prepared statements of the next client that sends one are gone.
    pub forget: AtomicBool,
    open: AtomicUsize,
    pub most_open: AtomicUsize,
}

pub struct Proxy {
    pub seen: Arc<Seen>,
    server: Server,
}

impl Proxy {
    pub async fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let seen = Arc::<Seen>::default();
        let mut proxied = server.clone_address();
        proxied.port = listener.local_addr().unwrap().port();
        let to = (server.host.clone(), server.port);
        let noting = seen.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (to, seen) = (to.clone(), noting.clone());
                tokio::spawn(async move {
                    let open = seen.open.fetch_add(1, Ordering::SeqCst) + 1;
                    seen.most_open.fetch_max(open, Ordering::SeqCst);
                    if let Ok(server) = TcpStream::connect(to).await {
                        let _ = relay(client, server, &seen).await;
                    }
                    seen.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { seen, server: proxied }
    }

    pub fn connector(&self) -> Connector {
        Connector::new(self.server.config(), NoTls)
    }

    pub fn lose(&self, answers: i32) {
        self.seen.lose.store(answers, Ordering::SeqCst);
    }

    /// The names of the functions that were called, in order.
    pub fn calls(&self) -> Vec<String> {
        let called = |sql: &String| sql.split("scylla.").nth(1)?.split('(').next().map(Into::into);
        self.seen.statements.lock().unwrap().iter().filter_map(called).collect()
    }
}

async fn relay(mut client: TcpStream, mut server: TcpStream, seen: &Seen) -> std::io::Result<()> {
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut first = true;
    let mut losing = false;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let bytes = &from_client[..read?];
                if bytes.is_empty() {
                    return Ok(());
                }
                if !std::mem::take(&mut first) {
                    note(bytes, seen);
                    tokio::time::sleep(millis(seen.delay.load(Ordering::SeqCst) as u64)).await;
                    let returns = bytes.windows(11).any(|it| it == b"return_many");
                    losing = losing || returns && seen.lose.fetch_sub(1, Ordering::SeqCst) > 0;
                }
                if bytes[0] == b'B' && seen.forget.swap(false, Ordering::SeqCst) {
                    forget(&mut server).await?;
                }
                server.write_all(bytes).await?;
            }
            read = server.read(&mut from_server) => {
                let bytes = &from_server[..read?];
                if bytes.is_empty() || losing {
                    return Ok(()); // both connections end here
                }
                client.write_all(bytes).await?;
            }
        }
    }
}

/// Drops the prepared statements of a session, behind the back of its client.
async fn forget(server: &mut TcpStream) -> std::io::Result<()> {
    server.write_all(b"Q\0\0\0\x13deallocate all\0").await?;
    let (mut answer, mut buffer) = (vec![], [0; 1024]);
    while !answer.ends_with(b"Z\0\0\0\x05I") {
        let read = server.read(&mut buffer).await?;
        answer.extend_from_slice(&buffer[..read]);
    }
    Ok(())
}

/// Notes the statements of Parse messages, each of which begins what a client sends.
fn note(bytes: &[u8], seen: &Seen) {
    if bytes[0] == b'P' {
        let text = bytes[5..].split(|&byte| byte == 0).nth(1).unwrap_or_default(); // behind its name
        seen.statements.lock().unwrap().push(String::from_utf8_lossy(text).into_owned());
    }
}
