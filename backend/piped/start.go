//go:build linux

package piped

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/keeper"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const (
	defaultTimeout = 30 * time.Second
	maxTimeout     = 10 * time.Minute
	cleanupTimeout = 10 * time.Second
)

// Start starts the wall and the agent behind it. It returns when the agent accepts
// requests and the wall is verified. After an error everything is removed.
func Start(ctx context.Context, req backend.Request, w Wall) (backend.Sandbox, error) {
	agent, err := os.Open(req.Agent)
	if err != nil {
		if w.State != nil {
			w.State.Remove(nil)
		}
		return nil, backend.Failed("agent", "open", req.Agent, err, "set PADDOCK_AGENT to the path of paddock-agent")
	}
	defer agent.Close()
	for _, rule := range req.Spec.Redaction {
		w.Guest.Redaction = append(w.Guest.Redaction, wire.RedactRule(rule))
	}
	return w.start(ctx, req, agent)
}

// start starts the wall. The agent's program is opened only once, so that the same file
// is executed and uploaded, whatever becomes of its path.
func (w *Wall) start(ctx context.Context, req backend.Request, agent *os.File) (backend.Sandbox, error) {
	go wire.Warm()
	dir := w.State
	order, err := w.order(req.StateDir, agent)
	if err == nil && dir == nil {
		dir, err = state.New(req.StateDir, req.ID, nil)
	}
	if err != nil {
		if dir != nil {
			dir.Remove(nil)
		}
		return nil, err
	}
	s := &sandbox{dir: dir, agent: agent.Name(), wall: *w, answers: make(chan keeper.Answer, 2), done: make(chan struct{})}
	s.record = state.Record{Backend: w.Backend, Kept: true, Cleanup: order.Cleanup, Created: time.Now().UTC()}
	// The clean-up commands are recorded before there is anything to clean up.
	err = dir.Save(s.record)
	if err == nil {
		err = s.startKeeper(agent)
	}
	if err != nil {
		dir.Remove(nil)
		return nil, err
	}
	ready, err := s.begin(ctx, order)
	if err == nil {
		s.isolation = policy.Isolation{Backend: w.Backend, Namespaces: []string{}}
		if w.Verify != nil {
			s.isolation, err = w.Verify(ctx, Running{ID: dir.ID, Keeper: s.cmd.Process.Pid, Ready: ready.Guest})
		}
	}
	if err == nil {
		s.record.Isolation = &s.isolation
		if serr := dir.Save(s.record); serr != nil {
			err = backend.Failed("state", "save", dir.Path, serr, hostpath.RoomHint(serr, dir.Root))
		}
	}
	if err != nil {
		_, _ = s.Stop(context.WithoutCancel(ctx), 0)
		return nil, s.explain(ctx, err)
	}
	return s, nil
}

// order returns the keeper's order. It refuses programs of the host that commands of a
// sandbox could have written; those that this sandbox can write are on the list already.
func (w *Wall) order(stateDir string, agent *os.File) (*keeper.Order, error) {
	o := &keeper.Order{Env: slices.Clone(w.Env), Dir: osstring.String(w.Dir), Timeout: w.StartTimeout, CleanupTimeout: cleanupTimeout}
	if o.Env == nil {
		o.Env = Environment()
	}
	if o.Dir == "" {
		o.Dir = "/"
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	o.Timeout = min(o.Timeout, maxTimeout)
	var err error
	for _, argv := range w.Cleanup {
		path, err := lookPath(stateDir, argv[0], o.Env)
		if err != nil {
			return nil, err
		}
		o.Cleanup = append(o.Cleanup, append([]string{path}, argv[1:]...))
	}
	command := []string{w.Agent, "guest"}
	if w.Upload {
		if command, err = upload(o, agent); err != nil {
			return nil, err
		}
	}
	if w.Quote {
		command = []string{quote(command)}
	}
	o.Argv = slices.Concat(w.Argv, command)
	path, err := lookPath(stateDir, o.Argv[0], o.Env)
	if err != nil {
		return nil, err
	}
	o.Path = osstring.String(path)
	for i, kv := range o.Env { // walls look for further programs there
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			o.Env[i] = "PATH=" + hostpath.SearchPath(stateDir, list, nil)
		}
	}
	g := w.Guest
	g.Version, g.Build, g.Nonce = wire.Version, wire.Build, nonce()
	if g.Seccomp == "" {
		g.Seccomp = "default"
	}
	o.Nonce = g.Nonce
	if o.Line, err = g.Line(); err != nil {
		return nil, backend.Failed(keeper.StageAgent, "speak to", "the agent", err, "")
	}
	return o, nil
}

func nonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // which cannot fail
	return hex.EncodeToString(b[:])
}

// quote makes a single word for a shell. It works in every shell: within single quotes
// only a single quote itself needs care.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// lookPath finds a program in the absolute directories of env's PATH. It refuses one
// that commands of a sandbox could have written.
func lookPath(stateDir, name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		path, err := filepath.Abs(name)
		if err == nil {
			err = executable(path)
		}
		if err != nil {
			return "", backend.Failed(keeper.StageWall, "start", name, err, "name a program that exists and can be executed")
		}
		return path, hostpath.Program(keeper.StageWall, stateDir, name, path, nil)
	}
	list := ""
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = value
		}
	}
	found := exec.ErrNotFound
	for _, dir := range filepath.SplitList(list) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, name)
		err := executable(path)
		if err == nil {
			return path, hostpath.Program(keeper.StageWall, stateDir, name, path, nil)
		}
		if _, serr := os.Stat(path); serr == nil { // it exists, but cannot be executed
			found = err
		}
	}
	if errors.Is(found, exec.ErrNotFound) {
		found = errors.New("it is not found in PATH")
	}
	return "", backend.Failed(keeper.StageWall, "start", name, found, "install it, or name it by its path")
}

// executable returns why a file cannot be executed, or nil.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case info.Mode()&0o111 == 0:
		return syscall.EACCES
	}
	return nil
}

// Environment returns the variables of this process that a wall's command gets unless
// its backend says otherwise: those that programs commonly need, and no secrets.
func Environment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_CONFIG_HOME",
		"XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "SSH_AUTH_SOCK", "KUBECONFIG", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "CONTAINER_HOST"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// uploadScript is for any POSIX shell. It is one line and has neither single quotes nor
// backslashes before quotes, so that other shells pass it on unchanged. It reads
// exactly the agent from standard input, and then executes it.
var uploadScript = strings.Join([]string{
	`umask 077; d=;`,
	`say() { printf "\n%s %s\n" "` + strings.TrimSpace(keeper.UploadMark) + ` NONCE" "$*"; };`,
	`bad() { say failed "$*"; [ -z "$d" ] || rm -rf "$d"; exit 125; };`,
	`for w in mkdir chmod rm; do command -v "$w" >/dev/null 2>&1 || bad "it has no program $w"; done;`,
	`if command -v sha256sum >/dev/null 2>&1; then sum() { sha256sum <"$1"; };`,
	`elif command -v shasum >/dev/null 2>&1; then sum() { shasum -a 256 <"$1"; };`,
	`elif command -v openssl >/dev/null 2>&1; then sum() { openssl dgst -sha256 -r <"$1"; };`,
	`else bad "it has none of the programs sha256sum, shasum and openssl, so what comes could not be checked"; fi;`,
	`if command -v head >/dev/null 2>&1; then get() { head -c SIZE; };`,
	`elif command -v dd >/dev/null 2>&1; then get() { dd bs=1 count=SIZE 2>/dev/null; };`,
	`else bad "it has none of the programs head and dd"; fi;`,
	`for t in "$TMPDIR" /tmp /var/tmp /dev/shm /run "$HOME"; do [ -n "$t" ] || continue; d="$t/paddock-NONCE";`,
	`if mkdir "$d" 2>/dev/null; then printf "#!/bin/sh\nexit 0\n" >"$d/paddock-agent" && chmod 700 "$d/paddock-agent" && "$d/paddock-agent" 2>/dev/null && break;`,
	`rm -rf "$d"; fi; d=; done;`,
	`[ -n "$d" ] || bad "there is no directory in which a program can be made and executed";`,
	`say ready;`,
	`get >"$d/paddock-agent" || bad "it could not be written";`,
	`s=$(sum "$d/paddock-agent");`,
	`[ "${s%% *}" = HASH ] || bad "what came is not what was sent: its hash is ${s%% *}";`,
	`say done;`,
	`exec "$d/paddock-agent" guest --remove "$d"`,
}, " ")

// upload returns the command that receives the agent, and changes the order so that the keeper
// sends it.
func upload(o *keeper.Order, agent *os.File) (command []string, err error) {
	h := sha256.New()
	if o.Upload, err = io.Copy(h, agent); err != nil {
		return nil, backend.Failed("agent", "read", agent.Name(), err, "")
	}
	o.UploadNonce = nonce()
	script := strings.NewReplacer("NONCE", o.UploadNonce, "SIZE", strconv.FormatInt(o.Upload, 10), "HASH", hex.EncodeToString(h.Sum(nil))).Replace(uploadScript)
	return []string{"/bin/sh", "-c", script}, nil
}
