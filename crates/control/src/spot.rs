//! Where a name leads.
//!
//! Owns: [`Spot`], an address of a name, or what a service record (RFC 2782) says about one.
//! Never: looks a name up.
//! Driven by: the thread that follows names; the file of changes, which remembers what was found.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// One place that a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Spot {
    /// An address of the name.
    Address(IpAddr),
    /// An address of a target of its service records.
    Service {
        /// The address.
        ip: IpAddr,
        /// The port that the record names.
        port: u16,
        /// The record's weight.
        weight: u16,
        /// Others have a better priority.
        backup: bool,
    },
}

impl Spot {
    /// The address.
    pub fn ip(&self) -> IpAddr {
        match self {
            Self::Address(ip) | Self::Service { ip, .. } => *ip,
        }
    }

    /// The port, where a record names it.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Address(_) => None,
            Self::Service { port, .. } => Some(*port),
        }
    }

    /// The weight, where a record names it.
    pub fn weight(&self) -> Option<u16> {
        match self {
            Self::Address(_) => None,
            Self::Service { weight, .. } => Some(*weight),
        }
    }

    /// Whether there are places with a better priority.
    pub fn is_backup(&self) -> bool {
        matches!(self, Self::Service { backup: true, .. })
    }
}

impl From<IpAddr> for Spot {
    fn from(ip: IpAddr) -> Self {
        Self::Address(ip)
    }
}

impl From<[u8; 4]> for Spot {
    fn from(ip: [u8; 4]) -> Self {
        Self::Address(ip.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_before_and_services_with_all_they_say() {
        let service = Spot::Service { ip: [192, 0, 2, 1].into(), port: 80, weight: 3, backup: true };
        for (spot, text) in [
            (Spot::from([192, 0, 2, 1]), r#""192.0.2.1""#),
            (service, r#"{"ip":"192.0.2.1","port":80,"weight":3,"backup":true}"#),
        ] {
            assert_eq!(serde_json::to_string(&spot).unwrap(), text);
            assert_eq!(serde_json::from_str::<Spot>(text).unwrap(), spot);
        }
        assert_eq!((service.port(), service.weight(), service.is_backup()), (Some(80), Some(3), true));
    }
}
