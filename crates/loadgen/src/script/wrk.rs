//! The `wrk` table.
//!
//! Owns: its members: scheme, host, port, path, method, headers, body, thread; format, request, lookup, connect.
//! Never: lets a script's output overtake ours: `print` and `io.write` go through the same standard output.
//! Driven by: `script`.

use std::io::Write as _;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use mlua::{Lua, String as LuaString, Table, UserDataRef, Value, Variadic};

use super::thread::Address;
use crate::plan::Plan;

/// Makes the table, with what the command line says.
pub(super) fn install(lua: &Lua, plan: &Plan) -> mlua::Result<()> {
    let wrk = lua.create_table()?;
    let target = plan.origins.first().map(|origin| &origin.target);
    if let Some(target) = target {
        wrk.set("scheme", if target.scheme.is_encrypted() { "https" } else { "http" })?;
        wrk.set("host", target.host.as_str())?;
        // nil unless the URL has one, as in wrk.
        let has_port = target.authority.trim_start_matches(|c| c != ']').contains(':')
            || (!target.authority.starts_with('[') && target.authority.contains(':'));
        if has_port {
            wrk.set("port", target.port.to_string())?;
        }
        wrk.set("path", target.path.as_str())?;
    }
    wrk.set("method", plan.method.as_str())?;
    let headers = lua.create_table()?;
    for (name, value) in &plan.options.headers {
        headers.set(name.as_str(), value.as_str())?;
    }
    wrk.set("headers", headers)?;
    if let Some(body) = &plan.options.body {
        wrk.set("body", lua.create_string(body)?)?;
    }
    wrk.set("format", lua.create_function(format)?)?;
    wrk.set("lookup", lua.create_function(lookup)?)?;
    wrk.set("connect", lua.create_function(connect)?)?;
    lua.globals().set("wrk", wrk)?;
    speak(lua)
}

/// The table.
pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    lua.globals().get("wrk")
}

/// Before `init`: the Host field.
pub(super) fn prepare(lua: &Lua) -> mlua::Result<()> {
    let wrk = table(lua)?;
    let headers: Table = wrk.get("headers")?;
    if headers.get::<Value>("Host")?.is_nil() {
        let (host, port): (String, Option<String>) = (wrk.get("host")?, wrk.get("port")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        headers.set("Host", port.map_or(host.clone(), |port| format!("{host}:{port}")))?;
    }
    Ok(())
}

/// After `init`: the request of `wrk.request`, which does not change any more.
pub(super) fn freeze(lua: &Lua) -> mlua::Result<Vec<u8>> {
    let request = format(lua, (None, None, None, None))?;
    let bytes = request.as_bytes().to_vec();
    table(lua)?.set("request", lua.create_function(move |_, ()| Ok(request.clone()))?)?;
    Ok(bytes)
}

type Format = (Option<std::string::String>, Option<LuaString>, Option<Table>, Option<LuaString>);

/// `wrk.format(method, path, headers, body)`: what is left out is the table's.
fn format(lua: &Lua, (method, path, headers, body): Format) -> mlua::Result<LuaString> {
    let wrk = table(lua)?;
    let method = method.map_or_else(|| wrk.get("method"), Ok)?;
    let path = path.map_or_else(|| wrk.get::<LuaString>("path"), Ok)?;
    let own: Table = wrk.get("headers")?;
    let headers = headers.unwrap_or_else(|| own.clone());
    let body = body.map_or_else(|| wrk.get::<Option<LuaString>>("body"), |body| Ok(Some(body)))?;
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(&path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let mut field = |name: &[u8], value: &[u8]| -> mlua::Result<()> {
        if name.contains(&b'\n') || value.contains(&b'\n') {
            return Err(mlua::Error::runtime("a header with a line break in it"));
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
        Ok(())
    };
    let (mut host, mut chunked) = (false, false);
    for pair in headers.pairs::<LuaString, Value>() {
        let (name, value) = pair?;
        let name = name.as_bytes();
        host |= name.eq_ignore_ascii_case(b"host");
        chunked |= name.eq_ignore_ascii_case(b"transfer-encoding");
        // The length is that of the body, whatever the table says.
        if name.eq_ignore_ascii_case(b"content-length") {
            continue;
        }
        if let Some(text) = lua.coerce_string(value)? {
            field(&name, &text.as_bytes())?;
        }
    }
    if !host && let Some(value) = own.get::<Option<LuaString>>("Host")? {
        field(b"Host", &value.as_bytes())?;
    }
    if let Some(body) = &body
        && !chunked
    {
        field(b"Content-Length", body.as_bytes().len().to_string().as_bytes())?;
    }
    out.extend_from_slice(b"\r\n");
    if let Some(body) = &body {
        out.extend_from_slice(&body.as_bytes());
    }
    lua.create_string(&out)
}

/// `wrk.lookup(host, service)`: the addresses of a host, as a list.
fn lookup(lua: &Lua, (host, service): (String, Option<String>)) -> mlua::Result<Table> {
    let service = service.unwrap_or_else(|| "http".into());
    let port = match service.as_str() {
        "http" => 80,
        "https" => 443,
        number => number.parse().map_err(|_| mlua::Error::runtime(format!("`{number}` is no port")))?,
    };
    let found = (host.as_str(), port).to_socket_addrs().map_err(mlua::Error::external)?;
    let list = lua.create_table()?;
    for addr in found {
        list.push(Address(addr))?;
    }
    Ok(list)
}

/// `wrk.connect(addr)`: whether somebody listens there.
fn connect(_: &Lua, addr: UserDataRef<Address>) -> mlua::Result<bool> {
    Ok(TcpStream::connect_timeout(&addr.0, Duration::from_secs(2)).is_ok())
}

/// `print` and `io.write` through our standard output, so that lines keep their order.
fn speak(lua: &Lua) -> mlua::Result<()> {
    let print = lua.create_function(|lua, all: Variadic<Value>| {
        let mut line = Vec::new();
        for (at, value) in all.into_iter().enumerate() {
            if at > 0 {
                line.push(b'\t');
            }
            match lua.coerce_string(value.clone())? {
                Some(text) => line.extend_from_slice(&text.as_bytes()),
                None => line.extend_from_slice(value.to_string()?.as_bytes()),
            }
        }
        line.push(b'\n');
        std::io::stdout().write_all(&line).map_err(mlua::Error::external)
    })?;
    lua.globals().set("print", print)?;
    let write = lua.create_function(|lua, all: Variadic<Value>| {
        for value in all {
            let Some(text) = lua.coerce_string(value)? else {
                return Err(mlua::Error::runtime("io.write takes strings and numbers"));
            };
            std::io::stdout().write_all(&text.as_bytes()).map_err(mlua::Error::external)?;
        }
        Ok(())
    })?;
    lua.globals().get::<Table>("io")?.set("write", write)
}
