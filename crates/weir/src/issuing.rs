//! Certificates that authorities issue: what a plan wants, and the thread that has it made.
//!
//! Owns: the translation between a plan, the engine and `weir_acme`.
//! Never: orders anything; keeps a file.
//! Driven by: `adapter`, before and after each plan.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use weir_acme::{AccountKeyFrom, Desk, External, Host, Issuer, Side, Wanted, external_key};
use weir_control::changes::KeyPair;
use weir_control::snapshot::IssuedFigures;
use weir_engine::{Engine, Issued};
use weir_plan::{AcmeIssuer, Plan};

/// What there is of all that, for as long as the process lives.
pub(crate) struct Issuing {
    desk: Arc<Desk>,
    /// The engine has this in turn.
    engine: Weak<Mutex<Option<Engine>>>,
    side: Mutex<Option<Side>>,
}

impl Issuing {
    pub(crate) fn new(engine: &Arc<Mutex<Option<Engine>>>) -> Self {
        Self { desk: Arc::default(), engine: Arc::downgrade(engine), side: Mutex::default() }
    }

    /// What a plan wants.
    ///
    /// # Errors
    /// One line: a key cannot be read.
    pub(crate) fn wanted(plan: &Plan) -> Result<Vec<Wanted>, String> {
        let issuers: Vec<Arc<Issuer>> = plan.acme.issuers.iter().map(issuer).collect::<Result<_, _>>()?;
        let one = |one: &weir_plan::AcmeCertificate| {
            let issuer = Arc::clone(issuers.get(one.issuer)?);
            Some(Wanted { name: one.name.clone(), issuer, names: one.names.clone(), key: one.key })
        };
        Ok(plan.acme.certificates.iter().filter_map(one).collect())
    }

    /// Has something to show for each of these.
    ///
    /// # Errors
    /// One line: no key can be made.
    pub(crate) fn prepare(&self, wanted: &[Wanted]) -> Result<(), String> {
        self.desk.prepare(wanted)
    }

    /// Has them made and renewed from now on, and no others.
    ///
    /// # Errors
    /// One line: there can be no thread.
    pub(crate) fn want(&self, wanted: Vec<Wanted>) -> Result<(), String> {
        let mut side = self.side.lock().unwrap_or_else(PoisonError::into_inner);
        if side.is_none() && !wanted.is_empty() {
            let shown = Arc::new(Shown { engine: self.engine.clone() });
            let started = Side::start(Arc::clone(&self.desk), shown);
            *side = Some(started.map_err(|error| format!("cannot have certificates made: {error}"))?);
        }
        if let Some(side) = &*side {
            side.want(wanted);
        }
        Ok(())
    }

    /// Orders nothing any more. What there is is shown to the end.
    pub(crate) fn end(&self) {
        *self.side.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn issuer(one: &AcmeIssuer) -> Result<Arc<Issuer>, String> {
    let external = match &one.external {
        Some((id, key)) => {
            let text = String::from_utf8_lossy(key.reveal());
            let bytes = external_key(&text).map_err(|why| format!("{}: {why}", key.source))?;
            Some(External { id: id.clone(), key: bytes })
        }
        None => None,
    };
    Ok(Arc::new(Issuer {
        name: one.name.clone(),
        directory: one.directory.clone(),
        contact: one.contact.clone(),
        account_key: match &one.account_key_file {
            Some(key) => AccountKeyFrom::Given(key.reveal().to_vec()),
            None => AccountKeyFrom::Made(one.account_key),
        },
        challenge: one.challenge,
        external,
        preferred_chain: one.preferred_chain.clone(),
        profile: one.profile.clone(),
        authorities: one.authorities.as_ref().map(|pem| pem.bytes.to_vec()).unwrap_or_default(),
        verify: one.verify,
        state: one.state.clone(),
        terms: one.accepts_terms,
        retry: one.retry,
    }))
}

impl Issued for Issuing {
    fn pair(&self, name: &str) -> Option<KeyPair> {
        self.desk.pair(name)
    }

    fn answer(&self, host: &str, token: &str) -> Option<String> {
        self.desk.answer(host, token)
    }

    fn proof(&self, host: &str) -> Option<KeyPair> {
        self.desk.proof(host)
    }

    fn figures(&self) -> Vec<IssuedFigures> {
        self.desk.figures()
    }
}

/// What the thread does with what comes.
struct Shown {
    engine: Weak<Mutex<Option<Engine>>>,
}

impl Shown {
    /// Does something with the engine, while there is one.
    fn with<T>(&self, act: impl FnOnce(&Engine) -> T) -> Option<T> {
        let engine = self.engine.upgrade()?;
        let engine = engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.as_ref().map(act)
    }
}

impl Host for Shown {
    fn show(&self, name: &str) -> Result<(), String> {
        self.with(|engine| engine.show_issued(name)).unwrap_or(Ok(()))
    }

    fn say(&self, is_error: bool, line: &str) {
        self.with(|engine| engine.say(is_error, line));
    }
}
