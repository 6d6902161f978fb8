package sum

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "1", "b": "41"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Files(dir); got != 42 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}

func TestThatFails(t *testing.T) {
	if os.Getenv("FAIL") != "" {
		t.Error("as asked")
	}
}
