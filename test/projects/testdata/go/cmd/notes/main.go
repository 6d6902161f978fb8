// Notes shows notes as pages.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/jessevdk/go-flags"

	"example.invalid/notes/note"
	"example.invalid/notes/render"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notes:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var options struct {
		List       bool `short:"l" long:"list" description:"print a table"`
		Positional struct {
			Files []string `positional-arg-name:"FILE" required:"1"`
		} `positional-args:"yes" required:"yes"`
	}
	if _, err := flags.NewParser(&options, flags.HelpFlag).ParseArgs(args); err != nil {
		return err
	}
	var all []note.Note
	for _, file := range options.Positional.Files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		n, err := note.Parse(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, n)
	}
	if options.List {
		_, err := fmt.Fprint(out, render.Table(all, 60))
		return err
	}
	for _, n := range all {
		page, err := render.HTML(n)
		if err != nil {
			return err
		}
		fmt.Fprint(out, page)
	}
	return nil
}
