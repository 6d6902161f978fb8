package wire

import (
	"runtime/debug"
	"testing"
)

func TestBuildOf(t *testing.T) {
	const sum = "h1:PC3yNs51cX5LZ7U57a7xielBcoXB3xnV+rXD8V0H0DQ="
	tests := []struct {
		name string
		main debug.Module
		want string
	}{
		{"installed by version", debug.Module{Path: module, Version: "v1.2.3", Sum: sum}, "v1.2.3.PC3yNs51cX5L"},
		{"a tree", debug.Module{Path: module, Version: "(devel)"}, ""},
		{"a tree with a commit", debug.Module{Path: module, Version: "v1.2.4-0.20261123000000-0123456789ab+dirty"}, ""},
		{"a program that imports the library", debug.Module{Path: "example.com/app", Version: "v1.2.3", Sum: sum}, ""},
		{"nothing", debug.Module{}, ""},
	}
	for _, tt := range tests {
		if got := buildOf(tt.main); got != tt.want {
			t.Errorf("%s: build %q, want %q", tt.name, got, tt.want)
		}
	}
}
