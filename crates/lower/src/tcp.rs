//! TCP services.

use weir_model as model;
use weir_plan as plan;
use weir_plan::SiteId;

use crate::context::Cx;

impl<'m> Cx<'m> {
    pub(crate) fn tcp_service(&mut self, service: &'m model::TcpService) -> plan::TcpService {
        plan::TcpService {
            id: SiteId::from_name(&service.name),
            name: service.name.as_str().into(),
            action: self.tcp_action(&service.action),
            inspect: service.inspect,
            program: self.program(&service.program),
            access: self.access(&service.access),
            limit_conn: self.limit_conn(&service.limit_conn),
            real_ip: service.real_ip.as_ref().map(|rules| self.real_ip(rules)),
            resolver: match &service.resolver {
                Some(resolver) => Some(self.resolver(resolver)),
                None => self.plan.resolver.clone(),
            },
            access_logs: self.access_logs(&service.access_logs),
            error_logs: match &service.error_logs {
                Some(logs) => self.error_logs(logs),
                None => self.plan.process.error_logs.clone(),
            },
            error_lines: service.error_lines,
            handshake_timeout: service.handshake_timeout,
            tcp_nodelay: service.tcp_nodelay,
            max_connections: service.max_connections,
            session_rate: service.session_rate,
            socket_keepalive: service.socket_keepalive,
            log_empty_connections: service.log_empty_connections,
            zone: service.zone.as_deref().map(|name| self.counted(name, plan::CountedKind::Services)),
        }
    }

    fn tcp_action(&mut self, action: &'m model::TcpAction) -> plan::TcpAction {
        match action {
            model::TcpAction::Proxy(proxy) => plan::TcpAction::Proxy(self.tcp_proxy(proxy)),
            model::TcpAction::Respond(text) => plan::TcpAction::Respond(self.template(text)),
            model::TcpAction::Pass(address) => plan::TcpAction::Pass(self.template(address)),
            model::TcpAction::Nobody => plan::TcpAction::Nobody,
            model::TcpAction::Choose(cases) => plan::TcpAction::Choose(
                cases
                    .iter()
                    .map(|case| plan::TcpCase {
                        condition: case.condition.as_ref().map(|condition| self.condition(condition)),
                        program: self.program(&case.program),
                        action: self.tcp_action(&case.action),
                    })
                    .collect(),
            ),
        }
    }

    fn tcp_proxy(&mut self, proxy: &'m model::TcpProxy) -> plan::TcpProxy {
        plan::TcpProxy {
            target: self.proxy_target(&proxy.target),
            connect_timeout: proxy.connect_timeout,
            idle_timeout: proxy.idle_timeout,
            client_timeout: proxy.client_timeout,
            server_timeout: proxy.server_timeout,
            tunnel_timeout: proxy.tunnel_timeout,
            half_closed_timeout: proxy.half_closed_timeout,
            buffer: proxy.buffer,
            retry: self.retry_policy(&proxy.retry),
            send_proxy: proxy.send_proxy,
            tls: proxy.tls.as_ref().map(|tls| self.upstream_tls(tls)),
            bind: self.optional_template(proxy.bind.as_ref()),
            transparent: proxy.transparent,
            limit_rate: proxy.limit_rate,
            socket_keepalive: proxy.socket_keepalive,
            half_close: proxy.half_close,
            datagrams: proxy.datagrams,
            answers: proxy.answers.as_ref().and_then(|answers| {
                let program = self.program(&answers.program)?;
                let model::TcpAnswers { wait, least, most, .. } = **answers;
                Some(std::sync::Arc::new(plan::TcpAnswers { wait, least, most, program }))
            }),
        }
    }
}
