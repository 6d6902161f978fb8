//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/byname"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// systemDirs hold the host's programs and libraries, and no user's data. /nix/store is
// where some distributions keep all of them.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"}

// root makes the new root, with programs and libraries from the host or from a
// directory that the spec names.
func (b *builder) root() error {
	b.add(confine.Step{Do: confine.OpTmpfs, Target: "/", Mode: 0o755, Size: rootSize, Flags: scrape, Why: "the new root is empty"})
	// Early: it needs a separate process, and later steps need not wait for that.
	b.add(confine.Step{Do: confine.OpProc, Target: "/proc", Flags: procFlags,
		Why: "only the sandbox's own commands are visible", Hint: procHint})
	if b.spec.RootFS != policy.RootHost {
		return b.rootFrom()
	}
	for _, dir := range systemDirs {
		b.show(dir, dir, "programs and libraries")
	}
	for _, p := range shownEtc() {
		b.show(p, p, "configuration that programs need")
	}
	b.addEtc(madeEtc(b.spec))
	return nil
}

// show makes a path of the host visible read-only. A link becomes a link, and a path
// that does not exist here does not exist inside.
func (b *builder) show(source, target, why string) {
	info, err := os.Lstat(source)
	switch {
	case err != nil:
	case info.Mode()&os.ModeSymlink != 0:
		if text, err := os.Readlink(source); err == nil {
			b.add(confine.Step{Do: confine.OpSymlink, Source: text, Target: target, Why: why})
		}
	case info.IsDir() || info.Mode().IsRegular():
		s := confine.Step{Do: confine.OpBind, Source: source, Target: target, Flags: roDir, Why: why}
		if b.spec.RootFS != policy.RootHost { // commands of another sandbox may have made it
			s.Flags = append(slices.Clone(s.Flags), confine.FlagResolved)
		}
		b.add(s)
	}
}

// ownPlaces are the names in the root that each sandbox replaces by its own directories,
// whatever its root file system has.
var ownPlaces = []string{"dev", "proc", "sys", "tmp", "run", "workspace", "home", "root", "mnt", "srv", "var", "etc"}

// rootFrom shows the content of a directory as the root file system. Its entries become
// mounts one by one, because the root itself is the sandbox's own: so the directory need
// not contain ownPlaces.
func (b *builder) rootFrom() error {
	dir, err := b.rootSource(b.spec.RootFS)
	if err != nil {
		return err
	}
	names, err := namesIn(dir)
	if err != nil {
		return hostpath.Refuse("rootfs", b.spec.RootFS, hostpath.Reason(err), "")
	}
	for _, name := range names {
		if !slices.Contains(ownPlaces, name) {
			b.show(filepath.Join(dir, name), "/"+name, "the root file system that the spec names")
		}
	}
	if err := b.below(dir, "var", []string{"tmp", "run", "lock"}); err != nil {
		return err
	}
	made, own := madeEtc(b.spec), []string{"shadow", "gshadow", "mtab"} // these name users that the sandbox does not have
	for _, f := range made {
		own = append(own, f.name)
	}
	if b.spec.SSHAgent != nil {
		own = append(own, path.Dir(knownHosts))
	}
	if err := b.below(dir, "etc", own); err != nil {
		return err
	}
	b.addEtc(made)
	return nil
}

// below shows the content of a directory of the root file system, except the names in own,
// which the sandbox replaces.
func (b *builder) below(root, name string, own []string) error {
	dir := filepath.Join(root, name)
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return hostpath.Refuse("rootfs", dir, hostpath.Reason(err), "")
	}
	entries, err := namesIn(dir)
	if err != nil {
		return hostpath.Refuse("rootfs", dir, hostpath.Reason(err), "")
	}
	for _, e := range entries {
		if !slices.Contains(own, e) {
			b.show(filepath.Join(dir, e), path.Join("/", name, e), "the root file system that the spec names")
		}
	}
	return nil
}

// maxShown bounds the names in a directory that become mounts one by one.
const maxShown = 4096

// namesIn returns the sorted names in a directory that commands could have made.
func namesIn(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxShown + 1)
	if len(names) > maxShown {
		return nil, fmt.Errorf("it holds more than %d names", maxShown)
	}
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	slices.Sort(names)
	return names, err
}

