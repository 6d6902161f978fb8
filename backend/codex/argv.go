package codex

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
)

// The words of the option platform.
const (
	platformAuto  = "auto"
	platformLinux = "linux"
	platformMacOS = "macos"
)

// errPlatform is what the option platform cannot be left out for.
var errPlatform = errors.New("Codex sandbox policy could not determine a supported platform; set 'platform' explicitly.") //nolint:revive,staticcheck // the contract fixes the text

// missingError says that the CLI is not there.
type missingError struct{ binary string }

// Error returns the text that the contract fixes.
func (e *missingError) Error() string {
	return fmt.Sprintf("Codex sandbox policy requires the '%s' CLI to be installed and available on PATH.", e.binary)
}

// Remedy says how it is got.
func (e *missingError) Remedy() string { return "npm install -g @openai/codex" }

// platform resolves the option on this machine.
func platform(option string) (string, error) { return platformOn(runtime.GOOS, option) }

func platformOn(goos, option string) (string, error) {
	switch option {
	case platformLinux, platformMacOS:
		return option, nil
	case "", platformAuto:
		switch goos {
		case "linux":
			return platformLinux, nil
		case "darwin":
			return platformMacOS, nil
		}
		return "", errPlatform
	}
	return "", fmt.Errorf("it is none of %s, %s, %s", platformAuto, platformLinux, platformMacOS)
}

// dialect is how a version of the CLI takes its arguments.
type dialect struct {
	// word: "sandbox" takes the platform as a subcommand.
	word bool
	// fullAuto: the mode of the sandbox is chosen by the flag --full-auto,
	// and the setting sandbox_mode is not looked at.
	fullAuto bool
}

// String names it, for people.
func (d dialect) String() string {
	switch {
	case d.word && d.fullAuto:
		return "sandbox PLATFORM --full-auto"
	case d.word:
		return "sandbox PLATFORM"
	}
	return "sandbox"
}

// arguments returns the wall's command: everything before the command inside.
func (d dialect) arguments(binary, platform string, s settings) []string {
	argv := []string{binary, "sandbox"}
	if d.word {
		argv = append(argv, platform)
	}
	if d.fullAuto && s[keyMode] == quoted(modeWrite) {
		argv = append(argv, "--full-auto")
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		argv = append(argv, "-c", key+"="+s[key])
	}
	return append(argv, "--")
}
