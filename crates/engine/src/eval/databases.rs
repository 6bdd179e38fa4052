//! Variables whose values are in databases of networks.
//!
//! Owns: whose address is looked up, and following a database whose file is replaced.
//! Why: a file is read by a thread of its own, at most one a period; requests go on with what there is.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use weir_plan::{Database, DatabaseUse};

use super::forwarded::{behind, parse_address};
use crate::exchange::{Kind, Traffic};
use crate::worker::shared::Shared;

/// What the database says; `None`: nothing. `named`: the text of the source that is to be looked up, if the file names one.
pub(super) fn value(exchange: &impl Traffic, using: &DatabaseUse, named: Option<&[u8]>) -> Option<Vec<u8>> {
    let database = &using.database;
    let now = weir_rt::unix_now().as_secs();
    if database.is_due(now) {
        follow(&exchange.worker.shared, database, now);
    }
    let address = match named {
        None => exchange.client_source().map(|(ip, _)| ip),
        Some(named) => parse_address(named),
    };
    let address = match (&using.proxies, exchange.kind()) {
        (Some(proxies), Kind::Request(exchange)) => address.map(|ip| behind(exchange, proxies, ip)),
        _ => address,
    };
    let found = database.value(&using.part, address.map(|ip| ip.to_canonical()));
    let found = found.or_else(|| using.default.as_deref().map(str::to_owned));
    found.map(String::into_bytes)
}

/// Reads the file again if it is another by now.
fn follow(shared: &Arc<Shared>, database: &Arc<Database>, now: u64) {
    let (log, one) = (shared.clone(), database.clone());
    let read = move || {
        let file = one.file();
        let modified = std::fs::metadata(file).and_then(|data| data.modified());
        let modified = modified.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64);
        let newer = match modified {
            Ok(at) if !one.is_news(at) => return,
            Ok(_) => std::fs::read(file),
            Err(error) => Err(error),
        };
        let taken = newer.map_err(|error| error.to_string());
        let taken = taken.and_then(|bytes| one.replace(bytes.into(), now).map_err(|error| error.to_string()));
        if let Err(why) = taken {
            log.log_process_error(&format!("the database {file} stays as it was: {why}"));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("weir-database".into()).spawn(read) {
        shared.log_process_error(&format!("cannot read {} again: {error}", database.file()));
    }
}
