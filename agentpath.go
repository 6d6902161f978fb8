package paddock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// AgentEnv names the environment variable that overrides where the agent is.
const AgentEnv = "PADDOCK_AGENT"

// agentName is the agent's file name beside the running program.
const agentName = "paddock-agent"

// errNotProgram is a path that exists and cannot be run.
var errNotProgram = errors.New("not an executable file")

// agentPath finds the agent: the option, the environment, then beside the
// running program. A place that was named and does not hold an agent is an
// error, never a reason to run a different one.
func (o Options) agentPath() (string, error) {
	if o.Agent != "" {
		return namedAgent(o.Agent, "Options.Agent")
	}
	if path := os.Getenv(AgentEnv); path != "" {
		return namedAgent(path, "$"+AgentEnv)
	}
	tried := []string{"$" + AgentEnv + " (not set)"}
	self, err := os.Executable()
	if err != nil {
		tried = append(tried, "beside this program ("+err.Error()+")")
		return "", agentMissing(tried)
	}
	path := filepath.Join(filepath.Dir(self), agentName)
	if err := checkProgram(path); err != nil {
		return "", agentMissing(append(tried, path+" ("+err.Error()+")"))
	}
	return path, nil
}

// trustAgent resolves the agent's path, and refuses a program that commands of a
// sandbox, or another user of this host, could have put there.
func (o Options) trustAgent(seen *hostpath.Seen, path string) (*hostpath.Way, error) {
	own := backend.OwnFile{Path: path, What: "the agent"}
	switch {
	case o.Agent != "":
		own.Field = "Options.Agent"
	case os.Getenv(AgentEnv) != "":
		own.Field = AgentEnv
	}
	return seen.TrustProgram(own)
}

func namedAgent(path, from string) (string, error) {
	abs, err := absolute(path, from)
	if err != nil {
		return "", err
	}
	if err := checkProgram(abs); err != nil {
		return "", agentMissing([]string{from + " = " + abs + " (" + err.Error() + ")"})
	}
	return abs, nil
}

func agentMissing(tried []string) error {
	return &Error{
		Message: "cannot find the agent: tried " + strings.Join(tried, ", "),
		Hint:    "keep paddock-agent beside the program that uses it, or set " + AgentEnv + " to its path",
	}
}

// checkProgram gives the bare reason, because its callers name the path.
func checkProgram(path string) error {
	info, err := os.Stat(path)
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return errNotProgram
	}
	return nil
}
