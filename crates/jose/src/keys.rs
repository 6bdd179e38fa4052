//! Sets of JSON Web Keys (RFC 7517).
//!
//! Owns: what a key is made of, what it is meant for, which keys may hold for a token.
//! Why a key that is not understood is passed over: sets are shared among applications, and the RFC asks for it. A set
//! without any key that is understood is a mistake, and told.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::{Refused, der};

/// The largest set that is read, in bytes.
pub const LARGEST: usize = 1 << 20;
/// Most keys of a set.
pub const MOST: usize = 1024;
/// What trying keys on one token may cost all together, by [`Material::cost`]: with a name in the header one key is tried;
/// without, all that are of its kind.
pub(crate) const BUDGET: u32 = 16;

/// Why a set cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It is larger than [`LARGEST`], or has more than [`MOST`] keys.
    #[error("it has more than 1 MB or 1024 keys")]
    TooLarge,
    /// It is no JSON object with a list `keys`.
    #[error("it is no JSON object with a list `keys`")]
    Form,
    /// No key is of a kind that is supported.
    #[error("it has no key that can be used: {0}")]
    NoKey(String),
}

/// Keys.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Verify,
    Decrypt,
}

/// One key.
pub(crate) struct Key {
    id: Option<String>,
    algorithm: Option<String>,
    /// `use` or `key_ops` say that it is not meant for this.
    not_for: Vec<Purpose>,
    pub(crate) material: Material,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// What a key is made of.
pub(crate) enum Material {
    /// A secret (`oct`).
    Secret(Vec<u8>),
    /// A public key of RSA (DER), and the private one (PKCS #8) where it is there.
    Rsa { public: Vec<u8>, private: Option<Vec<u8>> },
    /// A point of a curve: `P-256` and so on.
    Curve(Curve, Vec<u8>),
    /// A public key of Ed25519.
    Ed25519(Vec<u8>),
}

/// Curves of ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    P256,
    P384,
    P521,
}

impl Material {
    /// What one try costs, in verifications of P-256, rounded up.
    fn cost(&self) -> u32 {
        match self {
            Self::Curve(Curve::P521, _) => 4,
            Self::Curve(Curve::P384, _) => 3,
            Self::Secret(_) | Self::Rsa { .. } | Self::Curve(Curve::P256, _) | Self::Ed25519(_) => 1,
        }
    }
}

impl KeySet {
    /// Reads a set: an object with a list `keys`.
    ///
    /// # Errors
    /// It is none, is too large, or none of its keys can be used.
    pub fn parse(text: &[u8]) -> Result<Self, Broken> {
        if text.len() > LARGEST {
            return Err(Broken::TooLarge);
        }
        let whole: Value = serde_json::from_slice(text).map_err(|_| Broken::Form)?;
        let list = whole.get("keys").and_then(Value::as_array).ok_or(Broken::Form)?;
        if list.len() > MOST {
            return Err(Broken::TooLarge);
        }
        let (mut keys, mut faults) = (Vec::new(), Vec::new());
        for (at, one) in list.iter().enumerate() {
            match one.as_object().ok_or("it is no object").and_then(Key::read) {
                Ok(key) => keys.push(key),
                Err(why) => faults.push(format!("key {}: {why}", at + 1)),
            }
        }
        if keys.is_empty() {
            faults.truncate(3);
            return Err(Broken::NoKey(if faults.is_empty() {
                "it is empty".into()
            } else {
                faults.join("; ")
            }));
        }
        Ok(Self { keys })
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Tries keys on a token with this header until one gives something. `fits`: it is of the kind that the algorithm wants.
pub(crate) fn first<'s, T>(
    sets: impl IntoIterator<Item = &'s KeySet>,
    header: &Map<String, Value>,
    purpose: Purpose,
    fits: impl Fn(&Material) -> bool,
    mut attempt: impl FnMut(&Material) -> Option<T>,
) -> Result<T, Refused> {
    let (id, algorithm) = (header.get("kid"), header.get("alg"));
    let same = |own: &Option<String>, told: Option<&Value>| {
        own.as_ref().is_none_or(|own| told.is_none_or(|told| told.as_str() == Some(own)))
    };
    let (mut spent, mut tried) = (0, false);
    for key in sets.into_iter().flat_map(|set| &set.keys) {
        if !same(&key.id, id) || !same(&key.algorithm, algorithm) || key.not_for.contains(&purpose) {
            continue;
        }
        if !fits(&key.material) {
            continue;
        }
        spent += key.material.cost();
        if spent > BUDGET && tried {
            break;
        }
        tried = true;
        if let Some(found) = attempt(&key.material) {
            return Ok(found);
        }
    }
    Err(if tried { Refused::Mismatch } else { Refused::NoKey })
}

impl Key {
    fn read(key: &Map<String, Value>) -> Result<Self, &'static str> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let material = match text("kty").ok_or("it has no `kty`")? {
            "oct" => Material::Secret(
                number(key, "k").filter(|secret| !secret.is_empty()).ok_or("`k` is missing")?,
            ),
            "RSA" => rsa(key)?,
            "EC" => curve(key)?,
            "OKP" if text("crv") == Some("Ed25519") => {
                Material::Ed25519(number(key, "x").filter(|x| x.len() == 32).ok_or("`x` has not 32 bytes")?)
            }
            "OKP" => return Err("its curve is not supported"),
            _ => return Err("its kind (`kty`) is not supported"),
        };
        let mut not_for = Vec::new();
        let operations = key.get("key_ops").and_then(Value::as_array);
        let lacks = |wanted: &[&str]| {
            operations.is_some_and(|own| {
                !own.iter().any(|one| one.as_str().is_some_and(|one| wanted.contains(&one)))
            })
        };
        if text("use").is_some_and(|meant| meant != "sig") || lacks(&["verify"]) {
            not_for.push(Purpose::Verify);
        }
        if text("use").is_some_and(|meant| meant != "enc") || lacks(&["decrypt", "unwrapKey"]) {
            not_for.push(Purpose::Decrypt);
        }
        Ok(Self {
            id: text("kid").map(str::to_owned),
            algorithm: text("alg").map(str::to_owned),
            not_for,
            material,
        })
    }
}

