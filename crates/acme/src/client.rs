//! Requests to an authority (RFC 8555).
//!
//! Owns: the directory, nonces, registering an account, reading answers and problems.
//! Never: decides when something is asked for; keeps a file.
//! Driven by: `order`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_fetch::http::{Method, Request, header};
use weir_fetch::{Answer, Bytes, Options};

use crate::account::{AccountKey, Who};
use crate::{Error, Issuer};

/// The longest a single exchange may take. Authorities make certificates meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Attempts whose nonce was refused.
const NONCES: usize = 5;

/// The longest wait that an authority can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What an authority offers (RFC 8555, 7.1.1).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Directory {
    new_nonce: String,
    new_account: String,
    new_order: String,
    #[serde(default)]
    renewal_info: Option<String>,
    #[serde(default)]
    meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    terms_of_service: Option<String>,
    external_account_required: bool,
    profiles: BTreeMap<String, Value>,
}

/// What is ordered, or was (7.1.3).
#[derive(Debug, Deserialize)]
pub(crate) struct Order {
    #[serde(skip)]
    pub(crate) url: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) identifiers: Vec<Identifier>,
    #[serde(default)]
    pub(crate) authorizations: Vec<String>,
    pub(crate) finalize: String,
    #[serde(default)]
    pub(crate) certificate: Option<String>,
    #[serde(default)]
    pub(crate) error: Option<Problem>,
    #[serde(skip)]
    pub(crate) wait: Option<Duration>,
}

/// A name.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Identifier {
    pub(crate) value: String,
}

/// Whether a name is ours (7.1.4).
#[derive(Debug, Deserialize)]
pub(crate) struct Authorization {
    pub(crate) identifier: Identifier,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) challenges: Vec<Challenge>,
    #[serde(skip)]
    pub(crate) wait: Option<Duration>,
}

/// A way to show it (7.1.5).
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Challenge {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) token: String,
    #[serde(default)]
    pub(crate) error: Option<Problem>,
}

/// What an authority does not like (RFC 9457).
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Problem {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) detail: String,
    #[serde(default)]
    subproblems: Vec<Problem>,
    #[serde(default)]
    identifier: Option<Identifier>,
}

impl Problem {
    /// The last word of its type: `rateLimited`, `badNonce`.
    pub(crate) fn word(&self) -> &str {
        self.kind.rsplit(':').next().unwrap_or_default()
    }

    /// One line, from a stranger: without control characters, and not too long.
    pub(crate) fn text(&self) -> String {
        let of = |one: &Self| match &one.identifier {
            Some(name) => format!("{}: {} ({})", name.value, one.detail, one.word()),
            None => format!("{} ({})", one.detail, one.word()),
        };
        let all: Vec<String> = std::iter::once(of(self)).chain(self.subproblems.iter().map(of)).collect();
        plain(&all.join("; "))
    }
}

/// A stranger's text for a log.
pub(crate) fn plain(text: &str) -> String {
    let clean = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().map(clean).take(600).collect()
}

/// When a certificate is best renewed (RFC 9773).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RenewalInfo {
    suggested_window: Window,
}

#[derive(Debug, Deserialize)]
struct Window {
    start: String,
    end: String,
}

/// From and to, in seconds since 1970, and when to ask again.
pub(crate) struct Renewal {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) again: Duration,
}

/// An account that requests are signed with.
pub(crate) struct Account {
    pub(crate) key: AccountKey,
    pub(crate) url: String,
}

/// One authority.
pub(crate) struct Client {
    fetch: weir_fetch::Client,
    directory: Directory,
    nonces: Mutex<Vec<String>>,
}

/// An answer without an error.
pub(crate) struct Reply {
    answer: Answer,
}

impl Reply {
    pub(crate) fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.answer.body)
            .map_err(|_| Error::Unexpected("an answer that is no text".into()))
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        json_of(&self.answer.body)
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.answer.head.headers.get(name)?.to_str().ok()
    }

    fn location(&self) -> Result<String, Error> {
        let url = self.field("location").map(str::to_owned);
        url.ok_or_else(|| Error::Unexpected("an answer without `Location`".into()))
    }

    fn wait(&self) -> Option<Duration> {
        wait_of(&self.answer)
    }

    /// URLs of other chains for the same certificate (7.4.2).
    pub(crate) fn alternates(&self) -> Vec<String> {
        let values = self.answer.head.headers.get_all(header::LINK).iter();
        values.filter_map(|value| value.to_str().ok()).flat_map(alternates).collect()
    }
}

fn json_of<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body)
        .map_err(|error| Error::Unexpected(format!("an answer of another form: {error}")))
}

