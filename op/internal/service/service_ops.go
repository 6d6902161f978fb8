package service

import "github.com/paddock-dev/paddock/op"

const serviceDoc = `A service is a command that runs on when the call that started it has returned:
a server, a database, a watcher. Commands and services of one sandbox share its
loopback network: what listens on 127.0.0.1 is reached there by exec, and not
from outside. It ends with its sandbox.`

func Ops() []op.Op {
	return []op.Op{
		op.New(op.Desc{
			Name: "service_start", CLI: []string{"service", "start"}, Summary: "Start a service, and wait until it is ready",
			Doc: serviceDoc + `

The call returns when the service is ready: when a port accepts connections
(ready_port), a URL is answered (ready_http), a file is there (ready_file) or a
command succeeds (ready_command); with none of them, at once. A port or URL that is
answered before the service is started is refused: another would be taken for it.
Where it ends before, or is not ready within timeout, it is ended, and the error comes with the
last lines it printed. One that has ended may be started again under its name,
with new logs. A sandbox runs 64 at most.

On the command line --sandbox names a sandbox that runs.`,
			Examples: `  # in a sandbox that another paddock keeps
  paddock service start --sandbox ID --name web --ready-port 8000 -- python3 -m http.server 8000`,
			Profile: op.ProfileWorkspace, Hints: op.Hints{Destructive: true, LongRunning: true},
		}, serviceStart, renderService),
		op.New(op.Desc{
			Name: "service_stop", CLI: []string{"service", "stop"}, Summary: "Stop a service, with all that it has started",
			Doc: `Stop a service: TERM to all of its processes, and KILL to those that are left
after 5 seconds. The answer says how many had to be killed, and whether it is
proved that none is left. One that has ended already is left as it is. Its logs
can still be read.`,
			Examples: "  paddock service stop --sandbox ID web",
			Profile:  op.ProfileWorkspace, Hints: op.Hints{Frees: true, Destructive: true, Idempotent: true, Control: true},
		}, serviceStop, renderServiceStop),
		op.New(op.Desc{
			Name: "service_status", CLI: []string{"service", "status"}, Summary: "Say whether a service runs and is ready",
			Doc: `Say whether a service is running, exited (by itself), failed (before it was
ready) or stopped, since when, and with which exit status. Where it has failed or
exited, the answer has the last lines that it printed.`,
			Examples: "  paddock service status --sandbox ID web",
			Hints:    op.Hints{ReadOnly: true, Idempotent: true},
		}, serviceStatus, renderService),
		op.New(op.Desc{
			Name: "service_list", CLI: []string{"service", "list"}, Summary: "List the services of a sandbox",
			Doc:      "List the services of a sandbox with their state: those that run, then those that have ended.",
			Examples: "  paddock service list --sandbox ID",
			Profile:  op.ProfileWorkspace, Hints: op.Hints{ReadOnly: true, Idempotent: true},
		}, serviceList, renderServiceList),
		op.New(op.Desc{
			Name: "service_logs", CLI: []string{"service", "logs"}, Summary: "Read what a service has printed",
			Doc: `Read the end of what a service has printed: the last lines (tail) of each
stream, as far as they fit into limit. It works while the service runs and after
it has ended, until it is started again. The last 4 MiB of a stream are kept.
stdout_truncated and stderr_truncated say that something before is left out.`,
			Examples: "  paddock service logs --sandbox ID --tail 20 web",
			Profile:  op.ProfileWorkspace, Hints: op.Hints{ReadOnly: true, Idempotent: true},
		}, serviceLogs, renderServiceLogs),
	}
}
