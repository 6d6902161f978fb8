package execution

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// The bounds of numbers; those of policy.Limits.
const (
	leastTimeout = 0.001
	mostTimeout  = 7 * 24 * 3600
	mostLines    = 1 << 31
	mostBytes    = 1 << 30
	mostCPUTime  = 365 * 24 * 3600
	leastMemory  = 4 << 20
)

// Error is a field of a policy that is invalid.
type Error struct {
	// Field is its name, "max_output_lines".
	Field string
	// Message is the whole text, a sentence. The contract fixes some of them.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// checker collects errors.
type checker []error

func (c *checker) refuse(field, format string, args ...any) {
	*c = append(*c, &Error{Field: field, Message: fmt.Sprintf(format, args...)})
}

// base checks the fields that all policies have.
func (c *checker) base(b Base) {
	c.seconds("command_timeout", b.CommandTimeout)
	c.seconds("startup_timeout", b.StartupTimeout)
	c.seconds("termination_timeout", b.TerminationTimeout)
	switch {
	case b.MaxOutputLines <= 0:
		c.refuse("max_output_lines", "max_output_lines must be positive.")
	case b.MaxOutputLines > mostLines:
		c.refuse("max_output_lines", "max_output_lines must be at most %d.", int64(mostLines))
	}
	c.whole("max_output_bytes", b.MaxOutputBytes, 1, mostBytes)
}

// seconds checks a timeout.
func (c *checker) seconds(field string, s float64) {
	switch {
	case math.IsNaN(s):
		c.refuse(field, "%s must be a number of seconds.", field)
	case s <= 0:
		c.refuse(field, "%s must be positive.", field)
	case s < leastTimeout:
		c.refuse(field, "%s must be at least a millisecond.", field)
	case s > mostTimeout:
		c.refuse(field, "%s must be at most %d seconds.", field, mostTimeout)
	}
}

// whole checks a number that may be left out.
func (c *checker) whole(field string, n *int64, least, most int64) {
	switch {
	case n == nil:
	case *n <= 0:
		c.refuse(field, "%s must be positive if provided.", field)
	case *n < least:
		c.refuse(field, "%s must be at least %d.", field, least)
	case *n > most:
		c.refuse(field, "%s must be at most %d.", field, most)
	}
}

// filled refuses an empty text.
func (c *checker) filled(field, value string) {
	if value == "" {
		c.refuse(field, "%s must be a non-empty string.", field)
	}
}

// cpus checks a number of processors that may be left out.
func (c *checker) cpus(cpus *string) {
	if cpus == nil {
		return
	}
	if strings.TrimSpace(*cpus) == "" {
		c.refuse("cpus", "cpus must be a non-empty string when provided.")
		return
	}
	n, err := policy.ParseCPUs(*cpus)
	if err != nil || n < 10 { // thousandths; the least that a kernel takes
		c.refuse("cpus", "cpus must be a number of processors of at least 0.01, such as \"1.5\", not %s.", strconv.QuoteToASCII(text.Prefix(*cpus, 40)))
	}
}

// fields adds the errors of the spec's own checks, under the policy's names of the fields.
func (c *checker) fields(spec policy.Spec, names map[string]string) {
	_, err := spec.Resolve(policy.Base{Dir: "/workspace"})
	for _, e := range policy.FieldErrors(err) {
		for field, name := range names {
			if rest, ok := strings.CutPrefix(e.Field, field); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				c.refuse(name+rest, "%s cannot be used: %s.", name+rest, e.Reason)
			}
		}
	}
}

// Check implements [Policy].
func (p *HostExecutionPolicy) Check() error {
	var c checker
	c.base(p.Base)
	c.whole("cpu_time_seconds", p.CPUTimeSeconds, 1, mostCPUTime)
	c.whole("memory_bytes", p.MemoryBytes, leastMemory, math.MaxInt64)
	if !p.CreateProcessGroup {
		c.refuse("create_process_group", "create_process_group must be true: every command has a session of its own.")
	}
	return errors.Join(c...)
}

// Check implements [Policy].
func (p *CodexSandboxExecutionPolicy) Check() error {
	var c checker
	c.base(p.Base)
	c.filled("binary", p.Binary)
	c.fields(p.Spec(), map[string]string{"codex.binary": "binary", "codex.platform": "platform", "codex.config_overrides": "config_overrides"})
	return errors.Join(c...)
}

// Check implements [Policy].
func (p *DockerExecutionPolicy) Check() error {
	var c checker
	c.base(p.Base)
	c.whole("memory_bytes", p.MemoryBytes, leastMemory, math.MaxInt64)
	if p.CPUTimeSeconds != nil {
		c.refuse("cpu_time_seconds", "DockerExecutionPolicy does not support cpu_time_seconds; configure CPU limits using Docker run options such as '--cpus'.")
	}
	c.cpus(p.CPUs)
	names := map[string]string{"docker.binary": "binary", "docker.image": "image", "docker.user": "user", "docker.extra_run_args": "extra_run_args"}
	if p.User != nil && strings.TrimSpace(*p.User) == "" {
		c.refuse("user", "user must be a non-empty string when provided.")
		delete(names, "docker.user") // the spec's check would refuse it in other words
	}
	c.filled("binary", p.Binary)
	c.filled("image", p.Image)
	c.fields(p.Spec(), names)
	return errors.Join(c...)
}

// Check implements [Policy].
func (p *LinuxExecutionPolicy) Check() error {
	var c checker
	c.base(p.Base)
	c.whole("cpu_time_seconds", p.CPUTimeSeconds, 1, mostCPUTime)
	c.whole("memory_bytes", p.MemoryBytes, leastMemory, math.MaxInt64)
	c.cpus(p.CPUs)
	return errors.Join(c...)
}

// Check implements [Policy].
func (p *WrapperExecutionPolicy) Check() error {
	var c checker
	c.base(p.Base)
	c.fields(p.Spec(), map[string]string{
		"wrapper.command": "command", "wrapper.agent": "agent", "wrapper.quote": "quote", "wrapper.workspace": "workspace",
	})
	return errors.Join(c...)
}
