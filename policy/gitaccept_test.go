package policy

import "testing"

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
		{"branch.main.remote", "origin", true},
		{"branch.main.remote", ".", true},
		{"branch.main.remote", "../x", false},
		{"branch.main.remote", "/x", false},
		{"branch.main.remote", "https://example.com/x", false},
		{"branch.main.remote", "ext::sh", false},
		{"branch.main.pushremote", "origin", true},
		{"branch.main.merge", "refs/heads/main", true},
		{"branch.main.merge", "main", false},
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
	for _, tt := range [][3]string{{"branch.a.b.remote", "origin", "origin"}, {"branch.a.pushremote", "x", "x"}, {"branch.a.remote", ".", ""}, {"branch.a.merge", "refs/heads/a", ""}, {"remote.remote.url", "x", ""}} {
		if got := RemoteOf(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s = %s names %q", tt[0], tt[1], got)
		}
	}
}
