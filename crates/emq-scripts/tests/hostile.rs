//! Arguments straight over the wire, from a client that keeps no promise: no script ever answers a
//! bare `ERR`, and whatever refuses has written nothing.

mod support;

use emq_scripts::{CONTRACTS, Contract, RefusalClass};
use emq_wire::Reply;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::ground::{Args, Ground, bytes, good_args, keys_of, writing_args};
use support::{job, lane, queue};

/// Calls a script and checks what must hold whatever the arguments are. The ground is as it was
/// afterwards.
async fn try_call(ground: &Ground, contract: &Contract, keys: &Args, args: &Args) -> Reply {
    let reply = ground.call(contract, keys, args).await;
    let shown = || {
        let show = |word: &Vec<u8>| word[..word.len().min(40)].escape_ascii().to_string();
        let args: Vec<String> = args.iter().map(show).collect();
        format!("{} {args:?} of {} keys: {reply:?}", contract.script, keys.len())
    };
    match &reply {
        Reply::Error(error) => {
            let class = RefusalClass::of_word(error.class());
            assert!(class.is_some_and(|class| contract.refuses.contains(&class)), "{}", shown());
            assert_eq!(ground.now().await, ground.seeded, "{}", shown());
        }
        _ => ground.seed().await,
    }
    reply
}

/// What takes the place of a good argument.
fn hostile_values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = [
        "",
        " ",
        "abc",
        "-1",
        "-0",
        "0",
        "+1",
        "1.5",
        "1e3",
        "0x10",
        " 1",
        "1 ",
        "1\n",
        "1\0",
        "nan",
        "inf",
        "-inf",
        "01",
        "2",
        "201",
        "401",
        "1001",
        "1024",
        "2147483648",
        "2147483649",
        "1099511627777",
        "2199023255553",
        "4398046511105",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "JOB",
        "*",
        "?",
        "[",
        "%s",
        "'",
        "\"",
        "}{",
        "orders",
    ]
    .iter()
    .map(bytes)
    .collect();
    values.push(vec![b'9'; 400]);
    values.push(vec![b'1'; 100_000]);
    values.push(vec![0xff; 14]);
    values.push(vec![0; 14]);
    values.push(bytes("JOB\r\n\0\t ()*%["));
    values.push(bytes("job0NgWEfAEJfs"));
    values.push(bytes(support::branded("ORD", 1).as_bytes()));
    values.push(bytes(job(1).as_bytes()));
    values.push(bytes(job(99).as_bytes()));
    values.push(vec![b'x'; 70_000]);
    values
}

#[tokio::test]
async fn the_samples_are_accepted() {
    let ground = Ground::new().await;
    for contract in CONTRACTS {
        ground.ready_for(contract);
        let reply = try_call(&ground, contract, &keys_of(contract), &writing_args(contract)).await;
        assert!(reply.as_error().is_none(), "{}: {reply:?}", contract.script);
    }
}

#[tokio::test]
async fn one_hostile_argument_at_a_time() {
    let ground = Ground::new().await;
    let values = hostile_values();
    for contract in CONTRACTS {
        let keys = keys_of(contract);
        for at in 0..contract.args.len() {
            for value in &values {
                let mut args = good_args(contract);
                args[at].clone_from(value);
                let reply = try_call(&ground, contract, &keys, &args).await;
                let numeric = matches!(
                    contract.args[at],
                    "token"
                        | "lease_ms"
                        | "max_attempts"
                        | "lost_cap"
                        | "limit"
                        | "weight"
                        | "delay_ms"
                        | "grace_ms"
                        | "at_ms"
                        | "count"
                        | "claim"
                        | "promote"
                        | "reap"
                        | "rev"
                        | "next_ms"
                        | "from_ms"
                        | "until_ms"
                        | "following_ms"
                        | "mark"
                );
                let is_number = value.iter().all(u8::is_ascii_digit) && !value.is_empty();
                if numeric && !is_number {
                    let error = reply.as_error().unwrap_or_else(|| {
                        panic!("{} took {} = {value:?}", contract.script, contract.args[at])
                    });
                    assert!(error.is("EMQARG"), "{}: {error}", contract.script);
                }
            }
        }
    }
}

