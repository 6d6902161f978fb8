package layer

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// oddNames are names of the trees that tests make at random.
var oddNames = []string{"a", "b b", "c\nd", "\xff\xfe", "ü", "-x", `q"uote`, `back\slash`, "tab\t", " lead", "trail ", "file.txt", "a b/"[:3], "\x1b[31m", "dev null"}

// changeAtRandom changes a tree. What the file system refuses is left.
func changeAtRandom(root string, seed int64, steps int) {
	random := rand.New(rand.NewPCG(uint64(seed), 7))
	var dirs, files []string // below root
	look := func() {
		dirs, files = []string{""}, nil
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == root {
				return err
			}
			rel, _ := filepath.Rel(root, path)
			if d.IsDir() {
				dirs = append(dirs, rel)
			} else {
				files = append(files, rel)
			}
			return nil
		})
	}
	pick := func(list []string) string {
		if len(list) == 0 {
			return "none"
		}
		return filepath.Join(root, list[random.IntN(len(list))])
	}
	fresh := func() string { return filepath.Join(pick(dirs), oddNames[random.IntN(len(oddNames))]) }
	for range steps {
		look()
		switch random.IntN(14) {
		case 0, 1, 2:
			write(fresh(), randomContent(random))
		case 3, 4:
			path := pick(files)
			if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() {
				data, _ := os.ReadFile(path)
				write(path, editAtRandom(random, data))
			}
		case 5:
			_ = os.Remove(pick(files))
		case 6, 7:
			_ = os.Mkdir(fresh(), 0o755)
		case 8:
			if path := pick(dirs); path != root && random.IntN(2) == 0 {
				_ = os.RemoveAll(path)
				if random.IntN(2) == 0 {
					_ = os.Mkdir(path, 0o755)
				}
			}
		case 9:
			_ = os.Rename(pick(files), fresh())
		case 10:
			if path := pick(dirs); path != root {
				_ = os.Rename(path, fresh())
			}
		case 11:
			path := fresh()
			if random.IntN(2) == 0 {
				_ = os.RemoveAll(path)
			}
			_ = os.Symlink(oddNames[random.IntN(len(oddNames))], path)
		case 12:
			path := pick(files)
			if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() {
				_ = os.Chmod(path, []fs.FileMode{0o644, 0o755, 0o600, 0o700}[random.IntN(4)])
			} else if path = pick(dirs); path != root {
				_ = os.Chmod(path, []fs.FileMode{0o755, 0o700}[random.IntN(2)])
			}
		case 13:
			if random.IntN(3) == 0 {
				_ = unix.Mkfifo(fresh(), 0o644)
			} else {
				_ = os.Link(pick(files), fresh())
			}
		}
	}
}

func randomContent(random *rand.Rand) []byte {
	switch random.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte("bin\x00ary\n" + fmt.Sprint(random.Int()))
	case 2:
		return bytes.Repeat([]byte("large\n"), 20_000)
	case 3:
		return []byte("-- a/file\n@@ -1,2 +3 @@\ndiff --git a/x b/x\n# note\n\\ No newline at end of file")
	}
	var b []byte
	for range random.IntN(40) {
		b = fmt.Appendf(b, "line %d\xff\t \r\n", random.IntN(10))
	}
	if random.IntN(3) == 0 && len(b) > 0 {
		b = b[:len(b)-1]
	}
	return b
}

// write does not wait for a reader of a pipe.
func write(path string, data []byte) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	_, _ = f.Write(data)
}

// editAtRandom changes some lines.
func editAtRandom(random *rand.Rand, data []byte) []byte {
	lines := bytes.SplitAfter(data, []byte("\n"))
	for range 1 + random.IntN(4) {
		i := random.IntN(len(lines))
		switch random.IntN(3) {
		case 0:
			lines[i] = fmt.Appendf(nil, "new %d\n", random.Int())
		case 1:
			lines[i] = nil
		case 2:
			lines[i] = append(bytes.Clone(lines[i]), "more\n"...)
		}
	}
	return bytes.Join(lines, nil)
}

// lookAt describes each path of a tree.
func lookAt(t *testing.T, root string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		st, err := d.Info()
		if err != nil {
			return err
		}
		text := st.Mode().String()
		switch {
		case st.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(data)
		case st.Mode().Type() == fs.ModeSymlink:
			target, _ := os.Readlink(path)
			text += " " + target
		}
		all[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
