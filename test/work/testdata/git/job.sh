# A new repository: commits, a branch, a merge, a clone, a worktree, packing.
# Identities and dates are fixed, so every name of an object is the same.
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.invalid
export GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.invalid
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main repo
cd repo
git config core.hooksPath .hooks
mkdir .hooks
printf '#!/bin/sh\necho hook ran >&2\n' >.hooks/pre-commit
chmod +x .hooks/pre-commit
for i in 1 2 3 4 5; do
	seq "$i" 2000 >"file $i"
	git add .
	git commit -q -m "commit $i" 2>>../hooks.log
done
cat ../hooks.log
git checkout -q -b side HEAD~2
echo side >side
git add side
git commit -q -m side 2>/dev/null
git checkout -q main
git merge -q -m merged side
git tag -a -m first v1
echo changed >>'file 1'
ln -s 'file 2' link
git status --short --branch
git diff --stat
git log --oneline --graph --all
git stash -q -u
git clone -q . ../clone
git clone -q --no-local --depth 1 "file://$PWD" ../shallow
git -C ../clone log --format='%H %an %s' | tail -n 2
git -C ../shallow rev-list --count HEAD
git worktree add -q ../tree side
git -C ../tree status --short --branch
echo more >../tree/side
git -C ../tree commit -q -a -m 'in the worktree' 2>/dev/null
git worktree remove ../tree
git gc -q --prune=now
git fsck --strict
git count-objects -v | grep -E '^(count|in-pack|packs|garbage):'
git rev-parse HEAD side v1
git archive v1 | sha256sum
git checkout -q no-such-branch || exit 21
