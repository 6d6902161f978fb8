//go:build linux

package readme

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// files are what a reader of the papers has: a project of Go with one module
// that it needs, and the programs that the examples name.
var files = map[string]string{
	".profile": `export PATH=$PATH:/usr/local/go/bin GOPROXY=file:///srv/modules
`, // as Go's own instructions have it, and where modules come from on a machine without a network
	"src/app/go.mod": "module example.com/app\n\ngo 1.26.0\n\nrequire golang.org/x/term TERM\n\nrequire golang.org/x/sys SYS // indirect\n",
	"src/app/main.go": `package main

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

func main() { fmt.Println("app runs, on a terminal:", term.IsTerminal(int(os.Stdout.Fd()))) }
`,
	"src/words/go.mod":        "module example.com/words\n\ngo 1.26.0\n",
	"src/words/words.go":      "package words\n\nconst Hello = \"hello\"\n",
	"src/words/words_test.go": "package words\n\nimport \"testing\"\n\nfunc TestHello(t *testing.T) {\n\tif Hello != \"hello\" {\n\t\tt.Fail()\n\t}\n}\n",
	"src/app/Makefile":        "all: one two\none two:\n\t@go version >/dev/null && echo made $@\n",
	"src/app/notes.txt":       "TODO: more\na;b\n",
	"src/app/hangs":           "#!/bin/sh\nsleep 1000 & sleep 1000\n",
	"src/app/try":             "#!/bin/sh\necho tried >tried && ls tried\n",
	"src/app/report":          "#!/bin/sh\necho jane@example.org 4111-1111-1111-1111\necho 192.0.2.7 JIRA-12\n",
	"src/app/key":             "#!/bin/sh\necho here it is: sk-0123456789abcdefghijklmnop and more\n",
	".cache/app/kept":         "kept\n",
	"paddock/DIR/file":        "",
}

// app is a program of the machine's.
const app = `#!/bin/sh
echo "app: LANG=$LANG TOKEN=$TOKEN"
if [ -d /cache ]; then cat /cache/kept && echo new >/cache/new; fi
`

// furnishHome writes what the papers take for granted, their own blocks among it.
func furnishHome(t *testing.T, papers []paper) {
	t.Helper()
	mod, err := os.ReadFile(home + "/paddock/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if name == "src/app/go.mod" {
			for word, module := range map[string]string{"TERM": "golang.org/x/term ", "SYS": "golang.org/x/sys "} {
				_, version, _ := strings.Cut(string(mod), "\t"+module)
				version, _, _ = strings.Cut(version, "\n")
				text = strings.ReplaceAll(text, word, version)
			}
		}
		write(t, filepath.Join(home, name), text)
	}
	for _, p := range papers {
		for _, b := range p.blocks {
			if row, ok := rowOf(b.first()); ok && row.path != "" {
				write(t, filepath.Join(home, row.path), b.text)
			}
		}
	}
	write(t, "/usr/local/bin/app", app)
	for _, script := range []string{
		"cp /home/dev/paddock/go.sum /home/dev/src/app",
		"chown -R dev:dev /home/dev",
		"mkdir -p /path/to && ln -s /home/dev/paddock/bin/paddock /path/to/paddock && mkdir /path/to/project && chown dev:dev /path/to/project",
		"mkdir -p -m 700 /run/user/1000 && chown dev:dev /run/user/1000",
		"mkdir /srv/agents && chown dev:dev /srv/agents",
	} {
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	must(t, "cd ~/src/app && git init -q && mkdir -p ~/image && CGO_ENABLED=0 go build -o ~/image/bin/app . && cp ~/image/bin/app .")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// must runs a script as the user, and gives what it printed.
func must(t *testing.T, script string) string {
	t.Helper()
	out, errOut, status := login(t, script, step{})
	if status != 0 {
		t.Fatalf("%s: exit status %d\n%s%s", script, status, out, errOut)
	}
	return out
}

// serveExample serves https://example.com on the loopback, with a certificate
// that the Debian trusts from then on.
func serveExample(t *testing.T) func() {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.com"}, DNSNames: []string{"example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	const trusted = "/etc/ssl/certs/ca-certificates.crt"
	before, err := os.ReadFile(trusted)
	if err != nil {
		t.Fatal(err)
	}
	write(t, trusted, string(bytes.Join([][]byte{before, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, []byte("\n"))))
	write(t, "/etc/hosts", "127.0.0.1 localhost example.com\n")
	listener, err := tls.Listen("tcp", "127.0.0.1:443", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "Example Domain\n")
	})}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }
}
