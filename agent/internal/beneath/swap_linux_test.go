package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// descriptors is how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// While a name is by turns a directory and a link, a walk finds one or the
// other: never what the link leads to, nor that there is nothing or something
// else. No walk keeps a descriptor.
func TestWalkWhileSwapped(t *testing.T) {
	root, dir := tree(t)
	outside, err := os.Stat(filepath.Join(root, "outside"))
	if err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, root+"/root/a", unix.AT_FDCWD, root+"/root/l", unix.RENAME_EXCHANGE)
			}
		}
	})
	defer swapping.Wait()
	defer close(stop)
	for range 20_000 {
		at, err := dir.Walk([]string{"a"})
		var link *LinkError
		switch {
		case err == nil:
			st, serr := os.Stat("/proc/self/fd/" + strconv.Itoa(at.FD()))
			_ = at.Close()
			if serr != nil || os.SameFile(st, outside) {
				t.Fatalf("it leads outside, or nowhere: %v", serr)
			}
		case !errors.As(err, &link) || !link.Link:
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}
