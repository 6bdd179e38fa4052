//! Plans as printed, for small models that touch most node kinds. `UPDATE_EXPECT=1` rewrites the files.

use std::sync::Arc;

use weir_expr::Var;
use weir_model::*;

use super::build::*;

#[track_caller]
fn check(name: &str, model: &Model) {
    let printed =
        format!("# model\n{}\n# plan\n{}", crate::explain(model), crate::explain_plan(&plan(model)));
    let path = format!("{}/src/tests/golden/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(printed == expected, "{path} differs; UPDATE_EXPECT=1 rewrites it\n{printed}");
}

fn text(template: &str) -> Template {
    Template::literal(template)
}

#[test]
fn static_files() {
    let mut images = route("~ \\.(png|jpg)$", RouteMatch::Regex(pattern(r"\.(png|jpg)$")), Action::Static);
    images.expires = Some(Arc::new(Expires::After(3600)));
    let mut root = route("/", prefix("/"), Action::Static);
    root.try_files = Some(TryFiles {
        candidates: vec![Template::var(Var::Path), {
            let mut folder = Template::var(Var::Path);
            folder.push_literal("/");
            folder
        }],
        last: TryLast::Status(404),
    });
    root.children = vec![RouteId(2)];
    let nested = route("= /a", RouteMatch::Exact("/a".into()), Action::Static);
    let mut model = single(vec![root, images]);
    model.add_route(nested);
    model.sites[0].names.push(NamePattern::Suffix("example.org".into()));
    check("static", &model);
}

#[test]
fn a_proxy_with_rules() {
    let mut api =
        route("/api/", RouteMatch::Prefix { path: "/api/".into(), stop: true, auto_redirect: true }, {
            let host = Template::var(Var::Host);
            let mut forwarded = text("for=");
            forwarded.push_var(Var::ClientAddr);
            proxy(
                "app",
                &[
                    ("Host", host),
                    ("X-Forwarded", forwarded),
                    ("Connection", text("")),
                    ("X-Tag", text("weir")),
                ],
            )
        });
    api.program = vec![
        Op::When {
            condition: Condition::All(vec![
                Condition::Test {
                    subject: Subject::RequestHeader { name: "user-agent".into(), split: false },
                    test: Test::Matches(vec![pattern("(?<kind>bot|spider)")]),
                },
                Condition::Not(Box::new(Condition::Test {
                    subject: Subject::Value(Template::var(Var::ClientAddr)),
                    test: Test::In(vec!["10.0.0.0/8".parse().unwrap()]),
                })),
            ]),
            then: vec![Op::Respond(Respond {
                status: 403,
                body: RespondBody::Text(Template::var(Var::User("kind".into()))),
                content_type: None,
                headers: vec![("X-Why".into(), text("bot"))],
                error_pages: false,
                cause: weir_model::settings::Cause::Content,
            })],
            otherwise: vec![],
        },
        Op::Rewrite {
            pattern: pattern("^/api/(.*)$"),
            replacement: {
                let mut to = text("/v1/");
                to.push_var(Var::Capture(1));
                to
            },
            keep_query: true,
            flag: RewriteFlag::Break,
        },
    ];
    api.error_pages = Arc::new(vec![ErrorPage {
        statuses: vec![502, 504],
        answer: Some(Some(200)),
        target: ErrorTarget::Uri(text("/sorry.html")),
    }]);
    api.access = Arc::new(Access {
        rules: vec![
            AccessRule { allow: false, who: Who::Net("192.0.2.0/24".parse().unwrap()) },
            AccessRule { allow: true, who: Who::All },
        ],
        basic: None,
        ..Access::default()
    });
    api.access_logs = Arc::new(vec![AccessLog {
        target: LogTarget::File("/var/log/access.log".into()),
        format: Arc::new(Template::var(Var::Method)),
        escape: Default::default(),
        condition: None,
        only: None,
        buffer: None,
        flush: None,
        gzip: None,
        sample: None,
    }]);
    let mut model = single(vec![route("/", prefix("/"), Action::Static), api]);
    let mut app = pool("app", &["127.0.0.1:8001", "127.0.0.1:8002"]);
    app.balance = Balance::Hash { key: Template::var(Var::Target), consistent: true };
    app.endpoints[1].backup = true;
    app.shared = true;
    model.pools.push(app);
    model.variables.push(variable("kind"));
    model.variables.push(Variable {
        name: "mapped".into(),
        origin: None,
        definition: Definition::Map(MapTable {
            source: Template::var(Var::Host),
            exact: vec![("a".into(), text("1"))],
            suffixes: vec![],
            prefixes: vec![],
            patterns: vec![(pattern("^b"), text("2"))],
            default: text("0"),
            hostnames: false,
            volatile: false,
        }),
    });
    check("proxy", &model);
}
