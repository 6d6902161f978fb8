//! Chooses versions of packages that go together.

use fnv::FnvHashMap;
use semver::{Version, VersionReq};
use smallvec::SmallVec;

/// The packages that there are, each with its versions and what these need.
#[derive(Default)]
pub struct Index {
    packages: FnvHashMap<String, Vec<Release>>,
}

struct Release {
    version: Version,
    needs: SmallVec<[(String, VersionReq); 4]>,
}

/// A version for each package that is needed, in the order of their names.
pub type Choice = Vec<(String, Version)>;

impl Index {
    /// Adds a version of a package. Each of `needs` is a name, a space and a range.
    pub fn add(&mut self, name: &str, version: &str, needs: &[&str]) -> Result<(), semver::Error> {
        let mut release = Release { version: version.parse()?, needs: SmallVec::new() };
        for need in needs {
            let (name, range) = need.split_once(' ').unwrap_or((need, "*"));
            release.needs.push((name.to_owned(), range.parse()?));
        }
        let all = self.packages.entry(name.to_owned()).or_default();
        let at = all.partition_point(|r| r.version > release.version);
        all.insert(at, release);
        Ok(())
    }

    /// The newest versions that fit together, or None.
    pub fn choose(&self, name: &str, range: &str) -> Option<Choice> {
        let mut chosen = FnvHashMap::default();
        let mut open = vec![(name.to_owned(), range.parse().ok()?)];
        if !self.step(&mut open, &mut chosen) {
            return None;
        }
        let mut choice: Choice = chosen.into_iter().collect();
        choice.sort();
        Some(choice)
    }

    fn step(&self, open: &mut Vec<(String, VersionReq)>, chosen: &mut FnvHashMap<String, Version>) -> bool {
        let (name, range) = match open.pop() {
            None => return true,
            Some(need) => need,
        };
        if let Some(version) = chosen.get(&name) {
            let fits = range.matches(version);
            let done = fits && self.step(open, chosen);
            if !done {
                open.push((name, range));
            }
            return done;
        }
        for release in self.packages.get(&name).into_iter().flatten() {
            if !range.matches(&release.version) {
                continue;
            }
            let mut rest = open.clone();
            rest.extend(release.needs.iter().cloned());
            chosen.insert(name.clone(), release.version.clone());
            if self.step(&mut rest, chosen) {
                return true;
            }
            chosen.remove(&name);
        }
        open.push((name, range));
        false
    }
}

/// Writes a choice as a line: `a 1.0.0, b 2.1.0 (2)`.
pub fn line(choice: &Choice) -> String {
    let all: Vec<String> = choice.iter().map(|(name, version)| format!("{name} {version}")).collect();
    format!("{} ({})", all.join(", "), itoa::Buffer::new().format(all.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_versions_in_order() {
        let mut index = Index::default();
        for version in ["1.2.0", "1.10.0", "1.0.0-rc.1", "0.9.0"] {
            index.add("a", version, &[]).unwrap();
        }
        let all: Vec<String> = index.packages["a"].iter().map(|r| r.version.to_string()).collect();
        assert_eq!(all, ["1.10.0", "1.2.0", "1.0.0-rc.1", "0.9.0"]);
        assert!(index.add("a", "1", &[]).is_err());
    }
}
