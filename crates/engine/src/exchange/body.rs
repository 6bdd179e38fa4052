//! The request body as far as the exchange holds it.
//!
//! Owns: the buffered bytes, in memory or in a bounded file.
//! Never: reads from the client; `exchange::intake` does.
//! Driven by: proxy and FastCGI actions, which send it, again for a retry.
//! Why: a body that is buffered before an endpoint is chosen can be sent twice, and a slow upload holds no endpoint.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use weir_expr::settings::{BodyFiles, BodySettings};
use weir_rt::Buf;

/// State of the body.
#[derive(Default)]
pub(crate) struct RequestBody {
    memory: Vec<u8>,
    spool: Option<Spool>,
    received: u64,
    /// All of it is here.
    pub(crate) complete: bool,
    /// Some of it went to an endpoint unbuffered: it cannot be sent again.
    pub(crate) streamed: bool,
}

struct Spool {
    file: File,
    path: PathBuf,
    length: u64,
    /// Dropped, it takes the file's name away.
    _name: Option<tempfile::TempPath>,
}

/// A piece of a body read back.
pub(crate) enum BodyPiece {
    /// Bytes.
    Data(Buf),
    /// There are no more.
    End,
}

impl RequestBody {
    /// Forgets the body; the file is closed, and its name is gone already.
    pub(crate) fn clear(&mut self) {
        self.memory.clear();
        if self.memory.capacity() > 64 << 10 {
            self.memory = Vec::new();
        }
        self.spool = None;
        self.received = 0;
        self.complete = false;
        self.streamed = false;
    }

    /// Bytes received so far, buffered or passed on.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Counts bytes that were passed on without being kept.
    pub(crate) fn count_streamed(&mut self, bytes: usize) {
        self.received += bytes as u64;
        self.streamed = true;
    }

    /// Counts bytes that are passed on as they come, and keeps them for another attempt as long as there are at most `most`.
    pub(crate) fn pass_on(&mut self, bytes: &[u8], most: usize) {
        self.received += bytes.len() as u64;
        if self.streamed {
            return;
        }
        if self.memory.len() + bytes.len() <= most {
            self.memory.extend_from_slice(bytes);
        } else {
            self.streamed = true;
            self.memory.clear();
        }
    }

    /// Bytes held.
    pub(crate) fn buffered(&self) -> u64 {
        self.memory.len() as u64 + self.spool.as_ref().map_or(0, |spool| spool.length)
    }

    /// The bytes, if all that was received is in memory.
    pub(crate) fn in_memory(&self) -> Option<&[u8]> {
        (self.spool.is_none() && !self.memory.is_empty()).then_some(&self.memory)
    }

    /// Path of the file that holds the body; the file has no name any more, but logs and FastCGI show this.
    pub(crate) fn file_path(&self) -> Option<&Path> {
        self.spool.as_ref().map(|spool| spool.path.as_path())
    }

    /// The same bytes for another request, once all of them are here.
    ///
    /// # Errors
    /// The process has no descriptor left for the file.
    pub(crate) fn again(&self) -> io::Result<Self> {
        debug_assert!(self.complete && !self.streamed, "what went on is not here any more");
        let spool = self.spool.as_ref().map(|spool| {
            // Offsets are named at each read, so that two may read one file.
            Ok::<_, io::Error>(Spool {
                file: spool.file.try_clone()?,
                path: spool.path.clone(),
                length: spool.length,
                // The name goes with the request that has it.
                _name: None,
            })
        });
        Ok(Self {
            memory: self.memory.clone(),
            spool: spool.transpose()?,
            received: self.received,
            complete: true,
            streamed: false,
        })
    }

