//! One order, from asking for it to the certificate.
//!
//! Owns: the account of an issuer, the steps of an order, taking up one that another process began.
//! Never: decides when to order.
//! Driven by: `side`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{Mutex, Semaphore};
use weir_control::changes::KeyPair;
use weir_expr::settings::AcmeChallenge;

use crate::account::AccountKey;
use crate::client::{Account, Authorization, Client, Order, plain};
use crate::desk::{Desk, Offer, Offered, joined, now, usable};
use crate::folder::{Folder, Held};
use crate::make::{self, Life};
use crate::{AccountKeyFrom, Error, Issuer, Wanted};

/// How long an authority may take over names, or a certificate.
const PATIENCE: Duration = Duration::from_secs(600);

/// First and longest pause between two looks at something that is not done.
const LOOK: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(20));

/// Orders at once.
const ORDERS: usize = 3;

/// Chains that are looked at for the preferred one.
const CHAINS: usize = 8;

const KEY: &str = "account.key";
const ACCOUNT: &str = "account.json";

/// What is had of an issuer.
pub(crate) struct Session {
    pub(crate) issuer: Issuer,
    pub(crate) folder: Option<Folder>,
    pub(crate) held: Mutex<Option<Held>>,
    orders: Semaphore,
    open: Mutex<Option<Arc<Open>>>,
}

/// An account that was registered.
struct Open {
    client: Client,
    account: Account,
}

/// What is kept of an account.
#[derive(Deserialize, Serialize)]
struct KeptAccount {
    directory: String,
    thumbprint: String,
    url: String,
    contact: Vec<String>,
}

/// What is kept of an order.
#[derive(Deserialize, Serialize)]
struct KeptOrder {
    directory: String,
    names: Vec<String>,
    url: String,
    key: String,
}

impl Session {
    pub(crate) fn new(issuer: Issuer) -> Self {
        let folder = issuer.state.as_deref().map(Folder::new);
        Self {
            issuer,
            folder,
            held: Mutex::default(),
            orders: Semaphore::new(ORDERS),
            open: Mutex::default(),
        }
    }

    /// The account; registers it, if that is to be done.
    async fn open(&self) -> Result<Arc<Open>, Error> {
        let mut place = self.open.lock().await;
        if let Some(open) = &*place {
            return Ok(Arc::clone(open));
        }
        let key = self.key()?;
        let client = Client::open(&self.issuer).await?;
        let thumbprint = key.thumbprint();
        let kept = self.folder.as_ref().and_then(|folder| folder.text(ACCOUNT));
        let kept = kept.and_then(|text| serde_json::from_str::<KeptAccount>(&text).ok());
        let kept =
            kept.filter(|kept| kept.directory == self.issuer.directory && kept.thumbprint == thumbprint);
        let (url, known) = match kept {
            Some(kept) => (kept.url, Some(kept.contact)),
            None => (client.register(&self.issuer, &key).await?, None),
        };
        let account = Account { key, url };
        let contact = &self.issuer.contact;
        if known.as_ref().is_some_and(|known| known != contact) {
            client.contacts(&account, contact).await?;
        }
        if let Some(folder) = &self.folder
            && known.as_ref() != Some(contact)
        {
            let kept = KeptAccount {
                directory: self.issuer.directory.clone(),
                thumbprint,
                url: account.url.clone(),
                contact: contact.clone(),
            };
            let text = json!(kept).to_string();
            folder.write(ACCOUNT, text.as_bytes()).map_err(|error| Error::folder(folder, &error))?;
        }
        let open = Arc::new(Open { client, account });
        *place = Some(Arc::clone(&open));
        Ok(open)
    }

    /// The key that the configuration names, or the one that was made.
    fn key(&self) -> Result<AccountKey, Error> {
        let kind = match &self.issuer.account_key {
            AccountKeyFrom::Given(pem) => return AccountKey::read(pem),
            AccountKeyFrom::Made(kind) => *kind,
        };
        let Some(folder) = &self.folder else { return Ok(AccountKey::make(kind)?.0) };
        match folder.read(KEY).map_err(|error| Error::folder(folder, &error))? {
            Some(pem) => AccountKey::read(&pem),
            None => {
                let (key, pem) = AccountKey::make(kind)?;
                folder.write(KEY, pem.as_bytes()).map_err(|error| Error::folder(folder, &error))?;
                Ok(key)
            }
        }
    }

    /// Asks anew what the authority offers and who we are, the next time.
    async fn forget(&self, account: bool) {
        *self.open.lock().await = None;
        if let Some(folder) = self.folder.as_ref().filter(|_| account) {
            folder.remove(ACCOUNT);
        }
    }

    /// When a certificate is best renewed, as the authority says: from, to, and when to ask again.
    pub(crate) async fn renewal(&self, life: &Life) -> Option<crate::client::Renewal> {
        let id = life.id.as_deref()?;
        let open = self.open().await.ok()?;
        open.client.renewal(id).await.ok().flatten()
    }

