//go:build linux

package mcp

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// What an agent writes: a server that tells Fibonacci numbers, wrong at first;
// its test; and what puts it right.
const (
	itsProgram = `use strict;
use warnings;
use Socket;

sub fib {
    my ($n) = @_;
    my ($a, $b) = (0, 1);
    ($a, $b) = ($b, $a + $b) for 1 .. $n;
    return $b;
}

unless (caller) {
    socket(my $server, PF_INET, SOCK_STREAM, 0) or die $!;
    setsockopt($server, SOL_SOCKET, SO_REUSEADDR, 1) or die $!;
    bind($server, sockaddr_in(8080, INADDR_LOOPBACK)) or die $!;
    listen($server, 5) or die $!;
    while (accept(my $client, $server)) {
        my $line = <$client>;
        my ($n) = $line =~ m{/fib/(\d+)};
        my $text = defined $n ? fib($n) : "up";
        print $client "HTTP/1.0 200 OK\r\nContent-Length: " . length($text) . "\r\n\r\n$text";
        close $client;
    }
}
1;
`
	itsTest = `use strict;
use warnings;
require "./fib.pl";
my $got = fib(10);
$got == 55 or die "fib(10) is $got, want 55\n";
print "ok\n";
`
	itsPatch = `--- a/fib.pl
+++ b/fib.pl
@@ -5,7 +5,7 @@
 sub fib {
     my ($n) = @_;
     my ($a, $b) = (0, 1);
     ($a, $b) = ($b, $a + $b) for 1 .. $n;
-    return $b;
+    return $a;
 }
 
`
	itsFetch = `exec 3<>/dev/tcp/127.0.0.1/8080; printf 'GET /fib/30 HTTP/1.0\r\n\r\n' >&3; cat <&3`
)

// TestAgent does what an agent does with a task, from the sandbox to the export.
func TestAgent(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, program := range []string{"perl", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed here", program)
		}
	}
	s := plain(t)
	s.profile = "full"
	c := startStdio(t, s)
	c.call(t, "sandbox_create", map[string]any{"name": "task"})
	in := func(args map[string]any) map[string]any {
		args["sandbox"] = "task"
		return args
	}
	c.call(t, "file_write", in(map[string]any{"path": "fib.pl", "content": itsProgram}))
	c.call(t, "file_write", in(map[string]any{"path": "fib_test.pl", "content": itsTest}))

	test := in(map[string]any{"command": "perl fib_test.pl"})
	if got := c.call(t, "exec", test); got["exit_code"] == 0.0 || !strings.Contains(fmt.Sprint(got["stderr"]), "fib(10) is 89, want 55") {
		t.Fatalf("the test of the wrong program: %v", got)
	}
	c.call(t, "patch_apply", in(map[string]any{"patch": itsPatch}))
	if got := c.call(t, "exec", test); got["exit_code"] != 0.0 || got["stdout"] != "ok\n" {
		t.Fatalf("the test of the right program: %v", got)
	}
	if again := c.refused(t, "patch_apply", in(map[string]any{"patch": itsPatch})); !strings.Contains(again, "fib.pl") {
		t.Errorf("the patch applied again: %s", again)
	}

	c.call(t, "service_start", in(map[string]any{"name": "fib", "argv": []string{"perl", "fib.pl"}, "ready_port": 8080}))
	got := c.call(t, "exec", in(map[string]any{"argv": []string{"bash", "-c", itsFetch}}))
	if out := fmt.Sprint(got["stdout"]); !strings.HasSuffix(out, "832040") {
		t.Fatalf("the service said %q: %v", out, got)
	}
	c.call(t, "service_stop", in(map[string]any{"name": "fib"}))

	exported := c.call(t, "workspace_export", in(map[string]any{}))
	if files := unpacked(t, exported); files["fib.pl"] != strings.Replace(itsProgram, "return $b", "return $a", 1) || files["fib_test.pl"] != itsTest {
		t.Errorf("the export has %v", files)
	}
	if data, err := os.ReadFile(filepath.Join(s.workspace, "fib_test.pl")); err != nil || string(data) != itsTest {
		t.Errorf("the workspace outside has %q, %v", data, err)
	}
	if gone := c.call(t, "sandbox_delete", map[string]any{"sandbox": "task"}); len(gone) == 0 {
		t.Error("nothing is told of the sandbox's end")
	}
}

// unpacked are the files of an export, by their paths.
func unpacked(t *testing.T, exported map[string]any) map[string]string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(fmt.Sprint(exported["content"]))
	if err != nil || len(data) == 0 {
		t.Fatalf("the export is %v: %v", exported, err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		member, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(member.Name, "./")] = string(text)
	}
}
