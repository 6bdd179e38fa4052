//! Logs.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_expr::settings;
use weir_model as model;
use weir_plan as plan;
use weir_plan::{Log, Var};

use crate::context::Cx;

impl<'m> Cx<'m> {
    pub(crate) fn access_logs(&mut self, logs: &'m Vec<model::AccessLog>) -> Arc<[plan::AccessLog]> {
        if let Some(known) = self.shared.access_logs.find(logs) {
            return known;
        }
        let compiled = logs.iter().filter_map(|log| self.access_log(log)).collect();
        self.shared.access_logs.keep(logs, compiled)
    }

    fn access_log(&mut self, log: &'m model::AccessLog) -> Option<plan::AccessLog> {
        let target = self.log_target(&log.target)?;
        let name = if let plan::LogTarget::FileTemplate(name) = &target { Some(name.clone()) } else { None };
        let ix = self.log_ix(Log {
            target,
            buffer: log.buffer,
            flush: log.flush,
            gzip: log.gzip,
            sample: log.sample.clone(),
        });
        let format = self.format(&log.format);
        let condition = self.optional_template(log.condition.as_ref());
        let templates = [Some(format.template()), condition.as_ref(), name.as_ref()];
        Some(plan::AccessLog {
            log: ix,
            escape: log.escape,
            asks_for_answer: log.only.is_some() || templates.into_iter().flatten().any(asks_for_answer),
            only: log.only.as_ref().map(|only| self.condition(only)),
            format,
            condition,
        })
    }

    fn format(&mut self, format: &'m model::Template) -> Arc<plan::LogFormat> {
        match self.shared.formats.find(format) {
            Some(known) => known,
            None => {
                let compiled = Arc::new(plan::LogFormat::new(self.template(format)));
                self.shared.formats.keep(format, compiled)
            }
        }
    }

    pub(crate) fn error_logs(&mut self, logs: &'m Vec<model::ErrorLog>) -> Arc<[plan::ErrorLog]> {
        if let Some(known) = self.shared.error_logs.find(logs) {
            return known;
        }
        let compiled = logs.iter().filter_map(|log| {
            let target = self.log_target(&log.target)?;
            Some(plan::ErrorLog {
                log: self.log_ix(Log { target, buffer: None, flush: None, gzip: None, sample: None }),
                level: log.level,
            })
        });
        let compiled = compiled.collect();
        self.shared.error_logs.keep(logs, compiled)
    }

    /// `None` for logs that are off.
    fn log_target(&mut self, target: &model::LogTarget) -> Option<plan::LogTarget> {
        Some(match target {
            model::LogTarget::File(path) => plan::LogTarget::File(path.clone()),
            model::LogTarget::FileTemplate(path) => plan::LogTarget::FileTemplate(self.template(path)),
            model::LogTarget::Stderr => plan::LogTarget::Stderr,
            model::LogTarget::Stdout => plan::LogTarget::Stdout,
            model::LogTarget::Off => return None,
            model::LogTarget::Syslog {
                server,
                facility,
                severity,
                tag,
                form,
                host,
                no_hostname,
                max_length,
                min_severity,
                pid,
                newline,
            } => plan::LogTarget::Syslog(plan::Syslog {
                server: self.syslog_server(server),
                facility: facility.clone(),
                severity: *severity,
                tag: tag.clone(),
                form: *form,
                host: host.clone(),
                no_hostname: *no_hostname,
                max_length: *max_length,
                min_severity: *min_severity,
                pid: *pid,
                newline: *newline,
            }),
        })
    }

    fn no_such_log(&mut self, name: &str, what: &str) -> plan::SyslogServer {
        let title = format!("there is no {what} named `{name}`");
        self.report_once(name, Diagnostic::error("log::unknown-target", title));
        plan::SyslogServer::Unresolved(name.to_owned(), 0)
    }

    /// A ring whose servers have addresses.
    pub(crate) fn log_ring(&mut self, ring: &'m settings::LogRing) -> settings::LogRing {
        settings::LogRing { servers: self.log_servers(&ring.servers), ..ring.clone() }
    }

    /// Servers with addresses; those whose names did not resolve are left out.
    fn log_servers(&mut self, servers: &[settings::LogServer]) -> Vec<settings::LogServer> {
        let mut all = Vec::with_capacity(servers.len());
        for server in servers {
            let mut server = server.clone();
            if let Some((host, port)) = server.address.unresolved() {
                let Some(&address) = self.resources.addresses(host).first() else {
                    let host = host.to_owned();
                    self.unresolved(&host);
                    continue;
                };
                let to = (address, port).into();
                server.address = match &server.address {
                    settings::LogAddress::UdpName(..) => settings::LogAddress::Udp(to),
                    _ => settings::LogAddress::Tcp(to),
                };
            }
            all.push(server);
        }
        all
    }

    fn unresolved(&mut self, host: &str) {
        let title = format!("the syslog server `{host}` did not resolve");
        let finding = Diagnostic::warning("log::server-unresolved", title);
        let advice = "its lines are dropped and counted until the configuration is loaded again";
        self.report_once(host, finding.help(advice));
    }

    fn syslog_server(&mut self, server: &model::SyslogServer) -> plan::SyslogServer {
        match server {
            model::SyslogServer::Udp(address) => plan::SyslogServer::Udp(*address),
            model::SyslogServer::Unix(path) => plan::SyslogServer::Unix(path.clone()),
            model::SyslogServer::Stdout => plan::SyslogServer::Stdout,
            model::SyslogServer::Stderr => plan::SyslogServer::Stderr,
            model::SyslogServer::Ring(name) => {
                match self.model.process.log_rings.iter().find(|ring| ring.name == *name) {
                    Some(ring) => plan::SyslogServer::Ring(Box::new(self.log_ring(ring))),
                    None => self.no_such_log(name, "ring"),
                }
            }
            model::SyslogServer::Pool(name) => {
                match self.model.process.log_pools.iter().find(|pool| pool.name == *name) {
                    Some(pool) => {
                        let servers = self.log_servers(&pool.servers);
                        plan::SyslogServer::Pool(Box::new(settings::LogPool { servers, ..pool.clone() }))
                    }
                    None => self.no_such_log(name, "pool of log servers"),
                }
            }
            model::SyslogServer::Name(host, port) => match self.resources.addresses(host).first() {
                Some(&address) => plan::SyslogServer::Udp((address, *port).into()),
                None => {
                    self.unresolved(host);
                    plan::SyslogServer::Unresolved(host.clone(), *port)
                }
            },
        }
    }
}

/// Whether a text may show fields of the answer: by name, or through a variable that is not looked into.
fn asks_for_answer(text: &plan::Template) -> bool {
    text.pieces.iter().any(|piece| {
        let plan::Piece::Var(var, _) = piece else { return false };
        matches!(
            var,
            Var::SentHeader(_) | Var::ResponseHeaderNth(..) | Var::CapturedResponseHeader(_) | Var::User(_)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_fields_of_the_answer_is_told_from_what_does_not() {
        let of = |vars: &[Var]| {
            let mut text = plan::Template::literal("- ");
            vars.iter().for_each(|var| text.push_var(var.clone()));
            asks_for_answer(&text)
        };
        assert!(!of(&[Var::ClientAddr, Var::RequestLine, Var::Status, Var::Header("referer".into())]));
        assert!(of(&[Var::ClientAddr, Var::SentHeader("etag".into())]));
        assert!(of(&[Var::ResponseHeaderNth("etag".into(), 1)]));
        // A table may look at anything.
        assert!(of(&[Var::User(plan::Slot(0))]));
    }
}
