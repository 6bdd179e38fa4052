//! Converters whose arguments are computed, or that need a library, files or a look at pools.
//!
//! Owns: which arguments each takes, and which of them may be variables.
//! Driven by: `convert`.

use std::path::Path;

use weir_expr::{Digest, PacketPart, Piece, Routine, TimeUnit, When};
use weir_model::{Step, Template, Var};

use super::expression::{self, Call, variable_name};
use super::problem::Problem;
use super::scope::Scope;

/// One converter.
pub(super) fn step(call: &Call, scope: &Scope<'_>) -> Result<Step, Problem> {
    let argument = |at: usize| call.arguments.get(at).map_or("", String::as_str);
    let needed = |at: usize| match argument(at) {
        "" => Err(Problem::Bad(format!("converter `{}` lacks an argument", call.name))),
        text => Ok(text),
    };
    let literal = |text: &str| Template::literal(text);
    let either = |at: usize| needed(at).and_then(|text| text_or_variable(text, scope));
    let does = |routine: Routine, arguments: Vec<Template>| Ok(Step::Call { routine, arguments });
    match call.name.as_str() {
        "sha2" => does(Routine::Digest(sha2(argument(0))?), Vec::new()),
        "digest" => does(Routine::Digest(digest(needed(0)?)?), Vec::new()),
        "hmac" => does(Routine::Hmac(digest(needed(0)?)?), vec![either(1)?]),
        "crc32c" => does(Routine::Crc32c(argument(0) == "1"), Vec::new()),
        "xxh32" => does(Routine::Xxh32, vec![number(argument(0))?]),
        "xxh64" => does(Routine::Xxh64, vec![number(argument(0))?]),
        "xxh3" => does(Routine::Xxh3, vec![number(argument(0))?]),
        "bytes" => {
            let length =
                if argument(1).is_empty() { Template::default() } else { counted(argument(1), scope)? };
            does(Routine::Bytes, vec![counted(needed(0)?, scope)?, length])
        }
        "add_item" => {
            let (delimiter, suffix) = (argument(0), argument(2));
            let item = match argument(1) {
                "" if suffix.is_empty() => {
                    return Err(Problem::Bad(
                        "`add_item` adds a variable or a text, and there is neither".into(),
                    ));
                }
                "" => Template::default(),
                name => variable(name, scope)?,
            };
            does(Routine::AddItem, vec![literal(delimiter), item, literal(suffix)])
        }
        "strcmp" => does(Routine::Compare, vec![variable(needed(0)?, scope)?]),
        "secure_memcmp" => does(Routine::SecureEquals, vec![variable(needed(0)?, scope)?]),
        "set-var" if call.arguments.len() > 1 => {
            Err(Problem::NotBuilt("the converter set-var with a condition".into()))
        }
        "set-var" => noted(needed(0)?),
        "unset-var" => forgotten(needed(0)?),
        "fix_is_valid" => does(Routine::FixIsValid, Vec::new()),
        "fix_tag_value" => does(Routine::FixTag, vec![literal(fix_tag(needed(0)?)?)]),
        "mqtt_is_valid" => does(Routine::MqttIsValid, Vec::new()),
        "mqtt_field_value" => does(Routine::MqttField, mqtt_field(needed(0)?, needed(1)?)?),
        "aes_cbc_enc" => does(Routine::AesCbcEncrypt(bits(argument(0))?), vec![either(1)?, either(2)?]),
        "ltime" | "ms_ltime" | "us_ltime" | "utime" | "ms_utime" | "us_utime" => {
            let unit = match &call.name[..2] {
                "ms" => TimeUnit::Millis,
                "us" => TimeUnit::Micros,
                _ => TimeUnit::Seconds,
            };
            let local = call.name.ends_with("ltime");
            let routine = if local { Routine::LocalTime(unit) } else { Routine::UniversalTime(unit) };
            does(routine, vec![literal(needed(0)?), number(argument(1))?])
        }
        "http_date" => {
            let unit = match argument(1) {
                "" | "s" => TimeUnit::Seconds,
                "ms" => TimeUnit::Millis,
                "us" => TimeUnit::Micros,
                other => return Err(Problem::Bad(format!("`{other}` is no unit; those are s, ms and us"))),
            };
            does(Routine::HttpDate(unit), vec![number(argument(0))?])
        }
        "language" => does(Routine::Language, vec![literal(needed(0)?), literal(argument(1))]),
        "json_query" => does(Routine::JsonQuery, query(needed(0)?, argument(1))?),
        "jwt_header_query" => does(Routine::JwtHeader, query(argument(0), argument(1))?),
        "jwt_payload_query" => does(Routine::JwtPayload, query(argument(0), argument(1))?),
        "jwt_verify" => jwt_verify(needed(0)?, argument(1), scope),
        "nbsrv" => does(Routine::UsableEndpoints, Vec::new()),
        "srv_queue" => does(Routine::EndpointQueue, vec![literal(scope.proxy.name.as_str())]),
        "srv_is_up" => does(Routine::EndpointIsUp, vec![literal(scope.proxy.name.as_str())]),
        "rfc7239_is_valid" => does(Routine::ForwardedIsValid, Vec::new()),
        "rfc7239_field" => match needed(0)? {
            field @ ("proto" | "host" | "for" | "by") => does(Routine::ForwardedField, vec![literal(field)]),
            other => Err(Problem::Bad(format!("`{other}` is no field of RFC 7239: proto, host, for or by"))),
        },
        "rfc7239_n2nn" => does(Routine::NodeName, Vec::new()),
        "rfc7239_n2np" => does(Routine::NodePort, Vec::new()),
        "protobuf" => does(Routine::Protobuf, field(needed(0)?, argument(1))?),
        "ungrpc" => does(Routine::Grpc, field(needed(0)?, argument(1))?),
        "aes_gcm_dec" => {
            let mut arguments = vec![either(1)?, either(2)?, either(3)?];
            if !argument(4).is_empty() {
                arguments.push(either(4)?);
            }
            does(Routine::AesGcmDecrypt(bits(argument(0))?), arguments)
        }
        "aes_cbc_dec" => does(Routine::AesCbcDecrypt(bits(argument(0))?), vec![either(1)?, either(2)?]),
        "jwt_verify_cert" => jwt_verify(needed(0)?, needed(1)?, scope),
        "when" => does(Routine::When(when(needed(0)?)?), Vec::new()),
        "x509_v_err_str" => does(Routine::VerifyName, Vec::new()),
        name => match packet(name) {
            Some(part) => does(Routine::Packet(part), Vec::new()),
            None => Err(Problem::NotBuilt(format!("converter {name}"))),
        },
    }
}

