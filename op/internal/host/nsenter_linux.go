package host

import (
	"context"
	"slices"
	"strconv"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/namespace"
	"github.com/paddock-dev/paddock/op"
)

type NsenterInput struct {
	Target looseInt `json:"target_pid" flag:"target" short:"t" arg:"PID" help:"the process whose namespaces are entered"`
	NsenterSwitches
	Flags   looseList `json:"nsenter_flags" flag:"flag" arg:"FLAG" help:"one more flag of the list, by name, short or long"`
	Timeout looseInt  `json:"timeout" flag:"timeout" arg:"SECONDS" help:"end the command after this many seconds (default 120, at most 600)"`
	Command looseList `json:"command" arg:"CMD [ARG]..." help:"the command and its arguments"`
}

// NsenterSwitches are flags of nsenter for people; programs have nsenter_flags.
type NsenterSwitches struct {
	All           bool            `json:"all" flag:"all" short:"a" help:"all its namespaces, where they are others than one's own"`
	Mount         bareOr          `json:"mount" flag:"mount" short:"m" arg:"FILE" bare:"true" complete:"file" help:"its mount namespace; with FILE here and below that which is mounted there"`
	UTS           bareOr          `json:"uts" flag:"uts" short:"u" arg:"FILE" bare:"true" complete:"file" help:"its UTS namespace (host name)"`
	IPC           bareOr          `json:"ipc" flag:"ipc" short:"i" arg:"FILE" bare:"true" complete:"file" help:"its IPC namespace"`
	Net           bareOr          `json:"net" flag:"net" short:"n" arg:"FILE" bare:"true" complete:"file" help:"its network namespace"`
	PID           bareOr          `json:"pid" flag:"pid" short:"p" arg:"FILE" bare:"true" complete:"file" help:"its pid namespace"`
	User          bareOr          `json:"user" flag:"user" short:"U" arg:"FILE" bare:"true" complete:"file" help:"its user namespace"`
	Cgroup        bareOr          `json:"cgroup" flag:"cgroup" short:"C" arg:"FILE" bare:"true" complete:"file" help:"its cgroup namespace"`
	Time          bareOr          `json:"time" flag:"time" short:"T" arg:"FILE" bare:"true" complete:"file" help:"its time namespace"`
	UserParent    bool            `json:"user-parent" flag:"user-parent" help:"the parent of its user namespace with --user, or else the user namespace that the first of its other namespaces belongs to"`
	Root          bareOr          `json:"root" flag:"root" short:"r" arg:"DIR" bare:"true" complete:"dir" help:"have its root directory, or DIR as it is outside"`
	Dir           bareOr          `json:"wd" flag:"wd" short:"w" arg:"DIR" bare:"true" complete:"dir" help:"begin in its working directory, or in DIR as it is outside"`
	InsideDir     osstring.String `json:"wdns" flag:"wdns" short:"W" arg:"DIR" help:"begin in DIR as it is in the namespaces"`
	Env           bool            `json:"env" flag:"env" short:"e" help:"have its environment"`
	JoinCgroup    bool            `json:"join-cgroup" flag:"join-cgroup" short:"c" help:"be in its control group; the end of what the command starts is proved by descent alone"`
	FollowContext bool            `json:"follow-context" flag:"follow-context" short:"Z" help:"have its SELinux context, where SELinux is in use"`
	SetUID        string          `json:"setuid" flag:"setuid" short:"S" arg:"UID" help:"run as this user"`
	SetGID        string          `json:"setgid" flag:"setgid" short:"G" arg:"GID" help:"run as this group"`
	NoFork        bool            `json:"no-fork" flag:"no-fork" short:"F" help:"have only the command's children in the pid namespace"`
	Preserve      bool            `json:"preserve-credentials" flag:"preserve-credentials" help:"stay the user one is in a user namespace, in place of root"`
}

func (NsenterInput) Desc() op.Desc {
	return op.Desc{
		Name: "linux_nsenter_exec", CLI: []string{"nsenter"},
		Summary: "Run a command in the namespaces of another process, without a sandbox",
		Doc: `Run a command in the namespaces of another process, as nsenter(1) does. The process is
held by a handle from the start: if its id is reused, the result is an error, never
another process.

` + execDoc,
		Examples: `  paddock nsenter -t 4711 --all -- ps
  paddock nsenter -t 4711 --net -- ip address`,
		Hints:   op.Hints{Destructive: true, LongRunning: true},
		Streams: op.Streams{In: true, Out: true},
	}
}

func (in NsenterInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (*ExecOutput, error) {
	if in.Target.wrong || in.Target.n < 1 || in.Target.n > maxPID {
		return nil, sentence("target_pid must be a positive integer.")
	}
	argv, err := in.Command.command()
	if err != nil {
		return nil, err
	}
	flags, err := in.Flags.strings("nsenter_flags")
	if err != nil {
		return nil, err
	}
	if err := absolute(&in.NsenterSwitches); err != nil {
		return nil, err
	}
	flags = append(switches(in.NsenterSwitches), flags...)
	timeout, err := execTimeout(in.Timeout)
	if err != nil {
		return nil, err
	}
	setup, err := namespace.ParseEnter(int(in.Target.n), flags)
	if err != nil {
		return nil, err
	}
	spelled := slices.Concat([]string{"nsenter", "-t", strconv.FormatInt(in.Target.n, 10)}, namespace.Spell(flags), []string{"--"}, argv)
	return (&hostCommand{setup, argv, spelled, timeout}).run(ctx, env, stream)
}
