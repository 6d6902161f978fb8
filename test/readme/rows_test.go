//go:build linux

package readme

import (
	"strings"
	"testing"
)

// rowOf finds the row of a command, or of a block.
func rowOf(of string) (row, bool) {
	for _, r := range rows() {
		if r.of == of {
			return r, true
		}
	}
	return row{}, false
}

const (
	denied = "The user does not have the UNSANDBOXED_EXEC privilege. Ask an admin to grant it with the alter_privileges tool.\npaddock: hint: paddock privilege grant user:dev UNSANDBOXED_EXEC"
	grant  = "paddock privilege grant user:dev UNSANDBOXED_EXEC >/dev/null || exit"
	take   = "paddock privilege revoke user:dev UNSANDBOXED_EXEC"
)

// lastLayer is the id of the layer that was kept last.
const lastLayer = `"$(paddock layers --json | grep -o '"id":"[^"]*' | tail -n 1 | cut -d '"' -f 4)"`

// A persistent sandbox, for one row.
const (
	firstOf = "paddock create web >/dev/null"
	lastOf  = "paddock rm --force web"
)

// The same, with something to copy.
const (
	photosOf = firstOf + " && mkdir ~/photos && echo 1 >~/photos/one"
	ofPhotos = "rm -rf photos out ~/photos; " + lastOf
)

// The sandbox of README's tour, after it has changed something.
const (
	tourOf  = "paddock create web --workspace-mode overlay >/dev/null && paddock exec web -- sh -c 'echo hello >index.html; make' >/dev/null"
	ofTour  = "paddock rm --force web; ! ls index.html"
	tourEnd = tourOf + " && paddock stop web >/dev/null"
)

// Why some commands are not run here.
const (
	sdks = "it needs an SDK and a model: make test-mcp runs each SDK with a scripted model"
	// Rules by name never reach the loopback on which these tests serve.
	noLoopback = "it needs a host with a public address"
	registries = "it needs registries: test/network installs from one of its own"
	running    = "it needs a sandbox that runs: op/table has each with one"
	clients    = "it needs a client, a key and a model: make test-mcp runs each client with a scripted model"
	sshAgent   = "it needs a key and an account at a code host: test/network does it with a server of its own"
)

var (
	noMemory = []string{"linux: control groups", "linux: controller memory"}
	noCPU    = []string{"linux: control groups", "linux: controller cpu"}
	noDocker = []string{"docker: engine's command line"}
	noCodex  = []string{"codex: codex CLI"}
)

