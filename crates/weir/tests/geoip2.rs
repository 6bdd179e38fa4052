//! Variables from databases of networks (`geoip2`), beside Debian's nginx with that module.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;

use beside::{agree, conf};
use weir_testkit::mmdb::{Datum, database};
use weir_testkit::{Client, Io, Proxy, Request, both_drivers, eventually};

const MODULE: &str = "load_module /usr/lib/nginx/modules/ngx_http_geoip2_module.so; ";

fn country(code: &'static str) -> Datum {
    Datum::Map(vec![
        (
            "country",
            Datum::Map(vec![
                ("iso_code", Datum::Text(code)),
                ("names", Datum::Map(vec![("en", Datum::Text("Somewhere"))])),
            ]),
        ),
        ("subdivisions", Datum::List(vec![Datum::Text("first"), Datum::Text("last")])),
        ("is_in", Datum::Flag(true)),
        ("radius", Datum::Small(200)),
        ("below", Datum::Signed(-7)),
        ("latitude", Datum::Real(51.5)),
    ])
}

fn countries(home: &'static str) -> Vec<u8> {
    database(
        &[
            ("127.0.0.0".parse().unwrap(), 8, country(home)),
            ("192.0.2.0".parse().unwrap(), 24, country("NL")),
            ("2001:db8::".parse().unwrap(), 32, country("SE")),
        ],
        1_700_000_000,
    )
}

/// The value of each variable, for these fields of requests.
fn ask(http: &str, body: &str, requests: &[Request], io: Io) -> Vec<String> {
    let text = format!(
        "{MODULE}{}",
        conf(http, &format!("location / {{ add_header X \"{body}\" always; return 204; }}"))
    );
    let file = countries("GB");
    agree(io, &text, &[("c.mmdb", &file)], requests)
}

fn from(address: &str) -> Request {
    Request::get("/").header("X-Forwarded-For", address)
}

both_drivers! {
    fn values_are_looked_up_by_address(io: Io) {
        let http = "geoip2 {dir}/c.mmdb {
            $code country iso_code; $name country names en; $first subdivisions 0; $last subdivisions -1;
            $none subdivisions 7; $missing default=none city name; $unknown city name;
            $in is_in; $radius radius; $below below; $latitude latitude; $built metadata build_epoch;
            $other source=$arg_ip country iso_code; $another default=?? source=$arg_ip country iso_code; }";
        let body = "$code|$name|$first|$last|$none|$missing|$unknown|$in|$radius|$below|$latitude|$built|$other|$another";
        let requests =
            ["/", "/?ip=192.0.2.9", "/?ip=2001:db8::1", "/?ip=198.51.100.1", "/?ip=nonsense"].map(Request::get);
        let told = ask(http, body, &requests, io);
        assert!(told[0].contains("x: GB|Somewhere|first|last||"), "{}", told[0]);
        assert!(told[1].contains("|1700000000|NL|NL") && told[2].contains("|SE|SE"), "{told:?}");
    }

    fn believed_proxies_name_the_client(io: Io) {
        let block = "geoip2 {dir}/c.mmdb { $code default=none country iso_code; }";
        for (http, expected) in [
            (format!("{block} geoip2_proxy 127.0.0.1;"), ["NL", "none", "SE", "GB"]),
            (format!("geoip2_proxy 127.0.0.0/8; geoip2_proxy 198.51.100.0/24; geoip2_proxy_recursive on; {block}"), ["NL", "NL", "SE", "GB"]),
            (format!("{block} geoip2_proxy 10.0.0.0/8;"), ["GB", "GB", "GB", "GB"]),
        ] {
            let requests = ["192.0.2.1", "192.0.2.1, 198.51.100.7", "2001:db8::5", "nonsense"].map(from);
            let told = ask(&http, "$code", &requests, io);
            for (told, expected) in told.iter().zip(expected) {
                assert!(told.contains(&format!("x: {expected}")), "{http}: {told} is not {expected}");
            }
        }
    }

    fn a_database_that_is_replaced_is_read_again(io: Io) {
        let text = conf("geoip2 {dir}/c.mmdb { auto_reload 1s; $code country iso_code; }", "return 200 $code;");
        let proxy = Proxy::nginx(&text).io(io).file("c.mmdb", countries("GB")).start();
        let code = || Client::connect(&proxy).get("/").text();
        assert_eq!(code(), "GB");
        let (new, place) = (proxy.dir().join("new"), proxy.dir().join("c.mmdb"));
        std::fs::write(&new, countries("IE")).unwrap();
        std::fs::rename(&new, &place).unwrap();
        eventually("the new one is read", || (code() == "IE").then_some(()));
        // What is no database does not take the place of one that is.
        std::fs::write(&place, "nonsense").unwrap();
        let log = proxy.dir().join("error.log");
        eventually("that is told", || {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            (code() == "IE" && told.contains("c.mmdb stays as it was")).then_some(())
        });
        assert_eq!(code(), "IE");
    }
}

#[test]
fn mistakes_are_found() {
    for (words, expected) in [
        ("geoip2 {dir}/none.mmdb { $a b; }", "none.mmdb"),
        ("geoip2 {dir}/text.mmdb { $a b; }", "is no MaxMind database"),
        ("geoip2 {dir}/c.mmdb { $a default=x; }", "what is wanted"),
        ("geoip2 {dir}/c.mmdb { $a metadata nothing; }", "build_epoch"),
        ("geoip2 {dir}/c.mmdb { a b; }", "neither a variable"),
        ("geoip2 {dir}/c.mmdb { auto_reload soon; $a b; }", "a time such as"),
        ("geoip2 {dir}/c.mmdb { $a b; $a c; }", "defined twice"),
        ("geoip2_proxy nobody;", "an address or a network"),
    ] {
        let proxy = Proxy::nginx(&conf(words, "")).file("c.mmdb", countries("GB")).file("text.mmdb", "text");
        let (code, printed) = proxy.check();
        assert!(code != 0 && printed.contains(expected), "{words}: {code} {printed}");
    }
}
