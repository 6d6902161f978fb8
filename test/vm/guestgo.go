package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// usualState is the flag that keeps tests away from the state of the machine: this
// one is thrown away.
var usualState = regexp.MustCompile(`^-X=\S+[.]RootState=\S+ -X=\S+[.]RootStore=\S+$`)

// asGo is "go build" for tests in the machine: what they would build was
// built before, and is copied to where they want it.
func asGo(args []string) error {
	if len(args) == 0 || args[0] != "build" {
		return fmt.Errorf("cannot run go %s: there is no Go in this machine", strings.Join(args, " "))
	}
	f := flag.NewFlagSet("go build", flag.ContinueOnError)
	out := f.String("o", "", "")
	ldflags := f.String("ldflags", "", "")
	f.Bool("trimpath", false, "")
	f.Bool("buildvcs", false, "")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, pkg := range f.Args() {
		rel, err := filepath.Rel("/src", filepath.Join(dir, pkg))
		if err != nil {
			return err
		}
		target := *out
		if strings.HasSuffix(target, "/") {
			target = filepath.Join(target, filepath.Base(rel))
		}
		if err := place(program{rel, usualState.ReplaceAllString(*ldflags, "")}, target); err != nil {
			return err
		}
	}
	return nil
}

// place copies a program.
func place(p program, target string) (err error) {
	source, err := os.Open("/programs/" + p.file())
	if err != nil {
		return fmt.Errorf("%w: one more line in suites.go brings it", err)
	}
	defer source.Close()
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, source)
	return errors.Join(err, f.Close())
}
