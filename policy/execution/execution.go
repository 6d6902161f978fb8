// Package execution holds execution policies as data: the settings by which an agent's
// shell is started and constrained, with the names, units, defaults and error texts that
// their users know.
//
//	{"type": "docker", "image": "debian", "memory_bytes": 268435456, "max_output_lines": 200}
//
// A policy becomes two things: [Policy.Spec] is the sandbox, and [Policy.Session] the
// settings of the persistent shell in it. Nothing is enforced here. policy/specfile reads
// policies from YAML and JSON.
//
// A contract fixes the types "host", "codex" and "docker"; "linux" and "wrapper" are
// Paddock's own.
package execution

import (
	"math"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// The defaults of [Base].
const (
	DefaultCommandTimeout     = 30.0 // seconds
	DefaultStartupTimeout     = 30.0
	DefaultTerminationTimeout = 10.0
	DefaultMaxOutputLines     = 100
)

// The types of policies.
const (
	TypeHost    = "host"
	TypeCodex   = "codex"
	TypeDocker  = "docker"
	TypeLinux   = "linux"
	TypeWrapper = "wrapper"
)

// Types returns the names of the types.
func Types() []string { return []string{TypeHost, TypeCodex, TypeDocker, TypeLinux, TypeWrapper} }

// Policy is one of the policies of this package.
type Policy interface {
	// Check returns one [*Error] for each invalid field, joined in the order of the fields,
	// or nil.
	Check() error
	// Spec returns the sandbox that the policy asks for, without a workspace, which the
	// caller sets. Call it only for policies that pass Check.
	Spec() policy.Spec
	// Session returns the settings of the shell.
	Session() Session
}

// New returns a policy of a type with its defaults, or nil for an unknown type.
// It is a pointer, so that it can be decoded into.
func New(name string) Policy {
	base := Base{DefaultCommandTimeout, DefaultStartupTimeout, DefaultTerminationTimeout, DefaultMaxOutputLines, nil}
	switch name {
	case TypeHost:
		return &HostExecutionPolicy{Base: base, CreateProcessGroup: true}
	case TypeCodex:
		return &CodexSandboxExecutionPolicy{Base: base, Binary: policy.BackendCodex, Platform: "auto"}
	case TypeDocker:
		return &DockerExecutionPolicy{Base: base, Binary: policy.BackendDocker, Image: policy.DefaultImage, RemoveContainerOnExit: true}
	case TypeLinux:
		return &LinuxExecutionPolicy{Base: base}
	case TypeWrapper:
		return &WrapperExecutionPolicy{Base: base}
	}
	return nil
}

// Base holds the fields of all policies. Times are in seconds.
type Base struct {
	// CommandTimeout ends a command, with all it started. Default: 30.
	CommandTimeout float64 `json:"command_timeout"`
	// StartupTimeout bounds the start of the shell and each startup command.
	// Default: 30.
	StartupTimeout float64 `json:"startup_timeout"`
	// TerminationTimeout is how long the shell may take to end by itself. Default: 10.
	TerminationTimeout float64 `json:"termination_timeout"`
	// MaxOutputLines bounds the stored lines of a command's output. Default: 100.
	MaxOutputLines int64 `json:"max_output_lines"`
	// MaxOutputBytes bounds their bytes. nil: only the sandbox's own bound does.
	MaxOutputBytes *int64 `json:"max_output_bytes" null:"ok"`
}

// Session holds the settings of a persistent shell.
type Session struct {
	CommandTimeout     policy.Duration
	StartupTimeout     policy.Duration
	TerminationTimeout policy.Duration
	MaxOutputLines     int64
	MaxOutputBytes     policy.Size // 0: none
}

// HostExecutionPolicy runs the shell on the host itself, behind no wall.
type HostExecutionPolicy struct {
	Base
	// CPUTimeSeconds bounds the processor time of each process. nil: nothing does.
	CPUTimeSeconds *int64 `json:"cpu_time_seconds" null:"ok"`
	// MemoryBytes bounds the memory of each process. nil: nothing does.
	MemoryBytes *int64 `json:"memory_bytes" null:"ok"`
	// CreateProcessGroup must be true, the default: each command has a session of its
	// own, because a kill would otherwise reach the program that started it.
	CreateProcessGroup bool `json:"create_process_group"`
}

// CodexSandboxExecutionPolicy runs the shell in the sandbox of the codex
// command line.
type CodexSandboxExecutionPolicy struct {
	Base
	// Binary is its name or path. Default: "codex".
	Binary string `json:"binary"`
	// Platform is "auto" (default), "linux" or "macos".
	Platform string `json:"platform"`
	// ConfigOverrides are settings by dotted key.
	ConfigOverrides map[string]any `json:"config_overrides" null:"ok"`
}

// DockerExecutionPolicy runs the shell in a container.
type DockerExecutionPolicy struct {
	Base
	// Binary is the engine's program. Default: "docker".
	Binary string `json:"binary"`
	// Image is what the container is made from. Default: [policy.DefaultImage].
	Image string `json:"image"`
	// RemoveContainerOnExit removes the container at the end. Default: true.
	RemoveContainerOnExit bool `json:"remove_container_on_exit"`
	// NetworkEnabled gives the container the engine's network. Default: false.
	NetworkEnabled bool `json:"network_enabled"`
	// ExtraRunArgs are passed to the engine before the image. They can undo every wall.
	ExtraRunArgs []string `json:"extra_run_args" null:"ok"`
	// MemoryBytes bounds the memory of the container. nil: nothing does.
	MemoryBytes *int64 `json:"memory_bytes" null:"ok"`
	// CPUTimeSeconds is refused: CPUs takes its place.
	CPUTimeSeconds *int64 `json:"cpu_time_seconds" null:"ok"`
	// CPUs is a number of processors, "1.5". nil: all of them.
	CPUs *string `json:"cpus" null:"ok" zero:"ok"`
	// ReadOnlyRootFS makes all but the workspace and /tmp read-only. Default: false.
	ReadOnlyRootFS bool `json:"read_only_rootfs"`
	// User is who commands run as. nil: the workspace's owner.
	User *string `json:"user" null:"ok" zero:"ok"`
}

// LinuxExecutionPolicy runs the shell behind the walls of the kernel.
type LinuxExecutionPolicy struct {
	Base
	// CPUTimeSeconds bounds the processor time of each process. nil: nothing does.
	CPUTimeSeconds *int64 `json:"cpu_time_seconds" null:"ok"`
	// MemoryBytes bounds the memory of all commands together. nil: nothing does.
	MemoryBytes *int64 `json:"memory_bytes" null:"ok"`
	// CPUs is a number of processors, "1.5". nil: all of them.
	CPUs *string `json:"cpus" null:"ok" zero:"ok"`
	// NetworkEnabled gives commands the host's network. Default: false.
	NetworkEnabled bool `json:"network_enabled"`
}

// WrapperExecutionPolicy runs the shell behind a command that runs the command
// which follows it. Its fields are those of [policy.Wrapper].
type WrapperExecutionPolicy struct {
	Base
	Command   []string `json:"command"`
	Agent     string   `json:"agent"`
	Quote     string   `json:"quote"`
	Workspace string   `json:"workspace"`
}

// Session implements [Policy].
func (b Base) Session() Session {
	s := Session{
		CommandTimeout:     seconds(b.CommandTimeout),
		StartupTimeout:     seconds(b.StartupTimeout),
		TerminationTimeout: seconds(b.TerminationTimeout),
		MaxOutputLines:     b.MaxOutputLines,
	}
	if b.MaxOutputBytes != nil {
		s.MaxOutputBytes = policy.Size(*b.MaxOutputBytes)
	}
	return s
}

func seconds(s float64) policy.Duration {
	return policy.Duration(math.Round(s * float64(time.Second)))
}

// Spec implements [Policy]. Its limit of memory is for each process, so that a host without
// control groups keeps it too.
func (p *HostExecutionPolicy) Spec() policy.Spec {
	s := policy.Spec{Backend: policy.BackendHost, Limits: limits(p.CPUTimeSeconds, p.MemoryBytes, nil)}
	if p.MemoryBytes != nil {
		s.AllowDegraded = []string{policy.DegradeMemory}
	}
	return s
}

// Spec implements [Policy].
func (p *CodexSandboxExecutionPolicy) Spec() policy.Spec {
	return policy.Spec{Backend: policy.BackendCodex, Codex: &policy.Codex{
		Binary: p.Binary, Platform: p.Platform, ConfigOverrides: p.ConfigOverrides,
	}}
}

// Spec implements [Policy].
func (p *DockerExecutionPolicy) Spec() policy.Spec {
	remove := p.RemoveContainerOnExit
	d := &policy.Docker{
		Binary: p.Binary, Image: p.Image, NetworkEnabled: p.NetworkEnabled, ReadOnlyRootFS: p.ReadOnlyRootFS,
		RemoveContainerOnExit: &remove, ExtraRunArgs: p.ExtraRunArgs,
	}
	if p.User != nil {
		d.User = *p.User
	}
	return policy.Spec{Backend: policy.BackendDocker, Limits: limits(nil, p.MemoryBytes, p.CPUs), Docker: d}
}

// Spec implements [Policy].
func (p *LinuxExecutionPolicy) Spec() policy.Spec {
	s := policy.Spec{Backend: policy.BackendLinux, Limits: limits(p.CPUTimeSeconds, p.MemoryBytes, p.CPUs)}
	if p.NetworkEnabled {
		s.Network.Mode = policy.NetworkHost
	}
	return s
}

// Spec implements [Policy].
func (p *WrapperExecutionPolicy) Spec() policy.Spec {
	return policy.Spec{Backend: policy.BackendWrapper, Wrapper: &policy.Wrapper{
		Command: p.Command, Agent: p.Agent, Quote: p.Quote, Workspace: p.Workspace,
	}}
}

// limits returns limits from settings that may be left out.
func limits(cpuTime, memory *int64, cpus *string) policy.Limits {
	var l policy.Limits
	if cpuTime != nil {
		l.CPUTime = policy.Duration(min(*cpuTime, mostCPUTime)) * policy.Duration(time.Second)
	}
	if memory != nil {
		l.Memory = policy.Size(*memory)
	}
	if cpus != nil {
		l.CPUs, _ = policy.ParseCPUs(*cpus) // Check refuses an invalid one
	}
	return l
}
