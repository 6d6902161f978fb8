package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/network"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type PlanInput struct {
	op.SpecInput
}

// PlanOutput is the output of plan: the spec with all defaults, and how it would be enforced.
type PlanOutput struct {
	Spec policy.Spec   `json:"spec"`
	Plan *confine.Plan `json:"plan"`
	// Protected are the paths of the workspace that commands cannot change.
	Protected []string `json:"protected"`
	// Project is the project's file that the spec begins with, if it is trusted.
	Project string `json:"project,omitempty"`
}

func (PlanInput) Desc() op.Desc {
	return op.Desc{
		Name:    "plan",
		CLI:     []string{"plan"},
		Summary: "Print the steps that would build a sandbox, and change nothing",
		Doc: `Print what "paddock run" with the same flags would do: each step that builds the
sandbox, each step for every command, the isolation that then holds, and which paths
of the workspace stay protected. Nothing is started or changed. Use it to learn what
a sandbox would allow and refuse.`,
		Examples: `  paddock plan
  paddock plan --allow api.example.com --rw ~/.cache/go-build
  paddock plan --json --spec sandbox.yaml`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (in PlanInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (PlanOutput, error) {
	spec, err := in.Spec(ctx, env)
	if err != nil {
		return PlanOutput{}, err
	}
	p, spec, err := env.Plan(ctx, spec)
	if err != nil {
		return PlanOutput{}, err
	}
	if env.Ceiling != nil {
		p.LeftOut = nil // the caller must not learn where the operator's programs are
	}
	return PlanOutput{Spec: spec, Plan: p, Protected: Protected(spec), Project: env.ProjectFile()}, nil
}

// Protected returns the paths of the workspace that commands cannot change.
func Protected(s policy.Spec) []string {
	paths := []string{}
	w := s.Workspace
	if w.OnlyReads() || s.Level == policy.LevelLandlock {
		return paths // the host's files are out of reach, or cannot be protected
	}
	for _, o := range policy.Inventory() {
		name := o.Name()
		if o.Repositories {
			continue // a directory of repositories: the files in each of them are protected
		}
		if o.ReadOnly() && o.Under != policy.Home && !slices.Contains(w.Unprotected, "*") && !slices.Contains(w.Unprotected, name) {
			paths = append(paths, name)
		}
	}
	return paths
}

func (out PlanOutput) Render(w io.Writer) error {
	var b strings.Builder
	p := out.Plan
	fmt.Fprintf(&b, "workspace   %s (%s)\n", out.Spec.Workspace.Source, out.Spec.Workspace.Access)
	if out.Project != "" {
		fmt.Fprintf(&b, "as in       %s, which you trust\n", text.Escape(out.Project))
	}
	fmt.Fprintf(&b, "namespaces  %s\n", text.OrNone(joined(p.Namespaces)))
	for _, m := range p.UIDs {
		fmt.Fprintf(&b, "uid         %d inside is %d outside (%d)\n", m.Inside, m.Host, m.Count)
	}
	for _, m := range p.GIDs {
		fmt.Fprintf(&b, "gid         %d inside is %d outside (%d)\n", m.Inside, m.Host, m.Count)
	}
	if search := p.Env["PATH"]; search != "" {
		b.WriteString("PATH        " + search + "\n")
	}
	for _, left := range p.LeftOut {
		fmt.Fprintf(&b, "  without   %s: %s\n", text.OrNone(text.Escape(left.Dir)), left.Why)
	}
	if len(p.Command) > 0 {
		b.WriteString("\nthe wall\n")
		for _, word := range p.Command {
			if word == "" || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) {
				word = strconv.Quote(word)
			}
			b.WriteString("  " + word + "\n")
		}
	}
	writeNetwork(&b, out.Spec.Network)
	if a := out.Spec.SSHAgent; a != nil {
		b.WriteString("  it asks your SSH agent " + a.String() + "\n")
	}
	b.WriteString("\nonce, before any command\n")
	writeSteps(&b, p.Setup)
	b.WriteString("\nfor every command\n")
	writeSteps(&b, p.Spawn)
	if len(p.Redaction) > 0 {
		b.WriteString("\nreplaced in all that commands print\n")
		_ = output.Table(&b, func(row output.Row) { // a Builder cannot fail
			for _, r := range p.Redaction {
				row("  %s\t%s\t%s", r.Name, r.Strategy, cmp.Or(text.Escape(r.Pattern), r.Type))
			}
		})
	}
	b.WriteString("\nthen holds\n")
	writeHolds(&b, p.Holds)
	if len(out.Protected) > 0 {
		b.WriteString("\nread-only in the workspace, where they exist\n")
	}
	for _, path := range out.Protected {
		b.WriteString("  " + path + "\n")
	}
	if slices.Contains(out.Protected, ".git/config") {
		b.WriteString("  config and hooks of nested repositories, 64 at most, which cannot be removed then (--unprotect DIR/.git opens one, .git/modules those of submodules)\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeNetwork writes which hosts commands can reach, and who holds their connections.
func writeNetwork(b *strings.Builder, n policy.Network) {
	if len(n.Publish) > 0 {
		b.WriteString("\npublished on a loopback address of the sandbox's own, where no address is given, through the agent\n")
	}
	for _, port := range n.Publish {
		b.WriteString("  " + port + "\n")
	}
	if !policy.ByName(n.Mode) {
		return
	}
	b.WriteString("\nthe network, by name\n")
	network.WriteRules(b, n)
	if len(n.Allow)+len(n.HostPorts) == 0 {
		b.WriteString("  no host is open\n")
	}
	fmt.Fprintf(b, "  at most %d connections at once", n.Limits.Connections)
	if n.Limits.BytesOut > 0 {
		fmt.Fprintf(b, ", %s sent in all", n.Limits.BytesOut)
	}
	b.WriteString("\n  paddock-egress, a process outside of the sandbox, answers for these names and holds every\n" +
		"  socket: commands reach it alone, and it resolves, connects and copies\n")
}

// writeSteps writes a numbered, aligned line for each step, with its reason.
func writeSteps(b *strings.Builder, steps []confine.Step) {
	_ = output.Table(b, func(row output.Row) { // a Builder cannot fail
		for i, s := range steps {
			row("%3d  %s\t%s\t%s", i+1, s.Do, object(s), s.Why)
			for _, r := range s.Rules {
				row("     \t%s %s\t", r.Access, r.Path)
			}
		}
	})
}

// object returns a step's arguments, as one cell of the table.
func object(s confine.Step) string {
	var words []string
	switch {
	case s.Do == confine.OpSysctl:
		words = append(words, s.Target+" = "+s.Source)
	case s.Source == s.Target:
		words = append(words, s.Target)
	case s.Source != "" && s.Target != "":
		words = append(words, s.Source+" → "+s.Target)
	default:
		words = append(words, s.Source+s.Target) // one of the two
	}
	if s.FD != "" {
		words = append(words, "fd="+s.FD)
	}
	if s.Do == confine.OpOverlay && len(s.Names) > 0 {
		words = append(words, "without="+text.Escape(strings.Join(s.Names, ",")))
	}
	words = append(words, s.Flags...)
	if s.Mode != 0 {
		words = append(words, fmt.Sprintf("mode=%04o", s.Mode))
	}
	switch {
	case s.Do == confine.OpGateway:
		words = append(words, "sockets="+strconv.FormatInt(s.Size, 10))
	case s.Size != 0:
		words = append(words, "size="+policy.Size(s.Size).String())
	}
	if s.Do == confine.OpCaps {
		words = append(words, "keep="+text.OrNone(joined(s.Caps)))
	}
	if s.Optional {
		words = append(words, "optional")
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// writeHolds writes the isolation that holds.
func writeHolds(b *strings.Builder, h policy.Isolation) {
	_ = output.Table(b, func(add output.Row) { // a Builder cannot fail
		row := func(name, value string) { add("  %s\t%s", name, text.OrNone(value)) }
		row("level", h.Level)
		row("namespaces", joined(h.Namespaces))
		row("user", fmt.Sprintf("%d inside is %d outside", h.UIDInside, h.UIDHost))
		if len(h.KeptGroups) > 0 {
			row("kept groups", strings.Trim(fmt.Sprint(h.KeptGroups), "[]"))
		}
		row("file owners", h.Identity)
		if h.SSHAgent != nil {
			row("SSH agent", h.SSHAgent.String())
		}
		for _, at := range h.HostSockets {
			row("socket of the host", text.Escape(at))
		}
		for _, at := range h.CoveredSockets {
			row("covered socket", text.Escape(at))
		}
		if len(h.Caches) > 0 {
			row("caches that stay", joined(h.Caches))
		}
		if len(h.LayeredCaches) > 0 {
			row("caches, layered", joined(h.LayeredCaches)+": changes end with the sandbox")
		}
		if len(h.Downloads) > 0 {
			row("downloads of yours", joined(h.Downloads))
		}
		if h.Home != "" {
			row("HOME", string(h.Home))
		}
		row("network", op.NetworkNote(h))
		row("capabilities", h.Capabilities)
		row("no new privileges", strconv.FormatBool(h.NoNewPrivs))
		row("seccomp", h.Seccomp)
		row("landlock", h.Landlock)
		row("cgroup", h.Cgroup)
		row("nested user namespaces", "denied by "+text.OrNone(h.NestedUserns))
		row("proof of death", h.Death)
		for _, t := range h.Toolchains {
			row("toolchain "+text.Escape(t.Name), text.Escape(strings.Join(t.Dirs, " ")))
		}
		for _, name := range slices.Sorted(maps.Keys(h.Limits)) {
			row("limit "+name, h.Limits[name])
		}
		for _, name := range h.Degraded {
			row("degraded", name)
		}
	})
	if len(h.Lost) > 0 {
		b.WriteString("\nnot kept\n")
	}
	for _, loss := range h.Lost {
		b.WriteString("  " + loss + "\n")
	}
}

func joined[S ~string](list []S) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = string(s)
	}
	return strings.Join(words, " ")
}
