//! Runs straight over the wire: a malformed one refuses the whole call before anything is written.

use emq_scripts::{CONTRACTS, Contract};
use emq_wire::Reply;

use crate::support::ground::{Args, Ground, bytes, good_args, keys_of};
use crate::support::job;

fn turn() -> &'static Contract {
    CONTRACTS.iter().find(|contract| contract.script.as_str() == "turn").unwrap()
}

async fn call(ground: &Ground, runs: &[&[u8]]) -> Reply {
    let mut args: Args = good_args(turn());
    args.extend(runs.iter().map(|word| word.to_vec()));
    ground.call(turn(), &keys_of(turn()), &args).await
}

/// A call that would settle the active job of the ground, with something wrong behind it.
#[tokio::test]
async fn malformed_runs_are_refused_whole() {
    let ground = Ground::new().await;
    let (held, fine) = (job(2).to_string(), ["complete", "", "1", "<id>", "1"]);
    let wrong: &[&[&str]] = &[
        &["complete"],
        &["complete", ""],
        &["complete", "", "0"],
        &["complete", "", "-1", "<id>", "1"],
        &["complete", "", "1.0", "<id>", "1"],
        &["complete", "", "1e0", "<id>", "1"],
        &["complete", "", "01", "<id>", "1"],
        &["complete", "", "", "<id>", "1"],
        &["complete", "", "x", "<id>", "1"],
        &["complete", "", " 1", "<id>", "1"],
        &["complete", "", "1"],
        &["complete", "", "1", "<id>"],
        &["complete", "", "2", "<id>", "1"],
        &["complete", "", "1", "<id>", "1", "more"],
        &["complete", "", "1", "<id>", "1", "", ""],
        &["complete", "", "1", "<id>", "0"],
        &["complete", "", "1", "<id>", "01"],
        &["complete", "", "1", "<id>", "-1"],
        &["complete", "", "1", "<id>", "1.5"],
        &["complete", "", "1", "<id>", "1e3"],
        &["complete", "", "1", "<id>", ""],
        &["complete", "", "1", "<id>", "1\n"],
        &["complete", "", "1", "JOB", "1"],
        &["complete", "", "1", "", "1"],
        &["complete", "", "1", "JOB0000000000000", "1"],
        &["COMPLETE", "", "1", "<id>", "1"],
        &["promote", "", "1", "<id>", "1"],
        &["", "", "1", "<id>", "1"],
        &["retry", "", "1", "<id>", "1"],
        &["retry", "", "1", "<id>", "1", "0", "why"],
        &["retry", "", "1", "<id>", "1", "0", "why", "2"],
        &["retry", "", "1", "<id>", "1", "0", "why", ""],
        &["retry", "", "1", "<id>", "1", "0", "why", "00"],
        &["retry", "", "1", "<id>", "1", "-1", "why", "0"],
        &["retry", "", "1", "<id>", "1", "1.5", "why", "0"],
        &["retry", "", "1", "<id>", "1", "1e3", "why", "0"],
        &["retry", "", "1", "<id>", "1", "", "why", "0"],
        &["retry", "", "1", "<id>", "1", "0x1", "why", "0"],
        &["retry", "", "1", "<id>", "1", "2199023255553", "why", "0"],
        &["retry", "", "1", "<id>", "1", "99999999999999999999999", "why", "0"],
        &["extend", "", "1", "<id>", "0"],
        &["extend", "", "1", "<id>", "1", "complete", "", "1", "<id>", "1"],
        &["extend", "", "1", "<id>", "1", "retry", "", "1", "<id>", "1", "0", "", "0"],
    ];
    for runs in wrong {
        let words: Vec<&[u8]> = fine
            .iter()
            .chain(*runs)
            .map(|word| if *word == "<id>" { held.as_bytes() } else { word.as_bytes() })
            .collect();
        let reply = call(&ground, &words).await;
        let error = reply.as_error().unwrap_or_else(|| panic!("{runs:?}: {reply:?}"));
        assert!(error.is("EMQARG"), "{runs:?}: {error}");
        assert_eq!(ground.now().await, ground.seeded, "{runs:?}");
    }
}

#[tokio::test]
async fn a_call_over_its_bound_is_refused_whole() {
    let ground = Ground::new().await;
    let held = job(2).to_string();
    for verb in ["complete", "release", "extend"] {
        for counts in [&[201_usize][..], &[200, 1], &[100, 101], &[100_000]] {
            let mut runs: Vec<String> = Vec::new();
            for count in counts {
                runs.extend([verb.to_owned(), String::new(), count.to_string()]);
                // So many that nobody sends the items: the count alone is over the bound.
                let items = if *count > 1_000 { 1 } else { *count };
                for _ in 0..items {
                    runs.extend([held.clone(), "1".to_owned()]);
                }
            }
            let words: Vec<&[u8]> = runs.iter().map(String::as_bytes).collect();
            let reply = call(&ground, &words).await;
            assert!(reply.as_error().unwrap().is("EMQLIMIT"), "{verb} {counts:?}: {reply:?}");
            assert_eq!(ground.now().await, ground.seeded);
        }
    }
    // Two hundred of each are taken.
    let mut runs: Vec<&str> = Vec::new();
    for verb in ["complete", "extend"] {
        runs.extend([verb, "", "200"]);
        (0..200).for_each(|_| runs.extend([&*held, "1"]));
    }
    let words: Vec<&[u8]> = runs.iter().map(|word| word.as_bytes()).collect();
    let reply = call(&ground, &words).await;
    assert!(reply.as_error().is_none(), "{reply:?}");
}

/// What isn't checked is compared: any bytes may be a ticket, an error or an id.
#[tokio::test]
async fn any_bytes_are_a_ticket_an_error_and_an_id() {
    let ground = Ground::new().await;
    let held = job(2).to_string();
    let odd: [&[u8]; 6] = [b"\0", b"\xff\xfe", b"\r\n", b"%s|1", &[b'x'; 70_000], b"complete"];
    for odd in odd {
        let id = [b"JOB\r\n\0*?[]{}%s", &b"complete......"[..]];
        let retry: [&[u8]; 8] = [b"retry", odd, b"1", held.as_bytes(), b"1", b"0", odd, b"0"];
        let reply = call(&ground, &retry).await;
        assert_eq!(verdicts(&reply), [Reply::Int(-1)], "another's ticket");
        for id in id {
            let complete: [&[u8]; 5] = [b"complete", odd, b"1", &id[..14], b"1"];
            assert_eq!(verdicts(&call(&ground, &complete).await), [Reply::Int(0)]);
        }
        let retry: [&[u8]; 8] = [b"retry", b"", b"1", held.as_bytes(), b"1", b"0", odd, b"1"];
        ground.seed().await;
        assert_eq!(verdicts(&call(&ground, &retry).await), [Reply::Int(3)]);
        let row = crate::support::queue("orders").job(&job(2));
        let kept =
            crate::support::ask(ground.fenced.connection(), &["HGET", &row, "last_error"]).await;
        let kept = kept.as_bytes().unwrap().to_vec();
        assert!(odd.starts_with(&kept) && kept.len() == odd.len().min(4_096));
        ground.seed().await;
    }
    assert_eq!(bytes("x"), b"x");
}

fn verdicts(reply: &Reply) -> Vec<Reply> {
    let parts = reply.as_array().unwrap_or_else(|| panic!("{reply:?}"));
    parts[0].as_array().unwrap().to_vec()
}