// rows is the table, in the order of the papers.
//
//nolint:maintidx // a table
func rows() []row {
	return []row{
		// README.md
		{of: "make demo", dir: "paddock", steps: []step{{see: []string{"walls held"}, never: []string{"NOT "}}}},
		// All packages are compiled and few tests run: all of them run as an ordinary
		// user in .ci/run, on a machine with the programs that many of them need.
		{of: "make test", dir: "paddock", steps: []step{{instead: "make test PACKAGES=./op/... TESTARGS=-run=TestOutput", see: []string{", 0 failed, "}, never: []string{"FAIL"}}}},
		{of: "./bin/paddock run -- sh -c 'echo built >result; cat ~/.ssh/id_rsa; touch /usr/bin/x'", dir: "paddock", steps: []step{{status: 1}}},
		{of: "./bin/paddock try -- sh -c 'echo better >result; echo evil >.git/hooks/pre-commit'", dir: "paddock", steps: []step{{
			tty: true, asked: "[commit/discard/keep; Enter: keep]", stdin: "discard\n", see: []string{" .git/hooks/pre-commit | 1 +", "held back: .git/hooks/pre-commit: git runs hooks at"},
			after: "! ls .git/hooks/pre-commit && grep built result"}}},
		{of: "./bin/paddock run --allow example.com -- curl -sS https://example.org", dir: "paddock", steps: []step{{status: 6, see: []string{"Could not resolve host: example.org", "denied: network: allow, example.org (no rule opens it; --allow example.org opens it)"}}}},
		{of: "go install github.com/paddock-dev/paddock/cmd/...@latest", steps: []step{{before: fromFiles, after: "~/go/bin/paddock version | grep ' v0.9.9$' && ~/go/bin/paddock run -- true"}}},
		{of: `export PATH="$(go env GOPATH)/bin:$PATH"`, steps: []step{{after: `PATH="$(go env GOPATH)/bin:$PATH"; paddock version | grep ' v0.9.9$'`}}},
		{of: "make build", dir: "paddock", steps: []step{{after: "ls bin/paddock bin/paddock-agent bin/paddock-egress bin/paddock-keeper bin/paddock-server"}}},
		{of: `export PATH="$PWD/bin:$PATH"`, dir: "paddock", steps: []step{{after: `PATH="$PWD/bin:$PATH"; paddock version`}}},
		{of: "paddock run -- go test ./...", dir: "src/words", steps: []step{{see: []string{"ok  \texample.com/words"}}}},
		{of: "paddock run --allow-from npm -- npm install", why: registries},
		{of: "paddock run --timeout 1s -- ./hangs", steps: []step{{status: 124, see: []string{"timeout"}}}},
		{of: "paddock run bash", steps: []step{{tty: true, stdin: "tty; echo $((6*7)) >answer; exit 3\n", status: 3, see: []string{"/dev/pts/"}, after: "grep 42 answer"}}},
		{of: "paddock session -w ~/src/app", steps: []step{{stdin: "cd /tmp\nx=1\npwd; echo $x\nexit 3\n", status: 3, see: []string{"/tmp\n1\n"}}}},
		{of: "paddock execute 'ls; curl example.com'", steps: []step{{status: 126}}},
		{of: "paddock create web --workspace-mode overlay", steps: []step{{see: []string{"sandbox web is ready (pd-"}, after: lastOf}}},
		{of: "paddock exec web -- sh -c 'echo hello >index.html; make'", steps: []step{{before: "paddock create web --workspace-mode overlay >/dev/null", see: []string{"made one"}, after: ofTour}}},
		{of: "paddock service start --sandbox web --name site --ready-port 8000 -- python3 -m http.server 8000", steps: []step{{before: tourOf, see: []string{"ready"}, after: ofTour}}},
		{of: "paddock forward web 8080:8000", steps: []step{{before: tourOf, instead: "timeout --preserve-status -s INT 5 paddock forward web 8080:8000", see: []string{"http://127.", ":8080/"}, after: ofTour}}},
		{of: "paddock diff web", steps: []step{{before: tourOf, see: []string{"+hello"}, after: ofTour}}},
		{of: "paddock commit web index.html", steps: []step{{before: tourEnd, see: []string{"1 change landed"}, after: "grep hello index.html && rm index.html && paddock rm --force web"}}},
		{of: "paddock discard web", steps: []step{{before: tourEnd, see: []string{"1 change"}, after: "paddock rm web && ! ls index.html"}}},
		{of: "paddock rm web", steps: []step{{before: firstOf + " && paddock stop web >/dev/null", see: []string{"sandbox web is removed"}}}},
		{of: "paddock plan", steps: []step{{see: []string{"workspace   /home/dev/src/app (rw)", "PATH "}}}},
		{of: "paddock doctor", steps: []step{{see: []string{"usable: a sandbox with all default walls can be made here", "not available here: limit memory; limit cpus"}}}},
		{of: "paddock mcp install --client claude-code --exclusive", steps: []step{{see: []string{"approved: only in /home/dev/src/app"}, also: installed}}},
		{of: "paddock mcp", steps: []step{{}}},
		{of: "paddock mcp uninstall --client claude-code", steps: []step{{after: "! grep -r paddock ~/.claude.json .claude"}}},
		{of: `{"mcpServers": {"paddock": {"command": "/path/to/paddock", "args": ["mcp", "--workspace", "/path/to/project"]}}}`, path: "mcp.json", steps: []step{{instead: "jq . ~/mcp.json", also: written}}},
		{of: `import "github.com/paddock-dev/paddock"`, path: "lib/readme.txt", dir: "lib", steps: []step{
			{before: inAProgram, instead: "./lib", status: 1, see: []string{"cannot find the agent: tried $PADDOCK_AGENT (not set), "}},
			{before: "export PADDOCK_AGENT=$HOME/paddock/bin/paddock-agent", instead: "./lib", see: []string{"Linux"}},
		}},

		// docs/agents.md
		{of: "cd ~/src/app", steps: []step{{}}},
		{of: "paddock mcp uninstall --client NAME", steps: []step{{instead: "paddock mcp uninstall --client codex"}}},
		{of: "paddock mcp install --client NAME", steps: []step{{instead: "paddock mcp install --client gemini", after: "grep paddock_ ~/.gemini/settings.json"}}},
		{of: "paddock mcp --structured", steps: []step{{}}},
		{of: "paddock mcp install --client claude-code", steps: []step{{also: installed, after: "paddock mcp uninstall --client claude-code"}}},
		{of: "paddock mcp install --client codex", steps: []step{{after: "grep paddock_ ~/.codex/config.toml && paddock mcp uninstall --client codex"}}},
		{of: "paddock mcp install --client gemini", steps: []step{{after: "grep paddock_ ~/.gemini/settings.json && paddock mcp uninstall --client gemini"}}},
		{of: "paddock mcp install --client cursor", steps: []step{{after: "grep paddock .cursor/mcp.json && rm -r .cursor"}}},
		{of: "paddock mcp install --client vscode", steps: []step{{after: "grep paddock .vscode/mcp.json && rm -r .vscode"}}},
		{of: "paddock mcp install --print", steps: []step{{see: []string{`"mcpServers"`}}}},
		{of: "import { Agent, MCPServerStdio, run } from '@openai/agents';", why: sdks},
		{of: "import { MultiServerMCPClient } from '@langchain/mcp-adapters';", why: sdks},
		{of: "import { createMCPClient } from '@ai-sdk/mcp';", why: sdks},
		{of: "paddock wrap claude", why: clients},
		{of: "paddock run --allow api.example.com --env-pass EXAMPLE_API_KEY -- agent 'make the tests pass'", why: clients},
		{of: "paddock git accept", steps: []step{
			{status: 125, see: []string{"no sandbox over the current directory has added to git's configuration"}},
			{before: "paddock run -- git remote add origin https://example.com/app.git", status: 1, see: []string{"would add remote.origin.url=https://example.com/app.git", "paddock git accept --yes -w ."}, after: "! git remote get-url origin"},
			{tty: true, stdin: "y\n", see: []string{"Add this to git's configuration? [y/N]"}, after: "git remote get-url origin"},
		}},

		// docs/audit.md
		{of: "paddock audit --since 1h", steps: []step{{see: []string{"user:dev run ", "execute denied"}}}},
		{of: `paddock audit --raw | jq -c 'select(.outcome == "denied" or .denials)'`, steps: []step{{before: "paddock run -- sh -c 'unshare -U true; exit 1'", status: 0, see: []string{`"outcome":"denied"`, "'curl' is not allowed", `"denials":[{"layer":"seccomp","rule":"namespaces","object":"unshare"}]`}}}},
		{of: "paddock audit verify", steps: []step{{see: []string{"ok: nothing was changed"}}}},
		{of: `paddock audit verify --head "$HASH"`, steps: []step{
			{before: "HASH=$(paddock audit verify | sed -n 's/^head *//p')", see: []string{"ok: nothing was changed"}},
			{before: "HASH=$(echo | sha256sum | cut -d ' ' -f 1)", status: 1},
		}},
		{of: "paddock privilege grant user:ann UNSANDBOXED_EXEC", steps: []step{{see: []string{"before     none", "after      UNSANDBOXED_EXEC"}}}},
		{of: "paddock privilege list", steps: []step{{see: []string{"user:ann"}}}},
		{of: "workspace: [{source: /srv/agents, mode: rw}]", path: "ceiling.yaml", steps: []step{
			{instead: "paddock token create agent:bob --workspace /srv/agents --ceiling ~/ceiling.yaml", see: []string{"agent:bob"}},
			{instead: "paddock token create agent:eve --workspace ~/src/app --ceiling ~/ceiling.yaml", status: 125, see: []string{"/srv/agents"}},
		}},
		{of: "paddock token create PRINCIPAL --ceiling FILE", steps: []step{{status: 125, see: []string{"--workspace"}}, {instead: "paddock token create agent:ida --workspace /srv/agents --ceiling ~/ceiling.yaml", see: []string{"agent:ida"}}}},

		// docs/backends.md
		{of: "paddock doctor --backend docker", steps: []step{{status: 1, lacks: noDocker, see: []string{"not usable: "}}}},
		{of: "paddock plan --backend docker", steps: []step{{status: 125, lacks: noDocker}}},
		{of: "paddock run --backend docker --image debian:12 -- sh -c 'cat /etc/os-release'", steps: []step{{status: 125, lacks: noDocker}}},
		{of: "paddock run --wrapper 'bwrap --ro-bind / / --dev /dev --tmpfs /tmp --unshare-net --' -- ls", steps: []step{{see: []string{"notes.txt", "paddock: not kept: "}}}},
		{of: "backend: docker", path: "src/app/docker.yaml", steps: []step{{instead: "paddock run --spec docker.yaml -- ./app", status: 125, see: []string{
			"requires the 'podman' CLI to be installed and available on PATH.", "hint: install docker, podman or nerdctl, or name the program with --engine",
		}}}},
		{of: "backend: codex", path: "src/app/codex.yaml", steps: []step{{instead: "paddock run --spec codex.yaml -- ./app", status: 125, lacks: noCodex}}},

		// docs/changes.md
		{of: "paddock try", steps: []step{{status: 125, see: []string{"cannot try: no command was given"}}}},
		{of: "paddock wrap --try", steps: []step{{status: 125, see: []string{"cannot wrap: no agent was given"}}}},
		{of: "paddock diff --stat pd-k3v9q2mx7wzra", steps: []step{{before: "paddock try -q -- ./try", instead: "paddock diff --stat " + lastLayer, see: []string{" tried | 1 +"}}}},
		{of: "paddock commit pd-k3v9q2mx7wzra", steps: []step{{instead: "paddock commit " + lastLayer, see: []string{"1 change landed"}, after: "ls tried && rm tried"}}},
		{of: "paddock run --workspace-mode overlay", steps: []step{{instead: "paddock run --workspace-mode overlay -- ./try", see: []string{"tried"}, after: "! ls tried"}}},
		{of: "paddock diff NAME [PATH…]", steps: []step{{before: "paddock try -q -- ./try", instead: "paddock diff " + lastLayer + " tried", see: []string{"+tried"}}}},
		{of: "paddock commit NAME [PATH…]", steps: []step{{instead: "paddock commit --dry-run " + lastLayer + " tried", see: []string{"1 change would land"}, after: "! ls tried"}}},
		{of: "paddock discard NAME [PATH…]", steps: []step{{instead: "paddock discard " + lastLayer + " tried", see: []string{"1 change discarded"}, after: "paddock discard " + lastLayer}}},

		// docs/guest-agent.md
		{of: "bin/paddock-agent --listen unix:///tmp/x.sock --workspace DIR", dir: "paddock", steps: []step{
			{status: 125, see: []string{"permission denied", "below $XDG_RUNTIME_DIR where that is set"}},
			{before: "export XDG_RUNTIME_DIR=/run/user/1000", while: asClient},
		}},
		{of: "import base64, io, json, socket, tarfile", path: "client.py", steps: []step{{instead: "python3 ~/client.py", status: 1, see: []string{"FileNotFoundError"}}}},
		{of: "bin/paddock-agent --help", dir: "paddock", steps: []step{{see: []string{"--shell-root"}}}},

		// docs/host-tools.md
		{of: `paddock privilege grant "user:$(id -un)" UNSANDBOXED_EXEC`, steps: []step{{see: []string{"after      UNSANDBOXED_EXEC"}, after: take}}},
		{of: "paddock unshare -Urpf --mount-proc -- ps", steps: hostTool(step{see: []string{"      1 ?", " ps\n"}})},
		{of: "paddock nsenter -t 4711 --all -- ip address", steps: hostTool(step{with: startsNumber, see: []string{"1: lo:"}, never: []string{"127.0.0.1"}})},
		{of: "paddock unshare -UrT --boottime=86400 -- uptime", steps: hostTool(step{see: []string{" day"}})},
		{of: "paddock unshare --map-user=7 --keep-caps -- id -u", steps: hostTool(step{see: []string{"7\n"}})},
		{of: "paddock unshare -r --map-auto -- cat /proc/self/uid_map", steps: hostTool(step{status: 125, see: []string{"an ordinary user's subordinate ids are mapped by /usr/bin/newuidmap"}})},
		{of: "paddock unshare --net=/run/lab -- true", steps: hostTool(step{instead: "paddock unshare -Ur --net=/run/lab -- true", status: 125, see: []string{"cannot keep the new net namespace at /run/lab"}})},
		{of: "paddock nsenter -t 4711 --net=/run/lab -- ip link", steps: hostTool(step{with: startsNumber, status: 125, see: []string{"cannot open the net namespace at /run/lab"}})},
		{of: "paddock nsenter -t 4711 --all --env --wdns=/srv -- pwd", steps: hostTool(step{with: startsNumber, see: []string{"/srv\n"}})},
		{of: "paddock cgroup mkdir build/job", steps: hostTool(step{status: 125, see: []string{"permission denied: /sys/fs/cgroup/build"}})},
		{of: "paddock cgroup write build/job/memory.max 512M", steps: hostTool(step{status: 125, see: []string{"no such file or directory: /sys/fs/cgroup/build/job/memory.max"}})},
		{of: "paddock cgroup move build/job 4711", steps: hostTool(step{status: 125, see: []string{"cgroup_path must be an existing cgroup directory."}})},
		{of: "paddock cgroup read build/job/memory.current", steps: hostTool(step{status: 125, see: []string{"no such file or directory: /sys/fs/cgroup/build/job/memory.current"}})},
		{of: "paddock cgroup stat build/job", steps: hostTool(step{status: 125, see: []string{"no such file or directory: /sys/fs/cgroup/build/job"}})},
		{of: "paddock cgroup rmdir build/job", steps: hostTool(step{status: 125, see: []string{"no such file or directory: /sys/fs/cgroup/build/job"}})},

		{of: `paddock privilege grant "model:$(id -un)" UNSANDBOXED_EXEC`, steps: []step{{see: []string{"principal  model:dev", "after      UNSANDBOXED_EXEC"}, after: "paddock privilege revoke model:dev UNSANDBOXED_EXEC"}}},

		// docs/mcp.md
		{of: "paddock mcp --profile full", steps: []step{{}}},

		// docs/network.md
		{of: "paddock run --allow example.com -- curl -sS https://example.org", steps: []step{{status: 6, see: []string{"--allow example.org opens it"}}}},
		{of: "# api.yaml", path: "api.yaml", steps: []step{{instead: "paddock plan --spec ~/api.yaml", see: []string{"443; Authorization gets API_TOKEN"}}}},
		{of: "paddock run --spec api.yaml -- sh -c 'env | grep TOKEN; curl -sS https://api.example.com/user'", steps: []step{
			{instead: "API_TOKEN=tok-of-these-docs paddock run --spec ~/api.yaml -- sh -c 'env | grep -q -e TOKEN -e tok-of || echo not inside'", see: []string{"not inside"}, never: []string{"tok-of-these-docs"}},
		}},
		{of: "paddock run --network host -- curl -sS https://example.com", steps: []step{{see: []string{"Example Domain"}, with: serveExample}}},
		{of: "network:", path: "hosts.yaml", steps: []step{{instead: "paddock plan --spec ~/hosts.yaml", see: []string{"open    *.example.org          8443", "closed  telemetry.example.org  not needed: set DO_NOT_TRACK=1"}}}},
		{of: "paddock run --allow-from npm -- npm install left-pad", why: registries},
		{of: "paddock run --allow example.com -- curl -sS https://example.com", why: noLoopback},
		{of: "paddock run --allow-from npm -- npm ci", why: registries},
		{of: "paddock run --allow-from go,pip -- make test", why: registries},
		{of: "paddock plan --allow-from apt,cargo", why: registries},
		{of: "paddock mcp --allow-from npm", why: registries},
		{of: "paddock run --network observe -- make deps", why: noLoopback},
		{of: "paddock network add web --allow example.com", why: running},
		{of: "paddock run --ssh-agent --allow github.com:22 -- git push", why: sshAgent},
		{of: "paddock run --ssh-agent=sign --allow github.com:22 -- git commit -S", why: sshAgent},
		{of: "paddock run --ssh-agent --ssh-key SHA256:… --allow github.com:22 -- ssh -T git@github.com", why: sshAgent},
		{of: "ssh_agent: {keys: [\"SHA256:…\"], sign: true}", why: sshAgent},
		{of: "paddock network show --observed web", why: running},
		{of: "# secrets.yaml", path: "secrets.yaml", steps: []step{{instead: "paddock plan --spec ~/secrets.yaml", see: []string{"443; Authorization gets API_TOKEN", "POST of /v1/search, /v1/projects/*/issues, /v1/drafts/**; X-Api-Key gets KEY"}}}},
		{of: "paddock run --spec secrets.yaml -- sh -c 'env | grep TOKEN; curl -sS https://api.example.com/user'", why: noLoopback},
		{of: "paddock network show web", why: running},
		{of: "paddock network log --follow web", why: running},
		{of: "paddock network set web --allow example.com --allow '*.example.org'", why: running},
		{of: "paddock network set web --none", why: running},
		{of: "paddock run -p 8080:8000 -- python3 -m http.server 8000", steps: []step{{instead: "paddock run -p 8080:8000 -- true", see: []string{"published: http://127.", ":8080/ leads to port 8000"}}}},
		{of: "paddock forward web 8000", why: running},
		{of: "paddock run --host-port 5432 -- pg_isready -h host.paddock.internal", steps: []step{{instead: "paddock plan --host-port 5432", see: []string{"host.paddock.internal  5432"}}}},
		{of: "network: {publish: [\"8080:3000\"], host_ports: [5432]}", path: "ports.yaml", steps: []step{{instead: "paddock plan --spec ~/ports.yaml", see: []string{"8080:3000", "host.paddock.internal"}}}},
		{of: "paddock run -- sh -c 'getent hosts example.com || echo no network'", steps: []step{{see: []string{"no network"}}}},

		// docs/operations.md
		{of: "paddock list", steps: []step{{see: []string{"no sandbox runs"}}}},
		{of: "paddock list --of ann", steps: []step{{instead: "paddock list --of root", status: 125, see: []string{"only root can become another user"}}}},
		{of: "paddock written", steps: []step{{see: []string{"STATE", "/home/dev/src/app"}}}},
		{of: "paddock written forget /tmp", steps: []step{{before: "mkdir -p ~/once && cd ~/once && paddock run -- true", instead: "paddock written forget --yes .", see: []string{"/once is trusted again"}}}},
		{of: "paddock token create agent:ann --workspace ~/src/app --expires 30d", steps: []step{{see: []string{"pdk_", "agent:ann"}, also: func(_ *testing.T, printed string) {
			token, _, _ = strings.Cut(printed, "\n")
		}}}},
		{of: "TOKEN=$(paddock token create ci --workspace /srv/ci)", steps: []step{{instead: "TOKEN=$(paddock token create ci --workspace ~/src/app) && echo \"[$TOKEN]\" | grep -E '^[[]pdk_[a-z0-9_]+[]]$'", see: []string{"[pdk_"}}}},
		{of: "paddock mcp --http 127.0.0.1:8765", steps: []step{{see: []string{"listening on http://127.0.0.1:8765/mcp"}, while: overHTTP}}},

		// docs/caches.md
		{of: "paddock cache list", steps: []step{{see: []string{"TOOL ", "go ", "user:dev", "/home/dev/src/words"}}}},
		{of: "paddock run --cache none -- go build", dir: "src/words", steps: []step{{}}},
		{of: "paddock run --cache go,ccache -- make", steps: []step{{see: []string{"made one"}}}},
		{of: "paddock run --home keep -- make", steps: []step{{see: []string{"made one"}}}},
		{of: "paddock cache rm", steps: []step{{see: []string{"removed go of /home/dev/src/app", "removed ccache of /home/dev/src/app"}, never: []string{"removed home"}}}},
		{of: "paddock try -- go build ./...", dir: "src/words", steps: []step{{see: []string{"nothing changed"}}}},
		{of: `paddock run --home keep -- sh -c 'echo alias ll="ls -l" >>~/.bashrc'`, steps: []step{{}}},
		{of: "paddock run --home ~/sandbox-home -- make", steps: []step{{before: "mkdir -p ~/sandbox-home", see: []string{"made one"}}}},
		{of: "paddock cache rm --tool home", steps: []step{{see: []string{"removed home of /home/dev/src/app"}}}},

		// docs/lasting.md
		{of: "paddock create web --idle 8h", steps: []step{{see: []string{"sandbox web is ready (pd-"}, after: lastOf}}},
		{of: "spec := paddock.Spec{Workspace: paddock.Workspace{Mode: \"overlay\"}}", path: "lib/lasting.txt", dir: "lib", steps: []step{
			{before: inALastingProgram, instead: "cd ~/src/app && PADDOCK_AGENT=$HOME/paddock/bin/paddock-agent ~/lib/lasting/lasting", after: "paddock list --all | grep web && paddock rm --force web"},
		}},
		{of: "paddock exec web -- make", steps: []step{{before: firstOf, see: []string{"made one"}, after: lastOf}}},
		{of: "paddock exec -d web -- make", steps: []step{{before: firstOf, see: []string{"e1"}, after: lastOf}}},
		{of: "paddock secret set web TOKEN --from-env TOKEN", steps: []step{{before: "export TOKEN=hunter22 && " + firstOf, see: []string{"secret TOKEN is set"}, never: []string{"hunter22"}, after: lastOf}}},
		{of: "paddock exec --secret-env TOKEN web -- make", steps: []step{{before: "export TOKEN=hunter22 && " + firstOf + " && paddock secret set web TOKEN --from-env TOKEN >/dev/null", see: []string{"made one"}, after: lastOf}}},
		{of: "paddock logs --follow web", steps: []step{{before: firstOf + " && paddock exec -d web -- make >/dev/null", see: []string{"e1 | ", "made one"}, after: lastOf}}},
		{of: "paddock cp ~/data.csv web:data.csv", steps: []step{{before: "echo 1 >~/data.csv && " + firstOf, see: []string{"copied to web:/workspace/data.csv: 1 entry, 2 bytes"}, after: "rm data.csv ~/data.csv; " + lastOf}}},
		{of: "paddock cp ~/photos web:.", steps: []step{{before: photosOf, see: []string{"copied to web:/workspace/photos: 1 entry, 2 bytes"}, after: ofPhotos}}},
		{of: "paddock cp web:photos/. ./out", steps: []step{{before: photosOf + " && cp -r ~/photos .", see: []string{"copied to /home/dev/src/app/out: 1 entry, 2 bytes"}, after: "cat out/one && " + ofPhotos}}},
		{of: "paddock cp web:photos - | tar -t", steps: []step{{before: photosOf + " && cp -r ~/photos .", see: []string{"photos/one"}, after: ofPhotos}}},
		{of: "paddock shell web", steps: []step{{before: firstOf, tty: true, stdin: "echo $((6*7)); exit 3\n", status: 3, see: []string{"42"}, after: lastOf}}},
		{of: "paddock file list --sandbox web", steps: []step{{before: firstOf, see: []string{"Makefile"}, after: lastOf}}},
		{of: "paddock status web", steps: []step{{before: firstOf, see: []string{" is running", "workspace /home/dev/src/app", "network none"}, after: lastOf}}},
		{of: "paddock stop web", steps: []step{{before: firstOf, see: []string{"sandbox web has ended: paddock stop ended it; nothing runs in it any more"}, after: lastOf}}},
		{of: "paddock start web", steps: []step{{before: firstOf + " && paddock stop web >/dev/null", see: []string{"sandbox web is ready"}, after: lastOf}}},
		{of: "paddock list --all", steps: []step{{before: firstOf + " && paddock stop web >/dev/null", see: []string{" web ", "stopped: paddock stop ended it"}, after: lastOf}}},
		{of: "paddock rm --force web", steps: []step{{before: firstOf, see: []string{"sandbox web is removed"}, after: "! paddock status web 2>/dev/null"}}},

		// docs/project.md
		{of: "paddock init", steps: []step{{see: []string{"wrote /home/dev/src/app/.paddock.yaml", "look at it, then: paddock trust"}}}},
		{of: "paddock trust", steps: []step{
			{status: 1, see: []string{"  | network: none", "  network: none but loopback", "nothing was trusted; to trust it: paddock trust --yes"}},
			{tty: true, stdin: "y\n", see: []string{"Trust this file? [y/N]", "trusted: /home/dev/src/app/.paddock.yaml"}},
		}},
		{of: "paddock run -- ./app", steps: []step{{see: []string{"app runs"}, never: []string{"not used"}}}},
		{of: "paddock trust --list", steps: []step{{see: []string{"  trusted  /home/dev/src/app"}}}},
		{of: "paddock trust --remove", steps: []step{{see: []string{"no longer trusted: /home/dev/src/app/.paddock.yaml"}, after: "rm .paddock.yaml"}}},
		{of: "network: host", path: "project.yaml", steps: []step{
			{before: "mkdir ~/project; cp ~/project.yaml ~/project/.paddock.yaml", instead: "paddock trust --yes ~/project", see: []string{"  network: commands can use this host's network", "trusted: "}, after: "paddock trust --remove ~/project"},
		}},

		// docs/rules.md
		{of: `paddock execute 'grep -rn "TODO" . | sort | head -3'`, steps: []step{{see: []string{"TODO: "}}}},
		{of: "paddock execute", steps: []step{{status: 126, see: []string{"Empty command", "give a text for the shell"}}}},
		{of: "commands: {allow: [git, python3, ls, cat], subcommands: {git: [push]}}", path: "src/app/rules.yaml", steps: []step{
			{instead: "paddock policy check --spec rules.yaml 'python3 -V && git status'", see: []string{"allowed"}},
			{instead: "paddock policy check --spec rules.yaml 'git push'", status: 1, see: []string{"denied: Subcommand 'push' is not allowed"}},
			{instead: "paddock execute --spec rules.yaml 'cat notes.txt'", status: 125, lacks: noMemory, see: []string{"allow_degraded: [memory] in the spec"}, never: []string{"--allow-degraded"}},
			{before: "echo 'allow_degraded: [memory]' >>rules.yaml", instead: "paddock execute --spec rules.yaml 'cat notes.txt'", see: []string{"TODO: more"}},
		}},
		{of: "paddock policy check", steps: []step{{status: 125, see: []string{"paddock: "}}}},
		{of: "paddock policy list", steps: []step{{see: []string{"allow  grep"}}}},
		{of: "paddock policy check 'ls; curl example.com'", steps: []step{{status: 1}}},
		{of: `paddock policy check 'grep -rn "a;b" . | sort | head -3' && echo fine`, steps: []step{{}}},

		// docs/run.md
		{of: "paddock run -w ~/src/app --ro ~/go/pkg/mod -- make", dir: "paddock", steps: []step{{see: []string{"made one", "made two"}}}},
		{of: "paddock run --rw ~/.cache/app:/cache -- app", steps: []step{{see: []string{"app: ", "kept"}, after: "grep new ~/.cache/app/new"}}},
		{of: "paddock run --env LANG=C.UTF-8 --env-pass TOKEN -- app", steps: []step{{before: "export TOKEN=t0ken", see: []string{"app: LANG=C.UTF-8 TOKEN=t0ken"}}}},
		{of: "paddock run --memory 512MiB --cpus 1.5 -- make -j8", steps: []step{
			{status: 125, lacks: noMemory, see: []string{"--allow-degraded=memory"}},
			{instead: "paddock run --memory 512MiB --cpus 1.5 --allow-degraded=memory -- make -j8", status: 125, lacks: noCPU, see: []string{"--allow-degraded=cpus"}},
			{instead: "paddock run --memory 512MiB --cpus 1.5 --allow-degraded=memory --allow-degraded=cpus -- make -j8", see: []string{"made one", "made two", "paddock: not kept: "}},
		}},
		{of: "paddock run --workspace-mode copy -- ./try", steps: []step{{see: []string{"tried"}, after: "! ls tried"}}},
		{of: "paddock try -- ./try", steps: []step{
			{see: []string{"tried", "paddock: what has changed:", "paddock: the changes are kept: paddock diff pd-"}, after: "! ls tried && paddock discard " + lastLayer},
			{tty: true, asked: "[commit/discard/keep; Enter: keep]", stdin: "commit\n", see: []string{"1 change landed"}, after: "ls tried && rm tried"},
		}},
		{of: "paddock run --rootfs ~/image -- app", steps: []step{{see: []string{"app runs"}}}},
		{of: "paddock run --seccomp debug -- gdb ./app", steps: []step{{stdin: "run\nquit\n", see: []string{"app runs", "exited normally"}}}},
		{of: "paddock run --level landlock -- make", steps: []step{{see: []string{"made one", "paddock: not kept: "}}}},
		{of: "paddock run --json -- ./app", steps: []step{{see: []string{`"exit_code":0`, `"stdout":"app runs, on a terminal: false\n"`, `"isolation":{`}}}},
		{of: "paddock run --spec sandbox.yaml -- ./app", steps: []step{
			{status: 125, lacks: noCPU, see: []string{"--allow-degraded=cpus"}},
			{instead: "paddock run --spec sandbox.yaml --allow-degraded=cpus -- ./app", see: []string{"app runs"}},
		}},
		{of: "paddock help run", steps: []step{{see: []string{"--rootfs"}}}},
		{of: "paddock completion bash", steps: []step{{see: []string{"complete -o"}}}},
		{of: "level: full", path: "src/app/sandbox.yaml", steps: []step{{
			instead: "paddock plan --spec sandbox.yaml --allow-degraded=cpus", see: []string{"workspace   /home/dev/src/app (rw)", "/home/dev/go/pkg/mod"},
		}}},
		{of: "paddock run --redact email=mask --redact credit_card -- ./report", steps: []step{{see: []string{"j***@example.org [REDACTED_CREDIT_CARD]"}}}},
		{of: "redaction:", path: "src/app/redaction.yaml", steps: []step{
			{instead: "paddock run --spec redaction.yaml -- ./report", see: []string{"<ip_hash:", "[REDACTED_TICKET]"}, never: []string{"192.0.2.7", "JIRA-12"}},
			{instead: "paddock run --spec redaction.yaml -- ./key", see: []string{"Output blocked: detected key."}, never: []string{"sk-0123"}},
		}},
		{of: "paddock run -- sh -c 'echo out; echo err >&2; exit 7'", steps: []step{{status: 7}}},
		{of: "echo $?", dir: "paddock", steps: []step{{}}},
		{of: "PADDOCK_AGENT=/nowhere paddock run -- true", steps: []step{{status: 125}}},

		// docs/install.md
		{of: "paddock version", steps: []step{{see: []string{"platform linux/"}}}},
		{of: "CGO_ENABLED=0 go install github.com/paddock-dev/paddock/cmd/...@latest", steps: []step{{before: fromFiles, after: "~/go/bin/paddock run -- true"}}},
		{of: "sha256sum -c --ignore-missing SHA256SUMS", why: released},
		{of: "mkdir -p ~/.local", steps: []step{{}}},
		{of: "tar -xzf paddock-VERSION-linux-amd64.tar.gz --strip-components=1 -C ~/.local", why: released},
		{of: "make release", why: released},
		{of: "paddock man", steps: []step{{see: []string{`.TH "PADDOCK" "1"`, `.SS "paddock mcp install`}}}},
		{of: "COPY --from=paddock:VERSION /usr/local/bin/ /usr/local/bin/", why: released},
		{of: "limactl start --name=paddock --mount-writable", why: "it needs macOS"},

		// docs/wrap.md
		{of: "paddock wrap --unasked codex exec 'make the tests pass'", why: clients},
		{of: "paddock wrap --try claude", why: clients},
		{of: "paddock wrap --plan gemini", why: clients},

		// docs/sessions.md
		{of: `printf '%s\n' '{"command": "cd /tmp; x=1"}' '{"command": "pwd; echo $x"}' | paddock session --json`, steps: []step{{see: []string{`"output":"/tmp\n1"`}}}},
		{of: "type: linux", path: "src/app/policy.yaml", steps: []step{{instead: "echo 'seq 300' | paddock session --policy policy.yaml", see: []string{"observed 300 lines"}}}},
	}
}