fn when(name: &str) -> Result<When, Problem> {
    Ok(match name {
        "error" => When::Error,
        "normal" => When::Normal,
        "forwarded" => When::Forwarded,
        "toapplet" => When::Own,
        "processed" => When::Processed,
        "stopping" => When::Stopping,
        "acl" => return Err(Problem::NotBuilt("the converter when with an ACL".into())),
        _ => {
            return Err(Problem::Bad(format!(
                "`{name}` is nothing that `when` asks for; those are error, forwarded, normal, processed, stopping and toapplet"
            )));
        }
    })
}

/// The part of a packet that a converter gives.
fn packet(name: &str) -> Option<PacketPart> {
    Some(match name {
        "eth.data" => PacketPart::EthData,
        "eth.dst" => PacketPart::EthDestination,
        "eth.hdr" => PacketPart::EthHeader,
        "eth.proto" => PacketPart::EthProtocol,
        "eth.src" => PacketPart::EthSource,
        "eth.vlan" => PacketPart::EthVlan,
        "ip.data" => PacketPart::IpData,
        "ip.df" => PacketPart::IpDontFragment,
        "ip.dst" => PacketPart::IpDestination,
        "ip.hdr" => PacketPart::IpHeader,
        "ip.proto" => PacketPart::IpProtocol,
        "ip.src" => PacketPart::IpSource,
        "ip.tos" => PacketPart::IpTos,
        "ip.ttl" => PacketPart::IpTtl,
        "ip.ver" => PacketPart::IpVersion,
        "tcp.dst" => PacketPart::TcpDestination,
        "tcp.flags" => PacketPart::TcpFlags,
        "tcp.options_list" => PacketPart::TcpOptionsList,
        "tcp.options.mss" => PacketPart::TcpMss,
        "tcp.options.sack" => PacketPart::TcpSack,
        "tcp.options.tsopt" => PacketPart::TcpTimestamp,
        "tcp.options.wscale" => PacketPart::TcpScale,
        "tcp.seq" => PacketPart::TcpSequence,
        "tcp.src" => PacketPart::TcpSource,
        "tcp.win" => PacketPart::TcpWindow,
        _ => return None,
    })
}

