// Package dirfd reads directories and files through handles, name by name, and
// never over a symbolic link that commands of a sandbox could have put there.
package dirfd
