//! Where browsers connect to, with TLS or without.

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
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// How long a browser may take for the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Who has connected.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    pub tls: bool,
}

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

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
pub fn accept(listener: TcpListener, tls: Option<TlsAcceptor>) -> io::Result<Connections> {
    let address = listener.local_addr()?;
    let (sender, ready) = mpsc::channel(16);
    tokio::spawn(async move {
        loop {
            let Ok((stream, address)) = listener.accept().await else {
                // Out of files, most likely.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
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
