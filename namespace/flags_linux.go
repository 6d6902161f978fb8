package namespace

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/osstring"
)

// flag is a flag that sets something in an S. It has a name, or a letter, or both.
type flag[S any] struct {
	long  string
	short byte
	value valueKind
	set   func(s *S, value string) (wrong string) // wrong is empty if the value is valid
}

type valueKind uint8

const (
	noValue       valueKind = iota
	optionalValue           // --name or --name=VALUE
	needsValue              // --name=VALUE
)

// Spell adds dashes to flags: one to a single character and two to a word. A flag
// that begins with a dash stays as it is.
func Spell(flags []string) []string {
	spelled := make([]string, len(flags))
	for i, f := range flags {
		switch {
		case strings.HasPrefix(f, "-"):
			spelled[i] = f
		case utf8.RuneCountInString(f) == 1:
			spelled[i] = "-" + f
		default:
			spelled[i] = "--" + f
		}
	}
	return spelled
}

// notListed is why a flag is refused that does not exist: the hint lists those that do.
const notListed = "it is not on the list"

// parse applies flags to s. A value must be in the same element as its flag, so
// that no element can be mistaken for another kind.
func parse[S any](list []flag[S], flags []string, s *S) error {
	for _, text := range Spell(flags) {
		if err := parseOne(list, text, s); err != nil {
			err.Flag = text
			if err.Reason == notListed {
				err.Hint = listed(list)
			}
			return err
		}
	}
	return nil
}

// parseOne applies one element, which may hold several letters.
func parseOne[S any](list []flag[S], text string, s *S) *FlagError {
	if name, ok := strings.CutPrefix(text, "--"); ok {
		name, value, has := strings.Cut(name, "=")
		i := slices.IndexFunc(list, func(f flag[S]) bool { return f.long == name })
		if name == "" || i < 0 {
			return &FlagError{Reason: notListed}
		}
		return list[i].apply(s, value, has)
	}
	letters := text[1:]
	for i := 0; i < len(letters); i++ {
		at := slices.IndexFunc(list, func(f flag[S]) bool { return f.short == letters[i] && f.short != 0 })
		if at < 0 {
			return &FlagError{Reason: notListed}
		}
		if list[at].value == needsValue {
			value := letters[i+1:]
			return list[at].apply(s, value, value != "")
		}
		if err := list[at].apply(s, "", false); err != nil {
			return err
		}
	}
	if letters == "" {
		return &FlagError{Reason: notListed}
	}
	return nil
}

// apply checks the value and sets it.
func (f *flag[S]) apply(s *S, value string, has bool) *FlagError {
	switch {
	case has && f.value == noValue:
		return &FlagError{Reason: "it takes no value"}
	case has && value == "":
		return &FlagError{Reason: "its value is empty"}
	case !has && f.value == needsValue:
		return &FlagError{Reason: "its value is missing: write --" + f.long + "=VALUE as one element"}
	case strings.IndexByte(value, 0) >= 0:
		return &FlagError{Reason: "its value must not hold a NUL byte"}
	}
	if wrong := f.set(s, value); wrong != "" {
		return &FlagError{Reason: wrong}
	}
	return nil
}

// listed returns the list of flags, for people.
func listed[S any](list []flag[S]) string {
	var b strings.Builder
	b.WriteString("the flags are:")
	for i, f := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		if f.short != 0 {
			b.WriteString("-" + string(f.short) + " ")
		}
		b.WriteString("--" + f.long)
		switch f.value {
		case optionalValue:
			b.WriteString("[=VALUE]")
		case needsValue:
			b.WriteString("=VALUE")
		}
	}
	return b.String()
}

// kind is a kind of namespace.
type kind struct {
	long  string // in flags
	short byte
	flag  uint64 // of clone(2)
	file  string // below /proc/PID/ns
	limit string // the file with the most that may exist, below /proc/sys/user
}

