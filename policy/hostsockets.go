package policy

import (
	"path"
	"slices"
)

// maxHostSockets is how many sockets of the host a spec may name.
const maxHostSockets = 16

// hostSockets returns the sockets of the host that commands may connect to, made absolute.
func (r *resolver) hostSockets(s *Spec) {
	const field = "host_sockets"
	if len(s.HostSockets) > maxHostSockets {
		r.refuse(field, "", "it has more than 16 entries", "")
		return
	}
	s.HostSockets = slices.Clone(s.HostSockets)
	for i, written := range s.HostSockets {
		at, ok := r.hostPath(index(field, i), written)
		if !ok {
			continue
		}
		s.HostSockets[i] = at
		reason, hint := checkTarget(at) // it is found at the same path inside
		switch {
		case reason != "":
			r.refuse(index(field, i), written, reason, "let the server listen elsewhere, below /run say: "+hint)
		case slices.Contains(s.HostSockets[:i], at):
			r.refuse(index(field, i), written, "it is there twice", "")
		case slices.ContainsFunc(s.Mounts, func(m Mount) bool { return m.Target == at }):
			r.refuse(index(field, i), written, "a mount has this path inside", "leave the mount out")
		}
	}
	if s.Level == LevelLandlock && len(s.HostSockets) > 0 {
		r.refuse(field, s.HostSockets[0], "the landlock level has no Unix sockets", "use level full")
	}
}

// hostSockets refuses sockets that the ceiling does not name.
func (a *applier) hostSockets(list []string) {
	for i, at := range list[:min(len(list), maxHostSockets)] { // Resolve refuses more
		if !path.IsAbs(at) {
			a.refuse(index("host_sockets", i), "host_sockets", at, "it is not an absolute path", "write it in full")
			continue
		}
		a.word(index("host_sockets", i), "host_sockets", path.Clean(at), a.c.HostSockets)
	}
}

// hostSocketPaths checks the sockets of a ceiling.
func (r *resolver) hostSocketPaths(field string, list []string) {
	if len(list) > maxAllowed {
		r.tooMany(field)
		return
	}
	for i, at := range list {
		reason, hint := checkPath(at)
		switch {
		case reason != "":
		case !path.IsAbs(at):
			reason = "it is not an absolute path"
		case path.Clean(at) != at:
			reason, hint = "it is not a clean path", "write "+quoteShort(path.Clean(at))
		}
		if reason != "" {
			r.refuse(index(field, i), at, reason, hint)
		}
	}
}
