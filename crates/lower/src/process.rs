//! The process.

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
            workers: match process.workers {
                model::Workers::Auto => None,
                model::Workers::Count(count) => Some(count.max(1)),
            },
            user: process
                .user
                .as_ref()
                .map(|user| plan::User { user: user.user.clone(), group: user.group.clone() }),
            pid_file: process.pid_file.clone(),
            daemon: process.daemon,
            open_files: process.open_files,
            connections_per_worker: process.connections_per_worker,
            max_connections: process.max_connections,
            memory_budget: process.memory_budget,
            error_logs,
            shutdown_timeout: process.shutdown_timeout,
            chroot: process.chroot.clone(),
            working_directory: process.working_directory.clone(),
            description: process.description.clone(),
            prefix: process.prefix.clone(),
        }
    }
}
