package toolchain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A FIFO without a writer, in the place of a directory or of a file that is read, does not hang.
func TestFIFO(t *testing.T) {
	root := newRoot(t)
	makeTree(t, root, "home/.asdf/shims/node; home/.asdf/installs/maven/3/conf/; home/.local/")
	for _, at := range []string{"home/.asdf/installs/f", "home/.asdf/installs/maven/3/conf/settings.xml", "home/.local/bin"} {
		if err := unix.Mkfifo(root+"/"+at, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const settings = "$HOME/.asdf/installs/maven/3/conf/settings.xml"
	want := "asdf: $HOME/.asdf/installs $HOME/.asdf/shims -" + settings + " ASDF_DATA_DIR=$HOME/.asdf @$HOME/.asdf/shims"
	if diff := cmp.Diff(want, find(t, root, "$HOME/.asdf/shims:$HOME/.local/bin", nil, nil)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
