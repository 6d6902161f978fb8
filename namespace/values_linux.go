package namespace

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kind is one kind of namespaces.
type kind struct {
	long  string // in flags
	short byte
	flag  uint64 // of clone(2)
	file  string // below /proc/PID/ns
	limit string // of how many there may be, below /proc/sys/user
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

// names says which namespaces are meant.
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

const noID = "it is no user or group id from 0 to 4294967294"

// parseID reads a user or group id.
func parseID(value string, into **uint32) (wrong string) {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n == 1<<32-1 { // which means "leave it" to the kernel
		return noID
	}
	id := uint32(n)
	*into = &id
	return ""
}

// parsePath reads an absolute path.
func parsePath(value string, into *string) (wrong string) {
	if !path.IsAbs(value) {
		return "it takes an absolute path"
	}
	*into = value
	return ""
}

// Map says which ids outside stand for ids in a user namespace.
type Map struct {
	Inside  uint32 `json:"inside"`
	Outside uint32 `json:"outside"`
	Count   uint32 `json:"count"`
}

// line is the map as the kernel reads it.
func (m Map) line() string {
	return strconv.FormatUint(uint64(m.Inside), 10) + " " + strconv.FormatUint(uint64(m.Outside), 10) + " " + strconv.FormatUint(uint64(m.Count), 10) + "\n"
}

const (
	maxMaps = 340 // lines that the kernel takes
	noMap   = "it takes INSIDE:OUTSIDE:COUNT"
)

// parseMap adds a map to those there are.
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
		return "it maps nothing: " + noMap
	}
	if len(*into) == maxMaps {
		return "the kernel takes no more maps"
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
	return "there is no such signal"
}

// oneOf reads one of a few words.
func oneOf(value string, into *string, words ...string) (wrong string) {
	for _, w := range words {
		if value == w {
			*into = value
			return ""
		}
	}
	return "it takes one of " + strings.Join(words, ", ")
}
