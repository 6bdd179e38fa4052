//! `weir load serve`, `weir load agent` and `weir load hold`.
//!
//! Owns: their words. Never: serves or runs; `weir_loadgen` does.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use weir_loadgen::agent::{AgentOptions, Agents, PORT};
use weir_loadgen::hold::Held;
use weir_loadgen::serve::{ServeOptions, Server};
use weir_loadgen::{Options, TlsVersion, units};

use super::values::{IoWord, TlsWord};

pub(super) const SERVE_HELP: &str = "\
Pages are named by their sizes: /1k, /1024 and /1k.bin are the page of 1,024 bytes; / is the
first. Requests may have bodies. Ctrl-C ends it.

Examples:
  weir load serve --http 127.0.0.1:8080
  weir load serve --http 0.0.0.0:80 --https 0.0.0.0:443 --echo 0.0.0.0:7 --threads 4
  weir load serve --http 127.0.0.1:8080 --sizes 128,10k --delay 5ms --errors 1% --closes 0.1%";

pub(super) const AGENT_HELP: &str = "\
The token is a secret of eight characters or more that leader and agents share; it never travels.
Who knows it can make this machine send load anywhere, so agents listen on loopback unless told
otherwise. What is measured travels in clear.

Examples:
  export WEIR_LOAD_TOKEN=$(head -c12 /dev/urandom | base64)
  weir load agent --listen 10.0.0.1:9190                      on each machine
  weir load -c400 -R40k --agents 10.0.0.1,10.0.0.2 https://host/   on any";

pub(super) const HOLD_HELP: &str = "\
Prints `holding N connections` once each has had its answer. What the server needs more by then is
what idle connections cost it.

Examples:
  weir load hold -c8000 http://127.0.0.1:8080/0
  weir load hold -c100 https://host/ < /dev/null              opens, uses and closes them";

/// Servers to be loaded.
#[derive(Args)]
pub(super) struct Serve {
    /// Sizes of the pages.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = units::size, default_value = "0,128,1k,10k,100k,1m,10m")]
    sizes: Vec<u64>,
    /// An address for HTTP/1.1 and h2c; may be repeated [default: 127.0.0.1:8080, if no other address is given]
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    http: Vec<SocketAddr>,
    /// An address for HTTPS, with HTTP/1.1 or HTTP/2; may be repeated.
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    https: Vec<SocketAddr>,
    /// An address that sends back what it receives; may be repeated.
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    echo: Vec<SocketAddr>,
    /// Threads.
    #[arg(short, long, value_name = "N", default_value = "1")]
    threads: u32,
    /// How long each answer is held back.
    #[arg(long, value_name = "T", value_parser = units::time, default_value = "0")]
    delay: Duration,
    /// Share of requests that are answered 503, such as 1%.
    #[arg(long, value_name = "SHARE", value_parser = units::share, default_value = "0")]
    errors: f64,
    /// Share of answers after which the connection is closed.
    #[arg(long, value_name = "SHARE", value_parser = units::share, default_value = "0")]
    closes: f64,
    /// Certificate chain, PEM [default: a self-signed one for P-256]
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// How sockets are driven.
    #[arg(long, value_enum, env = "WEIR_IO", default_value = "auto")]
    io: IoWord,
}

/// A machine that takes part.
#[derive(Args)]
pub(super) struct Agent {
    /// Where orders are taken.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT)))]
    listen: SocketAddr,
    /// The secret that orders are proved by.
    #[arg(long, env = "WEIR_LOAD_TOKEN", hide_env_values = true, value_name = "WORD")]
    token: String,
    /// Take orders with Lua scripts, which can read and write files here.
    #[arg(long)]
    allow_scripts: bool,
}

/// Idle clients.
#[derive(Args)]
pub(super) struct Hold {
    /// What each connection asks for once: `http://…` or `https://…`.
    #[arg(value_name = "URL")]
    url: String,
    /// Connections.
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    connections: u32,
    /// What connecting and the answer may take, of each.
    #[arg(long, value_name = "T", value_parser = units::time, default_value = "10s")]
    timeout: Duration,
    /// The only TLS version.
    #[arg(long, value_name = "VERSION", value_enum)]
    tls: Option<TlsWord>,
    /// How sockets are driven.
    #[arg(long, value_enum, env = "WEIR_IO", default_value = "auto")]
    io: IoWord,
}

/// Serves for ever.
pub(super) fn serve(words: Serve) -> Result<(), String> {
    let none = words.http.is_empty() && words.https.is_empty() && words.echo.is_empty();
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let certificate = match (&words.cert, &words.key) {
        (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
        _ => None,
    };
    let server = Server::start(ServeOptions {
        http: if none { vec![SocketAddr::from(([127, 0, 0, 1], 8080))] } else { words.http },
        https: words.https,
        echo: words.echo,
        sizes: words.sizes,
        threads: words.threads,
        delay: words.delay,
        error_rate: words.errors,
        close_rate: words.closes,
        certificate,
        io: words.io.into(),
    })?;
    for (scheme, addrs) in [("http", &server.http), ("https", &server.https), ("tcp", &server.echo)] {
        for addr in addrs {
            outln!("serving {scheme}://{addr}");
        }
    }
    server.wait();
    Ok(())
}

/// Takes orders for ever.
pub(super) fn agent(words: Agent) -> Result<(), String> {
    let agents = Agents::bind(AgentOptions {
        listen: words.listen,
        token: words.token,
        scripts: words.allow_scripts,
    })?;
    let address = agents.address().map_err(|error| error.to_string())?;
    outln!("waiting on {address}");
    agents.serve(|line| outln!("{line}"));
    Ok(())
}

/// Holds connections until standard input ends.
pub(super) fn hold(words: Hold) -> Result<(), String> {
    let held = Held::open(Options {
        urls: vec![words.url],
        connections: words.connections,
        timeout: words.timeout,
        tls_version: words.tls.map(TlsVersion::from),
        io: words.io.into(),
        ..Options::default()
    })?;
    outln!("holding {} connections", held.connections);
    // Whatever is written there, only its end counts.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map_err(|error| error.to_string())?;
    drop(held);
    Ok(())
}
