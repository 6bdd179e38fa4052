//! Ingress controllers of a Kubernetes cluster, as contenders.
//!
//! Owns: a namespace of its own in the cluster: pages behind a Service, and an Ingress for each contender's class.
//! Never: installs or changes a controller, or touches another namespace.
//! Driven by: `run`, for scenarios with `kubernetes`.
//! Why: how a controller is deployed is its owner's choice. The lab measures what is there.

use crate::scenario::{Contender, Kubernetes};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long controllers may take to give an Ingress its address, and pods to be ready.
const PATIENCE: Duration = Duration::from_secs(180);

/// Where an ingress controller answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address.
    pub host: String,
    /// Its port for HTTP.
    pub http: u16,
    /// Its port for HTTPS.
    pub https: u16,
}

impl Address {
    /// Reads `HOST`, `HOST:HTTP` or `HOST:HTTP:HTTPS`.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self> {
        let told = || format!("`{text}` is no HOST[:HTTP[:HTTPS]]");
        let mut parts = text.split(':');
        let host = parts.next().filter(|h| !h.is_empty()).with_context(told)?.to_owned();
        let mut port = |otherwise: u16| parts.next().map_or(Ok(otherwise), |p| p.parse().with_context(told));
        let (http, https) = (port(80)?, port(443)?);
        if parts.next().is_some() {
            bail!("{}", told());
        }
        Ok(Self { host, http, https })
    }
}

/// A contender, and the name of its class of Ingress.
pub type Class = (Contender, String);

/// Which contenders the cluster has; else why nothing can be measured there, for people.
///
/// # Errors
/// There is no cluster, or none of them in it.
pub fn classes(contenders: &[Contender]) -> Result<Vec<Class>, String> {
    let output = Command::new("kubectl")
        .args(["get", "ingressclasses", "-o", "json", "--request-timeout=5s"])
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else { return Err("kubectl is not on this machine".into()) };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!(
            "kubectl reaches no cluster: {}",
            said.lines().last().unwrap_or_default().trim()
        ));
    }
    let list: Value = serde_json::from_slice(&output.stdout).map_err(|bad| format!("kubectl: {bad}"))?;
    let (found, others) = sorted_out(&list, contenders);
    if found.is_empty() {
        let there = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
        return Err(format!(
            "the cluster has no ingress controller of a contender (its controllers: {there})"
        ));
    }
    Ok(found)
}

/// The classes of contenders, and the controllers of others.
fn sorted_out(list: &Value, contenders: &[Contender]) -> (Vec<Class>, Vec<String>) {
    let (mut found, mut others): (Vec<Class>, Vec<String>) = (Vec::new(), Vec::new());
    for item in list["items"].as_array().into_iter().flatten() {
        let controller = item["spec"]["controller"].as_str().unwrap_or_default().to_owned();
        let name = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match contenders.iter().find(|who| controller.to_ascii_lowercase().contains(who.name())) {
            Some(who) if found.iter().all(|(w, _)| w != who) => found.push((*who, name)),
            _ => others.push(controller),
        }
    }
    (found, others)
}

/// A namespace with pages and an Ingress for each contender; dropping it deletes it.
pub struct Cluster {
    namespace: String,
    addresses: BTreeMap<Contender, Address>,
}

impl Cluster {
    /// Deploys pages and Ingresses, and waits until they stand. `told` are addresses that are not to be asked for.
    ///
    /// # Errors
    /// The cluster refuses, or does not get ready.
    pub fn prepare(
        wanted: &Kubernetes,
        pages: &[(String, usize)],
        [chain, key]: [&Path; 2],
        classes: &[Class],
        told: &BTreeMap<Contender, Address>,
    ) -> Result<Self> {
        let namespace = format!("weir-lab-{}", std::process::id());
        let certificate = [std::fs::read_to_string(chain)?, std::fs::read_to_string(key)?];
        let objects = objects(&namespace, wanted, pages, &certificate, classes);
        // From here on there is something to be deleted.
        let mut cluster = Self { namespace, addresses: BTreeMap::new() };
        apply(&objects)?;
        cluster.kubectl(&["rollout", "status", "deployment/pages", "--timeout=180s"])?;
        for (who, _) in classes {
            let address = match told.get(who) {
                Some(address) => address.clone(),
                None => cluster.address(*who)?,
            };
            cluster.addresses.insert(*who, address);
        }
        Ok(cluster)
    }

    /// Where a contender answers, if it is in the cluster.
    #[must_use]
    pub fn of(&self, who: Contender) -> Option<&Address> {
        self.addresses.get(&who)
    }