#[tokio::test]
async fn too_few_and_too_many_keys_and_arguments() {
    let ground = Ground::new().await;
    for contract in CONTRACTS {
        let (keys, args) = (keys_of(contract), good_args(contract));
        for count in 0..keys.len() {
            let reply = try_call(&ground, contract, &keys[..count].to_vec(), &args).await;
            assert!(reply.as_error().is_some(), "{} took {count} keys", contract.script);
        }
        for count in 0..args.len() {
            let reply = try_call(&ground, contract, &keys, &args[..count].to_vec()).await;
            assert!(reply.as_error().is_some(), "{} took {count} arguments", contract.script);
        }
        let more_keys = [&keys[..], &[bytes("emq:{orders}:more")]].concat();
        let reply = try_call(&ground, contract, &more_keys, &args).await;
        assert!(reply.as_error().is_some(), "{} took one key more", contract.script);
        let more_args = [&args[..], &[bytes("1")]].concat();
        let reply = try_call(&ground, contract, &keys, &more_args).await;
        assert!(reply.as_error().is_some(), "{} took one argument more", contract.script);
    }
}

#[tokio::test]
async fn hostile_pairs() {
    let ground = Ground::new().await;
    let many = ["kind", "a", "headers", "b", "unique", "c", "max_attempts", "1", "kind", "d"];
    let wrong: &[&[&str]] = &[
        &["kind"],
        &["kind", ""],
        &["", "x"],
        &["state", "active"],
        &["payload", "x"],
        &["attempts", "9"],
        &["group", "TEN0NgWEfAEJfs"],
        &["KIND", "x"],
        &["kind", "a", "kind", "b"],
        &["unique", "a", "headers"],
        &["unique", ""],
        &["headers", ""],
        &["max_attempts", ""],
        &["max_attempts", "0"],
        &["max_attempts", "-1"],
        &["max_attempts", "1.5"],
        &["max_attempts", "x"],
        &["max_attempts", "2147483649"],
        &["max_attempts", "99999999999999999999999999"],
        &many,
    ];
    for contract in CONTRACTS.iter().filter(|contract| contract.tail.is_some()) {
        for pairs in wrong {
            let mut args = good_args(contract);
            if contract.tail == Some("items") {
                args[2] = bytes("1");
                args.extend([job(50).as_str(), "p", "", "0", &pairs.len().to_string()].map(bytes));
            }
            args.extend(pairs.iter().map(bytes));
            let reply = try_call(&ground, contract, &keys_of(contract), &args).await;
            let error = reply.as_error().unwrap_or_else(|| panic!("{} {pairs:?}", contract.script));
            assert!(error.is("EMQARG"), "{} {pairs:?}: {error}", contract.script);
        }
    }
}

