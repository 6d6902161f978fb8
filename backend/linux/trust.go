//go:build linux

package linux

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the format has it
	"encoding/binary"
	"encoding/pem"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf16"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// Where a sandbox whose rules intercept has its authority: alone, with those of the host, and
// in the form of Java.
const (
	trustDir    = "/etc/paddock"
	trustRoot   = trustDir + "/ca-root.pem"
	trustBundle = trustDir + "/ca-bundle.pem"
	trustJava   = trustDir + "/cacerts"
)

// bundles are where systems have the certificates that programs trust.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/pki/tls/cert.pem", "/var/lib/ca-certificates/ca-bundle.pem",
}

// javaStores are where systems have those that Java trusts.
var javaStores = []string{"/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts", "/etc/pki/java/cacerts", "/var/lib/ca-certificates/java-cacerts"}

// trustEnv returns variables that name the certificates, for programs that read no bundle of
// the system, and the stand-ins of secrets.
func trustEnv(req backend.Request) map[string]string {
	network := req.Spec.Network
	if !network.Intercepts() {
		return nil
	}
	env := map[string]string{"NODE_EXTRA_CA_CERTS": trustRoot}
	for _, name := range []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE", "DENO_CERT"} {
		env[name] = trustBundle
	}
	if javaVisible(req.Spec) && javaStore(req.Spec) == "" {
		env["JAVA_TOOL_OPTIONS"] = "-Djavax.net.ssl.trustStore=" + trustJava
	}
	for _, secret := range network.Secrets() {
		if secret.Substitute {
			env[secret.Name] = "a stand-in, made at the start"
		}
	}
	if req.Intercept == nil {
		return env
	}
	for _, secret := range req.Intercept.Secrets {
		if secret.StandIn != "" {
			env[secret.Name] = secret.StandIn
		}
	}
	return env
}

// trust adds the files that make programs trust the certificates of intercepted hosts.
func (b *builder) trust(req backend.Request) {
	if !b.spec.Network.Intercepts() {
		return
	}
	root := []byte("# the certificate of the sandbox's own authority, which the start makes\n")
	others := root
	java := others
	if req.Intercept != nil {
		root = (&egress.Authority{Certificate: req.Intercept.Certificate}).PEM()
		others = slices.Concat(hostBundle(b.spec), root)
		java = javaKeystore(others)
	}
	b.add(confine.Step{Do: confine.OpFile, Target: trustRoot, Mode: 0o644, Data: root, Why: "the sandbox's own authority, which signs for the hosts that rules intercept"})
	b.add(confine.Step{Do: confine.OpFile, Target: trustBundle, Mode: 0o644, Data: others, Why: "it, and those that the host trusts"})
	over := func(targets []string, source string) {
		for _, target := range targets {
			if regularInside(b.spec, target) {
				b.add(confine.Step{Do: confine.OpSelf, Source: source, Target: target, Flags: slices.Concat(roDir, []string{confine.FlagNoExec}), Why: "programs trust the sandbox's own authority too"})
			}
		}
	}
	over(bundles, trustBundle)
	if javaVisible(b.spec) {
		b.add(confine.Step{Do: confine.OpFile, Target: trustJava, Mode: 0o644, Data: java, Why: "the same for Java"})
		over(javaStores, trustJava)
	}
}

// rootOf returns the path on the host of one that is visible inside in the root file system.
func rootOf(spec policy.Spec, name string) string {
	if spec.RootFS == policy.RootHost {
		return name
	}
	return filepath.Join(spec.RootFS, name)
}

// regularInside reports whether a path of the root file system is a regular file, and leads
// through no symbolic link: what links lead to is one of the others, or is not visible.
func regularInside(spec policy.Spec, name string) bool {
	at := rootOf(spec, name)
	info, err := os.Lstat(at)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(at))
	if err != nil || parent != filepath.Dir(at) {
		return false
	}
	if spec.RootFS != policy.RootHost {
		return true
	}
	return path.Dir(name) != "/" && slices.ContainsFunc(shownEtc(), func(shown string) bool {
		return name == shown || len(name) > len(shown) && name[:len(shown)+1] == shown+"/"
	})
}

// javaStore returns the store of the system that Java reads.
func javaStore(spec policy.Spec) string {
	for _, name := range javaStores {
		if regularInside(spec, name) {
			return name
		}
	}
	return ""
}

// javaVisible reports whether programs in Java can run inside.
func javaVisible(spec policy.Spec) bool {
	if javaStore(spec) != "" {
		return true
	}
	if spec.RootFS == policy.RootHost {
		_, err := exec.LookPath("java")
		return err == nil
	}
	_, err := os.Lstat(rootOf(spec, "/usr/bin/java"))
	return err == nil
}

// mostBundle bounds a file with certificates, in bytes.
const mostBundle = 1 << 20

// ownRoots returns what the operator's SSL_CERT_FILE has, nil without that.
func ownRoots() []byte {
	name := os.Getenv("SSL_CERT_FILE")
	if name == "" {
		return nil
	}
	text := hostFile(name)
	if text == "" {
		return []byte("-") // it is refused, as one without certificates
	}
	return []byte(text)
}

// hostBundle returns the certificates that programs of the root file system trust.
func hostBundle(spec policy.Spec) []byte {
	if own := ownRoots(); own != nil {
		return append(own, '\n')
	}
	for _, name := range bundles {
		var text []byte
		if spec.RootFS == policy.RootHost {
			text = []byte(hostFile(name))
		} else { // commands of another sandbox may have made it
			text, _ = hostpath.Read(context.Background(), spec.RootFS, name[1:], mostBundle) // another of the bundles may do
		}
		if len(text) > 0 {
			return append(text, '\n')
		}
	}
	return nil
}

// javaKeystore returns certificates in the form that every Java reads (JKS, with the password
// "changeit").
func javaKeystore(bundle []byte) []byte {
	var certificates [][]byte
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		if bundle = rest; block.Type == "CERTIFICATE" {
			certificates = append(certificates, block.Bytes)
		}
	}
	var b bytes.Buffer
	number := func(n uint32) { _ = binary.Write(&b, binary.BigEndian, n) } // a Buffer cannot fail
	text := func(s string) {
		_ = binary.Write(&b, binary.BigEndian, uint16(len(s)))
		b.WriteString(s)
	}
	number(0xfeedfeed)
	number(2) // the version
	number(uint32(len(certificates)))
	now := uint64(time.Now().UnixMilli())
	for i, der := range certificates {
		number(2) // a certificate that is trusted
		text("ca-" + strconv.Itoa(i))
		_ = binary.Write(&b, binary.BigEndian, now)
		text("X.509")
		number(uint32(len(der)))
		b.Write(der)
	}
	digest := sha1.New() //nolint:gosec // see above
	for _, c := range utf16.Encode([]rune("changeit")) {
		_ = binary.Write(digest, binary.BigEndian, c)
	}
	digest.Write([]byte("Mighty Aphrodite")) // the format has it
	digest.Write(b.Bytes())
	return digest.Sum(b.Bytes())
}
