//! Where browsers and scrapers connect to, with TLS or without.

use crate::failure::Failure;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// How long a browser may take for the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How much of the program browsers may take.
#[derive(Clone, Copy)]
pub struct Limits {
    /// A connection on which nothing was written for so long is closed. What is pushed to open
    /// pages is written more often.
    pub patience: Duration,
    /// How many there are at most: fewer than files that a process may open.
    pub connections: usize,
}

pub const LIMITS: Limits = Limits { patience: Duration::from_secs(60), connections: 700 };

/// Who has connected.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    pub tls: bool,
}

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A browser's connection. Who is slow to ask, or to read the answer, keeps no place of others.
struct Patient {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    patience: Duration,
    _place: OwnedSemaphorePermit,
}

impl Patient {
    fn poll_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_end(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            let end = Instant::now() + self.patience;
            self.end.as_mut().reset(end);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Connections that are ready to be read.
pub struct Connections {
    ready: mpsc::Receiver<(Box<dyn Stream>, Peer)>,
    address: SocketAddr,
}

/// The certificate and key of two files.
pub fn tls(cert: &Path, key: &Path) -> Result<TlsAcceptor, Failure> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::usage(format!("could not read \"{}\": {error}", path.display()))
    };
    let certs = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let certs: Vec<_> = certs.map_err(|error| wrong(cert, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|it| it.with_no_client_auth().with_single_cert(certs, private))
        .map_err(|error| wrong(cert, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections. A handshake that is slow delays no other.
pub fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: Limits,
) -> io::Result<Connections> {
    let patience = limits.patience;
    let address = listener.local_addr()?;
    let (sender, ready) = mpsc::channel(16);
    let places = Arc::new(Semaphore::new(limits.connections));
    tokio::spawn(async move {
        while let Ok(place) = places.clone().acquire_owned().await {
            let Ok((stream, address)) = listener.accept().await else {
                // Out of files, most likely.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let end = Box::pin(sleep(patience));
            let stream = Patient { stream, end, patience, _place: place };
            let (sender, tls) = (sender.clone(), tls.clone());
            tokio::spawn(async move {
                let peer = Peer { address, tls: tls.is_some() };
                let stream: Box<dyn Stream> = match tls {
                    None => Box::new(stream),
                    Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
                        Ok(Ok(stream)) => Box::new(stream),
                        _ => return,
                    },
                };
                let _ = sender.send((stream, peer)).await;
            });
        }
    });
    Ok(Connections { ready, address })
}

impl Listener for Connections {
    type Io = Box<dyn Stream>;
    type Addr = Peer;

    async fn accept(&mut self) -> (Self::Io, Peer) {
        match self.ready.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer { address: self.address, tls: false })
    }
}

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Peer {
        stream.remote_addr().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use futures_util::stream;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;
    use std::time::Instant;

    const SHORT: Duration = Duration::from_millis(500);
    const MOST: usize = 5;

    /// Serves an answer that is written bit by bit, for longer than the patience.
    fn serve() -> SocketAddr {
        let (sender, address) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                let limits = Limits { patience: SHORT, connections: MOST };
                let bit = async |n: u32| {
                    sleep(SHORT / 5).await;
                    (n < 15).then_some((Ok::<_, io::Error>("bit"), n + 1))
                };
                let bits = get(async move || Body::from_stream(stream::unfold(0, bit)));
                let connections = accept(listener, None, limits).unwrap();
                axum::serve(connections, Router::new().route("/", bits)).await.unwrap();
            });
        });
        address.recv().unwrap()
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    #[test]
    fn who_is_slow_to_ask_is_left() {
        let address = serve();
        // Silent, and then with a head that does not end.
        let mut silent = connect(address);
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
        let mut slow = connect(address);
        let begun = Instant::now();
        slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        while slow.write_all(b"X: y\r\n").is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is still read");
            thread::sleep(SHORT / 10);
        }
    }

    #[test]
    fn an_answer_may_take_longer() {
        let mut stream = connect(serve());
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text.matches("bit").count(), 15, "{text}");
    }

    /// More than there are places: they are left one after another, and the next are served.
    #[test]
    fn many_idle_connections_end() {
        let address = serve();
        let idle: Vec<_> = (0..4 * MOST).map(|_| connect(address)).collect();
        let mut last = idle.last().unwrap();
        last.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut bytes = [0; 8];
        last.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"HTTP/1.1");
    }
}
