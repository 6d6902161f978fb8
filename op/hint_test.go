package op

import (
	"reflect"
	"testing"

	"github.com/paddock-dev/paddock"
)

func TestFlagHint(t *testing.T) {
	for hint, want := range map[string]string{
		"raise `limits.disk`":                         "raise --disk",
		"bound it: `limits.output`":                   "bound it: --max-output",
		"use `level` landlock":                        "use --level landlock",
		"`ceiling.network.allow` a.example opens it":  "--allow a.example opens it",
		"allow it: `allow_degraded`=memory":           "allow it: --allow-degraded=memory",
		"`mounts.ro` or `mounts.rw` makes it visible": "--ro or --rw makes it visible",
		"`workspace.source` /a `cwd` b":               "--workspace /a --cwd b",
		"`workspace.unprotected` .git":                "--unprotect .git",
		"write `env` PATH=/bin, or use `env_pass`":    "write --env PATH=/bin, or use --env-pass",
		"name it with `docker.binary`":                "name it with --engine",
		"say it in `codex.binary`":                    "say it in codex.binary",
		"run `ls -l` with docker --rm":                "run `ls -l` with docker --rm",
	} {
		if got := FlagHint(hint); got != want {
			t.Errorf("%q becomes %q, want %q", hint, got, want)
		}
	}
}

func TestRenderHints(t *testing.T) {
	type part struct{ Name, Remedy string }
	type output struct {
		Denials []paddock.Denial
		Inside  struct{ Parts []part }
		own     string
	}
	out := output{Denials: []paddock.Denial{{Rule: "a", Hint: "b"}}, own: "o"}
	out.Inside.Parts = []part{{"c", "d"}}
	got := RenderHints(any(out), func(hint string) string { return hint + "!" })
	want := output{Denials: []paddock.Denial{{Rule: "a", Hint: "b!"}}, own: "o"}
	want.Inside.Parts = []part{{"c", "d!"}}
	if !reflect.DeepEqual(got, want) || out.Denials[0].Hint != "b" || out.Inside.Parts[0].Remedy != "d" {
		t.Errorf("%+v of %+v", got, out)
	}
}
