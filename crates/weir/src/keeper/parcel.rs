//! Everything that one configuration needs, in one memory file.
//!
//! Owns: its content and encoding; sealing it, so that neither side can change what the other reads.
//! Never: touches a disk.
//! Driven by: `keeper::child` packs, `keeper::plane` unpacks. The keeper keeps the last good one for a restart.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::compile::store::Answers;
use crate::compile::text::Text;
use crate::compile::wire::{Reader, Writer};
use crate::life::sockets::SocketId;

/// What the data plane compiles from, and which of its sockets belong to which listener.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) workers: usize,
    pub(crate) listeners: Vec<(String, Vec<SocketId>)>,
    pub(crate) answers: Answers,
    /// What it compiles in place of the files.
    pub(crate) text: Option<Text>,
}

impl Parcel {
    /// Into a memory file that nobody can change any more.
    pub(crate) fn pack(&self) -> io::Result<OwnedFd> {
        let fd = memfd_create("weir-parcel", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut file = File::from(fd);
        file.write_all(&self.to_bytes())?;
        let fd = OwnedFd::from(file);
        fcntl_add_seals(&fd, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
        Ok(fd)
    }

    /// Out of it. The same file may be unpacked again by the next data plane: no offset is used.
    pub(crate) fn unpack(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Self::from_bytes(&bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the parcel cannot be read"))
    }

    /// Encoded.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.number(self.workers as u64);
        out.list(&self.listeners, |out, (name, sockets)| {
            out.bytes(name.as_bytes());
            out.list(sockets, |out, id| out.number(id.0));
        });
        self.answers.encode(&mut out);
        out.list(&self.text, |out, text| text.encode(out));
        out.into_bytes()
    }

    /// Decoded; `None` for nonsense.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::decode(&mut Reader::new(bytes))
    }

    /// One for the fuzzer to start from.
    pub(crate) fn sample() -> Vec<u8> {
        let listeners = vec![("a".into(), vec![SocketId(1), SocketId(7)]), ("b".into(), vec![])];
        Self { workers: 3, listeners, answers: Answers::default(), text: None }.to_bytes()
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let workers = usize::try_from(input.number()?).ok()?;
        let mut listeners = Vec::new();
        for _ in 0..input.number()? {
            let name = input.text()?;
            let sockets =
                (0..input.number()?).map(|_| input.number().map(SocketId)).collect::<Option<_>>()?;
            listeners.push((name, sockets));
        }
        let answers = Answers::decode(input)?;
        let text = match input.number()? {
            0 => None,
            _ => Some(Text::decode(input)?),
        };
        Some(Self { workers, listeners, answers, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_arrives_as_it_left_and_cannot_be_changed() {
        let parcel = Parcel {
            workers: 3,
            listeners: vec![("a".into(), vec![SocketId(1), SocketId(7)]), ("b".into(), vec![])],
            answers: Answers::default(),
            text: Some(Text::of(&weir_model::Model::default()).unwrap().0),
        };
        let fd = parcel.pack().unwrap();
        let writer = File::from(fd.try_clone().unwrap());
        assert!(writer.write_all_at(b"x", 0).is_err());
        assert_eq!(Parcel::unpack(fd.try_clone().unwrap()).unwrap(), parcel);
        assert_eq!(Parcel::unpack(fd).unwrap(), parcel);
    }
}
