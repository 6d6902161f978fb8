//go:build linux

package escape

// fileAttacks are after files of the host's.
func fileAttacks() []row {
	rows := []row{
		{name: "read /etc/shadow", args: []string{"read", "/etc/shadow"}, want: "ENOENT", landlock: "EACCES", control: root},
		{name: "read a file of the host's", args: []string{"read", "{canary}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "read it through a symbolic link", args: []string{"through", "{canary}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "read it by /proc/self/root", args: []string{"read", "/proc/self/root{canary}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "read it by /proc/self/cwd", args: []string{"read", "/proc/self/cwd/..{up}{canary}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "truncate it", args: []string{"truncate", "{canary}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "append to it", args: []string{"append", "{canary}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "rename it into the workspace", args: []string{"take-away", "{canary}"}, want: "ENOENT", landlock: "EACCES|EXDEV"},
		{name: "hard-link it into the workspace", args: []string{"hardlink", "{canary}"}, want: "ENOENT", landlock: "EACCES|EXDEV"},
		{name: "execute a program of the host's", args: []string{"execute", "{program}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "list a directory of the host's", args: []string{"list", "{hostdir}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "create a file beside it", args: []string{"create", "{hostdir}/attacker-file"}, want: "ENOENT", landlock: "EACCES"},
		{name: "look at its size and times", args: []string{"stat", "{canary}"}, want: "ENOENT", lost: "names, sizes"},
		{name: "watch who uses it", args: []string{"watch", "{canary}"}, want: "ENOENT", lost: "names, sizes"},
		{name: "change its mode", args: []string{"chmod", "{canary}"}, want: "ENOENT", lost: "modes, times and attributes of the caller's own"},
		{name: "change its times", args: []string{"touch", "{canary}"}, want: "ENOENT", lost: "modes, times and attributes of the caller's own"},
		{name: "change its attributes", args: []string{"setxattr", "{canary}"}, want: "ENOENT", unless: "EOPNOTSUPP", lost: "modes, times and attributes of the caller's own"},
		{name: "list /root", args: []string{"list", "/root"}, want: "empty", landlock: "EACCES", control: root, unless: "empty"},
		{name: "list /run", args: []string{"list", "/run", "paddock-copies"}, want: "empty", landlock: "EACCES", unless: "empty"},
		{name: "list /var/lib", args: []string{"list", "/var/lib"}, want: "ENOENT", landlock: "EACCES|ENOENT", unless: "ENOENT"},
		{name: "list /sys/kernel", args: []string{"list", "/sys/kernel"}, want: "ENOENT", landlock: "EACCES"},
		{name: "create a file in /usr", args: []string{"create", "/usr/attacker-file"}, want: "EROFS", landlock: "EACCES", control: root},
		{name: "create a file in /etc", args: []string{"create", "/etc/attacker-file"}, want: "EROFS|EACCES", landlock: "EACCES", control: root},
		{name: "create a file in /", args: []string{"create", "/attacker-file"}, want: "EROFS|EACCES", landlock: "EACCES", control: root},
		{name: "open /bin/sh for writing", args: []string{"open", "/bin/sh", "w"}, want: "EROFS|EACCES", landlock: "EACCES", control: root, unless: "ETXTBSY"},
		{name: "reopen a file that is mounted read-only", args: []string{"reopen", "{tools}/data"}, want: "EROFS", landlock: "EACCES"},
		{name: "write the own program by /proc/self/exe", args: []string{"open", "/proc/self/exe", "w"}, want: "EROFS|ETXTBSY", landlock: "EACCES|ETXTBSY", unless: "ETXTBSY"},
		{name: "climb out of every directory handle", args: []string{"climb", "{canary}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "find an inherited working directory", args: []string{"working-dir", "{ws}"}, want: "the workspace", control: never, why: "whoever starts it has a directory"},
		{name: "use an inherited descriptor", args: []string{"inherited"}, want: "none"},
		{name: "open a file by its handle", args: []string{"handle"}, want: "EPERM", control: root},
		{name: "make a device node", args: []string{"mknod-null"}, want: "EPERM", control: root},
		{name: "make a disk's node", args: []string{"mknod-disk"}, want: "EPERM", control: root},
		{name: "make a whiteout (0:0)", args: []string{"mknod-white"}, want: "EPERM"},
		{name: "give a file capabilities", args: []string{"filecap"}, want: "EPERM", control: private},
		{name: "become root through a set-id program", args: []string{"euid", "{suid}"}, want: "ENOENT", landlock: "EACCES|ENOENT", control: ordinary, unless: "ENOENT"},
	}
	for _, device := range []string{"vda", "sda", "mem", "kmsg", "kvm", "fuse", "net/tun", "console", "tty1", "loop0", "vhost-vsock", "userfaultfd"} {
		rows = append(rows, row{name: "open /dev/" + device, args: []string{"open", "/dev/" + device, "r"}, want: "ENOENT", landlock: "EACCES|ENOENT",
			control: root, unless: "ENOENT|ENXIO|ENODEV|EIO|EPERM"})
	}
	return rows
}

// workspaceAttacks are after what the host executes, obeys or hides in a
// directory that commands may write.
func workspaceAttacks() []row {
	hook, config, agent := "{ws}/.git/hooks/pre-commit", "{ws}/.git/config", "{ws}/bin/paddock-agent"
	const (
		open    = "paths of the workspace that the host executes"
		refused = "refused at the start"
	)
	return []row{
		{name: "overwrite a git hook", args: []string{"append", hook}, want: "EROFS", lost: open},
		{name: "plant a git hook", args: []string{"create", "{ws}/.git/hooks/post-checkout"}, want: "EROFS", lost: open},
		{name: "replace a git hook", args: []string{"replace", hook}, want: "EXDEV|EROFS|EBUSY", lost: open},
		{name: "append to git's configuration", args: []string{"append", config}, want: succeeded, copied: config, lost: open},
		{name: "replace git's configuration", args: []string{"replace", config}, want: "EBUSY", lost: open},
		{name: "append to .envrc", args: []string{"append", "{ws}/.envrc"}, want: "EROFS", lost: open},
		{name: "replace .envrc", args: []string{"replace", "{ws}/.envrc"}, want: "EBUSY", lost: open},
		{name: "swap .git for another", args: []string{"exchange", "{ws}/.git"}, want: "EBUSY", lost: open},
		{name: "swap .git/hooks for another", args: []string{"exchange", "{ws}/.git/hooks"}, want: "EBUSY", lost: open},
		{name: "hard-link a hook to write it elsewhere", args: []string{"hardlink", hook}, want: "EXDEV", lost: open},
		{name: "remove git's configuration", args: []string{"remove", "{ws}/.git/config"}, want: "EBUSY", lost: open},
		{name: "swap the directory of the agent", args: []string{"exchange", "{ws}/bin"}, want: "EBUSY", absent: refused},
		{name: "hard-link the agent to write it elsewhere", args: []string{"hardlink", agent}, want: "EXDEV", absent: refused},
		{name: "append to the agent in the workspace", args: []string{"append", agent}, want: "EROFS|ETXTBSY", absent: refused},
		{name: "replace the agent in the workspace", args: []string{"replace", agent}, want: "EBUSY", absent: refused},
		{name: "append to the agent where it is installed", args: []string{"append", "{agent-program}"}, want: "ENOENT", landlock: "EACCES|ETXTBSY"},
		{name: "replace the agent where it is installed", args: []string{"replace", "{agent-program}"}, want: "ENOENT", landlock: "EACCES|EXDEV"},
		{name: "write a program that is mounted read-only", args: []string{"append", "{tools}/attacker"}, want: "EROFS|ETXTBSY", landlock: "EACCES|ETXTBSY", control: never, why: "it would write itself"},
		{name: "read Paddock's state", args: []string{"read", "{state}/secret"}, want: "ENOENT", landlock: "EACCES"},
		{name: "list Paddock's state", args: []string{"list", "{state}"}, want: "empty", landlock: "EACCES"},
		{name: "write Paddock's state", args: []string{"create", "{state}/x"}, want: "EROFS", landlock: "EACCES"},
		{name: "read another sandbox's private file", args: []string{"read", "{secret}"}, want: "ENOENT", landlock: "EACCES"},
		{name: "swap the state's directory", args: []string{"exchange", "{ws}/state"}, want: "EBUSY", absent: refused},
		{name: "uncover the state", args: []string{"umount", "{ws}/state", "{prepare}"}, want: "EPERM", control: private, absent: refused},
		{name: "uncover a hook", args: []string{"umount", "{ws}/.git/hooks", "{prepare}"}, want: "EPERM", control: private},
	}
}

// setIDAttacks leave a file that gives its owner's identity away on the host.
func setIDAttacks() []row {
	var rows []row
	ways := []string{"fchmod", "fchmodat", "fchmodat2", "openat", "openat2", "tmpfile", "mknodat", "highbits", "tar", "cp"}
	directories := []string{"mkdirat"}
	if amd64 { // newer architectures do not have these calls
		ways, directories = append(ways, "chmod", "open", "creat", "mknod"), append(directories, "mkdir")
	}
	for _, way := range ways {
		r := row{name: "plant a set-id file by " + way, args: []string{"setid-" + way}, want: "EPERM"}
		switch way {
		case "openat2", "fchmodat2":
			r.want, r.unless = "EPERM|ENOSYS", "ENOSYS"
		case "cp": // it says nothing, or that it could not keep the mode
			r.want, r.unless = "EPERM|the bit was left out|no such program", "the bit was left out|no such program"
		}
		rows = append(rows, r)
	}
	for _, way := range directories {
		rows = append(rows, row{name: "plant a set-id directory by " + way, args: []string{"setid-" + way}, want: "EPERM", unless: "the bit was left out"})
	}
	return append(rows, row{name: "plant a set-id file by io_uring", args: []string{"setid-io_uring"}, want: "ENOSYS", unless: "ENOSYS|EPERM"})
}
