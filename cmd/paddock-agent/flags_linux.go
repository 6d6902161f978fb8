package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/paddock-dev/paddock/agent"
)

const help = `paddock-agent runs commands, shells and services for the clients of its socket, and
stores files and secrets for them: inside a virtual machine or a container, or as an
ordinary process. It builds no walls around commands; paddock does.

Usage:
  paddock-agent [flags]    serve clients
  paddock-agent --version  print the protocol version and the build

Listening:
  --listen ADDRESS       address to serve on; may be repeated; default ` + agent.DefaultListen + `
                           vsock://[:PORT]   the vsock of a virtual machine
                           virtio://PORT     a virtio-serial port, by its name
                           unix:///PATH      a socket for this user and root only
                           tcp://HOST:PORT   needs --token-file
                           fd://N            an inherited listening socket
                           stdio             many connections over stdin and stdout
  --token-file FILE      every request must have this secret in its field "token"
  --insecure-loopback    allow TCP without a token on a loopback address
  --vsock-cid N          peer that may connect over vsock; may be repeated
                         default: the host (2) and the hypervisor (0)

Directories and environment:
  --workspace DIR        directory that clients see as /workspace (default /workspace)
  --shell-root DIR       state of shells (default /run/pyro-shells)
  --service-root DIR     state and logs of services (default /run/pyro-services)
  --secret-root DIR      secrets (default /run/pyro-secrets)
                         for users other than root, $XDG_RUNTIME_DIR replaces /run
                         in these defaults if it is set
  --env NAME=VALUE       set a variable for every command; may be repeated. Commands
                         inherit nothing of the agent's own environment

Running as init:
  --init                 be the init of a machine: mount /proc, /sys, /dev, … if
                         they are missing, and power off at the end

SIGTERM, SIGINT or the action "shutdown" ends all commands, then the agent.

Examples:
  paddock-agent --listen unix:///run/agent.sock --workspace /srv/work
  paddock-agent --listen tcp://127.0.0.1:5005 --token-file /etc/agent.token
  init=/sbin/paddock-agent -- --init          (a kernel's command line)
`

// list is a flag that may be repeated.
type list []string

// String returns the value as text.
func (l *list) String() string { return fmt.Sprint([]string(*l)) }

// Set adds a value.
func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

// cids is a list of vsock peers.
type cids []uint32

// String returns the value as text.
func (c *cids) String() string { return fmt.Sprint([]uint32(*c)) }

// Set adds a peer.
func (c *cids) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return errors.New("must be a number from 0 to 4294967295")
	}
	*c = append(*c, uint32(n))
	return nil
}

// serve parses the flags and runs the agent on its own. It returns the exit status.
func serve(args []string) int {
	var c agent.Config
	f := flag.NewFlagSet("paddock-agent", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Var((*list)(&c.Listen), "listen", "")
	f.Var((*list)(&c.Env), "env", "")
	f.Var((*cids)(&c.VsockCIDs), "vsock-cid", "")
	f.StringVar(&c.Workspace, "workspace", "/workspace", "")
	run := "/run"
	if own := os.Getenv("XDG_RUNTIME_DIR"); os.Geteuid() != 0 && filepath.IsAbs(own) {
		run = own
	}
	f.StringVar(&c.ShellRoot, "shell-root", filepath.Join(run, "pyro-shells"), "")
	f.StringVar(&c.ServiceRoot, "service-root", filepath.Join(run, "pyro-services"), "")
	f.StringVar(&c.SecretRoot, "secret-root", filepath.Join(run, "pyro-secrets"), "")
	f.StringVar(&c.TokenFile, "token-file", "", "")
	f.BoolVar(&c.InsecureLoopback, "insecure-loopback", false, "")
	f.BoolVar(&c.Init, "init", false, "")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(help)
		return 0
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("%q is not a flag", f.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "paddock-agent: cannot start: %v\npaddock-agent: hint: see paddock-agent --help\n", err)
		return agent.ExitCannotStart
	}
	return agent.Standalone(c)
}
