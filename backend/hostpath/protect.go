package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// FirstLink names the first component of a path below root that is a symbolic
// link, "" where none is. The error is fs.ErrNotExist where there is no such path.
func FirstLink(root, rel string) (string, error) {
	at := ""
	for _, part := range strings.Split(rel, "/") {
		at = path.Join(at, part)
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || Reason(err) == "not a directory" {
				return "", fs.ErrNotExist
			}
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return at, nil
		}
	}
	return "", nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
