//go:build linux

package linux

import (
	"os"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/confine"
)

const procHint = "parts of /proc are masked here, as container engines do; run the container with an unmasked /proc " +
	"(docker: --security-opt systempaths=unconfined; podman: --security-opt unmask=ALL)"

// cloneHint says what forbids the namespaces, by checking the usual causes.
func cloneHint(errno syscall.Errno) string {
	switch {
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		return "user namespaces are forbidden to ordinary users: sysctl -w kernel.unprivileged_userns_clone=1"
	case sysctl("user/max_user_namespaces") == "0":
		return "user namespaces are switched off: sysctl -w user.max_user_namespaces=15000; inside a Paddock sandbox that is by design, and the landlock level (`level` landlock) does without"
	case errno == syscall.ENOSPC:
		return "the limit on namespaces is reached: see sysctl user.max_user_namespaces and its siblings, or end other sandboxes; inside a Paddock sandbox there are none by design: use the landlock level there (`level` landlock)"
	case errno == syscall.EPERM && sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return apparmorHint()
	case errno == syscall.EPERM:
		return "a seccomp filter or security module forbids new namespaces, as container engines do by default: use the landlock level (`level` landlock), or allow them (docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
	case errno == syscall.EAGAIN:
		return "the limit on processes is reached: see ulimit -u"
	}
	return ""
}

// apparmorHint returns the advice for hosts on which AppArmor lets a program without
// a profile make a user namespace, but gives it no capability there. The profile must
// be for the program that makes the namespace.
func apparmorHint() string {
	self, err := os.Executable()
	if err != nil {
		self = "/usr/local/bin/paddock"
	}
	return "AppArmor restricts user namespaces. Give " + self + " a profile that allows them, in /etc/apparmor.d/paddock:\n" +
		"    abi <abi/4.0>,\n" +
		"    include <tunables/global>\n" +
		"    profile paddock " + self + " flags=(unconfined) {\n" +
		"      userns,\n" +
		"    }\n" +
		"and load it with apparmor_parser -r /etc/apparmor.d/paddock; or lift the restriction for all programs: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; " +
		"or use the landlock level (`level` landlock)"
}

// setupHint says what to do about a step that the new process was not allowed to make.
func setupHint(e *confine.Error) string {
	if e.Hint != "" {
		return e.Hint
	}
	denied := e.Errno == int(syscall.EPERM) || e.Errno == int(syscall.EACCES)
	if denied && sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1" {
		return apparmorHint()
	}
	switch {
	case e.Errno == int(syscall.ELOOP) && e.Op == string(confine.OpBind):
		return "a symbolic link has come into the path while the sandbox was made: find out who did that"
	case e.Errno == int(syscall.ESTALE) && (e.Op == string(confine.OpBind) || e.Op == string(confine.OpCopy)):
		return "something else has taken its place while the sandbox was made: find out who did that"
	case e.Errno == int(syscall.EINVAL) && e.Op == string(confine.OpPivot):
		return "the root file system here is an initramfs, which the kernel does not let anybody replace: start from a root file system that is mounted (switch_root, pivot_root), or use the landlock level (`level` landlock)"
	case e.Errno == int(syscall.ENOSYS):
		return "the kernel is too old: Paddock needs Linux 5.12 or later"
	case denied:
		return "something around Paddock (a container engine, a security module, another sandbox) forbids it: paddock doctor tries each feature, and the landlock level (`level` landlock) needs less"
	}
	return ""
}

// sysctl returns a value below /proc/sys, or "" if it does not exist.
func sysctl(name string) string {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
