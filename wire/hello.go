package wire

// HelloRequest opens a conversation with an agent whose version is unknown.
type HelloRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	// Version is the client's protocol version; 0 asks without claiming one.
	Version int `json:"version,omitempty"`
	// Build is the client's build, empty where it has none.
	Build string `json:"build,omitempty"`
}

// Features is what an agent of this version can do, as its hello tells it.
func Features() []string {
	return []string{"exec", "stream", "tty", "keep_alive", "pass", "files", "archives", "secrets", "redaction",
		"shells", "sessions", "services", "usage", "signal", "kill"}
}

// HelloResult tells what an agent is and what it can do.
type HelloResult struct {
	Version  int      `json:"version"`
	Build    string   `json:"build,omitempty"`
	Features []string `json:"features"`
	Limits   Bounds   `json:"limits"`
	// Isolation is what the agent was told holds. A host that did not start
	// this agent itself has only the agent's word for it.
	Isolation any `json:"isolation,omitempty"`
	// Redaction names the rules that the agent was started with: they apply to
	// all that commands print, whoever asks for them.
	Redaction []string `json:"redaction,omitempty"`
	// Kill says by what the agent knows the processes of a command's tree:
	// KillMark or KillDescendants.
	Kill string `json:"kill,omitempty"`
}

// What a tree's processes are known by.
const (
	KillMark        = "mark"        // a namespace of the tree's own
	KillDescendants = "descendants" // descent, session and limits
)

// Bounds are the protocol bounds that an agent keeps, in bytes or counts.
type Bounds struct {
	MaxLine        int `json:"max_line"`
	MaxFrame       int `json:"max_frame"`
	StdinWindow    int `json:"stdin_window"`
	MaxOutput      int `json:"max_output_bytes"`
	MaxConnections int `json:"max_connections"`
}
