#!/bin/sh
# crates.sh DIR makes a registry of cargo's of the packages that Debian installs
# below /usr/share/cargo/registry: an index, in git, and the packages.
set -eu
dir=$1
installed=/usr/share/cargo/registry
mkdir -p "$dir/packages" "$dir/index"
printf '{"dl":"file://%s/packages/{crate}-{version}.crate","api":null}\n' "$dir" >"$dir/index/config.json"
for path in "$installed"/fnv-* "$installed"/itoa-* "$installed"/semver-* "$installed"/smallvec-*; do
	full=${path##*/}
	name=${full%-*}
	package=$dir/packages/$full.crate
	tar -C "$installed" --exclude=.cargo-checksum.json -czf "$package" "$full"
	sum=$(sha256sum "$package" | cut -d' ' -f1)
	features=
	if grep -q '^std = \[\]' "$path/Cargo.toml"; then features='"default":["std"],"std":[]'; fi
	at=$dir/index/$(echo "$name" | sed 's|^\(..\)\(..\).*|\1/\2|; s|^\(.\)..$|3/\1|')
	mkdir -p "$at"
	printf '{"name":"%s","vers":"%s","deps":[],"cksum":"%s","features":{%s},"yanked":false}\n' "$name" "${full##*-}" "$sum" "$features" >>"$at/$name"
done
git init -q "$dir/index"
git -C "$dir/index" add .
git -C "$dir/index" -c user.name=a -c user.email=a@example.invalid commit -q -m index
