package policy

import (
	"strings"
	"testing"
)

func TestAcceptableGit(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		want       bool
	}{
		{"user.name", "Ann Example", true},
		{"user.email", "ann@example.com", true},
		{"user.signingkey", "~/.ssh/id", false},
		{"user.x.name", "Ann", false},
		{"user.name", "Ann\nx", false},
		{"user.name", "李", true},
		{"user.name", "<.>", false},
		{"user.email", "'", false},
		{"remote.origin.url", "https://example.com/x.git", true},
		{"remote.origin.url", "ssh://git@example.com/x.git", true},
		{"remote.origin.url", "git@example.com:ann/x.git", true},
		{"remote.origin.url", "host:x", true},
		{"remote.a/b.url", "https://example.com/x", true},
		{"remote.origin.url", "http://example.com/x", false},
		{"remote.origin.url", "git://example.com/x", false},
		{"remote.origin.url", "file:///x", false},
		{"remote.origin.url", "/x", false},
		{"remote.origin.url", "../x", false},
		{"remote.origin.url", "x", false},
		{"remote.origin.url", "ext::sh -c x", false},
		{"remote.origin.url", "ext::sh", false},
		{"remote.origin.url", "https://ann@example.com:8443/x", true},
		{"remote.origin.url", "https://example.com", true},
		{"remote.origin.url", "ssh://example.com:2222/x", true},
		{"remote.origin.url", "example.com:/srv/x.git", true},
		{"remote.origin.url", "example.com:~ann/x.git", true},
		{"remote.origin.url", "https://github.com@example.com/x", false},
		{"remote.origin.url", "https://g\u0131thub.com/x", false},
		{"remote.origin.url", "https://example.com/\u2800x", false},
		{"remote.origin.url", "ssh://a`id`@example.com/x", false},
		{"remote.origin.url", "a@example.com:-x", false},
		{"remote.origin.url", "example.com:--upload-pack=x", false},
		{"remote.origin.url", "-a@example.com:x", false},
		{"remote.origin.url", "https::x", false},
		{"remote.origin.url", "ssh://-oProxyCommand=x/y", false},
		{"remote.origin.url", "-oProxyCommand=x:y", false},
		{"remote.origin.url", "a@-oProxyCommand=x:y", false},
		{"remote.origin.url", "ftp://x/y", false},
		{"remote.origin.url", "", false},
		{"remote.origin.pushurl", "https://example.com/x", false},
		{"remote.origin.uploadpack", "x", false},
		{"remote.origin.vcs", "x", false},
		{"remote.origin.proxy", "https://x", false},
		{"remote.-x.url", "https://example.com/x", false},
		{"remote.../x.url", "https://example.com/x", false},
		{"remote.ext::sh.url", "https://example.com/x", false},
		{"remote.url", "https://example.com/x", false},
		{"remote.pushdefault", "origin", false},
		{"remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*", true},
		{"remote.origin.fetch", "refs/pull/*/head:refs/remotes/origin/pr/*", true},
		{"remote.origin.fetch", "^refs/heads/tmp", true},
		{"remote.origin.fetch", "+refs/heads/*:refs/heads/*", false},
		{"remote.origin.fetch", "+refs/*:refs/*", false},
		{"remote.origin.fetch", "+refs/heads/*:refs/replace/*", false},
		{"remote.origin.fetch", "+refs/heads/*:refs/remotes/other/*", false},
		{"remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/../../heads/*", false},
		{"remote.origin.fetch", "refs/heads/x", false},
		{"remote.origin.fetch", "refs/heads/x:refs/remotes/origin/x", true},
		{"remote.origin.fetch", "+refs/heads/a*b:refs/remotes/origin/c*", true},
		{"remote.origin.fetch", "^refs/heads/tmp/*", true},
		{"remote.origin.fetch", "+^refs/heads/tmp", false},
		{"remote.origin.fetch", "^+refs/heads/tmp", false},
		{"remote.origin.fetch", "^refs/heads/tmp:refs/remotes/origin/x", false},
		{"remote.origin.fetch", "^refs/heads/*/*", false},
		{"remote.origin.fetch", "++refs/heads/*:refs/remotes/origin/*", false},
		{"remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*:refs/heads/*", false},
		{"remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*:", false},
		{"remote.origin.fetch", "refs/heads/*:refs/remotes/origin/x", false},
		{"remote.origin.fetch", "refs/heads/x:refs/remotes/origin/*", false},
		{"remote.origin.fetch", "refs/*/*:refs/remotes/origin/*/*", false},
		{"remote.origin.fetch", "refs/:refs/remotes/origin/", false},
		{"remote.origin.fetch", "refs/heads/x:refs/remotes/origin/", false},
		{"remote.origin.fetch", "refs//x:refs/remotes/origin/x", false},
		{"remote.origin.fetch", "refs/heads/x:refs/remotes/origin/x.lock", false},
		{"remote.origin.fetch", "refs/heads/.x:refs/remotes/origin/x", false},
		{"remote.origin.fetch", "refs/heads/x@{1}:refs/remotes/origin/x", false},
		{"remote.origin.fetch", "refs/heads/x y:refs/remotes/origin/x", false},
		{"remote.a..b.fetch", "refs/heads/x:refs/remotes/a..b/x", false},
		{"remote.a.lock.url", "https://example.com/x", false},
		{"remote.a..b.url", "https://example.com/x", false},
		{"branch.main.remote", "origin", true},
		{"branch.main.remote", ".", true},
		{"branch.main.remote", "../x", false},
		{"branch.main.remote", "/x", false},
		{"branch.main.remote", "https://example.com/x", false},
		{"branch.main.remote", "ext::sh", false},
		{"branch.main.pushremote", "origin", true},
		{"branch.main.merge", "refs/heads/main", true},
		{"branch.main.merge", "main", false},
		{"branch.main.merge", "refs/heads/../../x", false},
		{"branch.main.merge", "refs/heads/", false},
		{"branch.main.merge", "refs/heads/*", false},
		{"branch.a/b.c.merge", "refs/heads/a/b.c", true},
		{"branch.a b.merge", "refs/heads/a", false},
		{"branch.a..b.remote", "origin", false},
		{"branch.main.remote", "a.lock", false},
		{"branch.main.rebase", "true", true},
		{"branch.main.rebase", "x", false},
		{"branch.main.mergeoptions", "--strategy=x", false},
		{"branch.autosetuprebase", "always", false},
		{"core.hookspath", "x", false},
		{"core.fsmonitor", "x", false},
		{"alias.x", "!x", false},
		{"include.path", "x", false},
		{"url.x.insteadof", "https://", false},
		{"credential.helper", "x", false},
		{"x", "x", false},
	} {
		if got := AcceptableGit(tt.key, tt.value); got != tt.want {
			t.Errorf("%s = %q: %v", tt.key, tt.value, got)
		}
	}
	for _, tt := range [][3]string{{"branch.a.b.remote", "origin", "origin"}, {"branch.a.pushremote", "x", "x"}, {"branch.a.remote", ".", ""}, {"branch.a.merge", "refs/heads/a", ""}, {"remote.remote.url", "x", ""}, {"remote.a.b.fetch", "+refs/heads/*:refs/remotes/a.b/*", "a.b"}} {
		if got := RemoteOf(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s = %s names %q", tt[0], tt[1], got)
		}
	}
}

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
