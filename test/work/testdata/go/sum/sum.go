// Package sum adds numbers up.
package sum

import (
	"os"
	"path/filepath"
	"strconv"
)

// Files adds up the numbers that the files of a directory hold.
func Files(dir string) (total int, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(string(text))
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, err
}
