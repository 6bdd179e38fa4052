//! Databases of networks (MaxMind DB), which say of an address where and whose it is.
//!
//! Owns: the content in use, its replacement while running, and values as text.
//! Never: reads files; `lower` does at load, and the engine where a database is to be followed.
//! Why: `maxminddb` is the format's makers' own library.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use weir_expr::networks::DatabasePart;

/// A database.
pub struct Database {
    file: Box<str>,
    /// How often it is looked whether the file is another.
    pub reload: Option<Duration>,
    content: RwLock<Arc<Content>>,
    /// When the file was changed that was read last, in nanoseconds since 1970; 0: nobody has looked yet.
    seen: AtomicU64,
    /// Seconds since 1970.
    checked: AtomicU64,
    changed: AtomicU64,
}

struct Content {
    bytes: Arc<[u8]>,
    reader: Reader<Arc<[u8]>>,
}

impl Content {
    fn new(bytes: Arc<[u8]>) -> Result<Arc<Self>, DatabaseError> {
        Ok(Arc::new(Self { reader: Reader::from_source(bytes.clone())?, bytes }))
    }
}

/// Why bytes are no database.
pub type DatabaseError = maxminddb::MaxMindDbError;

impl Database {
    /// From the bytes of a file, read at this second since 1970.
    ///
    /// # Errors
    /// They are no such database.
    pub fn new(
        file: &str,
        bytes: Arc<[u8]>,
        reload: Option<Duration>,
        now: u64,
    ) -> Result<Self, DatabaseError> {
        let content = RwLock::new(Content::new(bytes)?);
        let [seen, checked, changed] = [0, now, now].map(AtomicU64::new);
        Ok(Self { file: file.into(), reload, content, seen, checked, changed })
    }

    /// The file that it is read from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Whether a file that was changed at this time, in nanoseconds since 1970, has not been read yet.
    pub fn is_news(&self, modified: u64) -> bool {
        self.seen.swap(modified, Ordering::Relaxed) != modified
    }

    /// Whether it is time to look for a newer file. Who is told so is to do it.
    pub fn is_due(&self, now: u64) -> bool {
        let Some(reload) = self.reload else { return false };
        let checked = self.checked.load(Ordering::Relaxed);
        now.saturating_sub(checked) >= reload.as_secs()
            && self.checked.compare_exchange(checked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Takes the bytes of a file that may be a newer one, read at this second.
    ///
    /// # Errors
    /// They are no such database; the old one stays.
    pub fn replace(&self, bytes: Arc<[u8]>, now: u64) -> Result<(), DatabaseError> {
        if self.content().bytes == bytes {
            return Ok(());
        }
        let content = Content::new(bytes)?;
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = content;
        self.changed.store(now, Ordering::Relaxed);
        Ok(())
    }

    fn content(&self) -> Arc<Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is wanted of it, as text; `None`: it says nothing of that.
    pub fn value(&self, part: &DatabasePart, address: Option<IpAddr>) -> Option<String> {
        match part {
            DatabasePart::BuildTime => Some(self.content().reader.metadata().build_epoch.to_string()),
            DatabasePart::LastCheck => Some(self.checked.load(Ordering::Relaxed).to_string()),
            DatabasePart::LastChange => Some(self.changed.load(Ordering::Relaxed).to_string()),
            DatabasePart::Entry(path) => {
                let steps: Vec<PathElement<'_>> = path.iter().map(|step| element(step)).collect();
                // An entry that is broken says nothing.
                self.content().reader.lookup(address?).ok()?.decode_path::<Text>(&steps).ok()??.0
            }
        }
    }
}

/// A place in a list, or a key of a map. Negative places count from the end, -1 is the last.
fn element(step: &str) -> PathElement<'_> {
    match step.parse::<isize>() {
        Ok(at @ 0..) => PathElement::Index(at.unsigned_abs()),
        Ok(at) => PathElement::IndexFromEnd(at.unsigned_abs() - 1),
        Err(_) => PathElement::Key(step),
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Serialize for Database {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.file)
    }
}

/// A single value as the geoip2 module of nginx writes it; maps and lists are none.
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsText)
    }
}

struct AsText;

impl<'de> Visitor<'de> for AsText {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Text, E> {
        Ok(Text(Some(u8::from(value).to_string())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Text, E> {
        Ok(Text(Some(value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Text, E> {
        Ok(Text(Some(value.to_string())))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Text, E> {
        Ok(Text(Some(format!("0x{value:032x}"))))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Text, E> {
        Ok(Text(Some(format!("{value:.5}"))))
    }

    fn visit_str<E>(self, value: &str) -> Result<Text, E> {
        Ok(Text(Some(value.to_owned())))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Text, E> {
        Ok(Text(Some(String::from_utf8_lossy(value).into_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }
}
