// Package table lists all operations. Doors render it; package op defines what an
// operation is.
package table

import (
	"slices"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/admin"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/files"
	"github.com/paddock-dev/paddock/op/internal/host"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/op/internal/service"
	"github.com/paddock-dev/paddock/op/internal/session"
	"github.com/paddock-dev/paddock/op/internal/shell"
)

// Groups are the commands that only hold others, by their name, with a summary.
func Groups() map[string]string {
	return map[string]string{
		"cgroup":    "Work with control groups of the host, outside every sandbox",
		"git":       "Take over what commands changed of git's configuration",
		"file":      "Work with files of a workspace, as its sandbox sees them",
		"policy":    "Look at the rules for commands",
		"service":   "Work with services: commands that run on in a sandbox",
		"token":     "Let principals in by HTTP, and end that",
		"workspace": "Bring files into a workspace, and take them out",
	}
}

// All returns all operations, in the order in which people should meet them.
// It is built on each call: nothing is done for a program that asks nothing.
func All() []op.Op {
	return slices.Concat(
		[]op.Op{exec.RunOp(), exec.ExecuteOp(), sandbox.ListOp(), exec.ExecOp(), exec.ExecKillOp(), exec.OutputReadOp()}, sandbox.Ops(), files.Ops(), []op.Op{files.FileSearchOp()}, session.Ops(),
		shell.Ops(), service.Ops(), sandbox.SecretOps(), []op.Op{files.WorkspaceImportOp(), files.WorkspaceExportOp()},
		[]op.Op{sandbox.PlanOp(), admin.PolicyCheckOp(), admin.PolicyListOp()}, host.Ops(),
		[]op.Op{admin.AlterPrivilegesOp(), admin.PrivilegeListOp()}, admin.TokenOps(),
		[]op.Op{admin.AuditReadOp(), admin.AuditVerifyOp(), sandbox.GitAcceptOp(), sandbox.DoctorOp(), sandbox.VersionOp()},
	)
}
