//! The process.

use std::time::Duration;

use weir_model as model;
use weir_plan as plan;

use crate::context::Cx;
use crate::default;

impl<'m> Cx<'m> {
    pub(crate) fn process(&mut self, process: &'m model::Process) -> plan::Process {
        let error_logs = self.error_logs(&process.error_logs);
        // Logs that are all off are a choice; none at all is not.
        let error_logs = if process.error_logs.is_empty() { default::error_logs(self) } else { error_logs };
        plan::Process {
            connections_per_worker: process.connections_per_worker,
            max_connections: process.max_connections,
            paces: process.paces,
            memory_budget: process.memory_budget,
            kept: process.kept.iter().map(|(name, value)| (name.as_str().into(), value.clone())).collect(),
            error_logs,
            shows_requests: self
                .model
                .routes
                .iter()
                .any(|route| matches!(route.action, model::Action::Dashboard(_))),
            control: plan::Control {
                sockets: process.control.iter().map(|one| one.control.clone()).collect(),
                timeout: process.control_timeout.unwrap_or(Duration::from_secs(10)),
                connections: process.control_connections.unwrap_or(10),
                peers: process.peers.clone(),
            },
        }
    }
}
