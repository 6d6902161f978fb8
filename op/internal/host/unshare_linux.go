package host

import (
	"context"
	"slices"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/namespace"
	"github.com/paddock-dev/paddock/op"
)

type UnshareInput struct {
	UnshareSwitches
	Flags   looseList `json:"unshare_flags" flag:"flag" arg:"FLAG" help:"one more flag of the list, by name, short or long, with its value: mount-proc=/mnt/proc"`
	Timeout looseInt  `json:"timeout" flag:"timeout" arg:"SECONDS" help:"end the command after this many seconds (default 120, at most 600)"`
	Command looseList `json:"command" arg:"CMD [ARG]..." help:"the command and its arguments"`
}

// UnshareSwitches are flags of unshare for people; programs have unshare_flags.
type UnshareSwitches struct {
	Mount       bareOr          `json:"mount" flag:"mount" short:"m" arg:"FILE" bare:"true" complete:"file" help:"a new mount namespace; with FILE here and below it is kept there, mounted, when no process is left in it"`
	UTS         bareOr          `json:"uts" flag:"uts" short:"u" arg:"FILE" bare:"true" complete:"file" help:"a new UTS namespace (host name)"`
	IPC         bareOr          `json:"ipc" flag:"ipc" short:"i" arg:"FILE" bare:"true" complete:"file" help:"a new IPC namespace"`
	Net         bareOr          `json:"net" flag:"net" short:"n" arg:"FILE" bare:"true" complete:"file" help:"a new network namespace"`
	PID         bareOr          `json:"pid" flag:"pid" short:"p" arg:"FILE" bare:"true" complete:"file" help:"a new pid namespace, for the command's children, or with --fork for the command too"`
	User        bareOr          `json:"user" flag:"user" short:"U" arg:"FILE" bare:"true" complete:"file" help:"a new user namespace"`
	Cgroup      bareOr          `json:"cgroup" flag:"cgroup" short:"C" arg:"FILE" bare:"true" complete:"file" help:"a new cgroup namespace"`
	Time        bareOr          `json:"time" flag:"time" short:"T" arg:"FILE" bare:"true" complete:"file" help:"a new time namespace"`
	Fork        bool            `json:"fork" flag:"fork" short:"f" help:"run the command as a child of what made the namespaces"`
	MapRoot     bool            `json:"map-root-user" flag:"map-root-user" short:"r" help:"be root in a new user namespace"`
	MapCurrent  bool            `json:"map-current-user" flag:"map-current-user" short:"c" help:"be oneself in a new user namespace"`
	MapUser     string          `json:"map-user" flag:"map-user" arg:"USER" help:"be this user, an id or a name, in a new user namespace"`
	MapGroup    string          `json:"map-group" flag:"map-group" arg:"GROUP" help:"be of this group, an id or a name, in a new user namespace"`
	MapAuto     bool            `json:"map-auto" flag:"map-auto" help:"map the first range of /etc/subuid and /etc/subgid, too, from id 0, in a new user namespace"`
	MapUsers    []string        `json:"map-users" flag:"map-users" arg:"INSIDE:OUTSIDE:COUNT" help:"map users of a new user namespace; may be repeated"`
	MapGroups   []string        `json:"map-groups" flag:"map-groups" arg:"INSIDE:OUTSIDE:COUNT" help:"map groups of a new user namespace; may be repeated"`
	MountProc   bool            `json:"mount-proc" flag:"mount-proc" help:"mount a new /proc, in a new mount namespace"`
	KillChild   bool            `json:"kill-child" flag:"kill-child" help:"fork, and kill the command when Paddock dies (it is killed in any case)"`
	Propagation string          `json:"propagation" flag:"propagation" arg:"HOW" help:"propagation of mounts in the new mount namespace (default private)" choices:"private,shared,slave,unchanged"`
	Root        osstring.String `json:"root" flag:"root" short:"R" arg:"DIR" path:"here" help:"make DIR the root directory" complete:"dir"`
	Dir         osstring.String `json:"wd" flag:"wd" short:"w" arg:"DIR" path:"here" help:"begin in DIR" complete:"dir"`
	SetUID      string          `json:"setuid" flag:"setuid" short:"S" arg:"UID" help:"run as this user"`
	SetGID      string          `json:"setgid" flag:"setgid" short:"G" arg:"GID" help:"run as this group"`
	Setgroups   string          `json:"setgroups" flag:"setgroups" arg:"HOW" help:"whether setgroups(2) works in the new user namespace" choices:"allow,deny"`
	KeepCaps    bool            `json:"keep-caps" flag:"keep-caps" help:"keep capabilities in a new user namespace as another user than root, too"`
	Monotonic   string          `json:"monotonic" flag:"monotonic" arg:"SECONDS" help:"how far the monotonic clock is ahead in a new time namespace"`
	Boottime    string          `json:"boottime" flag:"boottime" arg:"SECONDS" help:"how far the clock since boot is ahead in a new time namespace"`
}

const execDoc = `No other program is needed. The command has a clean environment (PATH, LANG, and on
the command line the caller's HOME and TERM), the current directory, and no
descriptors but its input and output. There are no walls: it can reach everything
that its caller can, and it needs the privilege UNSANDBOXED_EXEC.

When the command exits or times out, every process that it has started is ended,
daemons too; the answer says whether that is proved (death_proved). It cannot be
proved if root processes leave both their control group and their ancestors.

Exit status: the command's own; 124 it timed out; 125 Paddock could not run it;
126 it cannot be executed; 127 it does not exist; 128+N signal N ended it.`

func (UnshareInput) Desc() op.Desc {
	return op.Desc{
		Name: "linux_unshare_exec", CLI: []string{"unshare"},
		Summary: "Run a command in new namespaces, without a sandbox",
		Doc:     "Run a command in new namespaces, as unshare(1) does.\n\n" + execDoc,
		Examples: `  # as an ordinary user: root of a user namespace, with processes of its own
  paddock unshare -Urpf --mount-proc -- ps

  # no network
  paddock unshare --net -- ip link

  # a network namespace that stays, until it is unmounted
  touch /run/lab && paddock unshare --net=/run/lab -- true
  paddock nsenter -t $$ --net=/run/lab -- ip link`,
		Hints:   op.Hints{Destructive: true, LongRunning: true},
		Streams: op.Streams{In: true, Out: true},
	}
}

func (in UnshareInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (*ExecOutput, error) {
	argv, err := in.Command.command()
	if err != nil {
		return nil, err
	}
	flags, err := in.Flags.strings("unshare_flags")
	if err != nil {
		return nil, err
	}
	if err := absolute(&in.UnshareSwitches); err != nil {
		return nil, err
	}
	flags = append(switches(in.UnshareSwitches), flags...)
	timeout, err := execTimeout(in.Timeout)
	if err != nil {
		return nil, err
	}
	setup, err := namespace.ParseUnshare(flags)
	if err != nil {
		return nil, err
	}
	spelled := slices.Concat([]string{"unshare"}, namespace.Spell(flags), []string{"--"}, argv)
	return (&hostCommand{setup, argv, spelled, timeout}).run(ctx, env, stream)
}
