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
	// MaxBanner bounds the text before a guest's answer.
	MaxBanner = 64 << 10
	// MaxGuestReady bounds the answer, from its mark to its newline.
	MaxGuestReady = 16 << 10
	// MaxGuestThreads bounds Guest.Threads.
	MaxGuestThreads = 64
	// MaxGuestSockets bounds GuestPassage.Sockets.
	MaxGuestSockets = 256
	// nonceLength is the length of Guest.Nonce.
	nonceLength = 32
)

// guestMark begins a guest's answer; the nonce follows it.
const guestMark = "paddock-guest "

// NoFilter is the value of Guest.Seccomp for commands without a filter.
const NoFilter = "none"

// Guest is the one line that an agent behind a pipe is started with
// ("paddock-agent guest"). Secrets are passed in it, never in the agent's
// arguments or environment.
type Guest struct {
	Version int    `json:"version"` // of the protocol
	Build   string `json:"build,omitempty"`
	// Nonce is 32 random hexadecimal digits. The answer repeats it, so that no
	// text printed before can be mistaken for the answer.
	Nonce string `json:"nonce"`
	// Workspace is the absolute path of the directory that clients know as
	// /workspace. Empty: a new one, removed at the end. It must exist unless
	// MakeWorkspace is set.
	Workspace     OSString `json:"workspace,omitempty"`
	MakeWorkspace bool     `json:"make_workspace,omitempty"`
	// State is a directory in which the agent makes a private one for its own
	// files. Empty: it looks for a directory where it can do so.
	State OSString `json:"state,omitempty"`
	// Secrets is the directory in which commands find secrets; its parent must
	// exist. Empty: a directory in the private one.
	Secrets OSString `json:"secrets,omitempty"`
	// Env is added to the base environment of commands, and replaces variables
	// in it.
	Env OSEnv `json:"env,omitempty"`
	// Rlimits bound each process of every command.
	Rlimits GuestRlimits `json:"rlimits,omitzero"`
	// Redaction are the rules that apply to the output of every command. Requests can
	// only add rules.
	Redaction RedactRules `json:"redaction,omitempty"`
	// Seccomp is the profile of the commands' filter: "default", "strict",
	// "debug", or NoFilter, with which set-id programs work, too.
	Seccomp string `json:"seccomp"`
	// KernelFiles keeps commands from writing below /proc and /sys, by Landlock,
	// if the wall does not. It excludes NoFilter.
	KernelFiles bool `json:"protect_kernel_files,omitempty"`
	// KeepCapabilities lets commands keep the capabilities that the wall leaves
	// them. Without it they have none, except with NoFilter.
	KeepCapabilities bool `json:"keep_capabilities,omitempty"`
	// Threads is how many threads the agent starts before the first command, and
	// keeps: if commands share a bound of processes with the agent, they could
	// otherwise use up those that it needs. At most MaxGuestThreads.
	Threads int `json:"threads,omitempty"`
	// Passage, if not nil, is where the agent passes sockets on before the first command.
	Passage *GuestPassage `json:"passage,omitempty"`
	// Isolation is what hello reports about the walls, any JSON.
	Isolation json.RawMessage `json:"isolation,omitempty"`
}

// GuestPassage is a Unix socket to which the agent connects once. It passes unbound IPv4 sockets
// of its network namespace (SCM_RIGHTS), one for UDP and then TCP sockets, keeps none of them,
// and closes the connection.
type GuestPassage struct {
	Path    string `json:"path"`    // inside
	Sockets int    `json:"sockets"` // at most MaxGuestSockets
}

// GuestRlimits are resource limits of a process (setrlimit(2)). 0: none.
type GuestRlimits struct {
	CPUSeconds uint64 `json:"cpu_seconds,omitempty"`     // then SIGXCPU, and SIGKILL a second later
	FileSize   uint64 `json:"file_size_bytes,omitempty"` // RLIMIT_FSIZE
	OpenFiles  uint64 `json:"open_files,omitempty"`      // RLIMIT_NOFILE
	Processes  uint64 `json:"processes,omitempty"`       // RLIMIT_NPROC
	Data       uint64 `json:"data_bytes,omitempty"`      // RLIMIT_DATA
	// AddressSpace bounds what a process may map, used or not (RLIMIT_AS).
	AddressSpace uint64 `json:"address_space_bytes,omitempty"`
}

// GuestReady is a guest's answer. After it, the guest's standard input and
// output carry connections.
type GuestReady struct {
	Version int    `json:"version"`
	Build   string `json:"build,omitempty"`
	// PID is the agent's process id, as the agent sees it.
	PID int `json:"pid"`
	// Workspace is the directory's path inside.
	Workspace string `json:"workspace"`
	// Seccomp is the filter that commands have, or NoFilter.
	Seccomp string `json:"seccomp"`
	// Failed is why the guest does not serve; nil if it does.
	Failed *Error `json:"failed,omitempty"`
}

// Line returns the guest's line as it is sent.
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

// DecodeGuest reads a guest's line strictly: unknown names are errors, since
// both sides are of one build.
func DecodeGuest(line []byte) (*Guest, error) {
	g := &Guest{}
	if err := strict(line, g); err != nil {
		return nil, err
	}
	switch {
	case g.Version != Version:
		return g, fmt.Errorf("it speaks version %d of the protocol, and this is version %d", g.Version, Version)
	case len(g.Nonce) != nonceLength || strings.Trim(g.Nonce, "0123456789abcdef") != "":
		return nil, fmt.Errorf("its nonce must be %d hexadecimal digits", nonceLength)
	}
	for _, p := range []struct{ name, path string }{{"workspace", string(g.Workspace)}, {"state", string(g.State)}, {"secrets", string(g.Secrets)}} {
		if p.path != "" && !path.IsAbs(p.path) || strings.IndexByte(p.path, 0) >= 0 {
			return g, fmt.Errorf("%s must be an absolute path, and is %q", p.name, p.path)
		}
	}
	if p := g.Passage; p != nil && (!path.IsAbs(p.Path) || strings.IndexByte(p.Path, 0) >= 0 || p.Sockets < 1 || p.Sockets > MaxGuestSockets) {
		return g, fmt.Errorf("it cannot pass %d sockets to %q", p.Sockets, p.Path)
	}
	return g, nil
}

// strict decodes one object. Unknown names and anything after it are errors.
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

// AnswerLine returns the line with which a guest answers; nonce is that of its
// Guest. The line begins with a newline, in case text without one was printed
// before.
func (r *GuestReady) AnswerLine(nonce string) ([]byte, error) {
	text, err := encode(r)
	if err != nil {
		return nil, err
	}
	return append([]byte("\n"+guestMark+nonce+" "), text...), nil
}

// FindGuestReady looks for a guest's answer in what was read so far. banner is
// the text before it; rest is what follows, which is not part of the handshake
// any more. Without an answer, ready is nil; it may still come, unless err says
// that it is too late.
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