    /// Keeps bytes: in memory up to `limit`, then in a file under `folder`; `files` says whether it has a name.
    ///
    /// # Errors
    /// The file could not be made or written (no space): the request is answered with 500, others go on.
    pub(crate) fn keep(&mut self, bytes: &[u8], settings: &BodySettings) -> io::Result<()> {
        let limit = if settings.files == BodyFiles::WhereNeeded { settings.memory as usize } else { 0 };
        self.received += bytes.len() as u64;
        if self.spool.is_none() && self.memory.len() + bytes.len() <= limit {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        if self.spool.is_none() {
            let mut spool = Spool::create(&settings.temp_path, settings.files)?;
            spool.append(&self.memory)?;
            self.memory = Vec::new();
            self.spool = Some(spool);
        }
        match &mut self.spool {
            Some(spool) => spool.append(bytes),
            None => Ok(()),
        }
    }

    /// Reads back up to 64 KB from `offset`.
    ///
    /// # Errors
    /// The file could not be read.
    pub(crate) fn piece(&self, offset: u64) -> io::Result<BodyPiece> {
        let mut buf = Buf::new();
        match &self.spool {
            None => {
                let rest = self.memory.get(offset as usize..).unwrap_or_default();
                buf.extend(&rest[..rest.len().min(weir_rt::LARGE)]);
            }
            Some(spool) => {
                let wanted = (spool.length.saturating_sub(offset)).min(weir_rt::LARGE as u64) as usize;
                if wanted > 0 && weir_rt::pread_into(&spool.file, offset, &mut buf, wanted)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
        Ok(if buf.is_empty() { BodyPiece::End } else { BodyPiece::Data(buf) })
    }
}

impl Spool {
    fn create(folder: &Path, files: BodyFiles) -> io::Result<Self> {
        if files == BodyFiles::WhereNeeded {
            let (file, path) = create_spool_file(folder)?;
            return Ok(Self { file, path, length: 0, _name: None });
        }
        let (file, name) = create_named_file(folder)?.into_parts();
        let path = name.to_path_buf();
        let name = match files {
            BodyFiles::Kept => {
                name.keep().map_err(|error| error.error)?;
                None
            }
            _ => Some(name),
        };
        Ok(Self { file, path, length: 0, _name: name })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Makes a file that nobody else can open: its name is removed at once. Falls back to the system's temporary folder
/// where the configured one cannot be used (a packaged default path without the package).
pub(crate) fn create_spool_file(folder: &Path) -> io::Result<(File, PathBuf)> {
    let named = create_named_file(folder)?;
    let path = named.path().to_owned();
    Ok((named.into_file(), path))
}

/// Makes a file that is to have another name later; without one it goes when it is dropped. Where, see
/// [`create_spool_file`].
pub(crate) fn create_named_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    match tempfile::Builder::new().prefix("weir-").tempfile_in(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            tempfile::NamedTempFile::with_prefix("weir-")
        }
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(memory: u64, folder: &Path, files: BodyFiles) -> BodySettings {
        BodySettings { memory, temp_path: folder.into(), files, ..BodySettings::default() }
    }

    fn whole(body: &RequestBody) -> Vec<u8> {
        let mut all = Vec::new();
        while let BodyPiece::Data(piece) = body.piece(all.len() as u64).unwrap() {
            all.extend_from_slice(&piece);
        }
        all
    }

    #[test]
    fn a_body_moves_to_a_file_and_reads_back_twice() {
        let folder = tempfile::tempdir().unwrap();
        let mut body = RequestBody::default();
        let settings = settings(8, folder.path(), BodyFiles::WhereNeeded);
        body.keep(b"hello ", &settings).unwrap();
        assert_eq!(body.in_memory(), Some(&b"hello "[..]));
        body.keep(&[b'x'; 100_000], &settings).unwrap();
        assert!(body.in_memory().is_none());
        assert_eq!(body.buffered(), 100_006);
        let first = whole(&body);
        assert_eq!(first.len(), 100_006);
        assert_eq!(first, whole(&body));
        body.complete = true;
        let again = body.again().unwrap();
        body.clear();
        assert_eq!(first, whole(&again), "one outlives the other");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }

    #[test]
    fn a_file_has_a_name_where_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let names = || std::fs::read_dir(folder.path()).unwrap().count();
        let mut body = RequestBody::default();
        body.keep(b"a", &settings(100, folder.path(), BodyFiles::Named)).unwrap();
        assert_eq!((body.in_memory(), names()), (None, 1), "however small it is");
        assert_eq!(std::fs::read(body.file_path().unwrap()).unwrap(), b"a");
        body.clear();
        assert_eq!(names(), 0);
        body.keep(b"b", &settings(100, folder.path(), BodyFiles::Kept)).unwrap();
        let path = body.file_path().unwrap().to_owned();
        body.clear();
        assert_eq!(std::fs::read(path).unwrap(), b"b", "it stays");
    }
}
