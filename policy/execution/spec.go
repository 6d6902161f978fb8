package execution

import (
	"math"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

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

// Spec implements [Policy]. The memory of each process is what its limit is about,
// so that a host without control groups keeps it too.
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
		s.Network = "host"
	}
	return s
}

// Spec implements [Policy].
func (p *WrapperExecutionPolicy) Spec() policy.Spec {
	return policy.Spec{Backend: policy.BackendWrapper, Wrapper: &policy.Wrapper{
		Command: p.Command, Agent: p.Agent, Quote: p.Quote, Workspace: p.Workspace,
	}}
}

func limits(cpuTime, memory *int64, cpus *string) policy.Limits {
	var l policy.Limits
	if cpuTime != nil {
		l.CPUTime = policy.Duration(min(*cpuTime, mostCPUTime)) * policy.Duration(time.Second)
	}
	if memory != nil {
		l.Memory = policy.Size(*memory)
	}
	if cpus != nil {
		l.CPUs, _ = policy.ParseCPUs(*cpus) // Check refuses what is no number
	}
	return l
}
