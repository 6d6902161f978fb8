package paddock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/egress/knownhosts"
)

// SSHAgentEnv is the environment variable with the path of the caller's SSH agent.
const SSHAgentEnv = "SSH_AUTH_SOCK"

// showSSHAgent adds the caller's SSH agent to a request whose spec asks for it, and what the
// caller and the host know of other hosts. These decide where keys are used, so a file that
// commands of a sandbox or other users could have written is refused, and no sandbox with the
// agent can write one.
func showSSHAgent(req *backend.Request, seen *hostpath.Seen) error {
	if req.Spec.SSHAgent == nil {
		return nil
	}
	req.SSHAgent = os.Getenv(SSHAgentEnv)
	if !filepath.IsAbs(req.SSHAgent) {
		return &Error{Message: "cannot use the SSH agent: the variable " + SSHAgentEnv + " does not say where it is",
			Hint: `start one with eval "$(ssh-agent)", and add a key with ssh-add, or leave out ` + "`ssh_agent`"}
	}
	files := []string{"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}
	if req.Home != "" {
		files = append(files, filepath.Join(req.Home, ".ssh", "known_hosts"), filepath.Join(req.Home, ".ssh", "known_hosts2"))
	}
	for _, path := range files {
		own := backend.OwnFile{Path: path, What: "the list of known hosts", Replaced: true, Spare: true}
		req.Own = append(req.Own, own)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		way, err := seen.TrustProgram(own) // before it is opened: commands could have made it anything
		if err != nil {
			return err
		}
		data, err := hostpath.Read(context.Background(), filepath.Dir(way.Path), filepath.Base(way.Path), knownhosts.MaxSize)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a link that leads nowhere
		case errors.Is(err, hostpath.ErrTooLarge) || len(req.KnownHosts)+len(data) > knownhosts.MaxSize:
			return &Error{Message: "cannot use the SSH agent: the lists of known hosts are larger than 1MiB together", Hint: "remove hosts from ~/.ssh/known_hosts (ssh-keygen -R HOST)"}
		case err != nil:
			return &Error{Message: "cannot use the SSH agent: " + path + ": " + hostpath.Reason(err), Hint: "make it a regular file, or leave out `ssh_agent`"}
		}
		req.KnownHosts = append(append(req.KnownHosts, data...), '\n')
	}
	return nil
}
