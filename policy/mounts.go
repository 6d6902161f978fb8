package policy

import (
	"path"
	"slices"
	"strings"
)

func (r *resolver) mounts(mounts []Mount) []Mount {
	if len(mounts) > maxMounts {
		r.refuse("mounts", "", "there are more than 256", "")
		return nil
	}
	mounts = slices.Clone(mounts)
	first := make(map[string]string, len(mounts)) // target: what is mounted there
	for i := range mounts {
		field := index("mounts", i)
		r.mount(field, &mounts[i])
		target := mounts[i].Target
		if other, taken := first[target]; taken && target != "" {
			r.refuse(field+".target", target, "another mount has it, of "+quoteShort(other), "")
			continue
		}
		first[target] = mounts[i].Source
	}
	slices.SortStableFunc(mounts, func(a, b Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	return mounts
}

func (r *resolver) mount(field string, m *Mount) {
	source, ok := r.mountSource(field+".source", m.Source, m.Mode)
	if m.Target == "" && ok {
		m.Target = source
	}
	if m.Target != "" {
		m.Target = r.mountTarget(field+".target", m.Target)
	}
	m.Source = source
	choose(r, field+".mode", &m.Mode, "ro", "rw")
}

func (r *resolver) mountSource(field, written, mode string) (source string, ok bool) {
	source, ok = r.hostPath(field, written)
	if !ok {
		return "", false
	}
	if top := within(source, kernelDirs()); top != "" {
		r.refuse(field, written, top+" belongs to the kernel", "a sandbox has a "+top+" of its own")
		return "", false
	}
	if source == "/" && mode == "rw" {
		r.refuse(field, written, "the whole host cannot be mounted read-write",
			"mount the directories that are needed, or use mode ro")
		return "", false
	}
	return source, true
}

// mountTarget returns the absolute path, or "" where it is refused.
func (r *resolver) mountTarget(field, written string) string {
	reason, hint := checkPath(written)
	target := written
	if reason == "" && isHomeRelative(written) {
		target, reason, hint = r.inHome(written)
	}
	if reason == "" {
		reason, hint = checkTarget(target)
	}
	if reason != "" {
		r.refuse(field, written, reason, hint)
		return ""
	}
	return target
}

func checkTarget(target string) (reason, hint string) {
	if !path.IsAbs(target) {
		return "it is not an absolute path", ""
	}
	if slices.Contains(strings.Split(target, "/"), "..") {
		return `it contains ".."`, ""
	}
	if clean := path.Clean(target); clean != target {
		return "it is not a clean path", "write " + quoteShort(clean)
	}
	if target == "/" {
		return "a mount cannot cover the whole sandbox", "name a target below /"
	}
	if top := within(target, kernelDirs()); top != "" {
		return "the sandbox has a " + top + " of its own", "choose a target outside " + top
	}
	if top := within(target, systemDirs()); top != "" {
		return top + " is read-only inside", "choose a target elsewhere, below /mnt say"
	}
	for _, own := range ownDirs() {
		if within(own, []string{target}) != "" {
			return "it would cover the sandbox's own " + own, "choose a target below it or elsewhere"
		}
	}
	return "", ""
}