/// `aes_gcm_enc(BITS,NONCE,KEY,TAG[,AAD])`: the tag becomes a variable.
pub(super) fn encrypted(call: &Call, scope: &Scope<'_>) -> Result<Vec<Step>, Problem> {
    let argument = |at: usize| call.arguments.get(at).map_or("", String::as_str);
    if call.arguments.len() < 4 {
        return Err(Problem::Bad("`aes_gcm_enc` takes bits, nonce, key and a variable for the tag".into()));
    }
    let mut arguments = vec![text_or_variable(argument(1), scope)?, text_or_variable(argument(2), scope)?];
    if !argument(4).is_empty() {
        arguments.push(text_or_variable(argument(4), scope)?);
    }
    let routine = Routine::AesGcmEncrypt(bits(argument(0))?);
    Ok(vec![Step::Call { routine, arguments }, Step::NoteEnd(variable_name(argument(3))?, 16)])
}

/// The value becomes that of a variable.
fn noted(name: &str) -> Result<Step, Problem> {
    Ok(match expression::variable(name)? {
        Var::Kept(of, name) => Step::Keep { of, name, number: false },
        _ => Step::Note(name.to_owned()),
    })
}

/// A variable has no value any more.
fn forgotten(name: &str) -> Result<Step, Problem> {
    Ok(match expression::variable(name)? {
        Var::Kept(of, name) => Step::ForgetKept { of, name },
        _ => Step::Forget(name.to_owned()),
    })
}

/// The number of a tag of FIX, by number or name.
fn fix_tag(tag: &str) -> Result<&str, Problem> {
    const NAMES: [(&str, &str); 6] = [
        ("BeginString", "8"),
        ("BodyLength", "9"),
        ("MsgType", "35"),
        ("SenderCompID", "49"),
        ("TargetCompID", "56"),
        ("CheckSum", "10"),
    ];
    if tag.parse::<u32>().is_ok() {
        return Ok(tag);
    }
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(tag));
    known.map(|&(_, number)| number).ok_or_else(|| Problem::Bad(format!("`{tag}` is no tag of FIX")))
}

/// Type of packet and field of MQTT, in the engine's words.
fn mqtt_field(kind: &str, field: &str) -> Result<Vec<Template>, Problem> {
    const CONNECT: [&str; 9] = [
        "flags",
        "protocol_name",
        "protocol_version",
        "client_identifier",
        "will_topic",
        "will_payload",
        "username",
        "password",
        "keepalive",
    ];
    const CONNACK: [&str; 3] = ["flags", "protocol_version", "reason_code"];
    let (number, fields) = match kind.to_ascii_lowercase().as_str() {
        "connect" | "1" => ("1", &CONNECT[..]),
        "connack" | "2" => ("2", &CONNACK[..]),
        _ => {
            return Err(Problem::Bad(format!(
                "`{kind}` is no type of packet of MQTT; those are connect and connack"
            )));
        }
    };
    let field = field.to_ascii_lowercase();
    if field.parse::<u8>().is_err() && !fields.contains(&field.as_str()) {
        return Err(Problem::Bad(format!(
            "`{field}` is no field of this packet of MQTT, nor a property's number"
        )));
    }
    Ok(vec![Template::literal(number), Template::literal(field)])
}

/// The value of a variable.
pub(super) fn variable(name: &str, _: &Scope<'_>) -> Result<Template, Problem> {
    expression::variable(name).map(Template::var)
}

/// A variable by its name, or what is no such name as text.
fn text_or_variable(text: &str, scope: &Scope<'_>) -> Result<Template, Problem> {
    let scoped = ["proc.", "sess.", "txn.", "req.", "res."].iter().any(|prefix| text.starts_with(prefix));
    if scoped { variable(text, scope) } else { Ok(Template::literal(text)) }
}

/// A number, or a variable that holds one.
fn counted(text: &str, scope: &Scope<'_>) -> Result<Template, Problem> {
    match text.parse::<usize>() {
        Ok(_) => Ok(Template::literal(text)),
        Err(_) => variable(text, scope),
    }
}

