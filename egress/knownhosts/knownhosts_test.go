package knownhosts

import (
	"crypto/ed25519"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	reference "golang.org/x/crypto/ssh/knownhosts"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// publicKey returns a key, the same one for the same number.
func publicKey(t testing.TB, number byte) ssh.PublicKey {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = number
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed).Public())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func table(t testing.TB, rules ...string) *egress.Table {
	t.Helper()
	n := policy.Network{Mode: policy.NetworkAllow}
	for _, text := range rules {
		denied := strings.HasPrefix(text, "-")
		rule, err := policy.ParseNetworkRule(strings.TrimPrefix(text, "-"))
		if err != nil {
			t.Fatal(err)
		}
		if denied {
			n.Deny = append(n.Deny, policy.NetworkDenial{Host: rule.Host})
			continue
		}
		n.Allow = append(n.Allow, rule)
	}
	return egress.NewTable(n)
}

// TestFind: whose key a key is, as far as rules open that host.
func TestFind(t *testing.T) {
	key := publicKey(t, 1)
	line := func(names string) string {
		return names + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	}
	hashed := reference.HashHostname
	tests := []struct {
		name, text, rules, want string // want is pattern and rule, "" for none
	}{
		{"a name", line("git.test"), "git.test:22", "git.test git.test"},
		{"among others", line("a.test,git.test,192.0.2.1"), "git.test:22", "git.test git.test"},
		{"with a comment", line("git.test") + " a comment", "git.test:22", "git.test git.test"},
		{"in capitals", line("Git.Test"), "git.test:22", "git.test git.test"},
		{"another name", line("other.test"), "git.test:22", ""},
		{"another port of the rule", line("git.test"), "git.test:2222", ""},
		{"another port of the line", line("[git.test]:2222"), "git.test:22", ""},
		{"a port", line("[git.test]:2222"), "git.test:22,2222", "[git.test]:2222 git.test"},
		{"a rule without ports", line("git.test"), "git.test", ""},
		{"a port of TLS", line("[git.test]:443"), "git.test:443", ""},
		{"a hashed name", line(hashed("git.test")), "git.test:22", "git.test git.test"},
		{"a hashed name with a port", line(hashed("[git.test]:2222")), "git.test:2222", "[git.test]:2222 git.test"},
		{"another hashed name", line(hashed("other.test")), "git.test:22", ""},
		{"a hashed name below a wildcard", line(hashed("git.test")), "*.test:22", ""},
		{"a name below a wildcard", line("git.test"), "*.test:22", "git.test *.test"},
		{"a name below every name", line("git.test"), "**:22", "git.test **"},
		{"the name of a wildcard itself", line("test"), "*.test:22", ""},
		{"an address of a network", line("192.0.2.1"), "192.0.2.0/24:22", "192.0.2.1 192.0.2.0/24"},
		{"an address", line("192.0.2.1"), "192.0.2.1:22", "192.0.2.1 192.0.2.1"},
		{"an address that no rule names", line("192.0.2.1"), "**:22", ""},
		{"a pattern", line("*.test"), "git.test:22", "git.test git.test"},
		{"a pattern with one letter", line("gi?.test"), "git.test:22", "git.test git.test"},
		{"a pattern and a wildcard", line("*.test"), "*.test:22", ""},
		{"an exception", line("*.test,!git.test"), "git.test:22", ""},
		{"a denied name", line("git.test"), "*.test:22 -git.test", ""},
		{"an authority", "@cert-authority " + line("git.test"), "git.test:22", ""},
		{"a revoked key", line("git.test") + "\n@revoked " + line("*"), "git.test:22", ""},
		{"an unknown marker", "@other " + line("git.test"), "git.test:22", ""},
		{"a comment", "# " + line("git.test"), "git.test:22", ""},
		{"another kind than the key's", strings.Replace(line("git.test"), "ssh-ed25519", "ssh-rsa", 1), "git.test:22", ""},
		{"no key", "git.test ssh-ed25519", "git.test:22", ""},
		{"no base64", "git.test ssh-ed25519 !", "git.test:22", ""},
		{"nonsense before", "\x00\xff\n|1|x|y\n" + line("git.test"), "git.test:22", "git.test git.test"},
		{"the end of lines of Windows", line("git.test") + "\r\n", "git.test:22", "git.test git.test"},
	}
	for _, tt := range tests {
		f, rules := Parse([]byte(tt.text)), table(t, strings.Fields(tt.rules)...)
		got := ""
		if host, ok := f.Find(rules, key.Marshal()); ok {
			got = pattern(host.Name, host.Port) + " " + host.Rule
		}
		if got != tt.want {
			t.Errorf("%s: found %q, want %q", tt.name, got, tt.want)
		}
		if _, ok := f.Find(rules, publicKey(t, 2).Marshal()); ok {
			t.Errorf("%s: another key was found", tt.name)
		}
		opened, want := string(f.Opened(rules)), ""
		if tt.want != "" {
			want = line(strings.Fields(tt.want)[0]) + "\n"
		}
		if opened != want {
			t.Errorf("%s: opened %q, want %q", tt.name, opened, want)
		}
	}
}

