//go:build linux

package network

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// secretToken is what no byte inside may have. It is made here and nowhere else.
const secretToken = "ptk_Zq7Wv3Lr9Xt1Nb5Kc8Mf2Hd6Js4"

// withSecret returns rules that give api.test a token, which is in the caller's environment.
func withSecret(t *testing.T, substitute bool) policy.Network {
	t.Helper()
	t.Setenv("TEST_API_TOKEN", secretToken)
	n := allow(t, "api.test:443", "other.test:443")
	n.Allow[0].Secret = &policy.NetworkSecret{Name: "API_TOKEN", Source: "env:TEST_API_TOKEN", Substitute: substitute}
	n.Allow[1].HTTP = []policy.HTTPRule{{Methods: []string{"GET"}, Paths: []string{"/open/**"}}}
	return n
}

// trusted makes the world's authority one that the operator trusts.
func (w *world) trusted(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, w.ca, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", file)
}

// bare opens a sandbox without any variable for certificates.
func (w *world) bare(t *testing.T, network policy.Network) (*paddock.Sandbox, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	box, err := paddock.Open(t.Context(), paddock.Spec{Workspace: paddock.Workspace{Source: dir}, Network: network},
		paddock.Options{Agent: filepath.Join(binDir, "paddock-agent"), Path: os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box, dir
}

// echoToken answers with what it got, which must not come back.
var echoToken = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	got := r.Header.Get("Authorization")
	w.Header().Set("X-Got", got)
	fmt.Fprintf(w, "hello from %s%s: %v, %s\n", r.Host, r.URL.Path, got == "Bearer "+secretToken, got)
})

// TestInterceptedClients: programs that know nothing of Paddock trust its certificates, and
// requests get the token outside.
func TestInterceptedClients(t *testing.T) {
	w := newWorld(t)
	w.trusted(t)
	repository := filepath.Join(t.TempDir(), "repo.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", repository).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("git", "-C", repository, "update-server-info").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mux := http.NewServeMux()
	mux.Handle("/", echoToken)
	mux.Handle("/repo.git/", http.StripPrefix("/repo.git", http.FileServer(http.Dir(repository))))
	w.https(t, "api.test:443", mux)
	w.https(t, "other.test:443", hello)
	box, _ := w.bare(t, withSecret(t, false))
	const java = `cat > /tmp/Get.java <<'END'
import java.net.URI;
import java.net.http.*;
public class Get {
  public static void main(String[] a) throws Exception {
    System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body());
  }
}
END
java /tmp/Get.java "$1"`
	tried := 0
	for _, c := range []struct{ program, probe, get string }{
		{"curl", "true", `curl -sS "$1"`},
		{"wget", "true", `wget -q -O - "$1"`},
		{"python3", "true", `python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "$1"`},
		{"python3", "python3 -c 'import requests'", `python3 -c 'import sys, requests; print(requests.get(sys.argv[1]).text)' "$1"`},
		{"node", "node -e fetch", `node -e 'fetch(process.argv[1]).then(r => r.text()).then(console.log, e => { console.error(e, e.cause); process.exit(1) })' "$1"`},
		{"java", "java --source 11 --version", java},
	} {
		if _, status := sh(t, box, "command -v "+c.program+" && "+c.probe); status != 0 {
			continue
		}
		tried++
		out, status := sh(t, box, `get() { `+c.get+`; }; get https://api.test/a`)
		if status != 0 || !has(out, "hello from api.test/a: true") || strings.Contains(out, secretToken) {
			t.Errorf("%s: status %d: %s", c.program, status, out)
		}
	}
	if tried == 0 {
		t.Skip("none of the programs is visible inside")
	}
	if _, status := sh(t, box, "command -v git"); status == 0 {
		if out, status := sh(t, box, "git ls-remote https://api.test/repo.git"); status != 0 {
			t.Errorf("git: status %d: %s", status, out)
		}
	}
	if _, status := sh(t, box, "command -v curl"); status != 0 {
		return
	}
	// What rules do not name, and a host that they copy.
	for request, want := range map[string]string{
		"-sS https://other.test/open/x":                      "hello from other.test/open/x",
		"-sS https://other.test/closed":                      "does not let GET of this path through",
		"-sS -X POST https://other.test/open/x":              "does not let the method POST through",
		"-sS --path-as-is https://other.test/open/../closed": "its path has a part ..",
		"-sS -H Host:evil.test https://api.test/":            "its Host is another",
	} {
		if out, _ := sh(t, box, "curl "+request); !strings.Contains(out, want) {
			t.Errorf("curl %s: %s", request, out)
		}
	}
	var requests, denied []string
	for _, r := range records(t, box) {
		switch r.Kind {
		case egress.KindRequest:
			requests = append(requests, fmt.Sprint(r.Method, " ", r.Host, r.Path, " ", r.Status))
		case egress.KindDenied:
			denied = append(denied, r.Method+" "+r.Path+" "+r.Reason)
		}
	}
	if !has(strings.Join(requests, "\n"), "GET api.test/a 200", "GET other.test/open/x 200") || !has(strings.Join(denied, "\n"), "GET /closed", "POST /open/x") {
		t.Errorf("the log has %q and %q", requests, denied)
	}
}

