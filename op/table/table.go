// Package table lists all operations. Doors render it; package op defines what an
// operation is.
package table

import (
	"slices"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/admin"
	"github.com/paddock-dev/paddock/op/internal/changes"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/files"
	"github.com/paddock-dev/paddock/op/internal/host"
	"github.com/paddock-dev/paddock/op/internal/keep"
	"github.com/paddock-dev/paddock/op/internal/network"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/op/internal/service"
	"github.com/paddock-dev/paddock/op/internal/session"
	"github.com/paddock-dev/paddock/op/internal/shell"
	"github.com/paddock-dev/paddock/op/internal/wrap"
)

// Group is a command that only holds others.
type Group struct{ Summary, Examples string }

// Groups are the commands that only hold others, by their name.
func Groups() map[string]Group {
	return map[string]Group{
		"cache":  {Summary: "Look at what stays between sandboxes, and remove it"},
		"cgroup": {Summary: "Work with control groups of the host, outside every sandbox"},
		"git":    {Summary: "Take over what commands changed of git's configuration"},
		"file":   {Summary: "Work with files of a workspace, as its sandbox sees them"},
		"network": {Summary: "Look at the rules of a running sandbox's network, and change them",
			Examples: `  # the rules, connections and bytes of a sandbox; paddock list prints its ID
  paddock network show web
  # each connection and each refusal, as they come
  paddock network log --follow web
  # open one more host
  paddock network add web --allow api.example.com`},
		"policy":    {Summary: "Look at the rules for commands"},
		"secret":    {Summary: "Work with secrets: values that commands of a sandbox may use and that output never shows"},
		"service":   {Summary: "Work with services: commands that run on in a sandbox"},
		"token":     {Summary: "Let principals in by HTTP, and end that"},
		"workspace": {Summary: "Bring files into a workspace, and take them out"},
	}
}

// All returns all operations, in the order in which people should meet them.
// It is built on each call: nothing is done for a program that asks nothing.
func All() []op.Op {
	return slices.Concat([]op.Op{
		op.Of[exec.RunInput](),
		op.Of[exec.ExecuteInput](),
		op.Of[sandbox.ListInput](),
		op.Of[exec.ExecInput](),
		op.Of[exec.ExecKillInput](),
		op.Of[exec.OutputReadInput](),

		op.Of[sandbox.SandboxCreateInput](),
		op.Of[sandbox.SandboxListInput](),
		op.Of[sandbox.SandboxStatusInput](),
		op.Of[sandbox.SandboxDeleteInput](),

		op.Of[files.FileReadInput](),
		op.Of[files.FileWriteInput](),
		op.Of[files.FileEditInput](),
		op.Of[files.FileListInput](),
		op.Of[files.FileStatInput](),
		op.Of[files.FileMkdirInput](),
		op.Of[files.FileMoveInput](),
		op.Of[files.FileDeleteInput](),
		op.Of[files.PatchApplyInput](),
		op.Of[files.FileSearchInput](),

		op.Of[session.SessionInput](),
		op.Of[session.SessionOpenInput](),
		op.Of[session.SessionRunInput](),
		op.Of[session.SessionRestartInput](),
		op.Of[session.SessionCloseInput](),
		op.Of[session.SessionListInput](),

		op.Of[shell.ShellAttachInput](),
		op.Of[shell.ShellOpenInput](),
		op.Of[shell.ShellReadInput](),
		op.Of[shell.ShellWriteInput](),
		op.Of[shell.ShellSignalInput](),
		op.Of[shell.ShellResizeInput](),
		op.Of[shell.ShellCloseInput](),
		op.Of[shell.ShellListInput](),

		op.Of[service.ServiceStartInput](),
		op.Of[service.ServiceStopInput](),
		op.Of[service.ServiceStatusInput](),
		op.Of[service.ServiceListInput](),
		op.Of[service.ServiceLogsInput](),

		op.Of[network.NetworkShowInput](),
		op.Of[network.NetworkAddInput](),
		op.Of[network.NetworkSetInput](),
		op.Of[network.NetworkLogInput](),
		op.Of[network.PortPublishInput](),

		op.Of[sandbox.SecretStoreInput](),
		op.Of[sandbox.SecretSetInput](),
		op.Of[sandbox.SecretListInput](),
		op.Of[sandbox.SecretDeleteInput](),
		op.Of[sandbox.SecretRemoveInput](),

		op.Of[files.CopyInput](),
		op.Of[files.WorkspaceImportInput](),
		op.Of[files.WorkspaceExportInput](),
		op.Of[sandbox.PlanInput](),
		op.Of[wrap.WrapInput](),
		op.Of[admin.PolicyCheckInput](),
		op.Of[admin.PolicyListInput](),
	}, lastingOps(), host.Ops(), operators())
}

// lastingOps returns what is about layers, and sandboxes that outlive their creators.
func lastingOps() []op.Op {
	return []op.Op{
		op.Of[changes.TryInput](),
		op.Of[changes.DiffInput](),
		op.Of[changes.CommitInput](),
		op.Of[changes.DiscardInput](),
		op.Of[changes.LayersInput](),
		op.Of[keep.CreateInput](),
		op.Of[keep.StatusInput](),
		op.Of[keep.StatsInput](),
		op.Of[keep.StopInput](),
		op.Of[keep.StartInput](),
		op.Of[keep.PauseInput](),
		op.Of[keep.ResumeInput](),
		op.Of[keep.RemoveInput](),
		op.Of[keep.PruneInput](),
		op.Of[exec.BackgroundListInput](),
		op.Of[exec.BackgroundOutputInput](),
		op.Of[exec.BackgroundSignalInput](),
		op.Of[exec.BackgroundKillInput](),
		op.Of[exec.LogsInput](),
	}
}

// operators returns what is for the operator alone, and about this host.
func operators() []op.Op {
	return []op.Op{
		op.Of[admin.AlterPrivilegesInput](),
		op.Of[admin.PrivilegeListInput](),
		op.Of[admin.TokenCreateInput](),
		op.Of[admin.TokenListInput](),
		op.Of[admin.TokenRevokeInput](),
		op.Of[admin.AuditReadInput](),
		op.Of[admin.AuditVerifyInput](),
		op.Of[sandbox.InitInput](),
		op.Of[sandbox.TrustInput](),
		op.Of[sandbox.GitAcceptInput](),
		op.Of[sandbox.WrittenInput](),
		op.Of[sandbox.WrittenForgetInput](),
		op.Of[sandbox.CacheListInput](),
		op.Of[sandbox.CacheRemoveInput](),
		op.Of[sandbox.DoctorInput](),
		op.Of[sandbox.VersionInput](),
	}
}
