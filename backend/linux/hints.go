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

// cloneHint says what forbids the namespaces, by looking at what usually does.
func cloneHint(errno syscall.Errno) string {
	switch {
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		return "user namespaces are forbidden to ordinary users: sysctl -w kernel.unprivileged_userns_clone=1"
	case sysctl("user/max_user_namespaces") == "0":
		return "user namespaces are switched off: sysctl -w user.max_user_namespaces=15000"
	case errno == syscall.ENOSPC:
		return "the limit on namespaces is reached: see sysctl user.max_user_namespaces and its siblings, or end other sandboxes; inside a Paddock sandbox there are none by design"
	case errno == syscall.EPERM && sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return apparmorHint
	case errno == syscall.EPERM:
		return "a seccomp filter or security module forbids new namespaces, as container engines do by default (docker: --security-opt seccomp=unconfined)"
	case errno == syscall.EAGAIN:
		return "the limit on processes is reached: see ulimit -u"
	}
	return ""
}

const apparmorHint = "AppArmor restricts user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give paddock-agent a profile with the rule \"userns,\""

// setupHint explains a step that the new process was not allowed to make.
func setupHint(e *confine.Error) string {
	if e.Hint != "" {
		return e.Hint
	}
	denied := e.Errno == int(syscall.EPERM) || e.Errno == int(syscall.EACCES)
	if denied && sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1" {
		return apparmorHint
	}
	switch {
	case e.Errno == int(syscall.ELOOP) && e.Op == string(confine.OpBind):
		return "a symbolic link has come into the path while the sandbox was made: find out who did that"
	case e.Errno == int(syscall.ENOSYS):
		return "the kernel is too old: Paddock needs Linux 5.12 or later"
	case denied:
		return "something around Paddock (a container engine, a security module, another sandbox) forbids it; paddock doctor tries each feature"
	}
	return ""
}

// sysctl reads a value below /proc/sys, "" where it does not exist.
func sysctl(name string) string {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