    /// Has a certificate made, in place of the one that there is.
    pub(crate) async fn obtain(
        &self,
        desk: &Arc<Desk>,
        wanted: &Wanted,
        before: Option<&Life>,
    ) -> Result<(KeyPair, Life), Error> {
        // A semaphore that is never closed.
        let _turn = self.orders.acquire().await;
        match self.one(desk, wanted, before).await {
            Err(Error::Refused { problem, .. }) if problem.word() == "accountDoesNotExist" => {
                self.forget(true).await;
                self.one(desk, wanted, before).await
            }
            Err(error) => {
                self.forget(false).await;
                Err(error)
            }
            done => done,
        }
    }

    async fn one(
        &self,
        desk: &Arc<Desk>,
        wanted: &Wanted,
        before: Option<&Life>,
    ) -> Result<(KeyPair, Life), Error> {
        let open = self.open().await?;
        if let Some((order, key)) = self.begun(&open, wanted).await {
            // Whatever is wrong with it, another is begun.
            if let Ok(done) = self.go_on(desk, &open, wanted, order, &key).await {
                return Ok(done);
            }
            self.drop_order(wanted);
        }
        let key = make::key(wanted.key)?;
        let profile = self.profile(&open.client)?;
        let replaces = before.and_then(|life| life.id.as_deref());
        let (client, account) = (&open.client, &open.account);
        let order = match client.order(account, &wanted.names, profile, replaces).await {
            // It was replaced before, or is not known there: that is no reason to have none.
            Err(Error::Refused { problem, .. }) if replaces.is_some() && problem.word() != "rateLimited" => {
                client.order(account, &wanted.names, profile, None).await?
            }
            other => other?,
        };
        self.keep_order(wanted, &order, &key)?;
        let done = self.go_on(desk, &open, wanted, order, &key).await;
        if done.as_ref().is_err_and(Error::is_final) {
            self.drop_order(wanted);
        }
        done
    }

    fn profile(&self, client: &Client) -> Result<Option<&str>, Error> {
        let Some(profile) = &self.issuer.profile else { return Ok(None) };
        match client.has_profile(&profile.name) {
            true => Ok(Some(&profile.name)),
            false if profile.required => {
                Err(Error::Setup(format!("the authority has no profile \"{}\"", profile.name)))
            }
            false => Ok(None),
        }
    }

    /// An order that this process or one before it began.
    async fn begun(&self, open: &Open, wanted: &Wanted) -> Option<(Order, rcgen::KeyPair)> {
        let text = self.folder.as_ref()?.text(&wanted.order_file())?;
        let kept: KeptOrder = serde_json::from_str(&text).ok()?;
        let key = rcgen::KeyPair::from_pem(&kept.key).ok()?;
        let same = kept.directory == self.issuer.directory && kept.names == wanted.names;
        let order = match same {
            true => open.client.order_at(&open.account, &kept.url).await.ok(),
            false => None,
        };
        let usable = order.filter(|order| {
            let named = |name: &String| order.identifiers.iter().any(|one| one.value == *name);
            order.status != "invalid" && wanted.names.iter().all(named)
        });
        if usable.is_none() {
            self.drop_order(wanted);
        }
        usable.map(|order| (order, key))
    }

