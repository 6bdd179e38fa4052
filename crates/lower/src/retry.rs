//! Rules of retries.
//!
//! Owns: the step from settings as written to the policy that is asked for each failed attempt.

use weir_diag::Diagnostic;
use weir_expr::settings::RetrySettings;
use weir_policy::retry::{RetryOn, RetryPolicy};

use crate::context::Cx;

impl Cx<'_> {
    pub(crate) fn retry_policy(&mut self, settings: &RetrySettings) -> RetryPolicy {
        let RetrySettings {
            on_error,
            on_timeout,
            on_connect,
            on_invalid_response,
            on_status,
            non_idempotent,
            tries,
            timeout,
            redispatch,
        } = settings;
        let mut on = RetryOn::empty();
        on.set(RetryOn::ERROR, *on_error);
        on.set(RetryOn::TIMEOUT, *on_timeout);
        on.set(RetryOn::CONNECT, *on_connect);
        on.set(RetryOn::INVALID_HEADER, *on_invalid_response);
        on.set(RetryOn::NON_IDEMPOTENT, *non_idempotent);
        for &status in on_status {
            match RetryOn::for_status(status) {
                Some(flag) => on |= flag,
                None => self.never_retried(status),
            }
        }
        RetryPolicy { on, attempts: *tries, timeout: timeout.unwrap_or_default(), redispatch: *redispatch }
    }

    fn never_retried(&mut self, status: u16) {
        let title = format!("an answer with status {status} is never tried again elsewhere");
        let help = "statuses that are: 401, 403, 404, 408, 425, 429, 500 to 504";
        self.report_once(&status.to_string(), Diagnostic::error("retry::status", title).help(help));
    }
}
