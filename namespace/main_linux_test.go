package namespace

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// asNobody has the test's own program run one Unshare as an ordinary user.
const asNobody = "PADDOCK_NAMESPACE_TEST_AS_NOBODY"

func TestMain(m *testing.M) {
	Helper()
	if text := os.Getenv(asNobody); text != "" {
		os.Exit(beNobody(text))
	}
	os.Exit(m.Run())
}

// attempt is what an ordinary user tries.
type attempt struct {
	Flags []string
	Enter int // the process whose namespaces it enters
	Argv  []string
}

func beNobody(text string) int {
	var a attempt
	err := json.Unmarshal([]byte(text), &a)
	var setup Setup
	if err == nil && a.Enter != 0 {
		setup, err = ParseEnter(a.Enter, a.Flags)
	} else if err == nil {
		setup, err = ParseUnshare(a.Flags)
	}
	if err == nil {
		var r *Result
		r, err = Run(ctxOf(), setup, &Command{Argv: a.Argv, Env: environment, Stdout: os.Stdout, Stderr: os.Stderr})
		if err == nil {
			fmt.Printf("status %d proved %v\n", r.Code, r.DeathProved)
			return 0
		}
	}
	fmt.Println(err)
	fmt.Println(hintIn(err))
	return 0
}

// tryAsNobody gives what an ordinary user gets to see.
func tryAsNobody(t *testing.T, a attempt) string {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{asNobody + "=" + string(text)}
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	return string(out)
}
