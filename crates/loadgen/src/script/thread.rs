//! The thread object of wrk's scripts: `thread:get`, `thread:set`, `thread:stop`, `thread.addr`.
//!
//! Owns: that object and the address object. Driven by: scripts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mlua::{Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, UserDataRef, Value};

use super::{Control, copy};

/// A thread, as scripts see it from any state.
#[derive(Clone)]
pub(super) struct Thread {
    state: Lua,
    control: Arc<Control>,
    first: Option<SocketAddr>,
}

impl Thread {
    pub(super) fn new(state: Lua, control: Arc<Control>, first: Option<SocketAddr>) -> Self {
        Self { state, control, first }
    }
}

impl UserData for Thread {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, this| Ok(this.control.addr().or(this.first).map(Address)));
        fields.add_field_method_set("addr", |_, this, addr: UserDataRef<Address>| {
            this.control.set_addr(addr.0);
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, this, name: String| {
            let value: Value = this.state.globals().get(name)?;
            copy(&value, lua, 0)
        });
        methods.add_method("set", |_, this, (name, value): (String, Value)| {
            let value = copy(&value, &this.state, 0)?;
            this.state.globals().set(name, value)
        });
        methods.add_method("stop", |_, this, ()| {
            this.control.stop.store(true, Ordering::Relaxed);
            Ok(())
        });
    }
}

/// An address, as `wrk.lookup` finds it.
#[derive(Clone, Copy)]
pub(super) struct Address(pub(super) SocketAddr);

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
    }
}
