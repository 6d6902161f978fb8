package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/paddock-dev/paddock/backend"
)

// loader returns the name of the container through which the agent is copied into its
// volume. It is never started.
func (b *build) loader() string { return b.name() + "-load" }

// maxAgent is the largest agent that is read back, in bytes.
const maxAgent = 256 << 20

// upload copies the agent to an engine that cannot use this host's files: into a
// volume, which the sandbox then has read-only, so that no command can change the
// agent. What has arrived is read back and compared. A workspace that is to be copied
// goes the same way.
func (b *build) upload(ctx context.Context, e *engine, agent string) error {
	var want string
	f, err := os.Open(agent)
	if err == nil {
		want, err = hash(f)
		_ = f.Close()
	}
	if err != nil {
		return &backend.StartError{Stage: "engine", Op: "read", Object: agent, Cause: err.Error()}
	}
	place := mount{kind: mountVolume, source: b.name(), target: agentVolume}
	steps := [][]string{
		{"volume", "create", "--label", label + "=" + b.id, b.name()},
		{"create", "--name", b.loader(), "--label", label + "=" + b.id, "--network", networkNone, "--cap-drop", "ALL", "--pull", "never",
			"--mount", place.String(), "--entrypoint", "", b.image, b.agent},
		{"cp", agent, b.loader() + ":" + b.agent},
	}
	if ws := b.shown[0]; ws.Copied {
		steps = append(steps, []string{"cp", ws.Source, b.loader() + ":" + b.source()})
	}
	for _, args := range steps {
		if _, err := e.ask(ctx, args...); err != nil {
			return e.fail("bring the agent to", e.name, err)
		}
	}
	text, err := e.askWithin(ctx, patience, maxAgent, "cp", b.loader()+":"+b.agent, "-")
	if err != nil {
		return e.fail("read the agent back from", e.name, err)
	}
	if got, err := hashTar(text); err != nil || got != want {
		return e.fail("bring the agent to", e.name, errors.New("what has arrived there is not what was sent"))
	}
	if _, err := e.ask(ctx, "rm", "--force", b.loader()); err != nil {
		return e.fail("bring the agent to", e.name, err)
	}
	return nil
}

// hashTar returns the hash of the one file in an archive.
func hashTar(text []byte) (string, error) {
	r := tar.NewReader(bytes.NewReader(text))
	h, err := r.Next()
	if err != nil {
		return "", err
	}
	if h.Typeflag != tar.TypeReg {
		return "", errors.New("not a file")
	}
	return hash(io.LimitReader(r, maxAgent))
}

func hash(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
