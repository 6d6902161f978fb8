//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/paddock-dev/paddock"
)

// measurements are what the program can do, in the order in which it does it.
var measurements = []struct {
	name string
	run  func(context.Context, *bench) error
}{
	{"cold", measureCold},
	{"compare", measureCompare},
	{"resident", measureResident},
	{"warm", measureWarm},
	{"syscalls", measureSyscalls},
	{"agent", measureAgent},
	{"output", measureOutput},
	{"timeout", measureTimeout},
	{"clients", measureClients},
	{"guest", measureGuest},
	{"soak", measureSoak},
	{"archive", measureArchive},
	{"pty", measurePTY},
	{"session", measureSession},
	{"privilege", measurePrivileges},
	{"decide", measureDecisions},
	{"redact", measureRedaction},
	{"search", measureSearch},
	{"docker", measureEngine},
	{"network", measureNetwork},
	{"ports", measurePorts},
	{"mcp", measureMCP},
	{"projects", measureProjects},
	{"lasting", measureLasting},
	{"overlay", measureOverlay},
	{"builds", measureBuilds},
}

// bench is what the measurements share.
type bench struct {
	short          bool
	paddock, agent string // programs
	dir            string // temporary files, readable by every user
	workspace      string // an empty directory
	state          string // Paddock's, apart from that of the user's sandboxes
	report         report
}

// rounds is how often to measure.
func (b *bench) rounds(normal, short int) int {
	if b.short {
		return short
	}
	return normal
}

// add prints a table at once, for whoever waits, and keeps it.
func (b *bench) add(t table, promises ...promise) {
	t.print(os.Stdout)
	b.report.Tables = append(b.report.Tables, t)
	b.report.Promises = append(b.report.Promises, promises...)
}

func main() {
	if err := closeInherited(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: error:", err)
		os.Exit(1)
	}
	if os.Getenv(serverEnv) != "" {
		if err := portServer(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: error:", err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(clientEnv); text != "" {
		if err := runErrand(text); err != nil {
			fmt.Fprintln(os.Stderr, "bench: error:", err)
			os.Exit(1)
		}
		return
	}
	short := flag.Bool("short", false, "fewer rounds, under a minute")
	only := flag.String("run", "", "measure only what matches `REGEXP`: cold, resident, warm, syscalls, agent, output, timeout, clients, guest, soak, archive, pty, session, privilege, decide, redact, search, docker, network, ports, mcp, projects, lasting, overlay, builds")
	jsonPath := flag.String("json", "", "write the numbers to `FILE` too")
	bin := flag.String("bin", "bin", "`DIR` of the programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *bin, *only, *jsonPath, *short)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, only, jsonPath string, short bool) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("cannot use -run: %w", err)
	}
	b, err := newBench(bin, short)
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.report.Facts = machine(b)
	printFacts(os.Stdout, b.report.Facts)
	for _, m := range measurements {
		if !wanted.MatchString(m.name) || ctx.Err() != nil {
			continue
		}
		if err := m.run(ctx, b); err != nil {
			b.report.Wrong = append(b.report.Wrong, m.name+": "+err.Error())
			fmt.Printf("\nWRONG RESULT: %s: %v\n", m.name, err)
		}
	}
	printPromises(os.Stdout, b.report.Promises)
	if jsonPath != "" {
		if err := writeJSON(jsonPath, b.report); err != nil {
			return err
		}
	}
	if len(b.report.Wrong) > 0 {
		return fmt.Errorf("cannot vouch for the numbers: %d of the measurements gave a wrong result, see above", len(b.report.Wrong))
	}
	return ctx.Err()
}

// newBench makes the directories. Sandboxes of root run under another id,
// which has to reach them. The programs are copied, so that a build in the
// meantime does not change what is measured.
func newBench(bin string, short bool) (*bench, error) {
	dir, err := os.MkdirTemp("", "paddock-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{
		short: short, dir: dir,
		paddock: filepath.Join(dir, "paddock"), agent: filepath.Join(dir, "paddock-agent"),
		workspace: filepath.Join(dir, "workspace"), state: filepath.Join(dir, "state"),
	}
	err = cmp.Or(os.Chmod(dir, 0o755), os.Mkdir(b.workspace, 0o755), os.Setenv(paddock.StateDirEnv, b.state),
		install(bin, b.paddock), install(bin, b.agent), install(bin, filepath.Join(dir, "paddock-egress")), install(bin, filepath.Join(dir, "paddock-keeper")), install(bin, b.paddock+"-server"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return b, nil
}

// install copies the program that has the name of path from bin.
func install(bin, path string) error {
	data, err := os.ReadFile(filepath.Join(bin, filepath.Base(path)))
	if err != nil {
		return fmt.Errorf("cannot read what to measure: %w; run make build", err)
	}
	return os.WriteFile(path, data, 0o755)
}

func writeJSON(path string, r report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the numbers: %w", err)
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