// TestMany: long lists do not take long.
func TestMany(t *testing.T) {
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(publicKey(t, 1))))
	var text strings.Builder
	for i := range 4000 {
		text.WriteString(reference.HashHostname("h"+strconv.Itoa(i)+".test") + " " + key + "\n")
	}
	var rules []string
	for i := range 1000 {
		rules = append(rules, "h"+strconv.Itoa(i)+".test:22")
	}
	begun := time.Now()
	opened := Parse([]byte(text.String())).Opened(table(t, rules...))
	if n := strings.Count(string(opened), "\n"); n == 0 || n > 1000 {
		t.Errorf("%d lines", n)
	}
	t.Logf("in %v", time.Since(begun))
}

// FuzzFind: what is found, OpenSSH's rules as another library has them find too, and rules open
// it; and nothing stops the parser.
func FuzzFind(f *testing.F) {
	key := publicKey(f, 1)
	text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	for _, names := range []string{"git.test", "*.test,!git.test", "[git.test]:2222", "|1|x|y", "!*,*", "gi?.test", "**", "192.0.2.1"} {
		f.Add([]byte(names), "git.test", uint16(22))
	}
	f.Fuzz(func(t *testing.T, names []byte, host string, port uint16) {
		Parse(names)
		data := append(append([]byte{}, names...), " "+text+"\n"...)
		name, ok := egress.CanonicalName(host)
		if _, err := netip.ParseAddr(name); !ok || err == nil || strings.ContainsAny(string(names), " \t\r\n@#\v\f") || !ascii(names) || port == 0 {
			return
		}
		rules := egress.NewTable(policy.Network{Mode: policy.NetworkAllow, Allow: []policy.NetworkRule{{Host: name, Ports: []policy.Port{policy.Port(port)}}}})
		found, ok := Parse(data).Find(rules, key.Marshal())
		if !ok {
			return
		}
		if found.Name != name || found.Port != port {
			t.Fatalf("found %+v", found)
		}
		lower := strings.ToLower(string(names))
		if strings.Contains(lower, "|") {
			lower = string(names)
		}
		for l := range strings.SplitSeq(lower, ",") { // the other library refuses a file with what OpenSSH passes over
			if l == "" || l == "!" {
				return
			}
		}
		path := t.TempDir() + "/f"
		if err := os.WriteFile(path, []byte(lower+" "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		check, err := reference.New(path)
		if err != nil {
			return
		}
		address := net.JoinHostPort(name, strconv.Itoa(int(port)))
		if err := check(address, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: int(port)}, key); err != nil {
			t.Fatalf("%q for %s: %v", names, address, err)
		}
	})
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 || c < 0x20 {
			return false
		}
	}
	return true
}

// TestKeyForm: a key begins with its kind, and is not cut.
func TestKeyForm(t *testing.T) {
	blob := publicKey(t, 1).Marshal()
	for n := range 16 {
		if isKey(blob[:n], "ssh-ed25519") && n < 15 {
			t.Errorf("%d bytes are a key", n)
		}
	}
	if isKey(binary.BigEndian.AppendUint32(nil, 1<<31), "ssh-ed25519") || !isKey(blob, "ssh-ed25519") {
		t.Error("by its length")
	}
}
