# A repository of the host's, with the protections on: what people do in one
# every day works, a hook runs, and only changes to hooks and settings do not.
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.invalid
export GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.invalid
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git status --short
git add .
git commit -m first 2>&1
git checkout -q -b side
sed -i s/7/seven/ numbers
git commit -q -a -m side 2>&1
git checkout -q main
git worktree add -q tree side
git -C tree log --oneline
git worktree remove tree
git clone -q . "$HOME/clone"
git -C "$HOME/clone" config job.set yes
rm -rf "$HOME/clone"
git rebase -q side
git gc -q
git fsck
git branch -d side
git reflog
git status --short --branch
exit 22
