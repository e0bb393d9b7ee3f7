//! The console in a real browser, without a window. Where there is no browser these tests say so
//! and check nothing: `cargo xtask console` gets one and runs them.

mod watch;

use std::path::{Path, PathBuf};
use std::process::Command;

use emq_core::{EnqueueOptions, Failure};
use emq_testkit::Valkey;
use watch::http::Server;
use watch::{
    HOSTILE, LONG, LONG_NAME, admit, bury, bus_on, fill_lanes, plant_waiting, tenant, until,
};

/// A browser's program, and what it keeps for itself.
struct Browser {
    program: PathBuf,
    profile: tempfile::TempDir,
}

impl Browser {
    /// The one of `EMQ_BROWSER`, else one that is on the path.
    #[allow(clippy::print_stdout, reason = "what was not checked must be seen")]
    fn find() -> Option<Browser> {
        let named = std::env::var_os("EMQ_BROWSER").map(PathBuf::from);
        let program = named.or_else(|| {
            ["chromium", "chromium-browser", "chrome-headless-shell", "google-chrome"]
                .into_iter()
                .find_map(on_path)
        });
        match program {
            Some(program) => Some(Browser { program, profile: tempfile::tempdir().unwrap() }),
            None => {
                println!("skipped: no browser; cargo xtask console gets one");
                None
            }
        }
    }

    /// What the browser made of a page, and what it complained of.
    fn dom(&self, server: &Server, path: &str) -> (String, String) {
        let run = self.run(&["--dump-dom".into(), url(server, path)]);
        (run.0, run.1)
    }

    /// A picture of a page, in the folder of `EMQ_TEST_SCREENS` or thrown away after a look.
    fn picture(&self, server: &Server, path: &str, name: &str) {
        let kept = std::env::var_os("EMQ_TEST_SCREENS").map(PathBuf::from);
        let folder = kept.unwrap_or_else(|| self.profile.path().to_owned());
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}.png"));
        let shot = format!("--screenshot={}", file.display());
        self.run(&[shot, "--window-size=1100,800".into(), url(server, path)]);
        let (width, height) = png_size(&file);
        assert_eq!((width, height), (1100, 800), "{name}");
    }

    fn run(&self, args: &[String]) -> (String, String) {
        let output = Command::new(&self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--hide-scrollbars"])
            // No other host is reached, whatever a page wants.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .args(["--enable-logging=stderr", "--virtual-time-budget=2000"])
            .arg(format!("--user-data-dir={}", self.profile.path().join("profile").display()))
            .args(args)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        let of_page = errors.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>();
        (String::from_utf8(output.stdout).unwrap(), of_page.join("\n"))
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn url(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address)
}

/// From the head of the file.
fn png_size(file: &Path) -> (u32, u32) {
    let bytes = std::fs::read(file).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"), "no picture");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn title(dom: &str) -> &str {
    dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap_or("none")
}

async fn serve(valkey: &Valkey) -> Server {
    let server = Server::start(&["--url", &valkey.url()]);
    let is_whole = async || server.get("/metrics").sample("emq_search_complete") == Some(1.0);
    until("the queues are found", is_whole).await;
    server
}

#[tokio::test]
async fn hostile_text_is_shown_and_never_run() {
    let Some(browser) = Browser::find() else { return };
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    let options = EnqueueOptions::new().kind(HOSTILE).headers(HOSTILE).unique(HOSTILE);
    let id = mail.enqueue_with(HOSTILE, &options).await.unwrap().id();
    let lease = mail.claim(LONG).await.unwrap().unwrap();
    lease.save(HOSTILE.as_bytes(), None).await.unwrap();
    lease.retry(&Failure::new(HOSTILE).dead()).await.unwrap();
    let server = serve(&valkey).await;
    for (path, name) in [
        (format!("/queues/mail/jobs/{id}"), "hostile-job"),
        ("/queues/mail/morgue".to_owned(), "hostile-morgue"),
    ] {
        let (dom, complaints) = browser.dom(&server, &path);
        assert!(!title(&dom).contains("owned"), "{path}: a script ran");
        assert!(!dom.contains("<script") && !dom.contains("<img"), "{dom}");
        assert!(dom.contains("&lt;script&gt;"), "{dom}");
        // The style is let in, and nothing else was tried.
        assert_eq!(complaints, "", "{path}");
        browser.picture(&server, &path, name);
    }
}

#[tokio::test]
async fn the_policy_would_stop_a_script_that_got_through() {
    let Some(browser) = Browser::find() else { return };
    let valkey = Valkey::start().unwrap();
    let server = serve(&valkey).await;
    let policy = server.get("/").header("content-security-policy").unwrap().to_owned();
    // The same policy on a page that does have a script.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 4096]);
            let page = "<title>safe</title><p>x</p><script>document.title='owned'</script>";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nContent-Security-Policy: {policy}\r\n\r\n{page}");
        }
    });
    let (dom, complaints) = browser.run(&["--dump-dom".into(), format!("http://{address}/")]);
    assert_eq!(title(&dom), "safe");
    assert!(complaints.contains("Content Security Policy"), "{complaints}");
}

#[tokio::test]
async fn each_page_is_seen_at_its_limits() {
    let Some(browser) = Browser::find() else { return };
    let valkey = Valkey::start().unwrap();
    let server = serve(&valkey).await;
    let (dom, complaints) = browser.dom(&server, "/");
    assert!(dom.contains("No queue has a job.") && complaints.is_empty(), "{dom}{complaints}");
    browser.picture(&server, "/", "no-queue");
    drop(server);

    let bus = bus_on(&valkey).await;
    plant_waiting(&valkey, "huge", 1_000_000);
    let wide = bus.queue("wide").unwrap();
    fill_lanes(&wide, 10_000).await;
    wide.lane(tenant(1)).pause().await.unwrap();
    wide.lane(tenant(2)).limit(3).await.unwrap();
    let long = bus.queue(LONG_NAME).unwrap();
    bury(&long, "x", &"an error that goes on and on ".repeat(100)).await;
    admit(&long, r#"{"order":"ORD0NgWEfAEJfs"}"#).await;
    let options = EnqueueOptions::new().kind("k".repeat(200)).headers("{\"trace\":\"1\"}");
    let id = long.enqueue_with("word".repeat(4_000), &options).await.unwrap().id();
    let _held = long.claim(LONG).await.unwrap().unwrap();
    bus.queue("zero").unwrap().pause().await.unwrap();

    let server = serve(&valkey).await;
    for (path, name, wanted) in [
        ("/".to_owned(), "queues", "1,000,000"),
        ("/queues/huge".to_owned(), "million", "1,000,000 in the flat set"),
        ("/queues/wide/lanes".to_owned(), "lanes", "10,000 lanes, page 1 of 100"),
        ("/queues/zero".to_owned(), "zero", "paused by an operator"),
        (format!("/queues/{LONG_NAME}"), "long-name", "In flight"),
        (format!("/queues/{LONG_NAME}/morgue"), "long-morgue", "on and on"),
        (format!("/queues/{LONG_NAME}/jobs/{id}"), "long-job", "wordword"),
    ] {
        let (dom, complaints) = browser.dom(&server, &path);
        assert!(dom.contains(wanted), "{path}: {dom}");
        assert_eq!(complaints, "", "{path}");
        browser.picture(&server, &path, name);
    }
}
