package paddock

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// minSecret is the length of the shortest value, in bytes: answers are searched for it,
	// and a shorter one is in many of them by chance.
	minSecret = 8
	maxSecret = 16 << 10
	// secretWait is how long a source may take. Somebody may have to touch a key.
	secretWait = time.Minute
)

// intercept makes the authority of a sandbox whose rules intercept, and reads the secrets of
// the rules. Nothing keeps them but the egress process.
func (o *Options) intercept(ctx context.Context, req *backend.Request) error {
	network := req.Spec.Network
	if !network.Intercepts() {
		return nil
	}
	if o.intercepted == nil { // a start may be tried again, and a source can be read once
		authority, err := egress.NewAuthority()
		if err != nil {
			return fmt.Errorf("cannot make the sandbox's certificates: %w", err)
		}
		secrets, err := readSecrets(ctx, req)
		if err != nil {
			return err
		}
		o.intercepted = &backend.Interception{Certificate: authority.Certificate, Key: authority.Key, Secrets: secrets}
	}
	req.Intercept = o.intercepted
	return nil
}

// readSecrets reads all secrets of a request. The error joins one [*policy.FieldError] for
// each that cannot be used; none repeats anything of a value.
func readSecrets(ctx context.Context, req *backend.Request) (all []backend.Secret, err error) {
	ctx, cancel := context.WithTimeout(ctx, secretWait)
	defer cancel()
	var errs []error
	for _, secret := range req.Spec.Network.Secrets() {
		at := slices.IndexFunc(req.Spec.Network.Allow, func(rule NetworkRule) bool { return rule.Secret != nil && rule.Secret.Name == secret.Name })
		value, reason, hint := readSecret(ctx, req, secret)
		if reason == "" {
			reason, hint = checkSecret(value, secret, req.Spec)
		}
		if reason != "" {
			errs = append(errs, &policy.FieldError{Field: "network.allow[" + strconv.Itoa(at) + "].secret.source", Reason: "the value of " + secret.Name + " cannot be had: " + reason, Hint: hint})
			continue
		}
		known := backend.Secret{Name: secret.Name, Value: value}
		if secret.Substitute {
			if known.StandIn, err = standIn(value); err != nil {
				return nil, err
			}
		}
		all = append(all, known)
	}
	for _, one := range all {
		for _, other := range all {
			// Where the shorter one is replaced in an answer, the rest of the longer one is left.
			if one.Value != other.Value && strings.Contains(one.Value, other.Value) {
				errs = append(errs, &policy.FieldError{Field: "network.allow", Reason: "the value of " + other.Name + " is a part of that of " + one.Name + ": answers could not be searched for both",
					Hint: "use secrets that have nothing in common"})
			}
		}
	}
	return all, errors.Join(errs...)
}

// readSecret reads the value of a secret. reason says why it cannot.
func readSecret(ctx context.Context, req *backend.Request, secret policy.NetworkSecret) (value, reason, hint string) {
	kind, rest, _ := strings.Cut(secret.Source, ":")
	var text []byte
	var err error
	switch kind {
	case policy.SecretFromEnv:
		value, set := os.LookupEnv(rest)
		if !set {
			return "", "the variable " + rest + " is not set", "set it where you start Paddock"
		}
		text = []byte(value)
	case policy.SecretFromFile:
		if reason, hint := visible(req, rest); reason != "" {
			return "", reason, hint
		}
		text, err = readBounded(ctx, func() (io.ReadCloser, error) { return os.OpenFile(rest, os.O_RDONLY|syscall.O_NONBLOCK, 0) })
	case policy.SecretFromFD:
		n, perr := strconv.Atoi(rest)
		if perr != nil {
			return "", "it is no descriptor", ""
		}
		text, err = readBounded(ctx, func() (io.ReadCloser, error) {
			own, err := syscall.Dup(n) // the number stays the caller's
			if err != nil {
				return nil, err
			}
			syscall.CloseOnExec(own)
			return os.NewFile(uintptr(own), "fd "+rest), nil
		})
	case policy.SecretFromCommand:
		text, err = outputOf(ctx, rest)
	}
	if err != nil {
		if kind == policy.SecretFromFile {
			return "", "cannot read " + strconv.Quote(rest) + ": " + hostpath.Reason(err), ""
		}
		return "", hostpath.Reason(err), ""
	}
	return strings.TrimRight(string(text), "\r\n"), "", ""
}

