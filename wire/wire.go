// Package wire is the protocol between the two sides of a Paddock wall: the
// agent inside, and the programs that drive it from outside.
//
// It holds the types that cross the wall, the framing, and a client. It
// imports the standard library only, so that both sides, and programs that
// want to speak to a bare agent, can use it without further dependencies.
// The agent's half of each action is in package agent.
//
// # Shape
//
// One connection carries one request: a line of JSON in; then a line of JSON
// out, or a header line followed by what the header announces. WIRE.md beside
// this file is the specification. A request with "keep_alive" set leaves the
// connection open for the next one.
//
// An exec with "stream" set is answered by a header line, after which the
// connection carries frames in both directions: an 8-byte header (stream
// byte, three zero bytes, big-endian uint32 length) and the payload.
//
// # Use
//
// A [Client] needs only a way to dial. Exec runs a command to its end; Start
// follows one, and returns a Process, much as os/exec has a Cmd. An agent
// reads with [ReadLine], [HeadOf], [DecodeRequest] and [FrameReader], and
// answers with [WriteLine] and [FrameWriter]. A failure that a program may
// want to act on is an [*Error] with a [Code].
//
// # Trust
//
// Neither side trusts the other. Every line, header and payload has a bound,
// and a decoder never allocates memory only because a peer announces a size.
package wire

// Version is the protocol's version, exchanged in hello and in the agent's
// ready message. Two sides with different versions refuse each other.
const Version = 1

// Bounds of the protocol. A side that exceeds one gets an error with code
// CodeTooLarge, or is disconnected if no answer can be given any more.
const (
	// MaxLine bounds a request or answer line, newline included, in bytes.
	MaxLine = 16 << 20
	// MaxFrame bounds the payload of one frame, in bytes.
	MaxFrame = 1 << 20
	// MaxControl bounds the payload of a control frame that a client sends,
	// in bytes. An agent's control frames are bounded by MaxFrame.
	MaxControl = 64 << 10
	// MaxValues bounds the values in a request line, those in lists and objects
	// included. The kernel accepts fewer arguments and variables.
	MaxValues = 1 << 18
	// StdinWindow is how many bytes of standard input a client may have sent
	// that the agent has not acknowledged yet.
	StdinWindow = 256 << 10
)

// Body says what follows an action's answer line (or its request line).
type Body uint8

// The bodies an action may have.
const (
	BodyNone   Body = iota // nothing but the two lines
	BodyUp                 // raw bytes follow the request line
	BodyDown               // raw bytes follow the answer line
	BodyFrames             // frames in both directions follow the answer line
)

// Action names one thing that the agent can be asked to do, with the types of
// its request and its answer.
type Action[Q, R any] struct {
	Name string
	Body Body
}

