package wire

// Attempt is what a host side has tried from inside a wall, to see what the
// wall stops: the agent's program, started as "paddock-agent attempt", reads
// one line of it from its standard input and answers with one line of
// [Attempted]. Neither is believed: the host looks for itself at the files that
// were not to be made, and at who has called.
type Attempt struct {
	// Nonce comes back, and is what files and connections get: it tells this
	// attempt from anything else that prints, writes or calls.
	Nonce string `json:"nonce"`
	// Write are absolute paths of files to make.
	Write []string `json:"write,omitempty"`
	// Open are absolute paths of files to open for writing, and to leave as they are.
	Open []string `json:"open,omitempty"`
	// Dial are addresses to connect to, HOST:PORT of TCP.
	Dial []string `json:"dial,omitempty"`
}

// Attempted says how it went: for each of what was to be tried an error, empty
// where it succeeded.
type Attempted struct {
	Nonce string   `json:"nonce"`
	Write []string `json:"write,omitempty"`
	Open  []string `json:"open,omitempty"`
	Dial  []string `json:"dial,omitempty"`
}

// Bounds of an attempt.
const (
	MaxAttempts    = 32       // files and addresses, each
	MaxAttemptLine = 64 << 10 // bytes of either line
)
