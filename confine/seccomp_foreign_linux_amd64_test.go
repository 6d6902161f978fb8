package confine

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// int80 is a function of machine code that asks the 32-bit table for the
// process id: mov $20, %eax; int $0x80; cltq; ret. The result is where Go's
// functions leave theirs.
var int80 = []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0x48, 0x98, 0xc3}

func init() {
	only["int80"] = func() error {
		code, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		copy(code, int80)
		if err := unix.Mprotect(code, unix.PROT_READ|unix.PROT_EXEC); err != nil {
			return err
		}
		entry := &code[0]
		word := &entry // a func value points to a word that holds the code's address
		if pid := (*(*func() int)(unsafe.Pointer(&word)))(); pid < 0 {
			return unix.Errno(-pid)
		}
		return nil
	}
	only["x32"] = func() error { return raw(0x40000000 | unix.SYS_GETPID) }
}

// Numbers of the other two tables that one program can ask are refused. A
// kernel that has such a table answers them without the filter; one without the
// 32-bit table ends the program.
func TestForeignTables(t *testing.T) {
	for _, name := range []string{"int80", "x32"} {
		bare, err := try(t, uint32(os.Getuid()), childOrder{Only: name})
		if err != nil {
			t.Logf("%s: this kernel has no such table: %v", name, err)
			continue
		}
		t.Logf("%s without the filter: errno %d", name, bare[name])
		for _, uid := range users() {
			for _, o := range kernelOptions {
				if got := tryAll(t, uid, childOrder{Filtered: true, Options: o, Only: name}); unix.Errno(got[name]) != unix.ENOSYS {
					t.Errorf("%s, user %d, %+v: errno %d", name, uid, o, got[name])
				}
			}
		}
	}
}
