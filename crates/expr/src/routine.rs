//! Changes of a value whose arguments are computed, or that need a library or a look at the exchange: HAProxy's converters.
//!
//! Owns: [`Routine`], the list of them. Their arguments are templates beside it.
//! Never: does one; the engine does.
//! Driven by: definitions of variables (`model` and `plan` hold lists of steps).

use serde::{Deserialize, Serialize};

use crate::Arithmetic;

/// A change that the engine makes, by its arguments in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routine {
    /// A message digest, as bytes.
    Digest(Digest),
    /// A keyed digest, as bytes: the key in Base64.
    Hmac(Digest),
    /// CRC-32 of Castagnoli as a number; mixed once more.
    Crc32c(bool),
    /// XXH32 as a number: the seed.
    Xxh32,
    /// XXH64 as a number: the seed.
    Xxh64,
    /// XXH3 of 64 bits as a number: the seed.
    Xxh3,
    /// Bytes from an offset on: the offset, the length or nothing.
    Bytes,
    /// Number plus, minus, … a number.
    Arithmetic(Arithmetic),
    /// Text after the value, where there is a value: the delimiter, the text, what follows the text.
    AddItem,
    /// -1, 0 or 1 by the order of the bytes: the other text.
    Compare,
    /// `1` if equal, in a time that tells nothing: the other bytes.
    SecureEquals,
    /// A date in the local zone: the format, the offset.
    LocalTime(TimeUnit),
    /// A date in UTC: the format, the offset.
    UniversalTime(TimeUnit),
    /// A date as header fields have it: the offset.
    HttpDate(TimeUnit),
    /// The best of the languages offered: those offered, the default.
    Language,
    /// A part of a JSON text: its path, `int` or nothing.
    JsonQuery,
    /// The header of a JSON Web Token, or a part of it: the path, `int` or nothing.
    JwtHeader,
    /// The payload of a JSON Web Token, likewise.
    JwtPayload,
    /// 1 if the signature of a JSON Web Token holds, 0 if not, less if it cannot be told: the algorithm, the secret or PEM,
    /// `pem` or nothing.
    JwtVerify,
    /// Usable endpoints of the pool that is named by the value.
    UsableEndpoints,
    /// Requests that wait for the endpoint `POOL/NAME`: the pool of names without one.
    EndpointQueue,
    /// `1` if the endpoint `POOL/NAME` is up: the pool of names without one.
    EndpointIsUp,
    /// `1` if the value is a `Forwarded` field of RFC 7239.
    ForwardedIsValid,
    /// A parameter of the first element of such a field: its name.
    ForwardedField,
    /// The name in a node of such a field.
    NodeName,
    /// The port in a node of such a field.
    NodePort,
    /// A field of a message of Protocol Buffers: its number, with dots; its type or nothing.
    Protobuf,
    /// The same of a message of gRPC.
    Grpc,
    /// Decrypted by AES-GCM: nonce, key and tag, in Base64; further data that the tag covers.
    AesGcmDecrypt(u16),
    /// Decrypted by AES-CBC with PKCS #7: nonce and key, in Base64.
    AesCbcDecrypt(u16),
    /// Encrypted by AES-GCM, the tag of 16 bytes behind it: nonce and key in Base64, further data that the tag covers.
    AesGcmEncrypt(u16),
    /// Encrypted by AES-CBC with PKCS #7: nonce and key, in Base64.
    AesCbcEncrypt(u16),
    /// OpenSSL's name of a result of verifying.
    VerifyName,
    /// `1` if the value is a message of the Financial Information eXchange protocol.
    FixIsValid,
    /// The value of a tag of such a message: its number.
    FixTag,
    /// `1` if the value is a packet of MQTT, 3.1 to 5.0.
    MqttIsValid,
    /// A field of such a packet: the type of packet as a number, the field's name in lower case or its number.
    MqttField,
    /// A cookie of the Remote Desktop Protocol in the value: its name or nothing.
    RdpCookie,
    /// How many of them there are: the name or nothing.
    RdpCookieCount,
    /// Bytes behind their length: where the length stands, its size, where they begin; `+` or `-` before that counts from the
    /// end of the length.
    Sized,
    /// Bytes from an offset on, if there are so many: the offset, the length; 0: all that are there.
    Whole,
    /// `1` if the value begins a request of HTTP/1.
    IsHttp,
    /// The labels of a domain name in reverse order.
    ReverseDomain,
    /// The number behind a token of a message of distcc: the token, which of them.
    DistccParam,
    /// The bytes that such a number announces, likewise.
    DistccBody,
    /// The value where something holds of the exchange, else none: see [`When`].
    When(When),
    /// A part of a packet of Ethernet, IP or TCP: see [`PacketPart`].
    Packet(PacketPart),
    /// A part of a hello of TLS: see [`HelloPart`].
    Hello(HelloPart),
}