// hostTool are the steps of a tool for the host: refused without the privilege,
// and what it does for a user who holds that.
func hostTool(held step) []step {
	held.before, held.after = grant, take
	return []step{{status: 125, see: []string{denied}}, held}
}

// fromFiles has the go command get Paddock from a module proxy in files. The checksums of
// all modules are on the network.
const fromFiles = "export GOPROXY=file:///srv/paddock,file:///srv/modules GOSUMDB=off"

// released says why what a release has is not made here.
const released = "a release takes minutes: make test-release makes one, checks its sums, unpacks it and runs what is in it"

// inAProgram makes a program of the README's lines.
const inAProgram = `cat >go.mod <<END
module example.com/lib

go 1.26.0

require github.com/paddock-dev/paddock v0.0.0
replace github.com/paddock-dev/paddock => ../paddock
END
cp ../paddock/go.sum .
{
	printf 'package main\n\nimport ("context"; "fmt"; "os")\n\n'
	sed -n '/^import/p' readme.txt
	printf 'func try(ctx context.Context) error {\n'
	sed '/^import/d' readme.txt
	printf 'fmt.Printf("%%s", out)\nreturn err\n}\n\nfunc main() { if err := try(context.Background()); err != nil { fmt.Println(err); os.Exit(1) } }\n'
} >main.go
go mod tidy && CGO_ENABLED=0 go build || exit`

// inALastingProgram makes a program of the lines of docs/lasting.md, in the module of the README's.
const inALastingProgram = `mkdir -p lasting && {
	printf 'package main\n\nimport ("context"; "fmt"; "os"; "time"; "github.com/paddock-dev/paddock")\n\n'
	printf 'func try(ctx context.Context, opts paddock.Options) error {\n'
	cat lasting.txt
	printf 'return err\n}\n\nfunc main() { if err := try(context.Background(), paddock.Options{Path: os.Getenv("PATH")}); err != nil { fmt.Println(err); os.Exit(1) } }\n'
} >lasting/main.go && CGO_ENABLED=0 go build -o lasting/lasting ./lasting || exit`

// asClient runs the client of docs/guest-agent.md beside the agent.
func asClient(t *testing.T) {
	dial(t, "unix", "/tmp/x.sock")
	printed := must(t, "python3 ~/client.py")
	for _, want := range []string{"'stdout': 'Linux\\n', 'stderr': 'oops\\n'", "'exit_code': 3", "b'hello\\n'\n", "notes/a.txt", "new/empty.txt"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the client printed\n%s\nwithout %q", printed, want)
		}
	}
}