    fn kubectl(&self, words: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new("kubectl")
            .args(["--namespace", &self.namespace])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .context("cannot run kubectl")?;
        if !output.status.success() {
            bail!("kubectl {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(output.stdout)
    }

    fn address(&self, who: Contender) -> Result<Address> {
        let begun = Instant::now();
        loop {
            let ingress: Value =
                serde_json::from_slice(&self.kubectl(&["get", "ingress", who.name(), "-o", "json"])?)?;
            if let Some(host) = published(&ingress) {
                return Ok(Address { host, http: 80, https: 443 });
            }
            if begun.elapsed() > PATIENCE {
                bail!(
                    "the Ingress of {0} has got no address in {PATIENCE:?}: tell it with --ingress {0}=HOST:PORT:PORT",
                    who.name()
                );
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let words = ["delete", "namespace", &self.namespace, "--wait=false", "--ignore-not-found"];
        let gone = Command::new("kubectl").args(words).stdin(Stdio::null()).output();
        if !gone.is_ok_and(|o| o.status.success()) {
            eprintln!("namespace {} could not be deleted: kubectl delete namespace {0}", self.namespace);
        }
    }
}

/// The name by which a contender is asked.
#[must_use]
pub fn host(who: Contender) -> String {
    format!("{}.weir-lab.example", who.name())
}

/// The address in the status of an Ingress.
fn published(ingress: &Value) -> Option<String> {
    let first = ingress["status"]["loadBalancer"]["ingress"].get(0)?;
    let told = first["ip"].as_str().or_else(|| first["hostname"].as_str())?;
    (!told.is_empty()).then(|| told.to_owned())
}

fn apply(objects: &Value) -> Result<()> {
    let mut child = Command::new("kubectl")
        .args(["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run kubectl")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(objects.to_string().as_bytes()).context("kubectl apply")?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("kubectl apply: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// All that is made in the cluster.
fn objects(
    namespace: &str,
    wanted: &Kubernetes,
    pages: &[(String, usize)],
    [chain, key]: &[String; 2],
    classes: &[Class],
) -> Value {
    let meta = |name: &str| json!({ "name": name, "namespace": namespace });
    let files: serde_json::Map<String, Value> =
        pages.iter().map(|(name, bytes)| (name.clone(), json!("x".repeat(*bytes)))).collect();
    let labels = json!({ "app": "pages" });
    let mut items = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("pages"), "data": files }),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": meta("certificate"), "type": "kubernetes.io/tls",
                "stringData": { "tls.crt": chain, "tls.key": key } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": meta("pages"),
                "spec": { "selector": labels, "ports": [{ "port": 80, "targetPort": 80 }] } }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("pages"), "spec": {
            "replicas": wanted.replicas,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "containers": [{ "name": "pages", "image": wanted.image, "ports": [{ "containerPort": 80 }],
                    "volumeMounts": [{ "name": "pages", "mountPath": wanted.folder, "readOnly": true }] }],
                "volumes": [{ "name": "pages", "configMap": { "name": "pages" } }],
            } },
        } }),
    ];
    for (who, class) in classes {
        let host = host(*who);
        let backend = json!({ "service": { "name": "pages", "port": { "number": 80 } } });
        items.push(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {
                "name": who.name(), "namespace": namespace,
                // HTTP is measured too: nobody redirects it.
                "annotations": {
                    "nginx.ingress.kubernetes.io/ssl-redirect": "false",
                    "nginx.org/redirect-to-https": "false",
                    "haproxy.org/ssl-redirect": "false",
                },
            },
            "spec": {
                "ingressClassName": class,
                "tls": [{ "hosts": [host], "secretName": "certificate" }],
                "rules": [{ "host": host, "http": { "paths": [{ "path": "/", "pathType": "Prefix", "backend": backend }] } }],
            },
        }));
    }
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_are_known_by_their_controllers() {
        let class = |name: &str, controller: &str| json!({ "metadata": { "name": name }, "spec": { "controller": controller } });
        let list = json!({ "items": [class("public", "k8s.io/ingress-nginx"), class("t", "traefik.io/ingress-controller"),
            class("h", "haproxy.org/ingress-controller/haproxy"), class("w", "weir.example/ingress")] });
        let all = [Contender::Weir, Contender::Nginx, Contender::Haproxy];
        let (found, others) = sorted_out(&list, &all);
        assert_eq!(
            found,
            [
                (Contender::Nginx, "public".into()),
                (Contender::Haproxy, "h".into()),
                (Contender::Weir, "w".into())
            ]
        );
        assert_eq!(others, ["traefik.io/ingress-controller"]);
    }

    #[test]
    fn an_ingress_has_an_address_once_its_status_says_so() {
        assert_eq!(published(&json!({ "status": { "loadBalancer": {} } })), None);
        let of = |told: Value| published(&json!({ "status": { "loadBalancer": { "ingress": [told] } } }));
        assert_eq!(of(json!({ "ip": "10.0.0.7" })), Some("10.0.0.7".into()));
        assert_eq!(of(json!({ "hostname": "lb.example" })), Some("lb.example".into()));
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn addresses_are_read() {
        let all = ["lb.example", "127.0.0.1:8080", "127.0.0.1:8080:8443"].map(|t| Address::parse(t).unwrap());
        assert_eq!(all.map(|a| (a.http, a.https)), [(80, 443), (8080, 443), (8080, 8443)]);
        assert!(
            Address::parse(":80").is_err()
                && Address::parse("a:b").is_err()
                && Address::parse("a:1:2:3").is_err()
        );
    }
}
