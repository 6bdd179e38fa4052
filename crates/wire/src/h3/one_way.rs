//! Streams of one direction: control, QPACK's two, and those that nobody knows.
//!
//! Owns: their kinds, the order of frames on the control stream, the settings' form.
//! Never: keeps a setting: there is none that a server without pushes and tables has a use for.
//! Driven by: whoever reads the streams.

use weir_rt::Buf;

use super::code::{Code, Fault};
use super::varint;

/// Most bytes of settings.
const MOST_SETTINGS: u64 = 4096;

/// Which streams of a kind a client has opened: each may be there once.
#[derive(Debug, Default)]
pub struct Opened {
    controls: bool,
    encoder: bool,
    decoder: bool,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Frames and instructions.
    pub count: u32,
    /// Nobody knows the stream: it may be stopped.
    pub unknown: bool,
}

/// Reads one stream.
#[derive(Debug, Default)]
pub struct OneWay {
    kind: Kind,
}

#[derive(Clone, Copy, Debug, Default)]
enum Kind {
    #[default]
    Untold,
    Control {
        begun: bool,
        skip: u64,
    },
    Encoder,
    Decoder,
    Unknown,
}

impl OneWay {
    /// Reads on; all that is done with goes from `input`.
    ///
    /// # Errors
    /// The peer breaks a rule: the connection ends.
    pub fn read(&mut self, input: &mut Buf, opened: &mut Opened) -> Result<Frames, Fault> {
        let mut frames = Frames::default();
        if matches!(self.kind, Kind::Untold) {
            let Some((length, kind)) = varint::read(input) else { return Ok(frames) };
            input.consume(length);
            let first = |seen: &mut bool| match std::mem::replace(seen, true) {
                true => Err(Fault::Connection(Code::STREAM_CREATION_ERROR)),
                false => Ok(()),
            };
            self.kind = match kind {
                0x00 => {
                    first(&mut opened.controls)?;
                    Kind::Control { begun: false, skip: 0 }
                }
                // Clients do not push.
                0x01 => return Err(Fault::Connection(Code::STREAM_CREATION_ERROR)),
                0x02 => {
                    first(&mut opened.encoder)?;
                    Kind::Encoder
                }
                0x03 => {
                    first(&mut opened.decoder)?;
                    Kind::Decoder
                }
                _ => Kind::Unknown,
            };
        }
        match &mut self.kind {
            Kind::Untold => {}
            Kind::Control { begun, skip } => control(begun, skip, input, &mut frames)?,
            // Only that the table has no room may be said of it.
            Kind::Encoder => {
                if input.iter().any(|&byte| byte != 0x20) {
                    return Err(Fault::Connection(Code::QPACK_ENCODER_STREAM_ERROR));
                }
                frames.count += u32::try_from(input.len()).unwrap_or(u32::MAX);
                input.clear();
            }
            // Cancellations are all that can be said of sections without a table.
            Kind::Decoder => decoder(input, &mut frames)?,
            Kind::Unknown => {
                frames.unknown = true;
                input.clear();
            }
        }
        Ok(frames)
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// It must not.
    pub fn end(&self) -> Result<(), Fault> {
        match self.kind {
            Kind::Control { .. } | Kind::Encoder | Kind::Decoder => {
                Err(Fault::Connection(Code::CLOSED_CRITICAL_STREAM))
            }
            Kind::Untold | Kind::Unknown => Ok(()),
        }
    }
}

fn decoder(input: &mut Buf, frames: &mut Frames) -> Result<(), Fault> {
    while let Some(&first) = input.first() {
        if first & 0xc0 != 0x40 {
            return Err(Fault::Connection(Code::QPACK_DECODER_STREAM_ERROR));
        }
        // The number of a stream, with a prefix of six bits.
        let length = match first & 0x3f {
            0x3f => match input.iter().skip(1).position(|byte| byte & 0x80 == 0) {
                Some(last) => last + 2,
                None if input.len() > 10 => {
                    return Err(Fault::Connection(Code::QPACK_DECODER_STREAM_ERROR));
                }
                None => return Ok(()),
            },
            _ => 1,
        };
        input.consume(length);
        frames.count += 1;
    }
    Ok(())
}

fn control(begun: &mut bool, skip: &mut u64, input: &mut Buf, frames: &mut Frames) -> Result<(), Fault> {
    loop {
        let here = usize::try_from(*skip).unwrap_or(usize::MAX).min(input.len());
        input.consume(here);
        *skip -= here as u64;
        if *skip > 0 {
            return Ok(());
        }
        let Some((kind_len, kind)) = varint::read(input) else { return Ok(()) };
        let Some((len_len, length)) = varint::read(&input[kind_len..]) else { return Ok(()) };
        let head = kind_len + len_len;
        match (kind, *begun) {
            (0x04, false) => {
                if length > MOST_SETTINGS {
                    return Err(Fault::Connection(Code::EXCESSIVE_LOAD));
                }
                let Some(payload) = input.get(head..head + length as usize) else { return Ok(()) };
                settings(payload)?;
                *begun = true;
            }
            (_, false) => return Err(Fault::Connection(Code::MISSING_SETTINGS)),
            (0x00 | 0x01 | 0x02 | 0x04 | 0x05 | 0x06 | 0x08 | 0x09, true) => {
                return Err(Fault::Connection(Code::FRAME_UNEXPECTED));
            }
            // CANCEL_PUSH, GOAWAY, MAX_PUSH_ID are one number each; what it says matters to who pushes.
            (0x03 | 0x07 | 0x0d, true) if !(1..=8).contains(&length) => {
                return Err(Fault::Connection(Code::FRAME_ERROR));
            }
            _ => {}
        }
        input.consume(head);
        *skip = length;
        frames.count += 1;
    }
}

fn settings(mut payload: &[u8]) -> Result<(), Fault> {
    let mut seen = Vec::new();
    while !payload.is_empty() {
        let broken = Fault::Connection(Code::FRAME_ERROR);
        let (name_len, name) = varint::read(payload).ok_or(broken)?;
        let (value_len, _) = varint::read(&payload[name_len..]).ok_or(broken)?;
        payload = &payload[name_len + value_len..];
        // Settings of HTTP/2 that HTTP/3 has not, and any that stands there twice.
        if matches!(name, 0x02..=0x05) || seen.contains(&name) {
            return Err(Fault::Connection(Code::SETTINGS_ERROR));
        }
        seen.push(name);
        if seen.len() > 64 {
            return Err(Fault::Connection(Code::EXCESSIVE_LOAD));
        }
    }
    Ok(())
}
