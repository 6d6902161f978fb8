//go:build linux

package escape

// mountAttacks are after the view of the file system.
func mountAttacks() []row {
	rows := []row{
		{name: "remount /usr read-write", args: []string{"remount-rw", "/usr", "{prepare}"}, control: private},
		{name: "remount a hook read-write", args: []string{"remount-rw", "{ws}/.git/hooks", "{prepare}"}, control: private},
		{name: "clear the attributes of /usr", args: []string{"mount-setattr", "/usr", "{prepare}"}, control: private},
		{name: "unmount /usr", args: []string{"umount", "/usr", "{prepare}"}, control: private},
		{name: "unmount the workspace", args: []string{"umount", "{ws}", "{prepare}"}, control: private},
		{name: "unmount a mask of /proc", args: []string{"umount", "/proc/keys", "{prepare}"}, control: private},
	}
	for _, what := range []string{"mount-tmpfs", "mount-proc", "mount-bind", "open-tree", "move-mount", "fsopen", "fspick", "chroot", "pivot"} {
		rows = append(rows, row{name: what, args: []string{what}, control: private, unless: map[string]string{"mount-proc": "EPERM"}[what]})
	}
	for i := range rows {
		rows[i].want = "EPERM"
	}
	return rows
}

// namespaceAttacks are after namespaces, where everybody is root.
func namespaceAttacks() []row {
	var rows []row
	kinds := []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup", "time"}
	if emulated {
		kinds = kinds[:2]
	}
	for _, ns := range kinds {
		// What even the one who may is refused: to be where they are already,
		// with several threads, or with a shared file system.
		again := map[string]string{"user": "EINVAL", "time": "EUSERS|EINVAL", "mnt": "EINVAL"}[ns]
		rows = append(rows, row{name: "unshare " + ns, args: []string{"unshare", ns}, want: "EPERM", control: private})
		if ns != "time" {
			rows = append(rows,
				row{name: "clone a new " + ns, args: []string{"clone", ns}, want: "EPERM", control: private},
				row{name: "clone3 a new " + ns, args: []string{"clone3", ns}, want: "ENOSYS", control: private})
		}
		rows = append(rows,
			row{name: "enter init's " + ns, args: []string{"setns", "{init}", ns}, want: "EACCES", control: root, unless: again},
			row{name: "enter the host's " + ns, args: []string{"setns", "{host}", ns}, want: "ENOENT", landlock: "EACCES", control: root, unless: again},
			row{name: "enter the own " + ns + " again", args: []string{"setns", "self", ns}, want: "EPERM", control: private,
				unless: again + map[string]string{"pid": "EPERM", "cgroup": "EPERM"}[ns]})
	}
	return append(rows,
		row{name: "enter a namespace by a pidfd", args: []string{"setns-pidfd", "{init}"}, want: "EPERM", control: root},
		row{name: "change the host name", args: []string{"sethostname"}, want: "EPERM", control: private})
}
