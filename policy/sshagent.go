package policy

import (
	"encoding/base64"
	"slices"
	"strings"
)

// SSHAgent lets commands use keys of the caller's SSH agent, which stay there: to log in to
// hosts that rules of the network open, and to nothing else but what it says. Host keys must be
// known: they are the caller's known_hosts and those of the host.
type SSHAgent struct {
	// Keys are the fingerprints of the keys that commands may use, "SHA256:" and 43
	// characters, at most 64. Default: all that the agent has.
	Keys []string `json:"keys,omitempty"`
	// Sign also lets commands sign commits, tags and pushes of git with the keys.
	Sign bool `json:"sign,omitempty"`
}

const maxSSHKeys = 64

// Clone returns a copy that shares nothing with s.
func (s *SSHAgent) Clone() *SSHAgent {
	if s == nil {
		return nil
	}
	return &SSHAgent{Keys: slices.Clone(s.Keys), Sign: s.Sign}
}

// String returns it as isolation says it: what keys are used for, and which.
func (s *SSHAgent) String() string {
	use, which := "to log in", "all keys"
	if s.Sign {
		use += " and to sign for git"
	}
	if len(s.Keys) > 0 {
		which = strings.Join(s.Keys, ", ")
	}
	return use + ": " + which
}

// sshAgent checks the fingerprints, and that there are rules which say where keys may be used.
func (r *resolver) sshAgent(s *Spec) {
	if s.SSHAgent == nil {
		return
	}
	own := s.SSHAgent.Clone()
	s.SSHAgent = own
	r.sshKeys("ssh_agent.keys", own.Keys)
	if s.Network.Mode != NetworkAllow && r.keeps("ssh_agent") {
		r.refuse("ssh_agent", "", "network "+s.Network.Mode+" has no rules that say at which hosts keys may be used", "use `network` allow, and open each host with `network.allow` HOST:22")
	}
}

// sshKeys refuses what is no fingerprint.
func (r *resolver) sshKeys(field string, keys []string) {
	if len(keys) > maxSSHKeys {
		r.refuse(field, "", "it has more than 64 entries", "leave it out for all keys of the agent")
		return
	}
	for i, key := range keys {
		digest, ok := strings.CutPrefix(key, "SHA256:")
		sum, err := base64.RawStdEncoding.Strict().DecodeString(digest)
		switch {
		case !ok || err != nil || len(sum) != 32:
			r.refuse(index(field, i), key, "it is not a fingerprint of a key", `ssh-add -l prints them: "SHA256:" and 43 characters`)
		case slices.Contains(keys[:i], key):
			r.refuse(index(field, i), key, "it is there twice", "")
		}
	}
}

// sshAgent refuses keys, and uses of them, that the ceiling does not allow.
func (a *applier) sshAgent(s *SSHAgent) {
	most := a.c.SSHAgent
	switch {
	case s == nil:
		return
	case most == nil:
		a.refuse("ssh_agent", "ssh_agent", "", "the ceiling does not allow it", "")
		return
	case s.Sign && !most.Sign:
		a.refuse("ssh_agent.sign", "ssh_agent.sign", "true", "the ceiling does not allow it", "leave it out: keys may be used to log in")
	}
	if len(most.Keys) == 0 {
		return
	}
	if len(s.Keys) == 0 {
		a.refuse("ssh_agent.keys", "ssh_agent.keys", "", "the ceiling does not allow all keys", "name those that it has: "+strings.Join(most.Keys, ", "))
	}
	for i, key := range s.Keys[:min(len(s.Keys), maxSSHKeys)] { // Resolve refuses more
		a.word(index("ssh_agent.keys", i), "ssh_agent.keys", key, most.Keys)
	}
}