fn number(text: &str) -> Result<Template, Problem> {
    match text {
        "" => Ok(Template::literal("0")),
        text if text.parse::<i64>().is_ok() => Ok(Template::literal(text)),
        text => Err(Problem::Bad(format!("`{text}` is no number"))),
    }
}

fn bits(text: &str) -> Result<u16, Problem> {
    match text {
        "128" => Ok(128),
        "192" => Ok(192),
        "256" => Ok(256),
        _ => Err(Problem::Bad(format!(
            "`{text}` is no length of a key of AES; those are 128, 192 and 256 bits"
        ))),
    }
}

fn sha2(bits: &str) -> Result<Digest, Problem> {
    match bits {
        "224" => Ok(Digest::Sha224),
        "" | "256" => Ok(Digest::Sha256),
        "384" => Ok(Digest::Sha384),
        "512" => Ok(Digest::Sha512),
        _ => Err(Problem::Bad(format!("`sha2({bits})` is none; there are 224, 256, 384 and 512 bits"))),
    }
}

fn digest(name: &str) -> Result<Digest, Problem> {
    Digest::named(name).ok_or_else(|| Problem::NotBuilt(format!("the digest {name}")))
}

fn query(path: &str, kind: &str) -> Result<Vec<Template>, Problem> {
    if !path.is_empty() && !path.starts_with('$') {
        return Err(Problem::Bad(format!("`{path}` is no path into JSON; one begins with `$`")));
    }
    match kind {
        "" | "int" => Ok(vec![Template::literal(path), Template::literal(kind)]),
        _ => Err(Problem::Bad(format!("`{kind}` is no type of a result; there is `int`"))),
    }
}

fn field(path: &str, kind: &str) -> Result<Vec<Template>, Problem> {
    const KINDS: [&str; 14] = [
        "", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum", "fixed64", "sfixed64",
        "double", "fixed32", "sfixed32",
    ];
    if path.split('.').any(|number| number.parse::<u32>().is_err()) {
        return Err(Problem::Bad(format!("`{path}` is no number of a field, nor several with dots between")));
    }
    if !(KINDS.contains(&kind) || kind == "float") {
        return Err(Problem::Bad(format!("`{kind}` is no type of a field of Protocol Buffers")));
    }
    Ok(vec![Template::literal(path), Template::literal(kind)])
}

/// The algorithm or a variable that holds its name; the secret, a variable that holds it, or the file of a public key or
/// certificate, which is read now.
fn jwt_verify(algorithm: &str, key: &str, scope: &Scope<'_>) -> Result<Step, Problem> {
    let algorithm = text_or_variable(algorithm, scope)?;
    let key = text_or_variable(key, scope)?;
    let (named, given) = (algorithm.as_literal(), key.as_literal());
    let keyed = named.is_some_and(|name| name.starts_with("HS") || name == "none");
    if let Some(name) = named
        && !(keyed || ["RS", "PS", "ES"].iter().any(|family| name.starts_with(family)))
    {
        return Err(Problem::Bad(format!("`{name}` is no algorithm of RFC 7518")));
    }
    let file = given.filter(|_| !keyed).map(|path| (path, scope.files.read(Path::new(path))));
    let (key, form) = match file {
        Some((_, Ok(pem))) => {
            let text = String::from_utf8_lossy(&pem).into_owned();
            if !["-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----"]
                .iter()
                .any(|mark| text.contains(mark))
            {
                return Err(Problem::Bad(format!(
                    "there is no public key or certificate in `{}`",
                    given.unwrap_or("")
                )));
            }
            (Template::literal(text), "pem")
        }
        Some((path, Err(error))) if named.is_some() => {
            return Err(Problem::Bad(format!("cannot read `{path}`: {error}")));
        }
        _ if named == Some("none") => (key, "none"),
        _ => (key, ""),
    };
    let has_variable = key.pieces.iter().any(|piece| matches!(piece, Piece::Var(..)));
    if has_variable && named.is_some() && !keyed {
        return Err(Problem::NotBuilt("a public key named by a variable".into()));
    }
    Ok(Step::Call { routine: Routine::JwtVerify, arguments: vec![algorithm, key, Template::literal(form)] })
}
