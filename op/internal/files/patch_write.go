package files

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/patch"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// takeBack is how long taking a patch back may take, when its caller has gone.
const takeBack = time.Minute

// Write takes the steps of a patch. Where one fails, those before it are taken
// back, and the error says what the workspace holds then.
func (t *patchTree) Write(ctx context.Context, steps []patch.Step, progress func(done, total float64, message string)) error {
	for _, s := range steps { // as late as possible: a command may have changed one meanwhile
		if s.Old != nil {
			if err := unchanged(t.Sandbox, ctx, t.path(s.Path), t.readFile[s.Path]); err != nil {
				return fileError("patch", t.path(s.Path), err)
			}
		}
	}
	for i, s := range steps {
		if progress != nil {
			progress(float64(i), float64(len(steps)), s.Path)
		}
		err := t.take(ctx, s)
		if err == nil {
			continue
		}
		// What was under way when the caller went may have been done.
		done := steps[:i]
		if registry.Cancelled(err) || isGone(err) {
			done = steps[:i+1]
		}
		return t.failed(ctx, fileError("patch", t.path(s.Path), err), done)
	}
	return nil
}

func isGone(err error) bool {
	we := (*wire.Error)(nil)
	return errors.As(err, &we) && we.Code == wire.CodeGone
}

// take takes one step.
func (t *patchTree) take(ctx context.Context, s patch.Step) error {
	name := t.path(s.Path)
	switch {
	case s.New == nil:
		_, err := wire.Call(ctx, t.Client(), wire.DeleteWorkspacePath, wire.DeleteRequest{Path: wire.Path(name)})
		return err
	case s.Old == nil:
		_, err := saveNew(t.Sandbox, ctx, name, s.New.Content, &s.New.Perm)
		return err
	}
	_, err := save(t.Sandbox, ctx, name, s.New.Content, &s.New.Perm)
	return err
}

// failed takes back what was done, and says what the workspace holds.
func (t *patchTree) failed(ctx context.Context, cause error, done []patch.Step) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBack)
	defer cancel()
	var left, why []string
	for _, s := range slices.Backward(done) {
		err := t.take(ctx, patch.Step{Path: s.Path, Old: s.New, New: s.Old})
		if s.Old == nil && missing(err) {
			err = nil
		}
		if s.Old != nil && s.New == nil && err != nil { // it may be there still
			_, err = save(t.Sandbox, ctx, t.path(s.Path), s.Old.Content, &s.Old.Perm)
		}
		if err != nil {
			left = append(left, s.Path)
			why = append(why, err.Error())
		}
	}
	text := "what was written before is taken back: no file is changed"
	if len(left) > 0 {
		text = fmt.Sprintf("and it cannot be taken back in %s, which are as the patch makes them (%s); the other files are as they were", strings.Join(left, ", "), why[0])
	}
	if registry.Cancelled(cause) {
		return fmt.Errorf("cannot apply the patch: %w; %s", cause, text)
	}
	e := &paddock.Error{Message: "cannot apply the patch: " + cause.Error() + "; " + text}
	own := (*paddock.Error)(nil)
	if errors.As(cause, &own) {
		e.Code, e.Hint = own.Code, own.Hint
	}
	return e
}
