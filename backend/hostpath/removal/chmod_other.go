//go:build !linux

package removal

import "golang.org/x/sys/unix"

// chmodDir gives the owner of a directory all rights to it, and never follows a link.
func chmodDir(dir int, name string) error {
	return unix.Fchmodat(dir, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}
