//go:build linux

package linux

import (
	"os"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// etcShown is what of the host's /etc is visible: what programs need to find
// libraries, certificates, locales and each other. It is a list of what is
// let in, because a list of what is kept out is never complete. A name that
// ends in "*" stands for all that begin with it.
var etcShown = []string{
	"R", "alternatives", "bash.bashrc", "crypto-policies", "debian_version", "fonts", "inputrc", "java*",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.conf", "localtime", "lsb-release", "maven", "mime.types",
	"os-release", "php", "profile", "profile.d", "protocols", "python*", "redhat-release", "services", "sgml",
	"terminfo", "texmf", "timezone", "xml",
}

// etcBelow is what is visible of directories that hold secrets too.
var etcBelow = []string{
	"pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf",
	"ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
}

func isShown(name string) bool {
	return slices.ContainsFunc(etcShown, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, prefix)
	})
}

// etc makes the sandbox's /etc: shown from the host, or made for it.
func (b *builder) etc(spec policy.Spec) {
	for _, p := range b.shownEtc() {
		b.show(p, p, "configuration that programs need")
	}
	b.addEtc(madeEtc(spec))
}

// shownEtc is what of the host's /etc is shown.
func (b *builder) shownEtc() []string {
	var paths []string
	entries, _ := os.ReadDir("/etc")
	for _, e := range entries {
		if isShown(e.Name()) {
			paths = append(paths, "/etc/"+e.Name())
		}
	}
	for _, name := range etcBelow {
		paths = append(paths, "/etc/"+name)
	}
	return paths
}

// madeFile is a file of /etc that is made for the sandbox.
type madeFile struct{ name, text string }

func madeEtc(spec policy.Spec) []madeFile {
	hosts := "127.0.0.1\tlocalhost " + spec.Hostname + "\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	resolv := "# The sandbox has no network.\n"
	if spec.Network == "host" {
		resolv = hostFile("/etc/resolv.conf")
		hosts = hostFile("/etc/hosts")
	}
	return []madeFile{
		{"passwd", "root:x:0:0:root:/root:/bin/sh\n" + userName + ":x:1000:1000:" + userName + ":" + homeDir + ":/bin/sh\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
		{"group", "root:x:0:\n" + userName + ":x:1000:\nnogroup:x:65534:\n"},
		{"hosts", hosts},
		{"hostname", spec.Hostname + "\n"},
		{"resolv.conf", resolv},
		{"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
	}
}

func namesOf(files []madeFile) []string {
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	// These would tell of users that the sandbox does not have.
	return append(names, "shadow", "gshadow", "mtab")
}

func (b *builder) addEtc(files []madeFile) {
	for _, f := range files {
		b.add(confine.Step{Do: confine.OpFile, Target: "/etc/" + f.name, Mode: 0o644, Data: []byte(f.text), Why: "made for the sandbox"})
	}
}

// hostFile is a small file of the host, empty where it cannot be read.
func hostFile(path string) string {
	const bound = 1 << 20
	text, err := os.ReadFile(path)
	if err != nil || len(text) > bound {
		return ""
	}
	return string(text)
}
