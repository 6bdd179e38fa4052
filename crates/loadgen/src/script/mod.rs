//! wrk's Lua scripts.
//!
//! Owns: one Lua state for the run and one for each thread, and the order in which a script's functions are called:
//! `setup` for each thread, `init` in each, `delay`, `request` and `response` while load runs, `done` at the end.
//! Never: loads `ffi`, `debug` or C modules; lets an error in a script pass unsaid.
//! Driven by: `run` (setup, done), `worker` (the rest).
//! Why LuaJIT: scripts that exist were written for it, down to `unpack`, `setfenv` and `bit`.

mod figures;
mod thread;
mod wrk;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Function, Lua, Table, Value};

use crate::answer::Collected;
use crate::plan::{Plan, ScriptFile};
use crate::report::Report;
use crate::shot::Shot;

/// What a script is told about one thread, and may change of it, from any state.
#[derive(Default)]
pub(crate) struct Control {
    /// Where its connections go, if not where the URL says.
    addr: Mutex<Option<SocketAddr>>,
    stop: AtomicBool,
}

impl Control {
    pub(crate) fn addr(&self) -> Option<SocketAddr> {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_addr(&self, addr: SocketAddr) {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner) = Some(addr);
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The script of a run: its own state, which sees `setup` and `done`.
pub(crate) struct Script {
    lua: Lua,
    name: String,
}

/// The script in one thread.
pub(crate) struct ThreadScript {
    lua: Lua,
    name: String,
    pub(crate) control: Arc<Control>,
    request: Option<Function>,
    response: Option<Function>,
    delay: Option<Function>,
    /// What is sent when `request` is not the script's own.
    fixed: Option<Arc<Shot>>,
    /// The first failure: the run ends with it.
    failure: RefCell<Option<String>>,
}

/// Loads the plan's script, if it has one, into a state for the run and one for each thread, and calls `setup`.
pub(crate) fn load(plan: &Plan) -> Result<Option<(Script, Vec<ThreadScript>)>, String> {
    let Some(ScriptFile { name, text }) = &plan.options.script else { return Ok(None) };
    let fault = |error: mlua::Error| format!("{name}: {error}");
    let state = || -> mlua::Result<Lua> {
        let lua = Lua::new();
        wrk::install(&lua, plan)?;
        lua.load(&text[..]).set_name(format!("@{name}")).exec()?;
        Ok(lua)
    };
    let lua = state().map_err(fault)?;
    let setup: Option<Function> = lua.globals().get("setup").map_err(fault)?;
    let mut threads = Vec::new();
    for _ in 0..plan.options.threads {
        let own = state().map_err(fault)?;
        let control = Arc::new(Control::default());
        let first = plan.origins.first().and_then(|origin| origin.peers.first()?.ip());
        let handle = thread::Thread::new(own.clone(), control.clone(), first);
        if let Some(setup) = &setup {
            setup.call::<()>(handle.clone()).map_err(fault)?;
        }
        wrk::table(&own).and_then(|wrk| wrk.set("thread", handle)).map_err(fault)?;
        threads.push(ThreadScript::new(own, name.clone(), control, plan).map_err(fault)?);
    }
    Ok(Some((Script { lua, name: name.clone() }, threads)))
}

impl Script {
    /// Calls `done`.
    pub(crate) fn done(&self, report: &Report) -> Result<(), String> {
        figures::done(&self.lua, report).map_err(|error| format!("{}: {error}", self.name))
    }
}

impl ThreadScript {
    fn new(lua: Lua, name: String, control: Arc<Control>, plan: &Plan) -> mlua::Result<Self> {
        let globals = lua.globals();
        wrk::prepare(&lua)?;
        if let Some(init) = globals.get::<Option<Function>>("init")? {
            let args = lua.create_table()?;
            // The URL's place is 0, as in wrk.
            args.set(0, plan.options.urls.first().cloned())?;
            for (at, arg) in plan.options.script_args.iter().enumerate() {
                args.set(at + 1, arg.as_str())?;
            }
            init.call::<()>(args)?;
        }
        let request: Option<Function> = globals.get("request")?;
        // `wrk.request` gives what method, path, headers and body are by now.
        let fixed = wrk::freeze(&lua)?;
        let mut script = Self {
            request: None,
            response: globals.get("response")?,
            delay: globals.get("delay")?,
            fixed: None,
            failure: RefCell::default(),
            lua,
            name,
            control,
        };
        if request.is_none() {
            script.fixed = Some(Arc::new(Shot::joined(fixed).map_err(mlua::Error::runtime)?));
        }
        script.request = request;
        Ok(script)
    }

    /// Whether answers have to be kept for it.
    pub(crate) fn wants_answers(&self) -> bool {
        self.response.is_some()
    }

    /// How long to wait before the next request, nanoseconds.
    pub(crate) fn delay(&self) -> Option<u64> {
        let delay = self.delay.as_ref()?;
        match delay.call::<Option<f64>>(()) {
            Ok(ms) => ms.filter(|ms| *ms > 0.0).map(|ms| (ms.min(86_400_000.0) * 1e6) as u64),
            Err(error) => {
                self.fail(error.to_string());
                None
            }
        }
    }

    /// What to send next; `None` after a failure.
    pub(crate) fn request(&self) -> Option<Arc<Shot>> {
        let Some(request) = &self.request else { return self.fixed.clone() };
        let text = match request.call::<mlua::String>(()) {
            Ok(text) => text.as_bytes().to_vec(),
            Err(error) => {
                self.fail(error.to_string());
                return None;
            }
        };
        match Shot::joined(text) {
            Ok(shot) => Some(Arc::new(shot)),
            Err(why) => {
                self.fail(format!("request() gave {why}"));
                None
            }
        }
    }

    /// Shows the script an answer.
    pub(crate) fn response(&self, status: u16, answer: &Collected) {
        if let Some(response) = &self.response
            && let Err(error) = self.show(response, status, answer)
        {
            self.fail(error.to_string());
        }
    }

    fn show(&self, response: &Function, status: u16, answer: &Collected) -> mlua::Result<()> {
        let headers = headers(&self.lua, &answer.head)?;
        let body = self.lua.create_string(&answer.body)?;
        response.call::<()>((status, headers, body))
    }

    fn fail(&self, why: String) {
        self.failure.borrow_mut().get_or_insert(why);
        self.control.stop.store(true, Ordering::Relaxed);
    }

    /// The first failure, if there was one.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.borrow().as_ref().map(|why| format!("{}: {why}", self.name))
    }
}

/// A head's fields as a table; of a name that comes twice the last value stands.
fn headers(lua: &Lua, head: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for line in head.split(|&b| b == b'\n').skip(1) {
        let line = line.trim_ascii();
        if let Some(colon) = line.iter().position(|&b| b == b':') {
            table.set(
                lua.create_string(&line[..colon])?,
                lua.create_string(line[colon + 1..].trim_ascii())?,
            )?;
        }
    }
    Ok(table)
}

/// A value as it is in another state: nil, booleans, numbers, strings, and tables of these, eight deep at most.
fn copy(value: &Value, to: &Lua, depth: u32) -> mlua::Result<Value> {
    Ok(match value {
        Value::Nil => Value::Nil,
        Value::Boolean(on) => Value::Boolean(*on),
        Value::Integer(n) => Value::Integer(*n),
        Value::Number(n) => Value::Number(*n),
        Value::String(text) => Value::String(to.create_string(text.as_bytes())?),
        Value::Table(table) if depth < 8 => {
            let made = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                made.set(copy(&key, to, depth + 1)?, copy(&value, to, depth + 1)?)?;
            }
            Value::Table(made)
        }
        other => {
            return Err(mlua::Error::runtime(format!(
                "a {} cannot go from one thread to another",
                other.type_name()
            )));
        }
    })
}
