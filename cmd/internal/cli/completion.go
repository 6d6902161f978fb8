package cli

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// completionCommand returns the command that prints a script for completion.
func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes command lines in your shell",
		Long:  "Print a script that completes paddock's command lines in the shell that is named.",
		Example: `  # bash, for this shell; for all shells, write it where bash-completion looks
  source <(paddock completion bash)

  # zsh
  paddock completion zsh > "${fpath[1]}/_paddock"

  # fish
  paddock completion fish > ~/.config/fish/completions/paddock.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &paddock.Error{Message: "cannot choose a shell: name one of bash, zsh and fish"}
			}
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(os.Stdout, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(os.Stdout)
			case "fish":
				return cmd.Root().GenFishCompletion(os.Stdout, true)
			}
			return &paddock.Error{
				Message: "cannot complete for " + strconv.Quote(args[0]) + ": the shells are bash, zsh and fish",
			}
		},
	}
}

// complete registers what the shell offers as a flag's value. The functions fail only
// for unknown flags, and the flag was added just before.
func complete(cmd *cobra.Command, f op.Field) {
	switch {
	case len(f.Choices) > 0:
		_ = cmd.RegisterFlagCompletionFunc(f.Flag, cobra.FixedCompletions(f.Choices, cobra.ShellCompDirectiveNoFileComp))
	case f.Complete == "dir":
		_ = cmd.MarkFlagDirname(f.Flag)
	case f.Complete != "file" && f.Kind != op.KindBool:
		_ = cmd.RegisterFlagCompletionFunc(f.Flag, cobra.NoFileCompletions)
	}
}
