package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// childEnv makes the test's program filter itself and try calls.
const childEnv = "PADDOCK_CONFINE_TRIALS"

// childOrder is what childEnv holds.
type childOrder struct {
	Filtered bool
	Options  FilterOptions
	Dir      string // to work in
	Only     string // one of only's, instead of the trials
}

// only are things that may end the process that tries them.
var only = map[string]func() error{}

func TestMain(m *testing.M) {
	if order := os.Getenv(childEnv); order != "" {
		os.Exit(child(order))
	}
	if how := os.Getenv(capsetEnv); how != "" {
		if err := capsetChild(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(gatewayEnv) != "" {
		if err := gatewayChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child filters the process and prints the errno of everything it tries.
func child(text string) int {
	var order childOrder
	if json.Unmarshal([]byte(text), &order) != nil {
		return 2
	}
	runtime.LockOSThread()
	if order.Filtered {
		if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
			return 3
		}
		if err := loadFilter(filter(FilterCommands, order.Options), true); err != nil {
			return 4
		}
	}
	got := map[string]int{}
	if order.Only != "" {
		got[order.Only] = errnoOf(only[order.Only]())
	} else {
		for _, tr := range trials() {
			if order.Filtered || !tr.blind {
				got[tr.name] = errnoOf(tr.do(order.Dir))
			}
		}
	}
	if json.NewEncoder(os.Stdout).Encode(got) != nil {
		return 5
	}
	return 0
}

func errnoOf(err error) int {
	var errno unix.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return int(errno)
	}
	return -1
}

// tryAll makes a child try everything, as a user, and returns the answers.
func tryAll(t *testing.T, uid uint32, order childOrder) map[string]int {
	t.Helper()
	got, err := try(t, uid, order)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func try(t *testing.T, uid uint32, order childOrder) (got map[string]int, err error) {
	t.Helper()
	order.Dir = t.TempDir()
	// Only its maker can enter the directory around it.
	err = os.Chmod(filepath.Dir(order.Dir), 0o711)
	if os.Getuid() == 0 {
		err = errors.Join(err, os.Chown(order.Dir, int(uid), int(uid)))
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	// Another user may not reach the directory that the program is in. A
	// session of its own keeps vhangup from the terminal.
	cmd := exec.Command("/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uid != uint32(os.Getuid()) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	// The race detector would sleep for a second at the end.
	cmd.Env = append(os.Environ(), childEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	return got, err
}

// users are whom this process can be: root is tried as an ordinary user too.
func users() []uint32 {
	if os.Getuid() == 0 {
		return []uint32{0, 65534}
	}
	return []uint32{uint32(os.Getuid())}
}

// TestKernelVerdicts asks the real kernel, in processes behind the filters.
// Calls that are denied must not be denied without the filter, as far as that can
// be observed:
// calls that the user or the kernel cannot make anyway prove nothing.
func TestKernelVerdicts(t *testing.T) {
	for _, uid := range users() {
		bare := tryAll(t, uid, childOrder{})
		told := 0
		for i, o := range kernelOptions {
			t.Run(strconv.Itoa(int(uid))+"/"+kernelNames[i], func(t *testing.T) {
				got := tryAll(t, uid, childOrder{Filtered: true, Options: o})
				for _, tr := range trials() {
					want := tr.want[i]
					if want == asEver {
						want = unix.Errno(bare[tr.name])
					}
					if unix.Errno(got[tr.name]) != want {
						t.Errorf("%s: errno %d (%v), want %v", tr.name, got[tr.name], unix.Errno(got[tr.name]), want)
					}
					if want == 0 || tr.want[i] == asEver || tr.blind {
						continue
					}
					if unix.Errno(bare[tr.name]) != want {
						told++
					} else if !tr.absent && !tr.privileged(uid) && !filteredAlready() {
						t.Errorf("%s: it is %v without the filter too, so this proves nothing", tr.name, want)
					}
				}
			})
		}
		t.Logf("user %d: %d denials that are none without the filter", uid, told)
	}
}

// privileged says that the kernel itself refuses the call to a user.
func (tr trial) privileged(uid uint32) bool {
	if !tr.root {
		return false
	}
	return uid != 0 || lacksCapabilities()
}

// filteredAlready reports whether the tests run behind another filter, as in a
// container.
func filteredAlready() bool { return !strings.Contains(ownStatus(), "Seccomp:\t0\n") }

// lacksCapabilities reports whether root lacks capabilities. CAP_SYS_RESOURCE
// does not matter: no call here needs it.
func lacksCapabilities() bool {
	for line := range strings.Lines(ownStatus()) {
		if hex, ok := strings.CutPrefix(line, "CapEff:\t"); ok {
			have, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			const most = 1<<(unix.CAP_AUDIT_READ+1) - 1
			return err != nil || (have|1<<unix.CAP_SYS_RESOURCE)&most != most
		}
	}
	return true
}

func ownStatus() string {
	text, _ := os.ReadFile("/proc/self/status")
	return string(text)
}

// Answers are known by the names of trials.
func TestTrialsAreNamed(t *testing.T) {
	var names []string
	for _, tr := range trials() {
		names = append(names, tr.name)
	}
	slices.Sort(names)
	if n := len(names); n != len(slices.Compact(names)) {
		t.Error("two trials have one name")
	}
}
