//! Syslog messages (RFC 3164).
//!
//! Owns: facilities, severities, the head of a message, the socket they go through.
//! Never: blocks: a datagram that does not fit the socket's buffer is dropped.
//! Driven by: log buffers (heads), the writer thread (sending).
//! Why: nginx's `syslog:server=` and HAProxy's `log 127.0.0.1 local0` differ in details that parsers depend on.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use super::clock::Stamp;

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SyslogAddress {
    /// UDP datagrams.
    Udp(SocketAddr),
    /// A Unix datagram socket, such as `/dev/log`.
    Unix(PathBuf),
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal, $word:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $(#[doc = concat!("`", $word, "`.")] $variant = $code,)* }

        impl $name {
            /// The value that a configuration calls `word`.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            /// Its word.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// All words, for suggestions.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
        }
    };
}

words! {
    /// Who speaks (RFC 3164, 4.1.1).
    Facility {
        Kern = 0, "kern"; User = 1, "user"; Mail = 2, "mail"; Daemon = 3, "daemon"; Auth = 4, "auth";
        Syslog = 5, "syslog"; Lpr = 6, "lpr"; News = 7, "news"; Uucp = 8, "uucp"; Cron = 9, "cron";
        Authpriv = 10, "authpriv"; Ftp = 11, "ftp"; Ntp = 12, "ntp"; Audit = 13, "audit"; Alert = 14, "alert";
        Clock = 15, "clock"; Local0 = 16, "local0"; Local1 = 17, "local1"; Local2 = 18, "local2";
        Local3 = 19, "local3"; Local4 = 20, "local4"; Local5 = 21, "local5"; Local6 = 22, "local6";
        Local7 = 23, "local7";
    }
}

words! {
    /// How bad it is.
    Severity {
        Emerg = 0, "emerg"; Alert = 1, "alert"; Crit = 2, "crit"; Error = 3, "err"; Warning = 4, "warning";
        Notice = 5, "notice"; Info = 6, "info"; Debug = 7, "debug";
    }
}

/// How a syslog message begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SyslogForm {
    /// `<134>Nov 21 02:45:31 host tag[123]: `, with or without the host (RFC 3164).
    #[default]
    Rfc3164,
    /// `<134>1 2026-11-21T02:45:31.123456+00:00 host tag 123 - ` (RFC 5424); structured data follow, or a dash.
    Rfc5424,
    /// By nothing.
    Raw,
    /// `<6>`.
    Short,
    /// `<6>2026-11-21T02:45:31.123456+00:00 `.
    Timed,
    /// `2026-11-21T02:45:31.123456+00:00 `.
    Iso,
    /// `<134>`.
    Priority,
}

/// The head of each message.
///
/// nginx writes `<190>Nov 21 02:45:31 host nginx: text`, HAProxy `<134>Nov 21 02:45:31 haproxy[123]: text` and a final
/// newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogHeader {
    /// Its form.
    pub form: SyslogForm,
    /// Who speaks.
    pub facility: Facility,
    /// The host's name; nginx sends it unless `nohostname`, HAProxy if `log-send-hostname`.
    pub host: Option<String>,
    /// The program's name: nginx's `tag=`, HAProxy's `log-tag`.
    pub tag: String,
    /// Process id in brackets after the tag (HAProxy).
    pub pid: Option<u32>,
    /// End with a newline (HAProxy).
    pub newline: bool,
}

