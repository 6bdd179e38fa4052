//! gRPC's own health service (grpc.health.v1.Health/Check, github.com/grpc/grpc doc/health-checking.md).
//!
//! Owns: the two messages, and which answers are good.
//! Driven by: `script`.

use weir_expr::check::GrpcCheck;
use weir_rt::Instant;
use weir_wire::Conn;
use weir_wire::h2::Fields;

use super::http2;
use super::result::Failed;

/// `HealthCheckResponse.ServingStatus`: it serves.
const SERVING: u64 = 1;

/// Asks whether a service is served.
pub(super) async fn ask(conn: &Conn, asked: &GrpcCheck, tls: bool, due: Instant) -> Result<(), Failed> {
    let mut list = Fields::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", if tls { "https" } else { "http" }),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", asked.authority.as_str()),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", "weir health check"),
    ] {
        list.push(name.as_bytes(), value.as_bytes());
    }
    let answer = http2::exchange(conn, &list, &question(&asked.service), due).await?;
    if answer.response.status != 200 {
        let status = answer.response.status;
        return Err(Failed { word: "L7STS".into(), code: Some(status), why: format!("answered {status}") });
    }
    let status =
        answer.last_field(b"grpc-status").and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let status: u32 = status.ok_or("its answer has no status of gRPC")?;
    judge(status, &answer.response.body, asked.accepts)
}

fn judge(status: u32, body: &[u8], accepts: Option<u32>) -> Result<(), Failed> {
    match status {
        0 => match serving_status(body) {
            Some(SERVING) => Ok(()),
            Some(2) => Err(Failed::new("L7STS", "it is NOT_SERVING")),
            Some(other) => Err(Failed::new("L7STS", format!("its serving status is {other}"))),
            None => Err(Failed::new("L7RSP", "its answer is no HealthCheckResponse")),
        },
        status if accepts == Some(status) => Ok(()),
        status => Err(Failed::new("L7STS", format!("its status of gRPC is {status}"))),
    }
}

/// `HealthCheckRequest { service }` behind a gRPC prefix: not compressed, and its length.
fn question(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        // Field 1, of bytes.
        message.push(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

/// Field 1 of `HealthCheckResponse`. proto3 leaves out a zero; other fields are passed over.
fn serving_status(body: &[u8]) -> Option<u64> {
    let (prefix, rest) = body.split_first_chunk::<5>()?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    // A compressed message was not offered to be understood.
    if prefix[0] != 0 {
        return None;
    }
    let mut message = rest.get(..length)?;
    let mut status = 0;
    while !message.is_empty() {
        let key = varint(&mut message)?;
        match (key >> 3, key & 7) {
            (1, 0) => status = varint(&mut message)?,
            (_, 0) => drop(varint(&mut message)?),
            (_, 1) => message = message.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            (_, 5) => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(message: &[u8]) -> Vec<u8> {
        [&[0, 0, 0, 0, message.len() as u8][..], message].concat()
    }

    #[test]
    fn questions_and_answers_are_those_of_protobuf() {
        assert_eq!(question(""), [0, 0, 0, 0, 0]);
        assert_eq!(question("ab"), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(question(&"x".repeat(200))[5..8], [0x0a, 0xc8, 1]);
        let cases: [(&[u8], Option<u64>); 6] = [
            (&[8, 1], Some(1)),
            (&[8, 2], Some(2)),
            (&[], Some(0)),
            // Fields that are not known.
            (&[0x12, 1, b'x', 0x1d, 1, 2, 3, 4, 8, 1], Some(1)),
            (&[8], None),
            (&[0x12, 9, 1], None),
        ];
        for (message, expected) in cases {
            assert_eq!(serving_status(&response(message)), expected, "{message:?}");
        }
        assert_eq!(serving_status(&[1, 0, 0, 0, 2, 8, 1]), None, "compressed");
        assert_eq!(serving_status(&[0, 0, 0, 0, 9, 8, 1]), None, "cut");
    }

    #[test]
    fn only_serving_is_good_unless_another_status_is() {
        assert!(judge(0, &response(&[8, 1]), None).is_ok());
        assert!(judge(0, &response(&[8, 2]), None).is_err());
        assert!(judge(0, &response(&[]), None).is_err());
        assert!(judge(12, &[], None).is_err());
        assert!(judge(12, &[], Some(12)).is_ok());
        assert!(judge(14, &[], Some(12)).is_err());
    }
}
