package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// keptForUser are the variables that a program which becomes another user keeps.
var keptForUser = []string{"LANG", "LC_ALL", "TZ", "COLUMNS"}

// What another user's program may take: it could be another one, that never ends.
const (
	ofTime = 2 * time.Minute
	ofSaid = 64 << 20 // bytes of each stream
)

// asUser runs this program again, with these arguments, as another user, so that nothing of that user's
// state is read as root. That user could take the program over: so it has no terminal, none of root's
// open files, keys and variables, and what it prints is escaped.
func (a *App) asUser(name string, args []string, asJSON bool) error {
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
	ctx, cancel := context.WithTimeoutCause(context.Background(), ofTime, fmt.Errorf("no answer within %v", ofTime))
	defer cancel()
	again := exec.CommandContext(ctx, "/proc/self/exe", args...)
	again.Dir, again.Env, again.WaitDelay = "/", environmentOf(who, cred.Uid), time.Second
	said, warned := &escaped{to: os.Stdout, json: asJSON}, &escaped{to: os.Stderr}
	again.Stdout, again.Stderr = said, warned
	again.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setsid: true, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // keyrings belong to it, and the program dies with it
	defer runtime.UnlockOSThread()
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) { // then there are no keys
		return &paddock.Error{Message: "cannot leave the session's keyring behind: " + err.Error()}
	}
	keepOpenFiles()
	err = errors.Join(again.Run(), said.Close(), warned.Close())
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
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
type escaped struct {
	to   io.Writer
	json bool   // what cannot be printed stays what it is, as JSON writes it
	said int    // bytes
	half []byte // the beginning of a character, of which the rest is still to come
}

// Write escapes what cannot be printed, and leaves ends of lines and tabs.
func (e *escaped) Write(p []byte) (int, error) {
	if e.said += len(p); e.said > ofSaid {
		return 0, errors.New("its answer is too long")
	}
	data := slices.Concat(e.half, p)
	whole := len(data)
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if last := data[len(data)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole -= i
			}
			break
		}
	}
	e.half = slices.Clone(data[whole:])
	return len(p), e.print(string(data[:whole]))
}

// Close writes what is left of a character that did not come as a whole.
func (e *escaped) Close() error { return e.print(string(e.half)) }

func (e *escaped) print(said string) error {
	var b strings.Builder
	for rest := said; rest != ""; {
		_, n := utf8.DecodeRuneInString(rest)
		one := rest[:n]
		rest = rest[n:]
		switch printed := text.Escape(one); {
		case one == "\n" || one == "\t" || printed == one:
			b.WriteString(one)
		case e.json:
			for _, unit := range utf16.Encode([]rune(one)) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		default:
			b.WriteString(printed)
		}
	}
	_, err := io.WriteString(e.to, b.String())
	return err
}
