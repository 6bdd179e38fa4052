//! A name server whose answers a test can change.
//!
//! Owns: a UDP socket, and the names with their addresses.
//! Never: asks others.
//! Driven by: tests of resolvers.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameAnswer {
    /// These addresses, for so many seconds.
    Addresses(Vec<Ipv4Addr>, u32),
    /// These service records (priority, weight, port, target), for so many seconds.
    Services(Vec<(u16, u16, u16, &'static str)>, u32),
    /// An error: the response code of RFC 1035 §4.1.1.
    Code(u8),
    /// No word.
    Silence,
}

/// A name server on a loopback address. Names it was told nothing of do not exist. It ends with its process.
#[derive(Clone, Debug)]
pub struct NameServer {
    address: SocketAddr,
    names: Arc<Mutex<HashMap<String, NameAnswer>>>,
}

const HEADER: usize = 12;
const NO_SUCH_NAME: u8 = 3;
const TYPE_A: [u8; 2] = [0, 1];
const TYPE_SRV: [u8; 2] = [0, 33];

impl NameServer {
    /// Starts one.
    ///
    /// # Panics
    /// When there is no socket for it.
    #[must_use]
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        let server = Self { address: socket.local_addr().expect("it is bound"), names: Arc::default() };
        let names = server.names.clone();
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                let names = names.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(answer) = answer(&question[..length], &names) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        server
    }

    /// Says what a name is from now on.
    pub fn tell(&self, name: &str, answer: NameAnswer) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), answer);
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The answer to a question with one name in it; none to what is no question.
fn answer(question: &[u8], names: &HashMap<String, NameAnswer>) -> Option<Vec<u8>> {
    let (mut name, mut at) = (Vec::new(), HEADER);
    loop {
        let length = usize::from(*question.get(at)?);
        if length == 0 {
            break;
        }
        name.push(String::from_utf8_lossy(question.get(at + 1..at + 1 + length)?).to_ascii_lowercase());
        at += 1 + length;
    }
    let asked = question.get(HEADER..at + 5)?;
    let known = names.get(&name.join("."));
    let code = match known {
        Some(NameAnswer::Silence) => return None,
        Some(NameAnswer::Code(code)) => *code,
        Some(NameAnswer::Addresses(..) | NameAnswer::Services(..)) => 0,
        None => NO_SUCH_NAME,
    };
    let records: Vec<([u8; 2], u32, Vec<u8>)> = match known {
        // Only IPv4 addresses are told.
        Some(NameAnswer::Addresses(addresses, ttl)) if question.get(at + 1..at + 3)? == TYPE_A => {
            addresses.iter().map(|address| (TYPE_A, *ttl, address.octets().to_vec())).collect()
        }
        Some(NameAnswer::Services(services, ttl)) if question.get(at + 1..at + 3)? == TYPE_SRV => {
            services.iter().map(|service| (TYPE_SRV, *ttl, service_data(service))).collect()
        }
        _ => Vec::new(),
    };
    let mut out = question.get(..2)?.to_vec();
    // A response, recursion desired and available; one question.
    out.extend([0x81, 0x80 | code, 0, 1, 0, u8::try_from(records.len()).ok()?, 0, 0, 0, 0]);
    out.extend(asked);
    for (kind, ttl, data) in records {
        // The name by a pointer to the question's, class IN.
        out.extend([0xc0, HEADER as u8]);
        out.extend(kind);
        out.extend([0, 1]);
        out.extend(ttl.to_be_bytes());
        out.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        out.extend(data);
    }
    Some(out)
}

/// What a service record says.
fn service_data((priority, weight, port, target): &(u16, u16, u16, &str)) -> Vec<u8> {
    let mut out: Vec<u8> =
        [priority, weight, port].into_iter().flat_map(|number| number.to_be_bytes()).collect();
    for label in target.split('.').filter(|label| !label.is_empty()) {
        out.push(u8::try_from(label.len()).expect("a label is short"));
        out.extend(label.as_bytes());
    }
    out.push(0);
    out
}
