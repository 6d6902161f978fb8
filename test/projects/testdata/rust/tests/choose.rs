use diet::{line, Index};

fn index() -> Index {
    let mut index = Index::default();
    for (name, version, needs) in [
        ("app", "1.0.0", &["web ^2", "log"][..]),
        ("web", "2.1.0", &["log ^2"]),
        ("web", "2.0.0", &["log ^1"]),
        ("web", "1.0.0", &[]),
        ("log", "1.4.0", &[]),
        ("log", "1.3.9", &[]),
        ("old", "1.0.0", &["log =1.3.9", "web ^2"]),
        ("none", "1.0.0", &["log ^3"]),
    ] {
        index.add(name, version, needs).unwrap();
    }
    index
}

#[test]
fn goes_back_where_the_newest_does_not_fit() {
    let choice = index().choose("app", "*").unwrap();
    assert_eq!(line(&choice), "app 1.0.0, log 1.4.0, web 2.0.0 (3)");
}

#[test]
fn keeps_exact_versions() {
    assert_eq!(line(&index().choose("old", "1").unwrap()), "log 1.3.9, old 1.0.0, web 2.0.0 (3)");
}

#[test]
fn finds_that_nothing_fits() {
    assert!(index().choose("none", "*").is_none());
    assert!(index().choose("missing", "*").is_none());
    assert!(index().choose("app", "what").is_none());
}

/// A large index, as many times as ROUNDS says.
#[test]
fn chooses_from_many() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(0);
    for _ in 0..=rounds {
        let mut index = Index::default();
        for n in 0..60 {
            for minor in 0..20 {
                let need = format!("p{} ^1.{}", n + 1, 19 - minor);
                index.add(&format!("p{n}"), &format!("1.{minor}.0"), &[&need]).unwrap();
            }
        }
        index.add("p60", "1.19.0", &[]).unwrap();
        assert_eq!(index.choose("p0", "*").unwrap().len(), 61);
    }
}