#[tokio::test]
async fn hostile_items() {
    let ground = Ground::new().await;
    let contract =
        CONTRACTS.iter().find(|contract| contract.script.as_str() == "enqueue_many").unwrap();
    let (keys, id) = (keys_of(contract), job(50).to_string());
    let second = job(51).to_string();
    let order = support::branded("ORD", 1).to_string();
    let call = async |count: &str, items: &[&str]| {
        let args: Args =
            ["emq:{orders}:", "0", count].iter().chain(items).map(bytes).collect::<Vec<_>>();
        try_call(&ground, contract, &keys, &args).await
    };
    for (count, items) in [
        ("1", &[][..]),
        ("1", &[&id, "p", "", "0"]),
        ("2", &[&id, "p", "", "0", "0"]),
        ("0", &[&id, "p", "", "0", "0"]),
        ("1", &[&id, "p", "", "0", "0", &second, "p", "", "0", "0"]),
        ("1", &[&id, "p", "", "0", "2", "kind"]),
        ("1", &[&id, "p", "", "0", "1", "kind"]),
        ("1", &[&id, "p", "", "0", "-2"]),
        ("1", &[&id, "p", "", "0", "x"]),
        ("1", &[&id, "p", "", "0", ""]),
        ("1", &[&id, "p", "", "0", "1e9"]),
        ("1", &[&id, "p", "", "-1", "0"]),
        ("1", &[&id, "p", "", "", "0"]),
        ("1", &[&id, "p", "", "4398046511105", "0"]),
        ("1", &[&id, "p", "lane", "0", "0"]),
        ("1", &["job", "p", "", "0", "0"]),
        ("2", &[&id, "p", "", "0", "0", "", "p", "", "0", "0"]),
    ] {
        let reply = call(count, items).await;
        let error = reply.as_error().unwrap_or_else(|| panic!("{count} {items:?}: {reply:?}"));
        assert!(error.is("EMQARG"), "{count} {items:?}: {error}");
    }
    // Over a bound, before anything is written.
    let many: Vec<String> = (0..401)
        .flat_map(|n| {
            [job(1000 + n).to_string(), "p".into(), String::new(), "0".into(), "0".into()]
        })
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let reply = call("401", &many).await;
    assert!(reply.as_error().unwrap().is("EMQLIMIT"), "{reply:?}");
    let half = "x".repeat(512 * 1024 + 1);
    let heavy = [&id, &half[..], "", "0", "0", &second, &half, "", "0", "0"];
    let reply = call("2", &heavy).await;
    assert!(reply.as_error().unwrap().is("EMQLIMIT"), "{reply:?}");
    // A refused item stops nobody: the others keep their places.
    let mixed = [&order[..], "p", "", "0", "0", &id, "p", "", "0", "0"];
    assert_eq!(call("2", &mixed).await, Reply::Array(vec![Reply::Int(-1), Reply::Int(1)]));
}

/// Torn or foreign data: an error is whole, and nothing was half done.
#[tokio::test]
async fn a_key_of_the_wrong_type_leaves_no_half_made_state() {
    let ground = Ground::new().await;
    for contract in CONTRACTS {
        let mut wrong: Vec<String> =
            keys_of(contract).into_iter().map(|key| String::from_utf8(key).unwrap()).collect();
        let keys = queue("orders");
        wrong.extend((1..5).chain(11..15).map(|n| keys.job(&job(n))));
        wrong.extend([keys.lane(&lane(1)), keys.lane(&lane(2))]);
        for key in wrong {
            ground.ready_for(contract);
            ground.valkey.cli(&["SET", &key, "of another type"]).unwrap();
            let before = ground.now().await;
            let reply = ground.call(contract, &keys_of(contract), &writing_args(contract)).await;
            if let Some(error) = reply.as_error() {
                assert!(!error.is("ERR"), "{} with {key}: {error}", contract.script);
                let after = ground.now().await;
                assert_eq!(after, before, "{} with {key}: {error}", contract.script);
            }
            ground.seed().await;
        }
    }
}

#[test]
fn any_arguments_at_all() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ground = runtime.block_on(Ground::new());
    let values = hostile_values();
    let word = prop_oneof![
        3 => (0..values.len()).prop_map(move |at| values[at].clone()),
        1 => any::<Vec<u8>>(),
        1 => any::<i64>().prop_map(|number| bytes(number.to_string())),
        1 => any::<f64>().prop_map(|number| bytes(number.to_string())),
    ];
    let contract = (0..CONTRACTS.len()).prop_map(|at| &CONTRACTS[at]);
    let calls = contract.prop_flat_map(move |contract| {
        let good = good_args(contract);
        let keep = prop::collection::vec(any::<bool>(), good.len());
        let words = prop::collection::vec(word.clone(), good.len());
        let tail = prop::collection::vec(word.clone(), 0..6);
        (Just(contract), Just(good), keep, words, tail)
    });
    let mut runner =
        TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&calls, |(contract, good, keep, words, tail)| {
        let mut args: Args = (0..good.len())
            .map(|at| {
                if keep[at] || contract.args[at] == "base" {
                    good[at].clone()
                } else {
                    words[at].clone()
                }
            })
            .collect();
        if contract.tail.is_some() {
            args.extend(tail);
        }
        runtime.block_on(try_call(&ground, contract, &keys_of(contract), &args));
        Ok(())
    });
    outcome.unwrap();
}
