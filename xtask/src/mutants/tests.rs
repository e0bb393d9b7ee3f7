//! The hunt hunts: a handful of mutants, quickly, and tables that are wrong.

use emq_testkit::Valkey;

use super::contracts::Contracts;
use super::hunt::{self, Caught, Fate};
use super::survivors::Survivors;
use super::table::{self, Mutant};
use super::trials::Trials;
use super::{Tally, choose};

/// One mutant, by the contracts alone.
fn hunted(mutant: &Mutant) -> Fate {
    let valkey = Valkey::start().unwrap();
    hunt::one(mutant, &Contracts::load().unwrap(), &Trials::none(), &valkey).unwrap()
}

#[test]
fn every_mutant_finds_its_place_and_there_is_one_for_each_script() {
    let mutants = table::load().unwrap();
    table::find_places(&mutants.iter().collect::<Vec<_>>()).unwrap();
    assert!(mutants.len() >= 60, "{}", mutants.len());
    for script in emq_scripts::ScriptName::ALL {
        assert!(mutants.iter().any(|it| it.script == script.as_str()), "{script} has no mutant");
    }
    Survivors::load().unwrap().check(&mutants).unwrap();
}

#[test]
fn every_mutant_loads() {
    let valkey = Valkey::start().unwrap();
    for mutant in table::load().unwrap() {
        super::folder::Folder::broken(&mutant, &valkey).unwrap();
    }
}

#[test]
fn contracts_notice_a_handful() {
    let mutants = table::load().unwrap();
    for name in [
        "complete/asks-for-no-token",
        "enqueue/a-duplicate-rewrites-the-row",
        "claim/does-not-raise-the-attempts",
        "lane_claim/does-not-rotate",
        "retry/drops-the-error",
    ] {
        let chosen = choose(&mutants, &[name.to_owned()]).unwrap();
        let fate = hunted(chosen[0]);
        assert!(matches!(fate, Fate::Killed(Caught::Contract { .. })), "{name}: {fate}");
    }
}

#[test]
fn a_change_of_a_comment_survives_and_is_counted() {
    let table = "[nudge]\nsays-less = [\"-- Pass the wake on:\", \"-- Pass it on:\"]";
    let mutant = table::parse(table).unwrap().remove(0);
    let fate = hunted(&mutant);
    assert!(matches!(fate, Fate::Survived), "{fate}");

    let unexplained = Tally::of(&[&mutant], &[fate], &Survivors::parse("").unwrap());
    assert_eq!(unexplained.closing(), "MUTANTS 0 killed, 0 explained, 1 unexplained");
    let reasons = Survivors::parse("\"nudge/says-less\" = \"a comment\"").unwrap();
    let explained = Tally::of(&[&mutant], &[Fate::Survived], &reasons);
    assert_eq!(explained.closing(), "MUTANTS 0 killed, 1 explained, 0 unexplained");
}

#[test]
fn a_mutant_that_lost_its_place_is_a_fault() {
    let one = |change: &str| table::parse(&format!("[claim]\nit = {change}")).unwrap().remove(0);
    assert!(one("[\"gone\", \"\"]").apply("local id").unwrap_err().contains("0 times, not 1"));
    assert!(one("[\"a\", \"b\"]").apply("a a").unwrap_err().contains("2 times, not 1"));
    assert!(one("[\"a\", \"a\"]").apply("a").unwrap_err().contains("changes nothing"));
    assert_eq!(one("[\"a\", \"b\", \"2 of 2\"]").apply("a a").unwrap(), "a b");
    assert!(table::parse("[claim]\nit = [\"a\", \"b\", \"3 of 2\"]").is_err());
}

#[test]
fn a_mutant_that_does_not_load_is_a_fault() {
    let valkey = Valkey::start().unwrap();
    let table = "[nudge]\nbreaks = [\"return 1\", \"return return\"]";
    let mutant = table::parse(table).unwrap().remove(0);
    let refused = super::folder::Folder::broken(&mutant, &valkey).err().unwrap();
    assert!(refused.to_string().contains("does not load"), "{refused}");
}

#[test]
fn reasons_are_given_and_are_of_mutants() {
    assert!(Survivors::parse("\"nudge/x\" = \" \"").is_err());
    assert!(Survivors::parse("\"nudge/x\" = \"why\"").unwrap().check(&[]).is_err());
}
