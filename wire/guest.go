package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"
)

// Bounds of the handshake of a guest, in bytes.
const (
	// MaxGuest bounds the line that a guest is started with.
	MaxGuest = 4 << 20
	// MaxBanner bounds what may be printed before a guest's answer.
	MaxBanner = 64 << 10
	// MaxGuestReady bounds that answer, from its mark to its newline.
	MaxGuestReady = 16 << 10
	// MaxGuestThreads bounds Guest.Threads.
	MaxGuestThreads = 64
	// nonceLength is that of Guest.Nonce.
	nonceLength = 32
)

// guestMark begins a guest's answer; the nonce follows.
const guestMark = "paddock-guest "

// NoFilter is Guest.Seccomp where commands get no filter.
const NoFilter = "none"

// Guest is the one line that an agent behind a pipe is started with
// ("paddock-agent guest"). What is secret comes in it, never in arguments or
// variables of the agent's own.
type Guest struct {
	Version int    `json:"version"` // of the protocol
	Build   string `json:"build,omitempty"`
	// Nonce is 32 hexadecimal digits that nobody can guess. The answer repeats
	// it, so that nothing printed before can be taken for the answer.
	Nonce string `json:"nonce"`
	// Workspace is the absolute path of the directory that clients know as
	// /workspace. Empty: a new one, removed at the end. It must exist unless
	// MakeWorkspace is set.
	Workspace     string `json:"workspace,omitempty"`
	MakeWorkspace bool   `json:"make_workspace,omitempty"`
	// State is a directory for the agent's own files, which it makes a private
	// one in. Empty: it looks for one that lets it.
	State string `json:"state,omitempty"`
	// Secrets is the directory in which commands find secrets, below one that
	// exists. Empty: in the private one.
	Secrets string `json:"secrets,omitempty"`
	// Env is laid over the agent's base environment of commands.
	Env map[string]string `json:"env,omitempty"`
	// Rlimits bound each process of every command.
	Rlimits GuestRlimits `json:"rlimits,omitzero"`
	// Redaction are the rules for what is replaced in all that commands print.
	// Requests can only add to them.
	Redaction RedactRules `json:"redaction,omitempty"`
	// Seccomp is the profile of the commands' filter: "default", "strict",
	// "debug", or NoFilter, with which commands keep set-id programs too.
	Seccomp string `json:"seccomp"`
	// KernelFiles keeps commands from writing below /proc and /sys, by Landlock,
	// where the wall does not. It goes with a filter alone.
	KernelFiles bool `json:"protect_kernel_files,omitempty"`
	// KeepCapabilities lets commands hold what the wall leaves them. Without it
	// they hold none, except with NoFilter.
	KeepCapabilities bool `json:"keep_capabilities,omitempty"`
	// Threads are started before the first command is, and kept: where commands
	// share a bound of processes with the agent, they could use up what it needs
	// to go on. At most MaxGuestThreads.
	Threads int `json:"threads,omitempty"`
	// Isolation is what hello tells of the walls, any JSON.
	Isolation json.RawMessage `json:"isolation,omitempty"`
}

// GuestRlimits are resource limits of a process (setrlimit(2)). 0: none.
type GuestRlimits struct {
	CPUSeconds uint64 `json:"cpu_seconds,omitempty"`     // SIGXCPU then, SIGKILL a second later
	FileSize   uint64 `json:"file_size_bytes,omitempty"` // RLIMIT_FSIZE
	OpenFiles  uint64 `json:"open_files,omitempty"`      // RLIMIT_NOFILE
	Processes  uint64 `json:"processes,omitempty"`       // RLIMIT_NPROC
	Data       uint64 `json:"data_bytes,omitempty"`      // RLIMIT_DATA
	// AddressSpace is what a process may map, used or not (RLIMIT_AS).
	AddressSpace uint64 `json:"address_space_bytes,omitempty"`
}

