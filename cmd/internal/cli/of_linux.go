package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// keptForUser are the variables that a program which becomes another user keeps.
var keptForUser = []string{"LANG", "LC_ALL", "TZ", "COLUMNS"}

// asUser runs this program again, with these arguments, as another user, so that nothing of that user's
// state is read as root. That user could take the program over: so it has no terminal, none of root's
// open files, keys and variables, and what it prints is escaped.
func (a *App) asUser(name string, args []string) error {
	who, err := user.Lookup(name)
	if err != nil {
		return &policy.FieldError{Field: "--of", Value: name, Reason: "this host's list of users, /etc/passwd, does not have that user"}
	}
	if os.Geteuid() != 0 {
		return &policy.FieldError{Field: "--of", Value: name, Reason: "only root can become another user", Hint: "leave it out for what is your own, or ask as root"}
	}
	cred := &syscall.Credential{}
	groups, err := who.GroupIds()
	if err == nil {
		cred, err = credential(who, groups)
	}
	if err != nil {
		return &paddock.Error{Message: "cannot become " + text.Escape(name) + ": " + err.Error()}
	}
	again := exec.Command("/proc/self/exe", args...)
	again.Dir, again.Env = "/", environmentOf(who, cred.Uid)
	again.Stdout, again.Stderr = escaped{os.Stdout}, escaped{os.Stderr}
	again.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setsid: true, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // keyrings belong to it, and the program dies with it
	defer runtime.UnlockOSThread()
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) { // then there are no keys
		return &paddock.Error{Message: "cannot leave the session's keyring behind: " + err.Error()}
	}
	keepOpenFiles()
	err = again.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if a.status = exit.ExitCode(); a.status < 0 {
			a.status = statusFailed
		}
		return nil
	}
	if err != nil {
		return &paddock.Error{Message: "cannot run this program as " + text.Escape(name) + ": " + err.Error()}
	}
	return nil
}

// keepOpenFiles keeps the files that this process was started with from programs that it starts. Those
// that it has opened itself are kept from them already.
func keepOpenFiles() {
	open, _ := os.ReadDir("/proc/self/fd") // without /proc this program cannot run again
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// credential returns the ids of a user.
func credential(who *user.User, groups []string) (*syscall.Credential, error) {
	ids := make([]uint32, 0, len(groups)+2)
	for _, id := range append([]string{who.Uid, who.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, err
		}
		ids = append(ids, uint32(n))
	}
	return &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]}, nil
}

// environmentOf returns the variables of a login of the user, and the state directory that is named if
// it is that user's.
func environmentOf(who *user.User, uid uint32) []string {
	env := []string{"HOME=" + who.HomeDir, "USER=" + who.Username, "LOGNAME=" + who.Username, "PATH=/usr/local/bin:/usr/bin:/bin"}
	for _, name := range keptForUser {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	var st unix.Stat_t
	if dir := os.Getenv(paddock.StateDirEnv); dir != "" && unix.Stat(dir, &st) == nil && st.Uid == uid {
		env = append(env, paddock.StateDirEnv+"="+dir)
	}
	return env
}

// escaped writes lines that steer no terminal.
type escaped struct{ io.Writer }

// Write escapes what cannot be printed, and leaves ends of lines and tabs.
func (e escaped) Write(p []byte) (int, error) {
	var b strings.Builder
	for rest := string(p); rest != ""; {
		i := strings.IndexAny(rest, "\n\t")
		if i < 0 {
			b.WriteString(text.Escape(rest))
			break
		}
		b.WriteString(text.Escape(rest[:i]) + rest[i:i+1])
		rest = rest[i+1:]
	}
	if _, err := io.WriteString(e.Writer, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
