package wire

// Attempt lists operations for a program to try from inside a wall, so that the host
// side sees which of them the wall stops. The agent, started as "paddock-agent attempt", reads
// one line of it from its standard input and answers with one line of
// [Attempted]. The host does not trust the answer: it checks itself which files
// were made and who has connected.
type Attempt struct {
	// Nonce is repeated in the answer, and written to the files and connections. It
	// distinguishes this attempt from anything else that prints, writes or connects.
	Nonce string `json:"nonce"`
	// Write lists absolute paths of files to make.
	Write []string `json:"write,omitempty"`
	// Open lists absolute paths of files to open for writing, without changing them.
	Open []string `json:"open,omitempty"`
	// Dial lists TCP addresses to connect to, as HOST:PORT.
	Dial []string `json:"dial,omitempty"`
}

// Attempted holds an error for each entry of an Attempt, empty if it succeeded.
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
