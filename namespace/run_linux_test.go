package namespace

import (
	"bytes"
	"context"
	"testing"
)

var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C.UTF-8"}

type ran struct {
	*Result
	err            error
	stdout, stderr string
}

func runIn(ctx context.Context, t *testing.T, setup Setup, argv ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	r, err := Run(ctx, setup, &Command{Argv: argv, Env: environment, Stdout: &stdout, Stderr: &stderr})
	return ran{r, err, stdout.String(), stderr.String()}
}

func unshare(t *testing.T, flags ...string) *Unshare {
	t.Helper()
	u, err := ParseUnshare(flags)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestFirst(t *testing.T) {
	for _, flags := range [][]string{{}, {"-Ur"}, {"pid", "fork", "mount-proc"}, {"-Urpf", "--mount-proc", "-muinCT"}} {
		r := runIn(t.Context(), t, unshare(t, flags...), "sh", "-c", "id -u; echo $$; ls -l /proc/self/ns /proc/self/fd; exit 3")
		t.Logf("%v %+v %v\n%s\n%s", flags, r.Result, r.err, r.stdout, r.stderr)
	}
}
