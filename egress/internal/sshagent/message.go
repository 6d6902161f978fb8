package sshagent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

// The numbers of messages (draft-ietf-sshm-ssh-agent).
const (
	msgFailure    = 5
	msgSuccess    = 6
	msgList       = 11
	msgIdentities = 12
	msgSign       = 13
	msgSignature  = 14
	msgExtension  = 27
)

// maxMessage bounds a request, in bytes. What is signed is a few hundred bytes, and the keys in
// it at most some thousand.
const maxMessage = 32 << 10

var errTooLong = errors.New("the request is longer than 32KiB")

// readMessage reads the next request, the first byte of which says what it is.
func readMessage(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	switch {
	case n == 0:
		return nil, errors.New("the request is empty")
	case n > maxMessage:
		return nil, errTooLong
	}
	message := make([]byte, n)
	_, err := io.ReadFull(r, message)
	return message, err
}

// writeMessage writes an answer.
func writeMessage(w io.Writer, message []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
	return err
}

// binding is what a client says of the session that it wants to log in with.
type binding struct {
	HostKey   []byte
	Session   []byte
	Signature []byte
	Forwards  bool
}

const bindExtension = "session-bind@openssh.com"

// parseExtension reads a request for an extension. It reports false for another one than a
// binding.
func parseExtension(body []byte) (binding, bool, error) {
	var named struct {
		Name string
		Rest []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(body, &named); err != nil {
		return binding{}, false, err
	}
	if named.Name != bindExtension {
		return binding{}, false, nil
	}
	var b binding
	err := ssh.Unmarshal(named.Rest, &b)
	return b, true, err
}

// check verifies that the host with this key has agreed to the session.
func (b binding) check() error {
	key, err := ssh.ParsePublicKey(b.HostKey)
	if err != nil {
		return fmt.Errorf("its host key is invalid: %w", err)
	}
	if _, ok := key.(*ssh.Certificate); ok {
		return errors.New("its host key is a certificate, and hosts are known by their keys alone")
	}
	if !bytes.Equal(key.Marshal(), b.HostKey) {
		return errors.New("its host key is invalid")
	}
	var signature ssh.Signature
	if err := ssh.Unmarshal(b.Signature, &signature); err != nil {
		return fmt.Errorf("its signature is invalid: %w", err)
	}
	if len(b.Session) < 16 || len(b.Session) > 64 { // a hash
		return errors.New("its session is invalid")
	}
	if err := key.Verify(b.Session, &signature); err != nil {
		return errors.New("the host's key has not signed the session")
	}
	return nil
}

// signRequest asks for a signature.
type signRequest struct {
	Key   []byte
	Data  []byte
	Flags uint32
}

func parseSign(body []byte) (r signRequest, err error) {
	err = ssh.Unmarshal(body, &r)
	return r, err
}

// login is what is signed to log in by a key (RFC 4252, section 7).
type login struct {
	Session   []byte
	Type      byte
	User      string
	Service   string
	Method    string
	Signed    bool
	Algorithm string
	Key       []byte
	Rest      []byte `ssh:"rest"`
}

// parseLogin reads what is to be signed as a login. It reports false if it is something else.
func parseLogin(data []byte) (l login, hostKey []byte, ok bool) {
	const userAuthRequest = 50
	if ssh.Unmarshal(data, &l) != nil || l.Type != userAuthRequest || l.Service != "ssh-connection" || !l.Signed {
		return l, nil, false
	}
	switch l.Method {
	case "publickey":
		return l, nil, len(l.Rest) == 0
	case "publickey-hostbound-v00@openssh.com":
		var bound struct{ HostKey []byte }
		err := ssh.Unmarshal(l.Rest, &bound)
		return l, bound.HostKey, err == nil
	}
	return l, nil, false
}

// signatureMagic begins what is signed for files and for git (PROTOCOL.sshsig of OpenSSH).
const signatureMagic = "SSHSIG"

// parseSSHSIG reads what is to be signed as a signature of a file, and returns its namespace.
// It reports false if it is something else.
func parseSSHSIG(data []byte) (namespace string, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(signatureMagic))
	if !ok {
		return "", false
	}
	var s struct {
		Namespace string
		Reserved  []byte
		Hash      string
		Sum       []byte
	}
	size := map[string]int{"sha256": 32, "sha512": 64}
	if ssh.Unmarshal(rest, &s) != nil || len(s.Reserved) > 0 || size[s.Hash] == 0 || len(s.Sum) != size[s.Hash] {
		return "", false
	}
	return s.Namespace, true
}