/// Links of a field whose relation is `alternate` (RFC 8288).
fn alternates(field: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = field;
    while let Some((_, after)) = rest.split_once('<') {
        let Some((url, after)) = after.split_once('>') else { break };
        let end = after.find('<').unwrap_or(after.len());
        let (parameters, next) = after.split_at(end);
        let is = |one: &str| {
            let one = one.trim().trim_end_matches(',').trim();
            one.strip_prefix("rel=").is_some_and(|value| value.trim_matches('"') == "alternate")
        };
        if parameters.split(';').any(is) {
            found.push(url.to_owned());
        }
        rest = next;
    }
    found
}

/// `Retry-After` (RFC 9110, 10.2.3): seconds or a date.
fn wait_of(answer: &Answer) -> Option<Duration> {
    let text = answer.head.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            let seconds = date.as_second() - jiff::Timestamp::now().as_second();
            Duration::from_secs(seconds.try_into().unwrap_or(0))
        }
    };
    Some(wait.min(LONGEST_WAIT))
}

impl Client {
    /// Asks an authority what it offers.
    pub(crate) async fn open(issuer: &Issuer) -> Result<Self, Error> {
        let options = Options { trust: issuer.trust(), timeout: PATIENCE, ..Options::default() };
        let fetch = weir_fetch::Client::new(&options)?;
        let request = asked(Method::GET, &issuer.directory, Bytes::new())?;
        let answer = fetch.send(request).await?;
        if !answer.head.status.is_success() {
            return Err(refused(&answer));
        }
        let directory: Directory = json_of(&answer.body)?;
        Ok(Self { fetch, directory, nonces: Mutex::default() })
    }

    /// Registers a key, or finds the account that it has already.
    pub(crate) async fn register(&self, issuer: &Issuer, key: &AccountKey) -> Result<String, Error> {
        let meta = &self.directory.meta;
        if meta.external_account_required && issuer.external.is_none() {
            let why =
                "the authority wants a key of an account that it knows: name it (`external_account_key`)";
            return Err(Error::Setup(why.into()));
        }
        let mut account = json!({ "termsOfServiceAgreed": issuer.terms });
        if !issuer.contact.is_empty() {
            account["contact"] = json!(issuer.contact);
        }
        if let Some(external) = &issuer.external {
            account["externalAccountBinding"] = key.bound_to(external, &self.directory.new_account);
        }
        let url = &self.directory.new_account;
        match self.post(key, Who::Key, url, &account.to_string()).await {
            Ok(reply) => reply.location(),
            Err(Error::Refused { problem, wait }) if !issuer.terms => {
                let terms = meta.terms_of_service.as_deref().unwrap_or("its site names them");
                let title = format!("{}; its terms ({}) are not accepted here", problem.text(), plain(terms));
                let problem = Problem { detail: title, ..problem };
                Err(Error::Refused { problem, wait })
            }
            Err(error) => Err(error),
        }
    }

    /// Tells the authority of other contacts.
    pub(crate) async fn contacts(&self, account: &Account, contact: &[String]) -> Result<(), Error> {
        let payload = json!({ "contact": contact }).to_string();
        self.post(&account.key, Who::Account(&account.url), &account.url, &payload).await.map(drop)
    }

    /// Whether certificates of a profile are made.
    pub(crate) fn has_profile(&self, name: &str) -> bool {
        self.directory.meta.profiles.contains_key(name)
    }

    /// Orders a certificate for names.
    pub(crate) async fn order(
        &self,
        account: &Account,
        names: &[String],
        profile: Option<&str>,
        replaces: Option<&str>,
    ) -> Result<Order, Error> {
        let identifiers: Vec<Value> =
            names.iter().map(|name| json!({ "type": "dns", "value": name })).collect();
        let mut payload = json!({ "identifiers": identifiers });
        if let Some(profile) = profile {
            payload["profile"] = json!(profile);
        }
        if let Some(replaces) = replaces.filter(|_| self.directory.renewal_info.is_some()) {
            payload["replaces"] = json!(replaces);
        }
        let reply = self.send(account, &self.directory.new_order, &payload.to_string()).await?;
        let url = reply.location()?;
        Ok(Order { url, wait: reply.wait(), ..reply.json()? })
    }

    /// How an order stands.
    pub(crate) async fn order_at(&self, account: &Account, url: &str) -> Result<Order, Error> {
        let reply = self.send(account, url, "").await?;
        Ok(Order { url: url.to_owned(), wait: reply.wait(), ..reply.json()? })
    }

    /// How it stands with a name.
    pub(crate) async fn authorization(&self, account: &Account, url: &str) -> Result<Authorization, Error> {
        let reply = self.send(account, url, "").await?;
        Ok(Authorization { wait: reply.wait(), ..reply.json()? })
    }

