//! As much of DER (X.690) as certificates and keys are taken apart by where no library reads them.
//!
//! Owns: [`Der`], a cursor over elements; where the public key stands in a certificate.
//! Never: judges what it reads: an own certificate may be of version 1, or hold what no library knows. Trusts no length.
//! Driven by: `cert`, `key`.

/// SEQUENCE.
pub(crate) const SEQUENCE: u8 = 0x30;
/// INTEGER.
pub(crate) const INTEGER: u8 = 0x02;
/// BIT STRING.
pub(crate) const BITS: u8 = 0x03;
/// OCTET STRING.
pub(crate) const OCTETS: u8 = 0x04;
/// OBJECT IDENTIFIER.
pub(crate) const OBJECT: u8 = 0x06;

/// Elements that are left.
#[derive(Clone, Copy)]
pub(crate) struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next element's tag and content.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Longer lengths than of four bytes are of nothing that fits a file.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next element, if it is of this kind; otherwise it stays.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (found, content) = ahead.next()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    /// The next element with its tag and length, if it is of this kind.
    pub(crate) fn element(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.take(tag)?;
        before.get(..before.len() - self.0.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The elements of the next one, which is a sequence.
    pub(crate) fn sequence(&mut self) -> Option<Self> {
        self.take(SEQUENCE).map(Self)
    }
}

/// The public key of a certificate of any version: the bits, without the algorithm's name, which is written in more than
/// one way for one key.
pub(crate) fn public_key_of(certificate: &[u8]) -> Option<&[u8]> {
    let mut tbs = Der::new(certificate).sequence()?.sequence()?;
    // The version stands only where it is not 1.
    let _ = tbs.take(0xa0);
    tbs.take(INTEGER)?;
    // Signature, issuer, validity, subject.
    for _ in 0..4 {
        tbs.take(SEQUENCE)?;
    }
    public_key_bits(tbs)
}

/// The bits of a SubjectPublicKeyInfo.
pub(crate) fn public_key_bits(mut spki: Der<'_>) -> Option<&[u8]> {
    let mut key = spki.sequence()?;
    key.take(SEQUENCE)?;
    key.take(BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_not_trusted() {
        assert_eq!(Der::new(&[4, 2, 1, 2]).next(), Some((4, &[1, 2][..])));
        assert_eq!(Der::new(&[4, 0x81, 1, 7]).next(), Some((4, &[7][..])));
        for bad in
            [&[4][..], &[4, 3, 1, 2], &[4, 0x84, 0xff, 0xff, 0xff, 0xff, 0], &[4, 0x80, 0, 0], &[4, 0x89, 0]]
        {
            assert_eq!(Der::new(bad).next(), None, "{bad:?}");
        }
        let mut der = Der::new(&[2, 1, 5, 4, 0]);
        assert_eq!(der.take(4), None);
        assert_eq!(der.take(2), Some(&[5][..]));
        assert_eq!(der.take(4), Some(&[][..]));
        assert_eq!(der.next(), None);
    }
}
