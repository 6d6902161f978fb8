pub fn square(n: u64) -> u64 {
    n * n
}

#[test]
fn squares() {
    assert_eq!(square(4), 16);
}