fn number(key: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    // Padding is not allowed, and seen.
    URL_SAFE_NO_PAD.decode(key.get(name)?.as_str()?.trim_end_matches('=')).ok()
}

fn rsa(key: &Map<String, Value>) -> Result<Material, &'static str> {
    let of = |name| number(key, name);
    let (modulus, exponent) = (of("n").ok_or("`n` is missing")?, of("e").ok_or("`e` is missing")?);
    if !(256..=1024).contains(&modulus.iter().skip_while(|byte| **byte == 0).count()) {
        return Err("a key of RSA has 2048 to 8192 bits");
    }
    let private = match (of("d"), of("p"), of("q"), of("dp"), of("dq"), of("qi")) {
        (Some(d), Some(p), Some(q), Some(dp), Some(dq), Some(qi)) => {
            Some(der::private_key(&[&modulus, &exponent, &d, &p, &q, &dp, &dq, &qi]))
        }
        (None, ..) => None,
        _ => return Err("a private key of RSA needs `p`, `q`, `dp`, `dq` and `qi`"),
    };
    Ok(Material::Rsa { public: der::public_key(&modulus, &exponent), private })
}

fn curve(key: &Map<String, Value>) -> Result<Material, &'static str> {
    let (curve, size) = match key.get("crv").and_then(Value::as_str) {
        Some("P-256") => (Curve::P256, 32),
        Some("P-384") => (Curve::P384, 48),
        Some("P-521") => (Curve::P521, 66),
        _ => return Err("its curve is not supported"),
    };
    let part =
        |name| number(key, name).filter(|part| part.len() == size).ok_or("`x` or `y` has another length");
    Ok(Material::Curve(curve, [&[4][..], &part("x")?, &part("y")?].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_a_key_that_can_be_used() {
        let parse = |text: &str| KeySet::parse(text.as_bytes()).map(|set| set.len());
        assert_eq!(
            parse(r#"{"keys":[{"kty":"oct","k":"ZmFudGFzdGljand0","kid":"0001"},{"kty":"new"},7]}"#),
            Ok(1)
        );
        for form in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[}"#] {
            assert_eq!(parse(form), Err(Broken::Form), "{form}");
        }
        for (none, why) in [
            (r#"{"keys":[]}"#, "it is empty"),
            (r#"{"keys":[{"kty":"oct"}]}"#, "`k` is missing"),
            (r#"{"keys":[{"kty":"oct","k":""}]}"#, "`k` is missing"),
            (r#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#, "2048 to 8192 bits"),
            (r#"{"keys":[{"kty":"OKP","crv":"Ed448","x":"AA"}]}"#, "curve is not supported"),
            (r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#, "another length"),
        ] {
            let told = parse(none).unwrap_err().to_string();
            assert!(told.contains(why), "{none}: {told}");
        }
        assert_eq!(parse(&" ".repeat(LARGEST + 1)), Err(Broken::TooLarge));
    }
}