// GuestReady is a guest's answer. From then on its standard input and output
// carry connections.
type GuestReady struct {
	Version int    `json:"version"`
	Build   string `json:"build,omitempty"`
	// PID is the agent's, as it sees itself.
	PID int `json:"pid"`
	// Workspace is the directory's path inside.
	Workspace string `json:"workspace"`
	// Seccomp is the filter that commands have, NoFilter where none.
	Seccomp string `json:"seccomp"`
	// Failed is why the guest does not serve, nil where it does.
	Failed *Error `json:"failed,omitempty"`
}

// Line is the guest's line as it is sent.
func (g *Guest) Line() ([]byte, error) {
	line, err := encode(g)
	if err == nil && len(line) > MaxGuest {
		err = fmt.Errorf("its %d bytes are more than %d", len(line), MaxGuest)
	}
	if err == nil {
		_, err = DecodeGuest(line)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot start the guest: %w", err)
	}
	return line, nil
}

// DecodeGuest reads a guest's line strictly: what it does not know it refuses,
// since both sides are of one build.
func DecodeGuest(line []byte) (*Guest, error) {
	g := &Guest{}
	if err := strict(line, g); err != nil {
		return nil, err
	}
	switch {
	case g.Version != Version:
		return g, fmt.Errorf("it speaks version %d of the protocol, and this is version %d", g.Version, Version)
	case !isNonce(g.Nonce):
		return nil, errors.New("it has no nonce")
	}
	for _, p := range []struct{ name, path string }{{"workspace", g.Workspace}, {"state", g.State}, {"secrets", g.Secrets}} {
		if p.path != "" && !path.IsAbs(p.path) || strings.IndexByte(p.path, 0) >= 0 {
			return g, fmt.Errorf("%s %q is no absolute path", p.name, p.path)
		}
	}
	return g, nil
}

// strict decodes one object without unknown names and without anything after it.
func strict(line []byte, v any) error {
	if !utf8.Valid(line) {
		return errors.New("it is not valid UTF-8")
	}
	if !bytes.Equal(exactKeys(line, v), line) {
		return errors.New("it has a name that differs in case")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

func isNonce(s string) bool {
	return len(s) == nonceLength && strings.Trim(s, "0123456789abcdef") == ""
}

// AnswerLine is the line with which a guest answers, nonce being its Guest's.
// It begins with a newline, should something have been printed without one.
func (r *GuestReady) AnswerLine(nonce string) ([]byte, error) {
	text, err := encode(r)
	if err != nil {
		return nil, err
	}
	return append([]byte("\n"+guestMark+nonce+" "), text...), nil
}

// FindGuestReady looks for a guest's answer in what has come so far. banner is
// what was printed before it; rest is what follows, which is no part of the
// handshake any more. Without an answer ready is nil, and more may come, unless
// err says that it is too late.
func FindGuestReady(read []byte, nonce string) (ready *GuestReady, banner, rest []byte, err error) {
	mark := []byte(guestMark + nonce + " ")
	at := bytes.Index(read, mark)
	if at > MaxBanner || at < 0 && len(read) > MaxBanner+len(mark) {
		return nil, read[:MaxBanner], nil, fmt.Errorf("more than %d bytes came before its answer", MaxBanner)
	}
	if at < 0 {
		return nil, read, nil, nil
	}
	banner = bytes.TrimSuffix(read[:at], []byte("\n"))
	line, rest, whole := bytes.Cut(read[at+len(mark):], []byte("\n"))
	switch {
	case len(line) > MaxGuestReady:
		return nil, banner, nil, fmt.Errorf("its answer is longer than %d bytes", MaxGuestReady)
	case !whole:
		return nil, banner, nil, nil
	}
	ready = &GuestReady{}
	if err := strict(bytes.TrimRight(line, "\r"), ready); err != nil {
		return nil, banner, nil, fmt.Errorf("its answer cannot be read: %s", printable(err.Error()))
	}
	ready.Build, ready.Workspace, ready.Seccomp = printable(ready.Build), printable(ready.Workspace), printable(ready.Seccomp)
	if ready.Failed != nil {
		_ = ready.Failed.fromPeer()
	}
	return ready, banner, rest, nil
}