// TestSecretIsNowhereInside: a token that requests get reaches the host, and a search finds no
// byte of it in what commands can see, nor in what Paddock keeps or prints.
func TestSecretIsNowhereInside(t *testing.T) {
	for name, substitute := range map[string]bool{"injected": false, "substituted": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.trusted(t)
			w.https(t, "api.test:443", echoToken)
			w.https(t, "other.test:443", hello)
			n := withSecret(t, substitute)
			box, dir := w.bare(t, n)
			if _, status := sh(t, box, "command -v curl && command -v python3"); status != 0 {
				t.Skip("curl or python3 is not visible inside")
			}
			get := `curl -sSi https://api.test/a`
			if substitute {
				get = `curl -sSi -H "Authorization: Bearer $API_TOKEN" https://api.test/a`
			}
			if out, status := sh(t, box, get+" | tee answer"); status != 0 || !has(out, "hello from api.test/a: true") {
				t.Fatalf("status %d: %s", status, out)
			}
			// A client stays that has made a request, so that its memory can be searched.
			search := `import glob, os, subprocess, sys
client = subprocess.Popen(['python3', 'client.py'], stdout=subprocess.PIPE)
print(client.stdout.readline())
# What is searched for comes in reverse, and is turned round where nobody else can have it.
needles = [line.strip().encode() for line in sys.stdin]
hits, control, searched = [], 0, 0
def found(data):
    global control
    control += data.count(needles[1][::-1])
    return needles[0][::-1] in data
for pid in [p for p in os.listdir('/proc') if p.isdigit()]:
    for what in ('environ', 'cmdline'):
        try: data = open('/proc/%s/%s' % (pid, what), 'rb').read()
        except OSError: continue
        searched += 1
        if found(data): hits.append('%s of %s' % (what, pid))
    if int(pid) == os.getpid(): continue
    try:
        maps, memory = open('/proc/%s/maps' % pid).read(), open('/proc/%s/mem' % pid, 'rb', 0)
    except OSError: continue
    for line in maps.splitlines():
        area, mode = line.split()[:2]
        if 'r' not in mode or '[v' in line: continue
        begin, end = (int(x, 16) for x in area.split('-'))
        try:
            memory.seek(begin); data = memory.read(min(end - begin, 64 << 20))
        except (OSError, ValueError, OverflowError): continue
        searched += 1
        if found(data): hits.append('memory of %s at %s' % (pid, line))
for top in ('/workspace', '/tmp', '/run', '/etc', os.environ['HOME'], '/dev/shm'):
    for at, _, names in os.walk(top):
        for name in names:
            try: data = open(os.path.join(at, name), 'rb').read(8 << 20)
            except OSError: continue
            searched += 1
            if found(data): hits.append(os.path.join(at, name))
client.kill()
print('searched', searched > 20, 'control', control > 0, 'hits', hits)
`
			client := `import os, time, urllib.request
r = urllib.request.Request('https://api.test/b', headers={'Authorization': 'Bearer ' + os.environ.get('API_TOKEN', 'mine')})
kept = urllib.request.urlopen(r).read()
control = 'control-' + str(2 ** 70)
print(kept, flush=True)
time.sleep(1000)`
			if err := os.WriteFile(filepath.Join(dir, "search.py"), []byte(search), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "client.py"), []byte(client), 0o644); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			var both bytes.Buffer
			cmd := box.Command(ctx, "sh", "-c", "python3 search.py")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(reversed(secretToken)+"\n"+reversed("control-1180591620717411303424")+"\n"), &both, &both
			if err := cmd.Run(); err != nil || !strings.Contains(both.String(), "searched True control True hits []") {
				t.Errorf("the search: %v: %s", err, both.String())
			}
			for what, value := range map[string]any{"the isolation": box.Isolation(), "the spec": box.Spec(), "the log": records(t, box)} {
				if text, err := json.Marshal(value); err != nil || bytes.Contains(text, []byte(secretToken)) {
					t.Errorf("%s has the token, or %v: %s", what, err, text)
				}
			}
			state, err := box.Network(t.Context())
			if text, merr := json.Marshal(state); err != nil || merr != nil || bytes.Contains(text, []byte(secretToken)) || bytes.Contains(text, []byte("TEST_API_TOKEN")) {
				t.Errorf("the state of the network has the token or its source, or %v: %s", err, text)
			}
			commandsOfSecrets(t, n)
		})
	}
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// commandsOfSecrets runs the program with a spec, and searches what it prints and keeps.
func commandsOfSecrets(t *testing.T, n policy.Network) {
	t.Helper()
	home := t.TempDir()
	workspace := filepath.Join(home, "work")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(policy.Spec{Workspace: policy.Workspace{Source: workspace}, Network: n})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "api.json")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home+"/state", "PADDOCK_STATE_DIR="+home+"/state")
	for _, args := range [][]string{
		{"plan", "--spec", file},
		{"plan", "--json", "--spec", file},
		{"run", "--json", "--spec", file, "--", "sh", "-c", "env; curl -sS -H \"Authorization: Bearer $API_TOKEN\" https://api.test/c"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), args...)
		cmd.Env, cmd.Dir = env, workspace
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("paddock %q: %v: %s", args, err, out)
		}
		if bytes.Contains(out, []byte(secretToken)) {
			t.Errorf("paddock %q prints the token", args)
		}
		if args[0] == "run" && !bytes.Contains(out, []byte("hello from api.test/c: true")) {
			t.Errorf("paddock %q: %s", args, out)
		}
	}
	err = filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // it has gone meanwhile
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		if bytes.Contains(text, []byte(secretToken)) {
			t.Errorf("%s has the token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSourcesOfSecrets: each source is read on the host, and one that cannot be used is named,
// without its value, before anything starts.
func TestSourcesOfSecrets(t *testing.T) {
	w := newWorld(t)
	w.trusted(t)
	w.https(t, "api.test:443", echoToken)
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(secretToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_EMPTY", "")
	t.Setenv("TEST_SHORT", "short")
	t.Setenv("TEST_LINES", "first line\nsecond line")
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.WriteString(pipe, secretToken); err != nil {
		t.Fatal(err)
	}
	_ = pipe.Close()
	for source, want := range map[string]string{
		"file:" + file: "",
		"cmd:printf '%s\\n' \"$(cat " + file + ")\"": "",
		fmt.Sprintf("fd:%d", r.Fd()):                 "",
		"env:TEST_MISSING":                           "the variable TEST_MISSING is not set",
		"env:TEST_EMPTY":                             "it is empty",
		"env:TEST_SHORT":                             "it is shorter than 8 bytes",
		"env:TEST_LINES":                             "ASCII without spaces",
		"file:" + empty:                              "it is empty",
		"file:" + dir + "/missing":                   "no such file",
		"file:" + dir + "/ws/token":                  "commands can read the file",
		"cmd:exit 3":                                 "exit status 3",
		"cmd:true":                                   "it is empty",
		"fd:999":                                     "bad file descriptor",
	} {
		n := allow(t, "api.test:443")
		n.Allow[0].Secret = &policy.NetworkSecret{Name: "API_TOKEN", Source: source}
		work := filepath.Join(dir, "ws")
		if err := os.MkdirAll(work, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, "token"), []byte(secretToken), 0o644); err != nil {
			t.Fatal(err)
		}
		box, err := paddock.Open(t.Context(), paddock.Spec{Workspace: paddock.Workspace{Source: work, Access: "ro"}, Network: n},
			paddock.Options{Agent: filepath.Join(binDir, "paddock-agent"), Path: os.Getenv("PATH")})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", source, err)
		case want == "":
			if out, _ := sh(t, box, "command -v curl >/dev/null || echo : true; curl -sS https://api.test/"); !strings.Contains(out, ": true") {
				t.Errorf("%s: %s", source, out)
			}
		case err == nil:
			t.Errorf("%s was accepted", source)
		case !has(err.Error(), "network.allow[0].secret.source", "API_TOKEN", want) || strings.Contains(err.Error(), secretToken):
			t.Errorf("%s: %v; want %s", source, err, want)
		}
		if box != nil {
			_ = box.Close()
		}
	}
}