/// What may hold of an exchange, as HAProxy's `when` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Something failed.
    Error,
    /// Nothing failed.
    Normal,
    /// It was sent to an endpoint.
    Forwarded,
    /// Weir answered by itself.
    Own,
    /// Either of these.
    Processed,
    /// The process is leaving.
    Stopping,
}

/// Parts of packets, as HAProxy's converters give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketPart {
    /// What follows the header of Ethernet, VLAN tags included.
    EthData,
    /// The address that a frame is for.
    EthDestination,
    /// The header of a frame.
    EthHeader,
    /// The type of what a frame carries.
    EthProtocol,
    /// The address that a frame is from.
    EthSource,
    /// The number of the VLAN.
    EthVlan,
    /// What follows the header of IP, extensions included.
    IpData,
    /// Whether a packet may be cut.
    IpDontFragment,
    /// The address that a packet is for.
    IpDestination,
    /// The header of IP.
    IpHeader,
    /// The protocol of what a packet carries.
    IpProtocol,
    /// The address that a packet is from.
    IpSource,
    /// Its class.
    IpTos,
    /// Its hops.
    IpTtl,
    /// The version of IP.
    IpVersion,
    /// The port that a segment is for.
    TcpDestination,
    /// Its flags.
    TcpFlags,
    /// The numbers of its options.
    TcpOptionsList,
    /// Its maximum segment size.
    TcpMss,
    /// Whether acknowledgements may be selective.
    TcpSack,
    /// Whether it has a time stamp.
    TcpTimestamp,
    /// The number by which its window is shifted.
    TcpScale,
    /// Its sequence number.
    TcpSequence,
    /// The port that a segment is from.
    TcpSource,
    /// Its window.
    TcpWindow,
}

/// Parts of a hello of TLS, as HAProxy's fetches give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelloPart {
    /// The version that it names, as a number: major times 65536 and minor (`req.ssl_ver`).
    Version,
    /// `1` if it says that it knows elliptic curves (`req.ssl_ec_ext`).
    EllipticCurves,
    /// 2 if it brings a ticket, 1 if it knows tickets, else 0 (`req.ssl_st_ext`).
    Tickets,
    /// The suites, two bytes each (`req.ssl_cipherlist`).
    Ciphers,
    /// The groups (`req.ssl_supported_groups`).
    Groups,
    /// The signature algorithms (`req.ssl_sigalgs`).
    SignatureAlgorithms,
    /// The groups of its key shares (`req.ssl_keyshare_groups`).
    KeyShares,
    /// Type of the handshake message of a server's answer: 2 for its hello (`res.ssl_hello_type`).
    Type,
}

/// Message digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Digest {
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA-512 cut to 256 bits.
    Sha512Cut256,
}

impl Digest {
    /// The digest of an OpenSSL name; names differ in case and dashes.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().replace('-', "").as_str() {
            "md5" => Self::Md5,
            "sha1" => Self::Sha1,
            "sha224" | "sha2224" => Self::Sha224,
            "sha256" | "sha2256" => Self::Sha256,
            "sha384" | "sha2384" => Self::Sha384,
            "sha512" | "sha2512" => Self::Sha512,
            "sha512256" | "sha512/256" => Self::Sha512Cut256,
            _ => return None,
        })
    }
}

/// What a number of a date counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
}

impl TimeUnit {
    /// How many of them a second has.
    pub fn per_second(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
        }
    }
}
