package policy

import (
	"strings"
	"testing"
)

// What git writes into a new repository is harmless, and nothing that names a
// program or another file is.
func TestHarmlessGit(t *testing.T) {
	for _, s := range []string{"core.bare=x", "core.filemode=true", "remote.origin.url=/srv/x", "remote.a.b.url=../x y", "remote.origin.url=https://host/x", "remote.origin.url=https://host/x.git/", "remote.origin.url=git@host:x", "remote.origin.fetch=+refs/heads/*:refs/x/*",
		"branch.main.remote=.", "branch.main.merge=refs/heads/main", "submodule.lib.active=true", "submodule.lib.url=ssh://git@host/x", "user.email=a@b"} {
		if key, value, _ := strings.Cut(s, "="); !HarmlessGit(key, value) {
			t.Errorf("%s is not harmless", s)
		}
	}
	for _, s := range []string{"core.fsmonitor=x", "core.worktree=/home", "core.hookspath=x", "include.path=x", "extensions.worktreeconfig=true", "remote.o.uploadpack=x", "remote.o.url=ext::sh -c x", "remote.o.url=x::y", "remote.o.url=-x",
		"remote.o.url=ssh://-oProxyCommand=x/y", "remote.o.url=odd://x", "remote.o.url=../.git/x", "remote.o.url=.git/x", "remote.o.url=file:///w/%2egit/x", "remote.o.url=", "branch.x.remote=ext::x", "submodule.x.update=!x", "submodule.x.url=ext::x", "alias.x=!x", "user.signingkey=x", "url.x.insteadof=y", "remote.fetch=x", "core.a.bare=x"} {
		if key, value, _ := strings.Cut(s, "="); HarmlessGit(key, value) {
			t.Errorf("%s is harmless", s)
		}
	}
	for _, k := range GitKeys() {
		if key := strings.ReplaceAll(k.Name, "*", "x"); HarmlessGit(key, "ext::x") || HarmlessGit(key, "!x") && !strings.HasSuffix(key, "url") {
			t.Errorf("%s is harmless", key)
		}
	}
}