    /// Says something about an object: that a challenge can be tried, what a certificate is to be like.
    pub(crate) async fn send(&self, account: &Account, url: &str, payload: &str) -> Result<Reply, Error> {
        self.post(&account.key, Who::Account(&account.url), url, payload).await
    }

    /// When a certificate is best renewed; `None`: this authority does not say.
    pub(crate) async fn renewal(&self, id: &str) -> Result<Option<Renewal>, Error> {
        let Some(base) = &self.directory.renewal_info else { return Ok(None) };
        let url = format!("{}/{id}", base.trim_end_matches('/'));
        let answer = self.fetch.send(asked(Method::GET, &url, Bytes::new())?).await?;
        if !answer.head.status.is_success() {
            return Err(refused(&answer));
        }
        let info: RenewalInfo = json_of(&answer.body)?;
        let again = wait_of(&answer).unwrap_or(Duration::from_secs(6 * 3600));
        let second = |text: &str| match text.parse::<jiff::Timestamp>() {
            Ok(time) => Ok(time.as_second()),
            Err(error) => Err(Error::Unexpected(format!("a time of another form: {error}"))),
        };
        let Window { start, end } = info.suggested_window;
        Ok(Some(Renewal { start: second(&start)?, end: second(&end)?, again }))
    }

    async fn post(&self, key: &AccountKey, who: Who<'_>, url: &str, payload: &str) -> Result<Reply, Error> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let nonce = self.nonce().await?;
            let body = key.sign(who, &nonce, url, payload)?;
            let answer = self.fetch.send(asked(Method::POST, url, body.into())?).await?;
            self.keep_nonce(&answer);
            if answer.head.status.is_success() {
                return Ok(Reply { answer });
            }
            match refused(&answer) {
                Error::Refused { problem, .. } if problem.word() == "badNonce" && attempts < NONCES => {}
                error => return Err(error),
            }
        }
    }

    async fn nonce(&self) -> Result<String, Error> {
        let kept = self.nonces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(nonce) = kept {
            return Ok(nonce);
        }
        let answer = self.fetch.send(asked(Method::HEAD, &self.directory.new_nonce, Bytes::new())?).await?;
        let found = answer.head.headers.get("replay-nonce").and_then(|value| value.to_str().ok());
        found.map(str::to_owned).ok_or_else(|| match answer.head.status.is_success() {
            true => Error::Unexpected("no `Replay-Nonce`".into()),
            false => refused(&answer),
        })
    }

    fn keep_nonce(&self, answer: &Answer) {
        let found = answer.head.headers.get("replay-nonce").and_then(|value| value.to_str().ok());
        if let Some(nonce) = found {
            let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
            // Old ones are refused, and each refusal costs a request: few are kept.
            if nonces.len() < 8 {
                nonces.push(nonce.to_owned());
            }
        }
    }
}

/// A request to a URL that an authority gave, or the configuration.
fn asked(method: Method, url: &str, body: Bytes) -> Result<Request<Bytes>, Error> {
    if !url.starts_with("https://") {
        return Err(Error::Unexpected(format!("\"{}\" is no https URL", plain(url))));
    }
    let posted = method == Method::POST;
    let mut request = Request::builder().method(method).uri(url);
    request = request.header(header::USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")));
    if posted {
        request = request.header(header::CONTENT_TYPE, "application/jose+json");
    }
    request.body(body).map_err(|error| Error::Unexpected(format!("\"{}\": {error}", plain(url))))
}

fn refused(answer: &Answer) -> Error {
    let status = answer.head.status.as_u16();
    let problem = serde_json::from_slice::<Problem>(&answer.body)
        .unwrap_or_else(|_| Problem { detail: format!("status {status}"), ..Problem::default() });
    Error::Refused { problem, wait: wait_of(answer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_other_chains_are_found() {
        let field =
            r#"<https://a/dir>;rel="index", <https://a/2>;rel="alternate", <https://a/3>; rel=alternate"#;
        assert_eq!(alternates(field), ["https://a/2", "https://a/3"]);
        assert!(alternates("<https://a/2").is_empty());
    }

    #[test]
    fn problems_are_one_line() {
        let text = br#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too\nmany","subproblems":[
            {"type":"urn:ietf:params:acme:error:caa","detail":"no","identifier":{"type":"dns","value":"a.example"}}]}"#;
        let problem: Problem = serde_json::from_slice(text).unwrap();
        assert_eq!(problem.word(), "rateLimited");
        assert_eq!(problem.text(), "too many (rateLimited); a.example: no (caa)");
    }
}