// readBounded reads what open opens, unless it is too long, until ctx ends.
func readBounded(ctx context.Context, open func() (io.ReadCloser, error)) ([]byte, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	type read struct {
		text []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxSecret+3))
		done <- read{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return nil, errors.New("nothing came in time")
	}
}

// outputOf returns what a command of the operator's prints. What it says to people it says to
// the operator.
func outputOf(ctx context.Context, command string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdin, &out, os.Stderr, time.Second
	err := cmd.Run()
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("the command did not end in time")
	case errors.As(err, &exit):
		return nil, errors.New("the command ended with " + exit.String())
	}
	return out.Bytes(), err
}

// visible refuses a file that commands could read.
func visible(req *backend.Request, file string) (reason, hint string) {
	at := cmp.Or(hostpath.Real(file), file)
	sources := []string{req.Spec.Workspace.Source, req.Spec.Home}
	for _, m := range req.Spec.Mounts {
		sources = append(sources, m.Source)
	}
	if req.Spec.RootFS != policy.RootHost {
		sources = append(sources, req.Spec.RootFS)
	}
	for _, source := range sources {
		if source == "" || source == policy.HomeKeep {
			continue
		}
		if _, inside := hostpath.Within(at, cmp.Or(hostpath.Real(source), source)); inside {
			return "commands can read the file, which is in " + source, "keep it in a directory that the sandbox does not see"
		}
	}
	return "", ""
}

// checkSecret returns why a value cannot be used.
func checkSecret(value string, secret policy.NetworkSecret, spec Spec) (reason, hint string) {
	switch {
	case value == "":
		return "it is empty", ""
	case len(value) < minSecret:
		return "it is shorter than 8 bytes", "use a longer one: answers are searched for it, and what is so short is everywhere"
	case len(value) > maxSecret:
		return "it is longer than 16KiB", ""
	case strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "a header can have ASCII without spaces alone, and it has something else", ""
	}
	for name, own := range spec.Env {
		if strings.Contains(own, value) {
			return "the variable " + name + " has it inside", "do not pass that variable on"
		}
	}
	return "", ""
}

// standIn returns a random text of the shape of a value: of the same length, with letters,
// digits and other characters where the value has them. Words in small letters at its
// beginning, such as "sk-" and "ghp_", which programs look at, stay if enough follows them.
func standIn(value string) (string, error) {
	kept := 0
	for i := 0; i < len(value) && i <= kept+8; i++ {
		c := value[i]
		if (c == '-' || c == '_') && i > kept && len(value)-i > 16 {
			kept = i + 1
		} else if c < 'a' || c > 'z' {
			break
		}
	}
	made := []byte(value)
	for i := kept; i < len(made); i++ {
		for _, class := range []string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"} {
			if strings.IndexByte(class, made[i]) < 0 {
				continue
			}
			n, err := rand.Int(rand.Reader, big.NewInt(int64(len(class))))
			if err != nil {
				return "", err
			}
			made[i] = class[n.Int64()]
			break
		}
	}
	if string(made) == value { // there is nothing that could differ
		return strings.Repeat("x", len(value)), nil
	}
	return string(made), nil
}

// SetSecrets stores secrets in the sandbox, by their names, which must be valid names of
// variables: all of them or none. They replace those of the same names. The values are in the
// memory of the sandbox's agent until it ends. From then on [REDACTED] replaces them in the
// output of everything but commands that run already and write straight to a file of the host. [Cmd.SecretEnv]
// passes them to commands, also in other processes that have the sandbox.
//
// A value has from 4 bytes to 64 KiB, in UTF-8 without NUL bytes; a sandbox has at most 128
// secrets, of 128 KiB together.
func (s *Sandbox) SetSecrets(ctx context.Context, secrets map[string]string) error {
	_, err := s.client.SetSecrets(ctx, wire.SetSecretsRequest{Secrets: secrets})
	return secretsError("set the secrets", err)
}

// Secrets returns the names of the stored secrets, sorted.
func (s *Sandbox) Secrets(ctx context.Context) ([]string, error) {
	r, err := s.client.ListSecrets(ctx)
	return r.Names, secretsError("list the secrets", err)
}

// DeleteSecrets removes stored secrets: all of those that are named or none. For an unknown
// name the error has the code [wire.CodeNotFound]. What was started with a secret keeps it, and its
// output still does not show it.
func (s *Sandbox) DeleteSecrets(ctx context.Context, names ...string) error {
	_, err := s.client.DeleteSecrets(ctx, names...)
	return secretsError("delete the secrets", err)
}

func secretsError(what string, err error) error {
	if err == nil {
		return nil
	}
	return agentError(what, err)
}
