package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// intrude tries what one process can do to another of its user through the
// descriptors and the memory that /proc shows, and writes a line for each thing
// that it got hold of. With a way in and a way out it answers for that process.
func intrude(process, out string) {
	for waits := true; waits; time.Sleep(time.Millisecond) {
		link, _ := os.Readlink(process + "/fd/0")
		waits = strings.HasPrefix(link, "/")
	}
	var got []string
	var input, report *os.File
	links, _ := filepath.Glob(process + "/fd/*")
	for _, name := range links {
		link, _ := os.Readlink(name)
		kind, _, _ := strings.Cut(link, ":")
		number := filepath.Base(name)
		if number == "1" || number == "2" || number == "255" {
			continue // streams of commands
		}
		if kind == "/memfd" {
			_ = os.Chmod(name, 0o666)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err == nil && kind == "/memfd" {
			_, err = f.WriteAt([]byte("true"), 0)
		}
		switch {
		case err != nil:
			continue
		case number == "0":
			input = f
		default:
			report = f
		}
		got = append(got, link[:strings.IndexAny(link+"[", "[ ")]+" "+number)
	}
	if f, err := os.OpenFile(process+"/mem", os.O_RDWR, 0); err == nil {
		got = append(got, "its memory")
		_ = f.Close()
	}
	slices.Sort(got)
	_ = os.WriteFile(out+".new", []byte(strings.Join(append(got, ""), "\n")), 0o600)
	_ = os.Rename(out+".new", out)
	if input != nil && report != nil {
		answer(input, report)
	}
	forever()
}

var word = regexp.MustCompile("[A-Z2-7]{12}")

// answer takes lines that were meant for a shell, and reports success.
func answer(input, report *os.File) {
	line := make([]byte, 1<<16)
	for {
		n, err := input.Read(line)
		if err != nil {
			return
		}
		for _, w := range word.FindAll(line[:n], 1) {
			fmt.Fprintf(report, "\n%[1]s 0 hB\n/workspace\n\n%[1]s.\n", w)
		}
	}
}
