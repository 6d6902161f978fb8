package wire

import "fmt"

// Version is the protocol's version, exchanged in hello and in the agent's
// ready message. Two sides with different versions refuse each other.
const Version = 1

// Build identifies the build of this binary. Release and make builds set it
// with -ldflags "-X github.com/paddock-dev/paddock/wire.Build=…"; it is empty
// in a plain go build. Where both sides have one, they must be equal.
var Build string

// Bounds of the protocol. A side that exceeds one gets an error with code
// CodeTooLarge, or is disconnected where no answer can be given any more.
const (
	// MaxLine bounds a request or answer line, newline included, in bytes.
	MaxLine = 16 << 20
	// MaxFrame bounds the payload of one frame, in bytes.
	MaxFrame = 1 << 20
	// MaxControl bounds the payload of a control frame that a client sends,
	// in bytes. An agent's control frames are bounded by MaxFrame.
	MaxControl = 64 << 10
	// MaxValues bounds the values in a request line, those in lists and objects
	// included. The kernel takes fewer arguments and variables.
	MaxValues = 1 << 18
	// StdinWindow is how many bytes of standard input a client may have in
	// flight, beyond what the agent has acknowledged.
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

// Action names one thing the agent can be asked, with the types of its
// question and its answer.
type Action[Q, R any] struct {
	Name string
	Body Body
}

// The actions of this version.
var (
	Hello      = Action[HelloRequest, HelloResult]{Name: "hello"}
	Exec       = Action[ExecRequest, ExecResult]{Name: "exec"}
	ExecStream = Action[ExecRequest, ExecStarted]{Name: "exec", Body: BodyFrames}

	ExtractArchive = Action[ExtractRequest, ExtractResult]{Name: "extract_archive", Body: BodyUp}
	InstallSecrets = Action[InstallSecretsRequest, ExtractResult]{Name: "install_secrets", Body: BodyUp}
	ExportArchive  = Action[ExportRequest, ExportResult]{Name: "export_archive", Body: BodyDown}

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
	StopService   = Action[ServiceRequest, StopServiceResult]{Name: "stop_service"}
	ListServices  = Action[ListServicesRequest, ListServicesResult]{Name: "list_services"}

	Usage    = Action[UsageRequest, UsageResult]{Name: "usage"}
	Signal   = Action[SignalRequest, SignalResult]{Name: "signal"}
	Kill     = Action[KillRequest, KillResult]{Name: "kill"}
	Shutdown = Action[ShutdownRequest, ShutdownResult]{Name: "shutdown"}
)

// Code is a stable, machine-readable name for a kind of failure.
type Code string

// The codes of this version. A client must treat an unknown code as CodeInternal.
const (
	CodeBadRequest    Code = "bad_request"    // malformed JSON, wrong types, impossible combination
	CodeUnknownAction Code = "unknown_action" // no such action
	CodeTooLarge      Code = "too_large"      // a bound of the protocol was exceeded
	CodeNotFound      Code = "not_found"      // the command (exit status 127), path, shell or service does not exist
	CodeNotExecutable Code = "not_executable" // the command exists and cannot be executed (exit status 126)
	CodeBadCwd        Code = "bad_cwd"        // the working directory cannot be used
	CodeStart         Code = "cannot_start"   // the kernel refused to start the command
	CodeExists        Code = "exists"         // the name is taken
	CodeConflict      Code = "conflict"       // the kind or state of the object forbids it
	CodeFailed        Code = "failed"         // the kernel refused an operation on a file; errno says why
	CodeUnauthorized  Code = "unauthorized"   // the token is missing or wrong
	CodeUnsupported   Code = "unsupported"    // a guarantee that was asked for cannot be given here
	CodeTimeout       Code = "timeout"        // the peer took too long
	CodeBusy          Code = "busy"           // too many connections or commands
	CodeInternal      Code = "internal"       // a fault of the agent's own
	CodeGone          Code = "gone"           // the agent ended or the connection broke
)

// Error is a failure as it crosses the wire: an answer line with the key
// "error". No successful answer has a key of that name.
type Error struct {
	// Message is for people: "cannot VERB OBJECT: cause". On the wire it is
	// the key "error", the only one that the contract fixes.
	Message string `json:"error"`
	// Code is for programs.
	Code Code `json:"code,omitempty"`
	// Object is what the failure is about: a path, a program, a field.
	Object string `json:"object,omitempty"`
	// Hint says what to do about it, where there is something to do.
	Hint string `json:"hint,omitempty"`
	// Errno is the kernel's error number, 0 where none is known.
	Errno int `json:"errno,omitempty"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Errorf makes an Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
