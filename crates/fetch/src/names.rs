//! How the addresses of a host are found.

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// Addresses of a host, asked of whoever the configuration names.
pub trait Lookup: Send + Sync {
    /// All addresses of `host`, in the order in which they are tried.
    fn lookup(&self, host: &str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

/// Who is asked for addresses.
#[derive(Clone, Default)]
pub enum Names {
    /// The system, by `getaddrinfo` in a thread of its own.
    #[default]
    System,
    /// Name servers of the configuration.
    Asked(Arc<dyn Lookup>),
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "System",
            Self::Asked(_) => "Asked",
        })
    }
}

type Addresses = std::vec::IntoIter<SocketAddr>;

impl Service<Name> for Names {
    type Response = Addresses;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Addresses>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        match self {
            Self::System => {
                let found = GaiResolver::new().call(name);
                Box::pin(async move { Ok(found.await?.collect::<Vec<_>>().into_iter()) })
            }
            Self::Asked(names) => {
                let found = names.lookup(name.as_str());
                Box::pin(async move {
                    // The connector sets the port.
                    let all: Vec<_> = found.await?.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
                    Ok(all.into_iter())
                })
            }
        }
    }
}
