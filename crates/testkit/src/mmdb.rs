//! Small databases of networks in MaxMind's format.
//!
//! Owns: writing them (MaxMind DB File Format Specification 2.0), so that no test needs one from elsewhere.
//! Driven by: tests of what reads them.

use std::net::IpAddr;

/// A value of an entry.
#[derive(Clone, Debug)]
pub enum Datum {
    /// UTF-8.
    Text(&'static str),
    /// A number of 16 bits.
    Small(u16),
    /// A number of 128 bits.
    Huge(u128),
    /// A number with sign.
    Signed(i32),
    /// A number with a point.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// In order.
    List(Vec<Datum>),
    /// By key.
    Map(Vec<(&'static str, Datum)>),
}

const LEAF: usize = 0;

/// A database of these networks, made at this second since 1970: an address, the bits of its prefix, its entry.
///
/// # Panics
/// When a network is in another one.
pub fn database(networks: &[(IpAddr, u8, Datum)], built: u64) -> Vec<u8> {
    // A node's two records: 0 nothing, another node, or (above `MOST`) an entry.
    const MOST: usize = 1 << 20;
    let mut nodes = vec![[LEAF; 2]];
    let mut data = Vec::new();
    for (address, bits, entry) in networks {
        let (number, bits) = match address {
            IpAddr::V4(ip) => (u128::from(u32::from(*ip)), usize::from(*bits) + 96),
            IpAddr::V6(ip) => (u128::from(*ip), usize::from(*bits)),
        };
        let at = data.len();
        write(entry, &mut data);
        let mut node = 0;
        for bit in 0..bits {
            let side = (number >> (127 - bit) & 1) as usize;
            if bit + 1 == bits {
                assert_eq!(nodes[node][side], LEAF, "networks that overlap");
                nodes[node][side] = MOST + at;
            } else {
                if nodes[node][side] == LEAF {
                    nodes.push([LEAF; 2]);
                    nodes[node][side] = nodes.len() - 1;
                }
                node = nodes[node][side];
                assert!(node < MOST, "networks that overlap");
            }
        }
    }
    let count = nodes.len();
    let record = |value: usize| match value {
        LEAF => count,
        node if node < MOST => node,
        entry => count + 16 + entry - MOST,
    };
    let mut out: Vec<u8> = nodes
        .iter()
        .flatten()
        .flat_map(|&value| (record(value) as u32).to_be_bytes()[1..].to_vec())
        .collect();
    out.extend([0; 16]);
    out.extend(data);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    let head: [(&str, u8, u64); 6] = [
        ("node_count", 6, count as u64),
        ("record_size", 5, 24),
        ("ip_version", 5, 6),
        ("binary_format_major_version", 5, 2),
        ("binary_format_minor_version", 5, 0),
        ("build_epoch", 9, built),
    ];
    control(7, head.len() + 3, &mut out);
    for (name, kind, number) in head {
        text(name, &mut out);
        unsigned(kind, u128::from(number), &mut out);
    }
    for (name, value) in [
        ("database_type", Datum::Text("Test")),
        ("languages", Datum::List(vec![Datum::Text("en")])),
        ("description", Datum::Map(vec![("en", Datum::Text("A test's"))])),
    ] {
        text(name, &mut out);
        write(&value, &mut out);
    }
    out
}

fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (short, more) = if size < 29 { (size as u8, None) } else { (29, Some((size - 29) as u8)) };
    match kind {
        0..=7 => out.push(kind << 5 | short),
        _ => out.extend([short, kind - 7]),
    }
    out.extend(more);
}

fn text(text: &str, out: &mut Vec<u8>) {
    control(2, text.len(), out);
    out.extend(text.as_bytes());
}

fn unsigned(kind: u8, number: u128, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let from = bytes.iter().position(|byte| *byte != 0).unwrap_or(16);
    control(kind, 16 - from, out);
    out.extend(&bytes[from..]);
}

fn write(value: &Datum, out: &mut Vec<u8>) {
    match value {
        Datum::Text(value) => text(value, out),
        Datum::Small(number) => unsigned(5, u128::from(*number), out),
        Datum::Huge(number) => unsigned(10, *number, out),
        Datum::Signed(number) => {
            control(8, 4, out);
            out.extend(number.to_be_bytes());
        }
        Datum::Real(number) => {
            control(3, 8, out);
            out.extend(number.to_be_bytes());
        }
        Datum::Flag(value) => control(14, usize::from(*value), out),
        Datum::List(all) => {
            control(11, all.len(), out);
            all.iter().for_each(|one| write(one, out));
        }
        Datum::Map(all) => {
            control(7, all.len(), out);
            for (name, one) in all {
                text(name, out);
                write(one, out);
            }
        }
    }
}
