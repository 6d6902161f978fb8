package policy

// The backends that [Spec].Backend can name.
const (
	BackendLinux   = "linux"
	BackendHost    = "host"
	BackendDocker  = "docker"
	BackendCodex   = "codex"
	BackendWrapper = "wrapper"
)

// DefaultImage is what [Docker].Image is where a spec does not say.
const DefaultImage = "python:3.12-alpine3.19"

// Docker are the options of backend "docker": a container of an engine that is
// driven by its command line.
type Docker struct {
	// Binary is the engine's command line: "docker" (default), "podman",
	// "nerdctl", or the path of one that takes the same arguments.
	Binary string `json:"binary,omitempty"`
	// Image is what the container is made from. Default: [DefaultImage].
	Image string `json:"image,omitempty"`
	// NetworkEnabled gives the container the engine's default network, where
	// Spec.Network is not written. Default: no network.
	NetworkEnabled bool `json:"network_enabled,omitempty"`
	// User is whom commands run as, "UID[:GID]" or a name that the image knows.
	// Default: the owner of the workspace.
	User string `json:"user,omitempty"`
	// ReadOnlyRootFS makes all but the workspace and /tmp read-only.
	ReadOnlyRootFS bool `json:"read_only_rootfs,omitempty"`
	// RemoveContainerOnExit says whether the container is removed at the end.
	// Default: true. It is stopped either way.
	RemoveContainerOnExit *bool `json:"remove_container_on_exit,omitempty"`
	// ExtraRunArgs are handed to "run" as they are, before the image. They can
	// undo every wall.
	ExtraRunArgs []string `json:"extra_run_args,omitempty"`
}

// Codex are the options of backend "codex": the sandbox of the codex command line.
type Codex struct {
	// Binary is its name or path. Default: "codex".
	Binary string `json:"binary,omitempty"`
	// Platform is "auto" (default), "linux" or "macos", for versions that take
	// a word for it.
	Platform string `json:"platform,omitempty"`
	// ConfigOverrides are settings that are handed on with -c, by dotted key.
	ConfigOverrides map[string]any `json:"config_overrides,omitempty"`
}

// Wrapper are the options of backend "wrapper": any command that runs the
// command which follows it.
type Wrapper struct {
	// Command is that command with its arguments: ["ssh", "host"] say.
	Command []string `json:"command,omitempty"`
	// Agent is how the agent gets inside: "shared" (the wrapper shows the
	// host's file), "upload" (through its standard input, checked by hash), or
	// the absolute path of one that is there. Default: "upload" for ssh and
	// kubectl and for engines' exec, else "shared".
	Agent string `json:"agent,omitempty"`
	// Quote makes one quoted word for a shell of what follows Command, which
	// ssh needs: "always" or "never". Default: "always" for ssh, else "never".
	Quote string `json:"quote,omitempty"`
	// Workspace is the directory inside that commands start in. Default: the
	// path of Spec.Workspace, and with an agent that is uploaded a new one.
	Workspace string `json:"workspace,omitempty"`
}