impl SyslogHeader {
    /// Appends the head of a message of this severity.
    pub fn write(&self, out: &mut Vec<u8>, severity: Severity, stamp: &Stamp) {
        let priority = self.facility as u16 * 8 + severity as u16;
        match self.form {
            SyslogForm::Raw => return,
            SyslogForm::Iso => {
                stamp.iso_micros(out);
                return out.push(b' ');
            }
            SyslogForm::Short | SyslogForm::Timed => angled(out, severity as u16),
            _ => angled(out, priority),
        }
        match self.form {
            SyslogForm::Timed => {
                stamp.iso_micros(out);
                return out.push(b' ');
            }
            SyslogForm::Rfc5424 => return self.write_rfc5424(out, stamp),
            SyslogForm::Rfc3164 => {}
            _ => return,
        }
        out.extend_from_slice(stamp.syslog.as_bytes());
        out.push(b' ');
        if let Some(host) = &self.host {
            out.extend_from_slice(host.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(self.tag.as_bytes());
        if let Some(pid) = self.pid {
            out.push(b'[');
            out.extend_from_slice(itoa::Buffer::new().format(pid).as_bytes());
            out.push(b']');
        }
        out.extend_from_slice(b": ");
    }

    fn write_rfc5424(&self, out: &mut Vec<u8>, stamp: &Stamp) {
        out.extend_from_slice(b"1 ");
        stamp.iso_micros(out);
        for word in [self.host.as_deref().unwrap_or("-"), &self.tag] {
            out.push(b' ');
            out.extend_from_slice(word.as_bytes());
        }
        out.push(b' ');
        match self.pid {
            Some(pid) => out.extend_from_slice(itoa::Buffer::new().format(pid).as_bytes()),
            None => out.push(b'-'),
        }
        out.extend_from_slice(b" - ");
    }

    /// Bytes that [`SyslogHeader::write`] appends, and the final newline.
    pub fn length(&self) -> usize {
        let (mut out, mut clock) = (Vec::new(), super::clock::LogClock::utc());
        self.write(&mut out, Severity::Debug, clock.at(0));
        out.len() + usize::from(self.newline)
    }
}

fn angled(out: &mut Vec<u8>, number: u16) {
    out.push(b'<');
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.push(b'>');
}

/// The open end of a syslog target.
#[derive(Debug)]
pub(super) enum SyslogSocket {
    Udp(UdpSocket, SocketAddr),
    Unix(UnixDatagram, PathBuf),
}

impl SyslogSocket {
    pub(super) fn open(address: &SyslogAddress) -> io::Result<Self> {
        match address {
            SyslogAddress::Udp(to) => {
                let from: SocketAddr = match to {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(from)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Udp(socket, *to))
            }
            SyslogAddress::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                Ok(Self::Unix(socket, path.clone()))
            }
        }
    }

    /// Sends one message. Not connected, so a daemon that was away, or restarts, is reached again at the next message,
    /// and an ICMP error about one message does not fail the next.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket, to) => socket.send_to(message, to).map(drop),
            Self::Unix(socket, path) => socket.send_to(message, path).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::LogClock;
    use super::*;

    fn head(header: &SyslogHeader, severity: Severity) -> String {
        let mut out = Vec::new();
        header.write(&mut out, severity, LogClock::utc().at(1_795_231_384_000));
        String::from_utf8(out).unwrap()
    }

    /// Recorded from nginx 1.22 and HAProxy 2.6.
    #[test]
    fn heads_as_the_others_write_them() {
        let nginx = SyslogHeader {
            form: SyslogForm::Rfc3164,
            facility: Facility::Local7,
            host: Some("vm".into()),
            tag: "nginx".into(),
            pid: None,
            newline: false,
        };
        assert_eq!(head(&nginx, Severity::Info), "<190>Nov 21 03:23:04 vm nginx: ");
        let haproxy = SyslogHeader {
            form: SyslogForm::Rfc3164,
            facility: Facility::Local0,
            host: None,
            tag: "haproxy".into(),
            pid: Some(26254),
            newline: true,
        };
        assert_eq!(head(&haproxy, Severity::Info), "<134>Nov 21 03:23:04 haproxy[26254]: ");
    }

    #[test]
    fn words_round_trip() {
        for word in Facility::WORDS {
            assert_eq!(Facility::from_word(word).map(Facility::word), Some(*word));
        }
        assert_eq!(Severity::from_word("nope"), None);
    }
}