// The actions of this version.
var (
	Hello      = Action[HelloRequest, HelloResult]{Name: "hello"}
	Exec       = Action[ExecRequest, ExecResult]{Name: "exec"}
	ExecStream = Action[ExecRequest, ExecStarted]{Name: "exec", Body: BodyFrames}

	StartExec  = Action[ExecRequest, BackgroundExec]{Name: "start_exec"}
	ListExecs  = Action[ListExecsRequest, ListExecsResult]{Name: "list_execs"}
	ReadExec   = Action[ReadExecRequest, ReadExecResult]{Name: "read_exec"}
	SignalExec = Action[SignalExecRequest, SignalExecResult]{Name: "signal_exec"}
	KillExec   = Action[ExecIDRequest, BackgroundExec]{Name: "kill_exec"}

	ExtractArchive = Action[ExtractRequest, ExtractResult]{Name: "extract_archive", Body: BodyUp}
	InstallSecrets = Action[InstallSecretsRequest, ExtractResult]{Name: "install_secrets", Body: BodyUp}
	ExportArchive  = Action[ExportRequest, ExportResult]{Name: "export_archive", Body: BodyDown}

	SetSecrets    = Action[SetSecretsRequest, SecretsResult]{Name: "set_secrets"}
	ListSecrets   = Action[ListSecretsRequest, SecretsResult]{Name: "list_secrets"}
	DeleteSecrets = Action[DeleteSecretsRequest, SecretsResult]{Name: "delete_secrets"}
	RedactTexts   = Action[RedactTextsRequest, RedactTextsResult]{Name: "redact_texts"}

	ListWorkspace       = Action[ListRequest, ListResult]{Name: "list_workspace"}
	ReadWorkspaceFile   = Action[ReadWorkspaceFileRequest, ReadWorkspaceFileResult]{Name: "read_workspace_file"}
	WriteWorkspaceFile  = Action[WriteWorkspaceFileRequest, WriteFileResult]{Name: "write_workspace_file"}
	DeleteWorkspacePath = Action[DeleteRequest, DeleteResult]{Name: "delete_workspace_path"}
	ReadFile            = Action[ReadFileRequest, ReadFileResult]{Name: "read_file", Body: BodyDown}
	WriteFile           = Action[WriteFileRequest, WriteFileResult]{Name: "write_file", Body: BodyUp}
	Stat                = Action[StatRequest, StatResult]{Name: "stat"}
	Mkdir               = Action[MkdirRequest, MkdirResult]{Name: "mkdir"}
	Move                = Action[MoveRequest, MoveResult]{Name: "move"}
	SearchFiles         = Action[SearchRequest, SearchResult]{Name: "search_files"}

	OpenShell   = Action[OpenShellRequest, Shell]{Name: "open_shell"}
	ReadShell   = Action[ReadShellRequest, ReadShellResult]{Name: "read_shell"}
	WriteShell  = Action[WriteShellRequest, WriteShellResult]{Name: "write_shell"}
	SignalShell = Action[SignalShellRequest, SignalShellResult]{Name: "signal_shell"}
	ResizeShell = Action[ResizeShellRequest, Shell]{Name: "resize_shell"}
	CloseShell  = Action[ShellRequest, CloseShellResult]{Name: "close_shell"}
	ListShells  = Action[ListShellsRequest, ListShellsResult]{Name: "list_shells"}

	OpenSession      = Action[OpenSessionRequest, Session]{Name: "open_session"}
	RunSession       = Action[RunSessionRequest, RunSessionResult]{Name: "run_session"}
	InterruptSession = Action[SessionRequest, InterruptSessionResult]{Name: "interrupt_session"}
	RestartSession   = Action[SessionRequest, Session]{Name: "restart_session"}
	CloseSession     = Action[SessionRequest, CloseSessionResult]{Name: "close_session"}
	ListSessions     = Action[ListSessionsRequest, ListSessionsResult]{Name: "list_sessions"}

	StartService  = Action[StartServiceRequest, Service]{Name: "start_service"}
	StatusService = Action[ServiceRequest, Service]{Name: "status_service"}
	LogsService   = Action[LogsServiceRequest, LogsServiceResult]{Name: "logs_service"}
	ReadService   = Action[ReadServiceRequest, ReadServiceResult]{Name: "read_service"}
	StopService   = Action[ServiceRequest, StopServiceResult]{Name: "stop_service"}
	ListServices  = Action[ListServicesRequest, ListServicesResult]{Name: "list_services"}

	Connect = Action[ConnectRequest, ConnectResult]{Name: "connect", Body: BodyFrames}

	Usage    = Action[UsageRequest, UsageResult]{Name: "usage"}
	Signal   = Action[SignalRequest, SignalResult]{Name: "signal"}
	Kill     = Action[KillRequest, KillResult]{Name: "kill"}
	Shutdown = Action[ShutdownRequest, ShutdownResult]{Name: "shutdown"}
)

// HelloRequest asks an agent for its version and abilities.
type HelloRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	// Version is the client's protocol version; 0 asks without claiming one.
	Version int `json:"version,omitempty"`
	// Build is the client's build, empty if it has none.
	Build string `json:"build,omitempty"`
}

// Features lists what an agent of this version can do, as hello reports it.
func Features() []string {
	return []string{"exec", "stream", "tty", "keep_alive", "pass", "background", "files", "archives", "secrets", "redaction",
		"shells", "sessions", "services", "connect", "usage", "signal", "kill"}
}

// HelloResult describes an agent and what it can do.
type HelloResult struct {
	Version  int      `json:"version"`
	Build    string   `json:"build,omitempty"`
	Features []string `json:"features"`
	Limits   Bounds   `json:"limits"`
	// Isolation describes the walls as the agent was told. A host that did not
	// start this agent itself cannot verify it.
	Isolation any `json:"isolation,omitempty"`
	// Redaction has the names of the rules that the agent was started with. They
	// apply to everything that commands print, for every client.
	Redaction []string `json:"redaction,omitempty"`
	// Kill says how the agent recognizes the processes of a command's tree:
	// KillMark or KillDescendants.
	Kill string `json:"kill,omitempty"`
}

// How an agent recognizes the processes of a tree.
const (
	KillMark        = "mark"        // a namespace of the tree's own
	KillDescendants = "descendants" // descent, session and limits
)

// Bounds are the protocol bounds that an agent applies, in bytes or counts.
type Bounds struct {
	MaxLine        int `json:"max_line"`
	MaxFrame       int `json:"max_frame"`
	StdinWindow    int `json:"stdin_window"`
	MaxOutput      int `json:"max_output_bytes"`
	MaxConnections int `json:"max_connections"`
}
