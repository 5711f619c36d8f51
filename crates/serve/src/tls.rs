//! TLS: a listener that yields connections whose handshake is complete. Handshakes run beside each other, at most
//! [`HANDSHAKES`] at a time and for a limited time, so clients that never finish one do not keep others out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes at a time.
const HANDSHAKES: usize = 256;

/// The time for a handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// A listener for TLS.
pub struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    /// Accepts connections until it is dropped; must be called inside the runtime.
    pub fn new(listener: TcpListener, config: Arc<ServerConfig>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(HANDSHAKES);
        let acceptor = TlsAcceptor::from(config);
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = accept(&listener, &acceptor, &sender) => {}
            }
        });
        Ok(Self { address, ready })
    }
}

async fn accept(
    listener: &TcpListener,
    acceptor: &TlsAcceptor,
    sender: &mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let place = places.clone().acquire_owned().await;
        let Ok((stream, from)) = listener.accept().await else {
            // Too many open files, for example: others have to end first.
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let (handshake, sender) = (acceptor.accept(stream), sender.clone());
        tokio::spawn(async move {
            if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, handshake).await {
                // Nobody takes it if the server ends.
                let _ = sender.send((stream, from)).await;
            }
            drop(place);
        });
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(pair) => pair,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
