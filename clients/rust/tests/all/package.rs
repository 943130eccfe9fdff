//! What is handed out: packed, and built by a crate outside of the tree.

use std::{env, fs, path::Path, process::Command};

use crate::server::{folder, repository, shared};

const CONSUMER: &str = r#"
use scylla_pg::{Client, Connector, HandlerError, NewTask, Task, Worker};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), scylla_pg::Error> {
    let connector: Connector = std::env::args().nth(1).unwrap().parse()?;
    let client = Client::connect(connector.clone());
    let double = async |task: Task<i64>| Ok::<_, HandlerError>(2 * task.spec);
    let worker = Worker::builder(connector).queue("consumer").fallback(double).build()?;
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    let id = client.submit(NewTask::new("consumer", 21).post_result()).await?;
    println!("{}", client.result::<i64>(id, Duration::from_secs(20)).await?);
    handle.stop();
    running.await.unwrap()
}
"#;

fn cargo(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(folder)
        .args(arguments)
        .env("CARGO_TARGET_DIR", target())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The folder that this test was built into.
fn target() -> std::path::PathBuf {
    let test = env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}

/// One build at a time: they share the folder.
static BUILDING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A crate outside of the tree, of the dependencies that the tests were built with.
fn prepare(crate_folder: &Path, name: &str, client: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::create_dir_all(crate_folder.join("src")).unwrap();
    let manifest = format!(
        "[workspace]\n[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n\
         scylla-pg = {{ path = \"{client}\", features = [\"opentelemetry\", \"sqlx\", \"testing\"] }}\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\n\
         tokio = {{ version = \"1\", features = [\"rt-multi-thread\", \"macros\"] }}\n\
         [profile.dev]\ndebug = \"line-tables-only\"\nincremental = false\n"
    );
    fs::write(crate_folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(here.join("Cargo.lock"), crate_folder.join("Cargo.lock")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_package_builds_and_works_outside_of_the_tree() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let version = env!("CARGO_PKG_VERSION");
    let _one = BUILDING.lock().await;
    let listed = cargo(here, &["package", "--list", "--allow-dirty", "--offline"]);
    for file in [
        "Cargo.lock",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "examples/first_worker.rs",
        "src/machine.rs",
    ] {
        assert!(listed.lines().any(|line| line == file), "{file} is missing");
    }
    cargo(here, &["package", "--no-verify", "--allow-dirty", "--offline", "--quiet"]);
    let consumer = folder("consumer");
    fs::create_dir_all(&consumer).unwrap();
    let packed = target().join(format!("package/scylla-pg-{version}.crate"));
    let unpacked =
        Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(&consumer).status().unwrap();
    assert!(unpacked.success());
    prepare(&consumer, "consumer", &format!("scylla-pg-{version}"));
    fs::write(consumer.join("src/main.rs"), CONSUMER).unwrap();
    let database = shared().database(true).await;
    let printed = tokio::task::spawn_blocking(move || {
        cargo(&consumer, &["run", "--offline", "--quiet", "--", &database.url()])
    });
    assert_eq!(printed.await.unwrap(), "42\n");
}

/// The tutorial, followed as a reader would.
#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_can_be_followed() {
    let _one = BUILDING.lock().await;
    let tutorial = folder("tutorial");
    prepare(&tutorial, "first", env!("CARGO_MANIFEST_DIR"));
    let database = shared().database(false).await;
    let path = format!("{}:{}", env::var("SCYLLA_BIN").unwrap(), env::var("PATH").unwrap());
    let mut follow = Command::new(repository().join("scripts/check/follow"));
    follow
        .arg("rust")
        .arg(repository().join("docs/tutorial/rust.md"))
        .arg(&tutorial)
        .envs([("CARGO_NET_OFFLINE", "true"), ("PGDATABASE", &database.database), ("PATH", &path)])
        .env("CARGO_TARGET_DIR", target());
    let output = tokio::task::spawn_blocking(move || follow.output()).await.unwrap().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_core_of_the_worker_stays_small() {
    let lines =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/machine.rs")).unwrap();
    assert!(lines.lines().count() < 900);
}
