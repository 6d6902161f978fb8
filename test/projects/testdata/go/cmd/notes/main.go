// Notes shows notes as pages.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.invalid/notes/note"
	"example.invalid/notes/render"
)

func main() {
	if err := command().Execute(); err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	table := false
	cmd := &cobra.Command{Use: "notes FILE…", Args: cobra.MinimumNArgs(1), SilenceUsage: true, RunE: func(cmd *cobra.Command, files []string) error {
		var all []note.Note
		for _, file := range files {
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
		if table {
			_, err := fmt.Fprint(cmd.OutOrStdout(), render.Table(all, 60))
			return err
		}
		for _, n := range all {
			page, err := render.HTML(n)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), page)
		}
		return nil
	}}
	cmd.Flags().BoolVar(&table, "list", false, "print a table")
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "table" {
			name = "list"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}
