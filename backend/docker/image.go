package docker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend"
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
// a start, since it takes as long as it takes while timeouts run.
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

// isAbsent says whether an engine said that there is no such thing.
func isAbsent(said string) bool {
	lower := strings.ToLower(said)
	return strings.Contains(lower, "no such") || strings.Contains(lower, "not known") || strings.Contains(lower, "not found") || strings.Contains(lower, "no image")
}

// volumes are the places for which the image wants storage that outlives it.
func (i *image) volumes() []string { return slices.Sorted(maps.Keys(i.Config.Volumes)) }

// value is a variable of the image's environment.
func (i *image) value(name string) string {
	for _, kv := range i.Config.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
