//! Bounds and pauses that were given while running, and bounds on what begins in a second.
//!
//! Owns: which listeners are held, and the bound of a site in place of its own, until the next plan; when the next connection
//! may be accepted.
//! Never: closes a connection: those that are open go on.
//! Driven by: [`crate::Engine`]; asked by each accept loop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_control::{ListenerId, SiteId};
use weir_expr::settings::Paces;
use weir_plan::{Listener, Plan};
use weir_policy::Millis;
use weir_policy::limit::Pace;

use crate::worker::paces::ProcessPaces;
use crate::worker::shared::{Quotas, Shared, of_site};

impl Shared {
    /// What may begin in a second in the whole process.
    pub(crate) fn paces(&self) -> Paces {
        let ProcessPaces { connections, sessions, tls, .. } = &self.paces;
        Paces { connections: connections.most(), sessions: sessions.most(), tls: tls.most() }
    }

    /// Changes that, until the next plan.
    pub(crate) fn set_paces(&self, paces: &Paces) {
        let of_sites = self.state().listeners.values().any(|one| one.pace.is_some());
        self.paces.set(paces, of_sites);
    }

    /// How long a listener is to accept nothing, because too much began lately.
    pub(crate) fn wait_for_pace(&self, listener: &Listener, now: Millis) -> Option<Duration> {
        if !self.paces.any.load(Ordering::Relaxed) {
            return None;
        }
        let ProcessPaces { connections, sessions, tls, .. } = &self.paces;
        let of_tls = listener.tls.is_some().then_some(tls);
        let site = self.pace_of(listener.id);
        let all = [Some(connections), Some(sessions), of_tls, site.as_deref()];
        all.into_iter().flatten().filter_map(|pace| pace.wait(now)).max().map(Duration::from_millis)
    }

    /// Counts a connection that a listener accepted.
    pub(crate) fn count_connection(&self, listener: &Listener, now: Millis) {
        if self.paces.any.load(Ordering::Relaxed) {
            self.paces.connections.count(now);
            if listener.tls.is_some() {
                self.paces.tls.count(now);
            }
        }
    }

    /// Counts a connection that rules on connections let pass.
    pub(crate) fn count_session(&self, listener: ListenerId, now: Millis) {
        if self.paces.any.load(Ordering::Relaxed) {
            self.paces.sessions.count(now);
            if let Some(pace) = self.pace_of(listener) {
                pace.count(now);
            }
        }
    }

    fn pace_of(&self, listener: ListenerId) -> Option<Arc<Pace>> {
        self.state().listeners.get(&listener)?.pace.clone()
    }

    /// The most connections that there ever were are those that there are.
    pub(crate) fn clear_peaks(&self) {
        let state = self.state();
        let own = state.listeners.values().flat_map(|one| [Some(&one.own), one.site.as_ref()]);
        own.flatten().for_each(|quota| quota.clear_peak());
    }

    /// Whether a listener accepts nothing for now.
    pub(crate) fn is_held(&self, listener: ListenerId) -> bool {
        self.limited.load(Ordering::Relaxed)
            && self.state().listeners.get(&listener).is_some_and(|one| one.held)
    }

    /// Whether the listeners of a site are held.
    pub(crate) fn is_site_held(&self, plan: &Plan, site: SiteId) -> bool {
        let state = self.state();
        self.limited.load(Ordering::Relaxed)
            && of_site(plan, site)
                .any(|listener| state.listeners.get(&listener.id).is_some_and(|one| one.held))
    }

    /// Holds the listeners of the site of this name, or lets them go on. False: it was so already.
    ///
    /// # Errors
    /// There is no such site.
    pub(crate) fn hold_site(&self, plan: &Plan, name: &str, held: bool) -> Result<bool, String> {
        self.limited.store(true, Ordering::Relaxed);
        self.each_of_site(plan, name, |quotas| std::mem::replace(&mut quotas.held, held) != held)
    }

    /// Bounds the connections of the site of this name; 0: not at all. A site without a bound of its own shares none among
    /// its listeners: each of them gets this one.
    ///
    /// # Errors
    /// There is no such site.
    pub(crate) fn bound_site(&self, plan: &Plan, name: &str, most: u64) -> Result<(), String> {
        self.limited.store(true, Ordering::Relaxed);
        let bound = |quotas: &mut Quotas| {
            quotas.site.as_ref().unwrap_or(&quotas.own).set_most(most);
            true
        };
        self.each_of_site(plan, name, bound).map(drop)
    }

    /// The bound of a site that was given while running.
    pub(crate) fn bound_of_site(&self, plan: &Plan, site: SiteId) -> Option<u64> {
        if !self.limited.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.state();
        let first = of_site(plan, site).find_map(|listener| state.listeners.get(&listener.id))?;
        Some(first.site.as_ref().unwrap_or(&first.own).most()).filter(|most| *most < u64::MAX)
    }

    fn each_of_site(
        &self,
        plan: &Plan,
        name: &str,
        change: impl Fn(&mut Quotas) -> bool,
    ) -> Result<bool, String> {
        let id = named(plan, name)?;
        let mut state = self.state();
        let mut changed = false;
        for listener in of_site(plan, id) {
            changed |= state.listeners.get_mut(&listener.id).is_some_and(&change);
        }
        Ok(changed)
    }
}

fn named(plan: &Plan, name: &str) -> Result<SiteId, String> {
    let http = plan.sites.iter().map(|site| (&site.name, site.id));
    let mut all = http.chain(plan.tcp.iter().map(|tcp| (&tcp.name, tcp.id)));
    let found = all.find(|(known, _)| ***known == *name).map(|(_, id)| id);
    found.ok_or_else(|| "No such frontend.".to_owned())
}
