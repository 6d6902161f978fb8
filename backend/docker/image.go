package docker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// image is what an engine says of an image.
type image struct {
	ID           string `json:"Id"`
	Os           string
	Architecture string
	Config       struct {
		User    string
		Env     []string
		Volumes map[string]struct{}
	}
}

// image asks for an image, which must be there: to download one is not part of
// a start, since it takes as long as it takes while timeouts run. Who wants it
// all the same says "--pull" among the extra arguments.
func (e *engine) image(ctx context.Context, name string) (*image, error) {
	text, err := e.ask(ctx, "image", "inspect", name)
	if err != nil {
		var failed *answerError
		if errors.As(err, &failed) && isAbsent(failed.stderr) {
			return nil, &backend.StartError{Stage: "engine", Op: "find the image", Object: name,
				Cause: "the engine does not have it", Hint: "get it first: " + e.name + " pull " + name}
		}
		return nil, e.fail("find the image", name, err)
	}
	var found []image
	if err := json.Unmarshal(text, &found); err != nil || len(found) != 1 {
		return nil, e.fail("find the image", name, errors.New("the engine's answer is not one image"))
	}
	i := &found[0]
	if i.Os != "" && i.Os != "linux" {
		return nil, e.fail("use the image", name, errors.New("it is made for "+i.Os))
	}
	return i, nil
}

// pullTime bounds a download.
const pullTime = 10 * time.Minute

// pull downloads an image.
func (e *engine) pull(ctx context.Context, name string) error {
	if _, err := e.askWithin(ctx, pullTime, maxAnswer, "pull", name); err != nil {
		return e.fail("pull the image", name, err)
	}
	return nil
}

// wantsPull reports whether the extra arguments ask for a download of what is absent.
func wantsPull(extra []string) bool {
	for i, arg := range extra {
		word, given := strings.CutPrefix(arg, "--pull=")
		if arg == "--pull" && i+1 < len(extra) {
			word, given = extra[i+1], true
		}
		if given && word != "never" && word != "false" {
			return true
		}
	}
	return false
}

// checkImage refuses a name that a command line would take for something else.
func checkImage(name string) error {
	if strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return hostpath.Refuse("docker.image", name, "it is not the name of an image", "")
	}
	return nil
}

// isAbsent reports whether an engine said that there is no such thing.
func isAbsent(said string) bool {
	lower := strings.ToLower(said)
	return strings.Contains(lower, "no such") || strings.Contains(lower, "not known") || strings.Contains(lower, "not found") || strings.Contains(lower, "no image")
}
