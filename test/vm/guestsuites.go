package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// note is one line of what the machine tells of its suites.
type note struct {
	Suite  string `json:",omitempty"`
	Output string `json:",omitempty"`
	Ended  bool   `json:",omitempty"` // the suite has
	Failed bool   `json:",omitempty"` // it has ended badly
	Fact   string `json:",omitempty"` // of the machine
}

// order is what the host wants of the machine.
type order struct {
	Suites []string      // packages
	Run    string        `json:",omitempty"` // as for -test.run
	Limit  time.Duration // for all of them
	Later  bool          `json:",omitempty"` // there is an older kernel, which runs them too
}

// suitesPort is the virtio-serial port on which an order comes in and notes
// go out.
const suitesPort = "suites"

// serveSuites runs the suites that are ordered and tells what comes of it.
func serveSuites() error {
	if err := mountAll(); err != nil {
		return err
	}
	path, err := portDevice(suitesPort)
	if err != nil {
		return err
	}
	port, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer port.Close()
	var o order
	if err := json.NewDecoder(port).Decode(&o); err != nil {
		return err
	}
	t := &teller{to: json.NewEncoder(port)}
	for _, fact := range facts() {
		t.tell(note{Fact: fact})
	}
	end := time.Now().Add(o.Limit)
	for _, s := range allSuites() {
		if slices.Contains(o.Suites, s.pkg) {
			s.run(t, o, time.Until(end))
		}
	}
	return nil
}

// portDevice finds a port by the name that the host gave it.
func portDevice(name string) (string, error) {
	files, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == name {
			return "/dev/" + filepath.Base(filepath.Dir(file)), nil
		}
	}
	return "", fmt.Errorf("the machine has no port %s", name)
}

// teller writes notes.
type teller struct {
	mu sync.Mutex
	to *json.Encoder
}

func (t *teller) tell(n note) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.to.Encode(n) // the host notices what is missing
}

// run runs the suite where its sources are.
func (s suite) run(t *teller, o order, limit time.Duration) {
	args := []string{"-test.v=test2json", "-test.timeout=" + max(limit, time.Second).String(), "-test.paniconexit0"}
	if run := cmp.Or(o.Run, s.only); run != "" {
		args = append(args, "-test.run="+run)
	}
	if skip := s.skipped(o.Later); skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	cmd := exec.Command("/suites/"+s.file(), args...)
	cmd.Dir = "/src/" + s.pkg
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/root", "TMPDIR=/tmp", "LANG=C.UTF-8", "TERM=dumb", "USER=root", "PADDOCK_DISPOSABLE_MACHINE=1"}
	cmd.Stdout = outputOf{t, s}
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	if err != nil {
		t.tell(note{Suite: s.pkg, Output: err.Error() + "\n"})
	}
	t.tell(note{Suite: s.pkg, Ended: true, Failed: err != nil})
}

// skipped are the tests that are left out, as for -test.skip. A suite that was
// asked for by its name runs on later kernels, too.
func (s suite) skipped(later bool) string {
	if !later || s.later == "" || s.later == everything {
		return s.skip
	}
	return strings.Trim(s.skip+"|"+s.later, "|")
}

type outputOf struct {
	t *teller
	s suite
}

// Write tells what the suite prints.
func (o outputOf) Write(b []byte) (int, error) {
	o.t.tell(note{Suite: o.s.pkg, Output: string(b)})
	return len(b), nil
}

// facts are what this kernel has, for the table at the end.
func facts() []string {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	landlock := fmt.Sprintf("Landlock ABI %d", abi)
	if errno != 0 {
		landlock = "no Landlock: " + errno.Error()
	}
	controllers, _ := os.ReadFile(cgroupRoot + "/cgroup.subtree_control")
	return []string{landlock, "controllers: " + strings.TrimSpace(string(controllers))}
}
