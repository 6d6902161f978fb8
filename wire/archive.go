package wire

// ExtractRequest asks for a tar archive, of the ArchiveSize bytes that follow
// the request, to be unpacked. It may be compressed with gzip, bzip2 or xz.
type ExtractRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ArchiveSize int64  `json:"archive_size"`
	// Destination is a directory, which is made. Default: /workspace.
	Destination Path `json:"destination,omitempty"`
}

func (q *ExtractRequest) setDefaults() { q.Destination = workspaceRoot }

// BodySize is how many bytes follow the request.
func (q *ExtractRequest) BodySize() int64 { return q.ArchiveSize }

// ExtractResult says what was unpacked.
type ExtractResult struct {
	Destination  Path  `json:"destination"`
	EntryCount   int64 `json:"entry_count"`   // all members
	BytesWritten int64 `json:"bytes_written"` // of regular files
}

// InstallSecretsRequest replaces the set of secrets by the archive that
// follows it. Its answer is an ExtractResult.
type InstallSecretsRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ArchiveSize int64  `json:"archive_size"`
}

// BodySize is how many bytes follow the request.
func (q *InstallSecretsRequest) BodySize() int64 { return q.ArchiveSize }

// ExportRequest asks for a path as a tar archive. Links are not followed.
type ExportRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	Path      Path   `json:"path,omitempty"` // default: /workspace
}

func (q *ExportRequest) setDefaults() { q.Path = workspaceRoot }

// ExportResult is the header before ArchiveSize bytes of a plain tar archive.
type ExportResult struct {
	WorkspacePath Path   `json:"workspace_path"`
	ArtifactType  string `json:"artifact_type"`
	ArchiveSize   int64  `json:"archive_size"`
	EntryCount    int64  `json:"entry_count"`
	BytesWritten  int64  `json:"bytes_written"` // of regular files
}

// BodySize is how many bytes follow the header.
func (r *ExportResult) BodySize() int64 { return r.ArchiveSize }
