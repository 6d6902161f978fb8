package wire

import "strings"

// Kinds of workspace entries, the values of artifact_type.
const (
	TypeFile      = "file"
	TypeDirectory = "directory"
	TypeSymlink   = "symlink"
	TypeOther     = "other" // a FIFO, a socket, a device; only within a listing and in stat
)

// MaxFileText bounds file content inside a line: max_bytes of
// read_workspace_file and text of write_workspace_file, in bytes.
const MaxFileText = 1 << 20

// StagePrefix begins the names of the directories directly in the workspace that an agent unpacks
// archives in. Each is locked by flock(2) while it is used.
const StagePrefix = ".paddock-import-"

// workspaceRoot is the directory that every path of a file action must be in,
// and the default of most. It stands for the agent's --workspace, whatever that
// is called on its host.
const workspaceRoot = "/workspace"

// ListRequest asks for the entries of a directory, or for one entry if the path
// is not a directory. Links are never followed.
type ListRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	// Path is absolute below /workspace, or relative to it. Default: /workspace.
	Path OSString `json:"path,omitempty"`
	// Recursive lists everything below too, parents before children.
	Recursive bool `json:"recursive,omitempty"`
	// Limit bounds the entries of one answer. Absent or 0: as many as an answer
	// may hold.
	Limit int64 `json:"limit,omitempty"`
	// Cursor is NextCursor of the answer before.
	Cursor string `json:"cursor,omitempty"`
}

func (q *ListRequest) setDefaults() { q.Path = workspaceRoot }

