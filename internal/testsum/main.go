// Command testsum runs "go test -json" and tells what happened, for people:
//
//	go run ./internal/testsum [-race auto|on|off] [-again] [-skips FILE] [-- go test arguments]
//	go run ./internal/testsum -events [-skips FILE] -- COMMAND…
//
// It prints one line for each package as it ends, every failure in full (a
// failed build, a panic and a timeout included), and at the end what ran, as
// whom, with or without the race detector, what was skipped and why, and what
// packages reported: the lines that a TestMain printed from "--- report: TITLE"
// to "--- end of report". The last line is "N passed, N failed, N skipped" and nothing else.
//
// With -again a test that failed is run alone again, up to twice. One that
// passes then is listed as flaky, and counts as passed.
//
// With -events it runs a command that prints events as "go test -json" does.
//
// The exit status is 1 where a test or a package failed, where no test ran,
// and where a test was skipped that the list of allowed skips does not name;
// it is 2 where testsum itself was used wrongly.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
}

// config is what one run is made from.
type config struct {
	dir   string    // where go test runs; empty: the current directory
	race  string    // "auto", "on" or "off"
	skips skipList  // the skips that are allowed
	args  []string  // arguments of go test, or the command
	other bool      // it is a command
	again bool      // what failed is run alone again
	uid   int       // of the user who runs the tests
	out   io.Writer // everything that is told
	err   io.Writer // the standard error of go test
}

// Main is the whole program: it returns the exit status.
func Main(args []string, out, errOut io.Writer) int {
	c := config{uid: os.Getuid(), out: out, err: errOut}
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&c.race, "race", "auto", "use the race detector: auto (where it works), on, off")
	flags.BoolVar(&c.other, "events", false, "run a command that prints events, not go test")
	flags.BoolVar(&c.again, "again", false, "run each failed test alone again, up to twice; one that passes then is told as flaky and is no failure")
	list := flags.String("skips", "", "the `file` that lists the skips that are allowed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := c.load(*list); err != nil {
		fmt.Fprintf(errOut, "testsum: %v\n", err)
		return 2
	}
	c.args = flags.Args()
	if c.other && len(c.args) == 0 {
		fmt.Fprintln(errOut, "testsum: cannot use -events without a command")
		return 2
	}
	return c.run()
}

// load checks the flags and reads the list of skips.
func (c *config) load(list string) error {
	switch c.race {
	case "auto", "on", "off":
	default:
		return fmt.Errorf("cannot use -race %q: it is auto, on or off", c.race)
	}
	if list == "" {
		return nil
	}
	data, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("cannot read the list of skips: %w", err)
	}
	c.skips, err = parseSkips(string(data))
	if err != nil {
		return fmt.Errorf("cannot read the list of skips %s: %w", list, err)
	}
	return nil
}

// run runs the tests and returns the exit status.
func (c *config) run() int {
	if c.other {
		c.race = "off"
	}
	race := c.detectRace()
	s := newSummary(c.out)
	if err := c.goTest(race, s); err != nil {
		s.endedBadly(err)
	}
	if c.again && !c.other {
		s.runAgain(c, race)
	}
	if s.finish(c, race) {
		return 0
	}
	return 1
}

// goTest runs go test and feeds its events to s. Its error says how go test
// ended where that was not well.
func (c *config) goTest(race raceMode, s *summary) error {
	cmd := c.command(race)
	cmd.Dir, cmd.Stderr = c.dir, c.err
	cmd.Env = append(os.Environ(), raceEnv())
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", c.name(), err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run %s: %w", c.name(), err)
	}
	readErr := readEvents(pipe, s)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s ended with %w", c.name(), errors.Join(err, readErr))
	}
	return readErr
}

// raceEnv lets the many programs that tests start end at once, where each would
// wait a second for races of other threads.
func raceEnv() string { return "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE") }

// name is what errors call what prints the events.
func (c *config) name() string {
	if c.other {
		return c.args[0]
	}
	return "go test"
}

// command is what prints the events.
func (c *config) command(race raceMode) *exec.Cmd {
	if c.other {
		return exec.Command(c.args[0], c.args[1:]...)
	}
	args := []string{"test", "-json"}
	if race.on {
		args = append(args, "-race")
	}
	return exec.Command("go", append(args, c.args...)...)
}
