//! The files of the folder `monitoring`: rules, dashboard, the configuration of sql_exporter.

use super::metrics::*;
use super::server::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/monitoring");

fn file(name: &str) -> String {
    fs::read_to_string(format!("{FOLDER}/{name}")).unwrap()
}

fn promtool(arguments: &[&str]) -> String {
    let output = prometheus("promtool").current_dir(FOLDER).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap()).concat();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// The words that come after one, each at the end of a line.
fn after(text: &str, word: &str) -> Vec<String> {
    text.lines().filter_map(|it| it.split_once(word)).map(|(_, it)| it.trim().to_owned()).collect()
}

#[test]
fn each_rule_fires_in_a_test_and_is_silent_in_another() {
    promtool(&["check", "config", "prometheus.yml"]);
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts.test.yml"]);
    let (rules, tests) = (file("alerts.yml"), file("alerts.test.yml"));
    let cases: Vec<_> = tests.split("  - name: ").skip(1).collect();
    let rules = after(&rules, "- alert: ");
    assert!(rules.len() > 8);
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/server/monitoring.md");
    let guide = fs::read_to_string(guide).unwrap();
    for rule in rules {
        let of_rule = |it: &&&str| after(it, "alertname: ") == [rule.clone()];
        let (silent, fires): (Vec<&str>, Vec<&str>) =
            cases.iter().filter(of_rule).copied().partition(|it| it.contains("exp_alerts: []"));
        assert_eq!((fires.len(), silent.len()), (1, 1), "{rule}");
        assert!(guide.contains(&format!("| `{rule}` |")), "{rule} is not in the guide");
    }
}

/// The expressions of a dashboard, its variables replaced.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let plain = |it: &Value| {
        it["expr"].as_str().unwrap().replace("$instance", ".*").replace("$queue", ".*")
    };
    targets.map(plain).collect()
}

/// Grafana refuses a dashboard where these are not so.
fn check(dashboard: &Value) {
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36) && dashboard["title"].is_string());
    let variables: BTreeSet<_> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, BTreeSet::from(["datasource", "instance", "queue"]));
    let mut ids = BTreeSet::new();
    let mut places = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(["stat", "timeseries"].contains(&panel["type"].as_str().unwrap()), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().unwrap());
        assert!(w > 0 && h > 0 && x + w <= 24, "{panel}");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(places.insert(place), "panels overlap at {place:?}");
        }
        let refs: BTreeSet<_> = panel["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["refId"].as_str().unwrap())
            .collect();
        assert_eq!(refs.len(), panel["targets"].as_array().unwrap().len());
    }
}

/// A private Prometheus scrapes the program, and each panel of the dashboard gets data from it.
#[test]
fn prometheus_scrapes_and_the_dashboard_has_data() {
    let d = Database::of(shared());
    let exporter = Exporter::start(&d, "postgres", &[]);
    let folder = d.server.folder.join("prometheus");
    fs::create_dir(&folder).unwrap();
    let config = file("prometheus.yml")
        .replace("15s", "1s")
        .replace("127.0.0.1:9733", &exporter.address)
        .replace("[alerts.yml]", &format!("[{FOLDER}/alerts.yml]"));
    let path = folder.join("prometheus.yml");
    fs::write(&path, config).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    struct Ended(std::process::Child);
    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let _prometheus = Ended(
        prometheus("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap(),
    );
    let query = |expression: &str| {
        let output =
            prometheus("promtool").args(["query", "instant", &url, expression]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let work = || {
        d.sql("select scylla.submit('mail') from generate_series(1, 3)");
        d.sql("select scylla.return_task(id, token) from scylla.own_tasks('w', 'mail', 2)");
    };
    work();
    eventually("a scrape", || query("scylla_tasks_completed_total").contains("=> 2").then_some(()));
    work();
    let dashboard: Value = serde_json::from_str(&file("dashboard.json")).unwrap();
    check(&dashboard);
    let expressions = expressions(&dashboard);
    assert!(expressions.len() > 15);
    for expression in expressions {
        eventually(&expression, || {
            let found = query(&expression);
            (!found.is_empty() && !found.contains("NaN")).then_some(())
        });
    }
    // Every alert is evaluated, and this server has none of them yet.
    assert_eq!(query("ALERTS{alertstate=\"firing\"}"), "");
    assert!(query("up").contains("=> 1"));
}

/// The guide names each metric, and no other.
#[test]
fn the_guide_and_the_configuration_of_sql_exporter_have_each_metric() {
    let d = Database::of(shared());
    d.sql("select scylla.submit('a\"b'), scylla.configure_queue('a\"b', max_ready => 5)");
    d.sql("select scylla.schedule('daily', '@daily', 'a\"b')");
    d.sql("select scylla.return_task(id, token) from scylla.own_tasks('w', 'a\"b')");
    let page = Exporter::start(&d, "postgres", &[]).page();
    let served: BTreeSet<_> =
        after(&page, "# HELP ").iter().map(|it| it.split(' ').next().unwrap().to_owned()).collect();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/server/monitoring.md");
    let guide = fs::read_to_string(guide).unwrap();
    let told: BTreeSet<_> = guide
        .lines()
        .filter_map(|it| it.strip_prefix("| `scylla_"))
        .map(|it| format!("scylla_{}", it.split(['`', '{']).next().unwrap()))
        .collect();
    assert_eq!(served, told);

    let yaml = file("sql_exporter.yml");
    let (metrics, queries) = yaml.split_once("    queries:\n").unwrap();
    let queries: Vec<_> = queries
        .split("      - query_name: ")
        .skip(1)
        .map(|it| {
            let (name, text) = it.split_once('\n').unwrap();
            let text = text.split_once("query: ").unwrap().1;
            (name, text.trim_start_matches("|\n"))
        })
        .collect();
    let mut configured = BTreeSet::from(
        ["up", "scrape_duration_seconds", "names_omitted"].map(|it| format!("scylla_{it}")),
    );
    for metric in metrics.split("      - metric_name: ").skip(1) {
        let name = metric.lines().next().unwrap();
        let list = |key: &str| -> Vec<String> {
            let found = after(metric, key);
            let found =
                found.first().map(|it| it.trim_matches(['[', ']']).to_owned()).unwrap_or_default();
            found.split(", ").filter(|it| !it.is_empty()).map(str::to_owned).collect()
        };
        let (labels, values) = (list("key_labels: "), list(" values: "));
        let query = &list("query_ref: ")[0];
        let (_, text) = queries.iter().find(|(it, _)| it == query).expect(query);
        // The server knows the columns; each metric has the series of the program's page.
        let columns = [labels.clone(), values.clone()].concat().join(", ");
        let rows = d.sql(&format!("select {columns} from ({text}) x"));
        let several = if values.len() > 1 { values.len() } else { 1 };
        let series = page.lines().filter(|it| {
            it.starts_with(&format!("{name}{{")) || it.starts_with(&format!("{name} "))
        });
        assert_eq!(rows.lines().count() * several, series.count(), "{name}: {rows}");
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|it| name.strip_suffix(it));
        configured.insert(family.unwrap_or(name).to_owned());
    }
    assert_eq!(served, configured);
}