// ListResult is a listing, sorted by path among siblings.
type ListResult struct {
	Path         OSString `json:"path"`
	ArtifactType string   `json:"artifact_type"`
	Entries      []Entry  `json:"entries"`
	// Truncated says that there are more entries; a request whose Cursor is
	// NextCursor continues with them.
	Truncated  bool   `json:"truncated"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Entry is a file, a directory or a link.
type Entry struct {
	Path         OSString  `json:"path"`
	ArtifactType string    `json:"artifact_type"`
	SizeBytes    int64     `json:"size_bytes"`  // 0 for a directory
	LinkTarget   *OSString `json:"link_target"` // of a symbolic link, else null
}

// ReadWorkspaceFileRequest asks for a small file as a whole.
type ReadWorkspaceFileRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Path      OSString `json:"path,omitempty"`
	// MaxBytes is the largest file that is accepted, 1 to MaxFileText (default).
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

func (q *ReadWorkspaceFileRequest) setDefaults() { q.Path, q.MaxBytes = workspaceRoot, MaxFileText }

// ReadWorkspaceFileResult is a whole file.
type ReadWorkspaceFileResult struct {
	Path       OSString `json:"path"`
	SizeBytes  int64    `json:"size_bytes"`
	ContentB64 []byte   `json:"content_b64"`
}

// WriteWorkspaceFileRequest replaces a file, or makes it and its parents.
type WriteWorkspaceFileRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Path      OSString `json:"path,omitempty"`
	Text      string   `json:"text"`
	// Mode holds the nine permission bits. Absent: those of the file, or 0644.
	Mode *uint32 `json:"mode,omitempty"`
}

func (q *WriteWorkspaceFileRequest) setDefaults() { q.Path = workspaceRoot }

// WriteFileResult describes the file that was written.
type WriteFileResult struct {
	Path         OSString `json:"path"`
	SizeBytes    int64    `json:"size_bytes"`
	BytesWritten int64    `json:"bytes_written"`
	Mode         uint32   `json:"mode"`
}

// DeleteRequest removes a file or a link; a directory only with Recursive.
type DeleteRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Path      OSString `json:"path,omitempty"`
	Recursive bool     `json:"recursive,omitempty"`
}

func (q *DeleteRequest) setDefaults() { q.Path = workspaceRoot }

// DeleteResult describes what was removed.
type DeleteResult struct {
	Path    OSString `json:"path"`
	Deleted bool     `json:"deleted"`
	Entries int64    `json:"entries"` // everything that was removed, directories included
}

// ReadFileRequest asks for a file of any size, or a part of it.
type ReadFileRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Path      OSString `json:"path,omitempty"`
	Offset    int64    `json:"offset,omitempty"` // in bytes
	// Length is in bytes. Absent: to the end of the file.
	Length *int64 `json:"length,omitempty"`
}

func (q *ReadFileRequest) setDefaults() { q.Path = workspaceRoot }

// ReadFileResult is the header before ContentSize raw bytes.
type ReadFileResult struct {
	Path        OSString `json:"path"`
	SizeBytes   int64    `json:"size_bytes"` // of the whole file
	Mode        uint32   `json:"mode"`
	ModifiedAt  string   `json:"modified_at"`  // RFC 3339, UTC
	ContentSize int64    `json:"content_size"` // bytes that follow
}

// BodySize returns how many bytes follow the header.
func (r *ReadFileResult) BodySize() int64 { return r.ContentSize }

// WriteFileRequest replaces a file by the ContentSize bytes that follow the
// request, or makes it and its parents. Its answer is a WriteFileResult.
type WriteFileRequest struct {
	Action      string   `json:"action"`
	KeepAlive   bool     `json:"keep_alive,omitempty"`
	Path        OSString `json:"path,omitempty"`
	ContentSize int64    `json:"content_size"`
	// Mode holds the nine permission bits. Absent: those of the file, or 0644.
	Mode *uint32 `json:"mode,omitempty"`
}

func (q *WriteFileRequest) setDefaults() { q.Path = workspaceRoot }

// BodySize returns how many bytes follow the request.
func (q *WriteFileRequest) BodySize() int64 { return q.ContentSize }

// StatRequest asks about one path; a link is not followed.
type StatRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Path      OSString `json:"path,omitempty"`
}

func (q *StatRequest) setDefaults() { q.Path = workspaceRoot }

// StatResult describes one path.
type StatResult struct {
	Entry
	Mode       uint32 `json:"mode"` // the nine permission bits
	UID        uint32 `json:"uid"`
	GID        uint32 `json:"gid"`
	Links      uint64 `json:"links"`
	ModifiedAt string `json:"modified_at"` // RFC 3339, UTC
}

// MkdirRequest makes a directory and its parents; one that exists is fine.
type MkdirRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Path      OSString `json:"path,omitempty"`
	// Mode holds the nine permission bits. Absent: 0755.
	Mode *uint32 `json:"mode,omitempty"`
}

func (q *MkdirRequest) setDefaults() { q.Path = workspaceRoot }

// MkdirResult says whether the directory is new.
type MkdirResult struct {
	Path    OSString `json:"path"`
	Created bool     `json:"created"`
}

// MoveRequest renames within the workspace; parents of the target are made.
type MoveRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Path      OSString `json:"path"`
	Target    OSString `json:"target"`
	// Replace allows replacing a file or link that exists at Target.
	Replace bool `json:"replace,omitempty"`
}

// MoveResult holds the old and the new path.
type MoveResult struct {
	Path   OSString `json:"path"`
	Target OSString `json:"target"`
}

// ExtractRequest unpacks a tar archive, whose ArchiveSize bytes follow the
// request. The archive may be compressed with gzip, bzip2 or xz.
type ExtractRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ArchiveSize int64  `json:"archive_size"`
	// Destination is a directory, made if it does not exist. Default: /workspace.
	Destination OSString `json:"destination,omitempty"`
	// Tree accepts what archives of whole trees have: the destination itself as a member,
	// and links for which [LinkStaysInside] holds.
	Tree bool `json:"tree,omitempty"`
}

// LinkStaysInside reports whether a symbolic link can only lead to what is below the directory
// that an archive is unpacked into, if the same is true of the links beside it. depth is how many
// directories of the archive the link is in. A target goes up first, if it does, and then down:
// after a name that may itself be a link, ".." could lead anywhere.
func LinkStaysInside(depth int, target string) bool {
	if target == "" || target[0] == '/' || strings.IndexByte(target, 0) >= 0 {
		return false
	}
	down := false
	for _, name := range strings.Split(target, "/") {
		switch name {
		case "", ".":
		case "..":
			if depth--; down || depth < 0 {
				return false
			}
		default:
			down = true
		}
	}
	return true
}

func (q *ExtractRequest) setDefaults() { q.Destination = workspaceRoot }

// BodySize returns how many bytes follow the request.
func (q *ExtractRequest) BodySize() int64 { return q.ArchiveSize }

// ExtractResult describes what was unpacked.
type ExtractResult struct {
	Destination  OSString `json:"destination"`
	EntryCount   int64    `json:"entry_count"`   // all members
	BytesWritten int64    `json:"bytes_written"` // of regular files
}

// InstallSecretsRequest replaces the set of secrets by those in the archive that
// follows the request. Its answer is an ExtractResult.
type InstallSecretsRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ArchiveSize int64  `json:"archive_size"`
}

// BodySize returns how many bytes follow the request.
func (q *InstallSecretsRequest) BodySize() int64 { return q.ArchiveSize }

// ExportRequest asks for a path as a tar archive. Links are not followed.
type ExportRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	Path      OSString `json:"path,omitempty"` // default: /workspace
}

func (q *ExportRequest) setDefaults() { q.Path = workspaceRoot }

// ExportResult is the header before ArchiveSize bytes of a plain tar archive.
type ExportResult struct {
	WorkspacePath OSString `json:"workspace_path"`
	ArtifactType  string   `json:"artifact_type"`
	ArchiveSize   int64    `json:"archive_size"`
	EntryCount    int64    `json:"entry_count"`
	BytesWritten  int64    `json:"bytes_written"` // of regular files
}

// BodySize returns how many bytes follow the header.
func (r *ExportResult) BodySize() int64 { return r.ArchiveSize }
