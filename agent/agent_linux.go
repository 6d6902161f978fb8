package agent

import (
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/beneath"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds of one agent.
const (
	// maxConnections is how many connections are served at a time; one more
	// is told so and closed.
	maxConnections = 512
	// maxProcessors bounds the agent's own parallelism; the machine is for commands.
	maxProcessors = 4
	// requestTimeout is how long a client may take to send a request line.
	requestTimeout = 30 * time.Second
	// idleTimeout is how long a kept-alive connection may stay silent.
	idleTimeout = 5 * time.Minute
	// outputGrace is how long a command's output is awaited after its exit,
	// while a process that it left behind still holds the pipe.
	outputGrace = 100 * time.Millisecond
	// exitGrace is how long a look at all processes waits for those that hide
	// their marks, because most such are about to end.
	exitGrace = 20 * time.Millisecond
	// endGrace is how long what runs may take to end when the agent is to end.
	endGrace = 5 * time.Second
	// lastWords is how long answers may take to leave when the agent ends.
	lastWords = 2 * time.Second
	// orphanGrace is how long an agent without walls waits for orphans that
	// do not tell whose they are, while they may be of the tree in question.
	orphanGrace = 100 * time.Millisecond
	// killTimeout bounds the hunt for a tree's last process.
	killTimeout = 5 * time.Second
	// defaultTimeout is that of a command text that is not streamed.
	defaultTimeout = 30 * time.Second
	// defaultOutput and maxOutput bound a captured stream, in bytes.
	defaultOutput = 1 << 20
	maxOutput     = 8 << 20
	// maxArchive bounds an archive, in bytes as it is sent.
	maxArchive = 8 << 30
)

// Agent runs commands for the clients of one sandbox.
type Agent struct {
	spawner *spawner
	reaper  *reaper
	trees   *trees
	env     map[string]string
	// ownPath says that PATH was chosen for what is visible behind these walls, and
	// is not what the files of login shells say.
	ownPath bool
	limits  confine.Rlimits // of each process of every command
	// addressSpace is one more of them, in bytes.
	addressSpace uint64
	scratch      string            // the private directory of a guest, empty where there is none
	workspace    string            // its path, as commands know it
	files        beneath.Dir       // the same, as the agent reaches it
	copies       map[string]string // of files in it, by path: commands have them instead
	running      registry
	shells       shells
	sessions     sessions
	services     *services
	shellState   stateDir
	secretRoot   *secretRoot
	staging      sync.Mutex // held while a stage is made
	secretLock   sync.Mutex // held while one set of secrets takes the place of another
	vault        vault
	isolation    policy.Isolation
	connections  connections
	room         lineRoom
	decoding     sync.Mutex // held while a long request line is decoded
	token        []byte     // that requests must bring, nil where none is asked for
	life         *life      // of an agent on its own, nil inside walls
}

// real is a path of the protocol as commands know it.
func (a *Agent) real(p filePath) string {
	return strings.Join(append([]string{strings.TrimRight(a.workspace, "/")}, p.names...), "/")
}