    fn keep_order(&self, wanted: &Wanted, order: &Order, key: &rcgen::KeyPair) -> Result<(), Error> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let kept = KeptOrder {
            directory: self.issuer.directory.clone(),
            names: wanted.names.clone(),
            url: order.url.clone(),
            key: key.serialize_pem(),
        };
        let text = json!(kept).to_string();
        folder.write(&wanted.order_file(), text.as_bytes()).map_err(|error| Error::folder(folder, &error))
    }

    fn drop_order(&self, wanted: &Wanted) {
        if let Some(folder) = &self.folder {
            folder.remove(&wanted.order_file());
        }
    }

    async fn go_on(
        &self,
        desk: &Arc<Desk>,
        open: &Open,
        wanted: &Wanted,
        mut order: Order,
        key: &rcgen::KeyPair,
    ) -> Result<(KeyPair, Life), Error> {
        let Open { client, account } = open;
        // Answered until the authority has made up its mind.
        let mut offered = Vec::new();
        if order.status == "pending" {
            offered = self.prove(desk, open, &order).await?;
            order = until(
                order,
                |order| order.status != "pending",
                |order| {
                    let url = order.url.clone();
                    async move { client.order_at(account, &url).await }
                },
            )
            .await?;
        }
        if order.status == "ready" {
            let payload = json!({ "csr": make::request(&wanted.names, key)? }).to_string();
            client.send(account, &order.finalize, &payload).await?;
            order = client.order_at(account, &order.url).await?;
        }
        order = until(
            order,
            |order| !matches!(order.status.as_str(), "processing" | "ready"),
            |order| {
                let url = order.url.clone();
                async move { client.order_at(account, &url).await }
            },
        )
        .await?;
        drop(offered);
        let url = match (order.status.as_str(), order.certificate, order.error) {
            ("valid", Some(url), _) => url,
            (_, _, Some(problem)) => return Err(Error::Refused { problem, wait: order.wait }),
            (status, ..) => return Err(Error::Unexpected(format!("an order that is {}", plain(status)))),
        };
        let chain = self.chain(open, &url).await?;
        let pair = KeyPair { chain, key: key.serialize_pem() };
        let Some((pair, life)) = usable(&joined(&pair)) else {
            return Err(Error::Unexpected("a certificate that is not for our key".into()));
        };
        if !life.covers(&wanted.names) || life.to <= now() {
            let why = "a certificate that is not for the names that were ordered, or is over already";
            return Err(Error::Unexpected(why.into()));
        }
        if let Some(folder) = &self.folder {
            let kept = folder.write(&wanted.file(), joined(&pair).as_bytes());
            kept.map_err(|error| Error::folder(folder, &error))?;
        }
        self.drop_order(wanted);
        Ok((pair, life))
    }

    /// Shows that all names of an order are ours.
    async fn prove(&self, desk: &Arc<Desk>, open: &Open, order: &Order) -> Result<Vec<Offered>, Error> {
        let Open { client, account } = open;
        let (mut offered, mut waiting) = (Vec::new(), Vec::new());
        for url in &order.authorizations {
            let authorization = client.authorization(account, url).await?;
            match authorization.status.as_str() {
                "valid" => continue,
                "pending" => {}
                _ => return Err(failed(&authorization)),
            }
            let kind = self.issuer.challenge;
            let name = authorization.identifier.value.clone();
            let Some(challenge) = authorization.challenges.iter().find(|one| one.kind == kind.name()) else {
                let why = format!("the authority does not take {} for {}", kind.name(), plain(&name));
                return Err(Error::Setup(why));
            };
            let offer = self.offer(account, kind, name, &challenge.token)?;
            offered.push(desk.offer(offer, self.folder.as_ref())?);
            client.send(account, &challenge.url, "{}").await?;
            waiting.push((url, authorization));
        }
        for (url, authorization) in waiting {
            let last = until(
                authorization,
                |one| one.status != "pending",
                |_| async move { client.authorization(account, url).await },
            )
            .await?;
            if last.status != "valid" {
                return Err(failed(&last));
            }
        }
        Ok(offered)
    }

    fn offer(
        &self,
        account: &Account,
        kind: AcmeChallenge,
        name: String,
        token: &str,
    ) -> Result<Offer, Error> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if token.is_empty() || token.len() > 200 || !token.bytes().all(is_token) {
            return Err(Error::Unexpected("a token that is no base64url".into()));
        }
        // It becomes the name of a file.
        if weir_expr::settings::certifiable(&name).is_err() {
            return Err(Error::Unexpected(format!("a challenge for \"{}\"", plain(&name))));
        }
        let text = format!("{token}.{}", account.key.thumbprint());
        Ok(match kind {
            AcmeChallenge::Http01 => Offer::Answer { name, token: token.to_owned(), text },
            AcmeChallenge::TlsAlpn01 => Offer::Proof { pair: make::proof(&name, &text)?, name },
        })
    }

    /// The chain of a certificate: the preferred one, if there are several and one is.
    async fn chain(&self, open: &Open, url: &str) -> Result<String, Error> {
        let reply = open.client.send(&open.account, url, "").await?;
        let first = reply.text()?.to_owned();
        let Some(preferred) = &self.issuer.preferred_chain else { return Ok(first) };
        let is_it = |chain: &str| {
            Life::of(chain).is_ok_and(|life| life.issuers.last().is_some_and(|top| top == preferred))
        };
        if is_it(&first) {
            return Ok(first);
        }
        for url in reply.alternates().iter().take(CHAINS) {
            // One that cannot be had is no reason to have none.
            let Ok(reply) = open.client.send(&open.account, url, "").await else { continue };
            if let Ok(chain) = reply.text()
                && is_it(chain)
            {
                return Ok(chain.to_owned());
            }
        }
        Ok(first)
    }
}

/// Why a name is not ours.
fn failed(authorization: &Authorization) -> Error {
    let name = plain(&authorization.identifier.value);
    let why = authorization.challenges.iter().find_map(|one| one.error.as_ref());
    let why = why
        .map_or_else(|| format!("the authorization is {}", plain(&authorization.status)), |why| why.text());
    Error::Name { name, why }
}

/// Something that an authority says when to look at again.
trait Waits {
    fn wait(&self) -> Option<Duration>;
}

impl Waits for Order {
    fn wait(&self) -> Option<Duration> {
        self.wait
    }
}

impl Waits for Authorization {
    fn wait(&self) -> Option<Duration> {
        self.wait
    }
}

/// Looks at something until it is done.
async fn until<T: Waits, F: Future<Output = Result<T, Error>>>(
    mut now: T,
    is_done: impl Fn(&T) -> bool,
    look: impl Fn(&T) -> F,
) -> Result<T, Error> {
    let end = Instant::now() + PATIENCE;
    let (mut pause, longest) = LOOK;
    while !is_done(&now) {
        if Instant::now() > end {
            return Err(Error::Unexpected("nothing for ten minutes".into()));
        }
        tokio::time::sleep(now.wait().unwrap_or(pause).clamp(LOOK.0, longest)).await;
        pause = (pause * 3 / 2).min(longest);
        now = look(&now).await?;
    }
    Ok(now)
}