var kinds = []kind{
	{"mount", 'm', unix.CLONE_NEWNS, "mnt", "max_mnt_namespaces"},
	{"uts", 'u', unix.CLONE_NEWUTS, "uts", "max_uts_namespaces"},
	{"ipc", 'i', unix.CLONE_NEWIPC, "ipc", "max_ipc_namespaces"},
	{"net", 'n', unix.CLONE_NEWNET, "net", "max_net_namespaces"},
	{"pid", 'p', unix.CLONE_NEWPID, "pid", "max_pid_namespaces"},
	{"user", 'U', unix.CLONE_NEWUSER, "user", "max_user_namespaces"},
	{"cgroup", 'C', unix.CLONE_NEWCGROUP, "cgroup", "max_cgroup_namespaces"},
	{"time", 'T', unix.CLONE_NEWTIME, "time", "max_time_namespaces"},
}

// names returns the names of namespaces, for errors.
func names(flags uint64) string {
	var all []string
	for _, k := range kinds {
		if flags&k.flag != 0 {
			all = append(all, k.long)
		}
	}
	if len(all) == 1 {
		return "the " + all[0] + " namespace"
	}
	return "the namespaces " + strings.Join(all, ", ")
}

const noID = "its value must be a user or group id from 0 to 4294967294"

// parseID reads a user or group id.
func parseID(value string, into **uint32) (wrong string) {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n == 1<<32-1 { // -1, with which the kernel changes nothing
		return noID
	}
	id := uint32(n)
	*into = &id
	return ""
}

// parsePath reads an absolute path.
func parsePath(value string, into *osstring.String) (wrong string) {
	if !path.IsAbs(value) {
		return "its value must be an absolute path"
	}
	*into = osstring.String(value)
	return ""
}

// parseOffset reads the offset of a clock.
func parseOffset(value string, into **int64) (wrong string) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return "its value must be a whole number of seconds"
	}
	*into = &n
	return ""
}

// File is the file of a namespace, as it is below /proc/PID/ns.
type File struct {
	Namespace uint64          `json:"namespace"` // CLONE_NEW*
	Path      osstring.String `json:"path"`
}

// parseFile reads the absolute path of a namespace's file, if there is one.
func parseFile(value string, namespace uint64, into *[]File) (wrong string) {
	if value == "" {
		return ""
	}
	f := File{Namespace: namespace}
	if wrong := parsePath(value, &f.Path); wrong != "" {
		return wrong
	}
	*into = append(*into, f)
	return ""
}

// Map maps ids in a user namespace to ids outside.
type Map struct {
	Inside  uint32 `json:"inside"`
	Outside uint32 `json:"outside"`
	Count   uint32 `json:"count"`
}

const (
	maxMaps = 340 // lines that the kernel accepts
	noMap   = "its value must be INSIDE:OUTSIDE:COUNT"
)

// parseMap reads a map and appends it.
func parseMap(value string, into *[]Map) (wrong string) {
	parts := strings.Split(value, ":")
	if len(parts) != 3 {
		return noMap
	}
	var n [3]uint32
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return noMap
		}
		n[i] = uint32(v)
	}
	if n[2] == 0 {
		return "the COUNT of a map must not be 0"
	}
	if len(*into) == maxMaps {
		return "the kernel accepts no more maps"
	}
	*into = append(*into, Map{n[0], n[1], n[2]})
	return ""
}

// parseSignal reads a signal's name, with or without SIG, or its number.
func parseSignal(value string, into *int) (wrong string) {
	const last = 64
	if n, err := strconv.Atoi(value); err == nil && n >= 1 && n <= last {
		*into = n
		return ""
	}
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(value), "SIG")
	if n := unix.SignalNum(name); n != 0 {
		*into = int(n)
		return ""
	}
	return "unknown signal"
}

// oneOf reads one of some words.
func oneOf(value string, into *string, words ...string) (wrong string) {
	for _, w := range words {
		if value == w {
			*into = value
			return ""
		}
	}
	return "its value must be one of " + strings.Join(words, ", ")
}
