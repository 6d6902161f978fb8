use std::{fs, process::Command, thread};

fn main() {
    let handles: Vec<_> = (0..50).map(|n| thread::spawn(move || job::square(n))).collect();
    let sum: u64 = handles.into_iter().map(|h| h.join().unwrap()).sum();
    fs::write("made", sum.to_string()).unwrap();
    let said = Command::new("cat").arg("made").output().unwrap();
    println!("{} {}", sum, String::from_utf8(said.stdout).unwrap());
    std::process::exit(13);
}
