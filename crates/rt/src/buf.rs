//! Pooled byte buffers with a cursor.
//!
//! Owns: the per-thread LIFO free lists of the three size classes, and `Buf`.
//! Never: touches a socket; hands a buffer to two owners.
//! Driven by: every read and write of this crate, and by the protocol code that fills answers.
//! Why: the buffer used last is the one still in the cache, hence LIFO; 64 KB is the largest class because sends
//! of more than that fall out of the cache (measured: a third to a half dearer). An empty `Buf` owns no memory, so
//! that an idle connection costs none.
//!
//! ```text
//!   0        start          end           capacity
//!   | consumed | readable    | spare        |
//! ```

use std::cell::RefCell;
use std::io;
use std::ops::{Deref, DerefMut};

/// Bytes of the smallest class: one page, a request head.
pub const SMALL: usize = 4 * 1024;
/// Bytes of the middle class: a large head, a TLS record.
pub const MEDIUM: usize = 16 * 1024;
/// Bytes of the largest pooled class, and the most that one write should carry.
pub const LARGE: usize = 64 * 1024;
/// Bytes of a long body to move at a time: with a head before them they still fit one segment on the loopback device
/// (65,483 bytes). A whole buffer does not, and its last few bytes then cost a packet of their own.
pub const PIECE: usize = 60 * 1024;

const CLASSES: [usize; 3] = [SMALL, MEDIUM, LARGE];

/// Free buffers kept by each thread, by class. Beyond the budget they go back to the allocator.
struct Pool {
    free: [Vec<Box<[u8]>>; 3],
    keep: [usize; 3],
}

thread_local! {
    static POOL: RefCell<Pool> =
        const { RefCell::new(Pool { free: [Vec::new(), Vec::new(), Vec::new()], keep: [256, 128, 64] }) };
}

/// Sets how many bytes of free buffers the calling thread keeps in each class (4 KB, 16 KB, 64 KB).
///
/// Small values cost an allocation for each burst, large ones keep the peak's memory for good.
pub fn set_pool_limits(small: usize, medium: usize, large: usize) {
    POOL.with_borrow_mut(|pool| pool.keep = [small / SMALL, medium / MEDIUM, large / LARGE]);
}

/// Bytes held in the calling thread's free lists.
pub fn pool_free_bytes() -> usize {
    POOL.with_borrow(|pool| pool.free.iter().zip(CLASSES).map(|(list, size)| list.len() * size).sum())
}

/// Gives the calling thread's free buffers back to the allocator.
pub fn release_pool() {
    POOL.with_borrow_mut(|pool| pool.free = [Vec::new(), Vec::new(), Vec::new()]);
}

/// Has the allocators give what is free back to the kernel: mimalloc, which the binary allocates by, what the calling
/// thread freed; glibc's, which C libraries use, everything. Takes milliseconds, and other threads' locks: rarely.
pub fn trim_heap() {
    // SAFETY: mi_collect takes no pointer and may be called at any time; where another allocator is the global one, it
    // finds nothing.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time, from any thread; it takes no pointer.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn class_for(len: usize) -> Option<usize> {
    CLASSES.iter().position(|&size| len <= size)
}

fn allocate(len: usize) -> Box<[u8]> {
    let Some(class) = class_for(len) else {
        return vec![0; len].into_boxed_slice();
    };
    POOL.try_with(|pool| pool.borrow_mut().free[class].pop())
        .ok()
        .flatten()
        .unwrap_or_else(|| vec![0; CLASSES[class]].into_boxed_slice())
}

fn give_back(mem: Box<[u8]>) {
    let Some(class) = CLASSES.iter().position(|&size| size == mem.len()) else {
        return;
    };
    // At thread exit the pool may be gone already: the memory is then simply freed.
    let _ = POOL.try_with(|pool| {
        let pool = &mut *pool.borrow_mut();
        if pool.free[class].len() < pool.keep[class] {
            pool.free[class].push(mem);
        }
    });
}

/// A growable byte buffer from the thread's pool. Dereferences to its readable bytes.
///
/// `Buf::new()` owns no memory. Memory is taken at the first byte and given back by [`Buf::release`] or on drop.
#[derive(Default)]
pub struct Buf {
    mem: Option<Box<[u8]>>,
    start: u32,
    end: u32,
}

impl Buf {
    /// An empty buffer that owns no memory.
    pub const fn new() -> Self {
        Self { mem: None, start: 0, end: 0 }
    }

