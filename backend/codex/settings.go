package codex

import (
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// The settings of the CLI that decide what its sandbox is.
const (
	keyMode        = "sandbox_mode"
	keyPermissions = "default_permissions"
	keyWrite       = "sandbox_workspace_write"
	keyRoots       = keyWrite + ".writable_roots"
	keyNetwork     = keyWrite + ".network_access"
	keySlashTmp    = keyWrite + ".exclude_slash_tmp"
	keyTmpdir      = keyWrite + ".exclude_tmpdir_env_var"
)

// networkHost is the word of Spec.Network for the host's own.
const networkHost = "host"

// The values of keyMode.
const (
	modeRead  = "read-only"
	modeWrite = "workspace-write"
)

func quoted(s string) string {
	var b strings.Builder
	writeString(&b, s)
	return b.String()
}

// own says whether the spec's overrides decide by themselves what can be
// written: with permission profiles, the other settings mean nothing.
func (s settings) own() bool { return s[keyPermissions] != "" }

// fill adds what makes the sandbox what the spec asks for: commands write the
// directory that the CLI is started in, the one that is named here, and nothing
// else. Every setting is given, also where it is the default: what is given
// outweighs each file of settings that the CLI might read.
func (s settings) fill(network, scratch string) error {
	if s.own() {
		return nil
	}
	if _, ok := s[keyWrite]; ok {
		return &policy.FieldError{Field: policy.FieldPath(overridesField, keyWrite), Reason: "the parts of this table are settings of their own",
			Hint: "write them one by one, as " + keySlashTmp}
	}
	s.byDefault(keyMode, quoted(modeWrite))
	if s[keyMode] != quoted(modeWrite) {
		return nil
	}
	s.byDefault(keySlashTmp, "true")
	s.byDefault(keyTmpdir, "true")
	access := strconv.FormatBool(network == networkHost)
	s.byDefault(keyNetwork, access)
	if s[keyNetwork] != access {
		return &policy.FieldError{Field: policy.FieldPath(overridesField, keyNetwork), Value: s[keyNetwork], Reason: "network is " + network, Hint: "write network: host or none, and leave this out"}
	}
	return s.addRoot(scratch)
}

func (s settings) byDefault(key, value string) {
	if _, ok := s[key]; !ok {
		s[key] = value
	}
}

// addRoot adds a directory to those that commands may write.
func (s settings) addRoot(dir string) error {
	s.byDefault(keyRoots, "[]")
	inner, isList := strings.CutPrefix(s[keyRoots], "[")
	if !isList {
		return &policy.FieldError{Field: policy.FieldPath(overridesField, keyRoots), Value: s[keyRoots], Reason: "it is no list"}
	}
	if inner = strings.TrimSuffix(inner, "]"); inner != "" {
		inner += ", "
	}
	s[keyRoots] = "[" + inner + quoted(dir) + "]"
	return nil
}
