//! Several servers that log lines are shared among (HAProxy's backends in `mode log`).
//!
//! Owns: which of them gets a line.
//! Never: sends a line twice; checks health: a stream that cannot be had is passed over while that is so.
//! Driven by: the writer thread.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use weir_policy::hash::sdbm;

use super::ring::{Ring, RingSpec};
use super::syslog::{SyslogAddress, SyslogSocket};

/// Servers as configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// Name.
    pub name: String,
    /// How one is chosen.
    pub balance: LogBalance,
    /// They.
    pub servers: Vec<PoolServer>,
}

/// How a line's server is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogBalance {
    /// In turn.
    RoundRobin,
    /// Any.
    Random,
    /// The same one as long as it can be had.
    Sticky,
    /// By what these steps leave of a line.
    Hash(Vec<HashStep>),
}

/// What is taken of a line before it is hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HashStep {
    /// What stands between delimiters, at a place that counts from 1, or from the end if negative.
    Field {
        /// The place.
        at: i32,
        /// Each of these bytes is a delimiter.
        delimiters: Vec<u8>,
        /// Empty parts do not count.
        words: bool,
    },
    /// Bytes from a place, so many or all.
    Bytes(usize, Option<usize>),
    /// In lower case.
    Lower,
    /// In upper case.
    Upper,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolServer {
    /// Used only if no other can be had.
    pub backup: bool,
    /// Where it is.
    pub way: PoolWay,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PoolWay {
    /// UDP.
    Udp(SocketAddr),
    /// A unix datagram socket.
    Unix(PathBuf),
    /// A stream, by a ring of its own.
    Stream(RingSpec),
}

#[derive(Debug)]
enum Server {
    Datagrams(SyslogSocket),
    Stream(Arc<Ring>),
}

impl Server {
    fn is_down(&self) -> bool {
        matches!(self, Self::Stream(ring) if ring.is_down())
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Datagrams(socket) => socket.send(message),
            Self::Stream(ring) => {
                ring.write(message.strip_suffix(b"\n").unwrap_or(message));
                Ok(())
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    balance: LogBalance,
    servers: Vec<(bool, Server)>,
    turn: u64,
    stuck: usize,
    random: ahash::RandomState,
}

impl Pool {
    pub(super) fn open(spec: &PoolSpec) -> io::Result<Self> {
        let open = |server: &PoolServer| -> io::Result<(bool, Server)> {
            let way = match &server.way {
                PoolWay::Udp(to) => Server::Datagrams(SyslogSocket::open(&SyslogAddress::Udp(*to))?),
                PoolWay::Unix(path) => {
                    Server::Datagrams(SyslogSocket::open(&SyslogAddress::Unix(path.clone()))?)
                }
                PoolWay::Stream(ring) => Server::Stream(Ring::start(ring.clone())?),
            };
            Ok((server.backup, way))
        };
        Ok(Self {
            balance: spec.balance.clone(),
            servers: spec.servers.iter().map(open).collect::<io::Result<_>>()?,
            turn: 0,
            stuck: 0,
            random: ahash::RandomState::new(),
        })
    }

    /// Sends a message, whose text begins behind its head.
    pub(super) fn send(&mut self, message: &[u8], head: usize) -> io::Result<()> {
        let text = message.get(head..).unwrap_or_default();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let up = |backup: bool| {
            let servers = self.servers.iter().enumerate();
            let fit = servers.filter(|(_, (is_backup, server))| *is_backup == backup && !server.is_down());
            fit.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let mut usable = up(false);
        if usable.is_empty() {
            usable = up(true);
            usable.truncate(1);
        }
        if usable.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "no server can be had"));
        }
        let at = match &self.balance {
            LogBalance::RoundRobin => self.turn,
            LogBalance::Random => self.random.hash_one(self.turn),
            LogBalance::Sticky => {
                self.stuck = if usable.contains(&self.stuck) { self.stuck } else { usable[0] };
                return self.servers[self.stuck].1.send(message);
            }
            LogBalance::Hash(steps) => u64::from(sdbm(&key(text, steps))),
        };
        self.turn = self.turn.wrapping_add(1);
        let at = usize::try_from(at % usable.len() as u64).unwrap_or(0);
        self.servers[usable[at]].1.send(message)
    }

    /// Whether every server that is reached by a stream has everything.
    pub(super) fn rings(&self) -> impl Iterator<Item = &Arc<Ring>> {
        self.servers.iter().filter_map(|(_, server)| match server {
            Server::Stream(ring) => Some(ring),
            Server::Datagrams(_) => None,
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.rings().for_each(|ring| ring.end());
    }
}

fn key(text: &[u8], steps: &[HashStep]) -> Vec<u8> {
    steps.iter().fold(text.to_vec(), |text, step| match step {
        HashStep::Lower => text.to_ascii_lowercase(),
        HashStep::Upper => text.to_ascii_uppercase(),
        HashStep::Bytes(from, length) => {
            let rest = text.get(*from..).unwrap_or_default();
            rest[..length.unwrap_or(rest.len()).min(rest.len())].to_vec()
        }
        HashStep::Field { at, delimiters, words } => {
            let parts = text.split(|byte| delimiters.contains(byte));
            let parts: Vec<&[u8]> = parts.filter(|part| !(*words && part.is_empty())).collect();
            let place = match *at {
                0 => None,
                at if at > 0 => usize::try_from(at - 1).ok(),
                at => usize::try_from(at.unsigned_abs()).ok().and_then(|back| parts.len().checked_sub(back)),
            };
            place.and_then(|place| parts.get(place)).map_or_else(Vec::new, |part| part.to_vec())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    fn taken(socket: &UdpSocket) -> Vec<String> {
        socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 100];
        std::iter::from_fn(|| {
            let count = socket.recv(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
        })
        .collect()
    }

    fn shared(balance: LogBalance) -> [Vec<String>; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let server = |socket: &UdpSocket| PoolServer {
            backup: false,
            way: PoolWay::Udp(socket.local_addr().unwrap()),
        };
        let spec = PoolSpec { name: "p".into(), balance, servers: sockets.iter().map(server).collect() };
        let mut pool = Pool::open(&spec).unwrap();
        for line in ["a one", "b two", "a three", "b four"] {
            pool.send(format!("<6>{line}\n").as_bytes(), 3).unwrap();
        }
        sockets.each_ref().map(taken)
    }

    #[test]
    fn lines_are_shared_by_turns_by_what_they_say_or_not_at_all() {
        let [one, two] = shared(LogBalance::RoundRobin);
        assert_eq!(
            (one, two),
            (
                vec!["<6>a one\n".into(), "<6>a three\n".into()],
                vec!["<6>b two\n".into(), "<6>b four\n".into()]
            )
        );
        let [one, two] = shared(LogBalance::Sticky);
        assert_eq!((one.len(), two.len()), (4, 0));
        let steps = vec![HashStep::Field { at: 1, delimiters: b" ".to_vec(), words: false }];
        let [one, two] = shared(LogBalance::Hash(steps));
        // sdbm of one byte is the byte.
        assert_eq!((one.len(), two.len()), (2, 2));
        assert!(one.iter().all(|line| line.starts_with("<6>b")), "{one:?}");
    }

    #[test]
    fn a_backup_serves_when_no_stream_can_be_had() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let backup = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ring = RingSpec {
            name: "s".into(),
            description: String::new(),
            size: 1000,
            longest: 100,
            connect: Duration::from_secs(5),
            send: Duration::from_secs(5),
            servers: vec![super::super::ring::RingServer {
                address: super::super::ring::StreamAddress::Tcp(closed),
                octet_count: false,
            }],
        };
        let spec = PoolSpec {
            name: "p".into(),
            balance: LogBalance::RoundRobin,
            servers: vec![
                PoolServer { backup: false, way: PoolWay::Stream(ring) },
                PoolServer { backup: true, way: PoolWay::Udp(backup.local_addr().unwrap()) },
            ],
        };
        let mut pool = Pool::open(&spec).unwrap();
        let began = std::time::Instant::now();
        while taken(&backup).is_empty() {
            pool.send(b"line\n", 0).unwrap();
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    }

    #[test]
    fn keys_are_parts_of_lines() {
        let field = |at, words| HashStep::Field { at, delimiters: b" ".to_vec(), words };
        assert_eq!(key(b"a  b c", &[field(2, false)]), b"");
        assert_eq!(key(b"a  b c", &[field(2, true)]), b"b");
        assert_eq!(key(b"a  b c", &[field(-1, false), HashStep::Upper]), b"C");
        assert_eq!(key(b"Abc", &[HashStep::Bytes(1, Some(9)), HashStep::Lower]), b"bc");
        assert_eq!(key(b"Abc", &[HashStep::Bytes(9, None), field(0, false)]), b"");
    }
}