// rootSource resolves the directory of the root file system and checks that it can be
// one, that commands cannot change it, and that the sandbox's identity can reach it.
func (b *builder) rootSource(written string) (string, error) {
	const field = "rootfs"
	way, err := hostpath.Follow(written) // links in it were checked with the mounts
	if err != nil {
		return "", hostpath.Refuse(field, written, hostpath.Reason(err), "")
	}
	dir := way.Path
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", hostpath.Refuse(field, written, hostpath.Reason(err), "")
	case !info.IsDir():
		return "", hostpath.Refuse(field, written, "it is not a directory", "name a directory that holds usr, bin and lib")
	case !state.Exists(filepath.Join(dir, "usr")) && !state.Exists(filepath.Join(dir, "bin")):
		return "", hostpath.Refuse(field, written, "it holds neither usr nor bin, and so no programs", "name a directory that holds a root file system")
	case dir == "/":
		return "", hostpath.Refuse(field, written, "it is the host's own root", `"host" shows its system directories`)
	}
	for _, m := range b.mounts {
		if _, ok := hostpath.Within(dir, m.Source); ok && m.Writable {
			return "", hostpath.Refuse(field, written, "commands can change it: it lies in "+m.Source, "name one outside of what is writable")
		}
	}
	if os.Geteuid() != 0 {
		return dir, nil
	}
	for at := dir; at != "/"; at = filepath.Dir(at) {
		var st unix.Stat_t
		if err := unix.Stat(at, &st); err == nil && st.Mode&0o001 == 0 {
			return "", hostpath.Refuse(field, written, fmt.Sprintf("only its owner can enter %s, and sandboxes run under another id", at), "chmod o+x "+policy.ShellWord(at))
		}
	}
	return dir, nil
}

// etcShown are the names in the host's /etc that are visible: those that programs need
// to find libraries, certificates, locales and each other. It lists the visible names,
// because a list of names to hide is never complete. A name that ends in "*" stands
// for all names that begin with it.
var etcShown = []string{
	"R", "alternatives", "bash.bashrc", "crypto-policies", "debian_version", "fonts", "inputrc", "java*",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.conf", "localtime", "lsb-release", "maven", "mime.types",
	"os-release", "php", "profile", "profile.d", "protocols", "python*", "redhat-release", "services", "sgml",
	"terminfo", "texmf", "timezone", "xml",
}

// etcBelow lists the visible names in directories that also hold secrets.
var etcBelow = []string{
	"pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf",
	"ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
}

// shownEtc returns the paths of the host's /etc that are shown.
func shownEtc() []string {
	var paths []string
	entries, _ := os.ReadDir("/etc")
	for _, e := range entries {
		if slices.ContainsFunc(etcShown, func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, "*")
			return e.Name() == pattern || open && strings.HasPrefix(e.Name(), prefix)
		}) {
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

// madeEtc returns the files of /etc that are made for the sandbox.
func madeEtc(spec policy.Spec) []madeFile {
	hosts := "127.0.0.1\tlocalhost " + spec.Hostname + "\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	resolv := "# The sandbox has no network.\n"
	switch spec.Network.Mode {
	case policy.NetworkAllow, policy.NetworkObserve:
		resolv = byname.ResolvConf(egress.GatewayNames)
	case policy.NetworkHost:
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

func (b *builder) addEtc(files []madeFile) {
	for _, f := range files {
		b.add(confine.Step{Do: confine.OpFile, Target: "/etc/" + f.name, Mode: 0o644, Data: []byte(f.text), Why: "made for the sandbox"})
	}
}

// knownHosts is the file in /etc with the keys of hosts that rules open.
const knownHosts = "ssh/ssh_known_hosts"

// hostFile returns the content of a small file of the host, or "" if it cannot be read.
func hostFile(path string) string {
	const bound = 1 << 20
	text, err := os.ReadFile(path)
	if err != nil || len(text) > bound {
		return ""
	}
	return string(text)
}

var procFlags = []string{confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec}

// The parts of a fresh /proc that describe the machine, which no command needs to know,
// and those that can be written. Commands lack the privilege for most of it anyway. A
// kernel may have only some of these.
var (
	procHidden   = []string{"acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats"}
	procReadOnly = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

// maskProc hides parts of /proc and makes others read-only.
func (b *builder) maskProc() {
	for _, name := range procHidden {
		target := "/proc/" + name
		switch info, err := os.Stat(target); {
		case err != nil:
		case info.IsDir():
			b.add(confine.Step{Do: confine.OpTmpfs, Target: target, Mode: 0o555, Size: 4096,
				Flags: append([]string{confine.FlagReadOnly, confine.FlagExisting}, procFlags...), Why: "it tells about the machine"})
		default:
			b.add(confine.Step{Do: confine.OpBind, Source: os.DevNull, Target: target,
				Flags: []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoExec, confine.FlagExisting},
				Why:   "it tells about the machine, or holds keys"})
		}
	}
	for _, name := range procReadOnly {
		if target := "/proc/" + name; state.Exists(target) {
			b.add(confine.Step{Do: confine.OpSelf, Target: target, Flags: append([]string{confine.FlagReadOnly}, procFlags...),
				Why: "the machine's settings"})
		}
	}
}