    /// A buffer with at least `len` bytes of space, from the smallest class that fits.
    pub fn with_capacity(len: usize) -> Self {
        Self { mem: Some(allocate(len)), start: 0, end: 0 }
    }

    /// Bytes of memory owned, consumed and spare ones included; 0 for an idle buffer.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.mem.as_ref().map_or(0, |mem| mem.len())
    }

    /// Bytes that can be appended without moving or allocating.
    #[inline]
    pub fn spare(&self) -> usize {
        self.capacity() - self.end as usize
    }

    /// Marks `n` readable bytes as read. More than there are counts as all.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.start = self.start.saturating_add(n.min(u32::MAX as usize) as u32).min(self.end);
        if self.start == self.end {
            self.clear();
        }
    }

    /// Drops readable bytes behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.end = self.start + len as u32;
        }
    }

    /// Forgets the contents, keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Forgets the contents and gives the memory back to the pool.
    #[inline]
    pub fn release(&mut self) {
        self.clear();
        if let Some(mem) = self.mem.take() {
            give_back(mem);
        }
    }

    /// Moves contents and memory out, leaving an empty buffer.
    #[inline]
    pub fn take(&mut self) -> Buf {
        std::mem::take(self)
    }

    /// Makes room for `more` bytes behind the readable ones: moves them to the front, or to a larger class.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        if self.spare() >= more {
            return;
        }
        let len = self.len();
        if self.capacity() >= len + more {
            let (start, end) = (self.start as usize, self.end as usize);
            if let Some(mem) = &mut self.mem {
                mem.copy_within(start..end, 0);
            }
        } else {
            let mut grown = allocate(len + more);
            grown[..len].copy_from_slice(self);
            if let Some(old) = self.mem.replace(grown) {
                give_back(old);
            }
        }
        self.start = 0;
        self.end = len as u32;
    }

    /// The writable space behind the readable bytes. Its contents are old bytes of no meaning.
    #[inline]
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let end = self.end as usize;
        match &mut self.mem {
            Some(mem) => &mut mem[end..],
            None => &mut [],
        }
    }

    /// Makes `n` bytes of the space written through [`Buf::spare_mut`] readable. More than there are counts as all.
    #[inline]
    pub fn commit(&mut self, n: usize) {
        self.end += n.min(self.spare()) as u32;
    }

    /// Appends `bytes`, growing if need be.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let spare = self.spare_mut();
        spare[..bytes.len()].copy_from_slice(bytes);
        self.commit(bytes.len());
    }

    /// Splits off the first `len` readable bytes into a buffer of their own (a copy of the shorter part).
    pub fn split_to(&mut self, len: usize) -> Buf {
        let len = len.min(self.len());
        if len == self.len() {
            return self.take();
        }
        let mut head = Buf::with_capacity(len);
        head.extend(&self[..len]);
        self.consume(len);
        head
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        self.release();
    }
}

impl Deref for Buf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.mem {
            Some(mem) => &mem[self.start as usize..self.end as usize],
            None => &[],
        }
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.mem {
            Some(mem) => &mut mem[self.start as usize..self.end as usize],
            None => &mut [],
        }
    }
}

impl From<&[u8]> for Buf {
    fn from(bytes: &[u8]) -> Self {
        let mut buf = Buf::with_capacity(bytes.len());
        buf.extend(bytes);
        buf
    }
}

impl io::Write for Buf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buf").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_buffer_owns_nothing() {
        let mut buf = Buf::new();
        assert_eq!(buf.capacity(), 0);
        buf.extend(b"abc");
        assert_eq!((&buf[..], buf.capacity()), (&b"abc"[..], SMALL));
        buf.release();
        assert_eq!((buf.len(), buf.capacity()), (0, 0));
    }

    #[test]
    fn growing_keeps_the_unread_bytes() {
        let mut buf = Buf::from(&b"0123456789"[..]);
        buf.consume(4);
        buf.extend(&[7; SMALL]);
        assert_eq!(&buf[..6], b"456789");
        assert_eq!(buf.len(), 6 + SMALL);
        assert_eq!(buf.capacity(), MEDIUM);
        let head = buf.split_to(6);
        assert_eq!(&head[..], b"456789");
        assert!(buf.iter().all(|&b| b == 7));
    }

    #[test]
    fn the_pool_is_last_in_first_out() {
        let first = Buf::with_capacity(10);
        let address = first.mem.as_ref().map(|mem| mem.as_ptr());
        drop(first);
        let second = Buf::with_capacity(20);
        assert_eq!(second.mem.as_ref().map(|mem| mem.as_ptr()), address);
    }
}
