package paddock

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/policy"
)

// Cache is a directory that stays between sandboxes: the cache of a tool, or a HOME.
type Cache struct {
	Tool      string // "home" is a HOME
	Workspace string // unknown if its record was damaged, like Principal
	Principal string
	Dir       string
	Used      time.Time // when a sandbox last began to use it
	InUse     bool
	Bytes     int64 // on the disk, when it was last measured
	Partial   bool  // it has more
	Measured  bool
}

// CacheChoice chooses caches.
type CacheChoice struct {
	// Workspace is a directory; "" chooses all workspaces.
	Workspace string
	// Tool is a word of policy.CacheTools, or "home". "" chooses all tools; [RemoveCaches]
	// then leaves HOME as it is.
	Tool string
}

// listTime is how long [Caches] may measure.
const listTime = 5 * time.Second

// Caches returns the directories that stay between sandboxes, the last used first. It measures
// those that were not measured for a day, for at most a few seconds.
func Caches(ctx context.Context, what CacheChoice, opts Options) ([]Cache, error) {
	store, chosen, err := opts.chooseCaches(what)
	if err != nil {
		return nil, err
	}
	measuring, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	var all []Cache
	for _, c := range chosen {
		if now, err := store.Measure(measuring, c); err == nil {
			c = now
		}
		all = append(all, cacheOf(c))
	}
	return all, ctx.Err()
}

// RemovedCache is a cache that [RemoveCaches] has removed, or could not: Err says why.
type RemovedCache struct {
	Cache
	Err error
}

// RemoveCaches removes the chosen caches with everything in them. One that a sandbox uses is
// left as it is.
func RemoveCaches(ctx context.Context, what CacheChoice, opts Options) ([]RemovedCache, error) {
	store, chosen, err := opts.chooseCaches(what)
	if err != nil {
		return nil, err
	}
	var all []RemovedCache
	for _, c := range chosen {
		if what.Tool == "" && c.Tool == cache.Home {
			continue // it is no cache: what is in it cannot be made again
		}
		if ctx.Err() != nil {
			break
		}
		all = append(all, RemovedCache{cacheOf(c), removeError(c, store.Remove(ctx, c))})
	}
	_, trash, err := store.List()
	if err == nil && ctx.Err() == nil {
		err = store.Clean(ctx, trash) // of removals that were interrupted
	}
	if err != nil {
		err = removeError(cache.Cache{Dir: store.Dir}, err)
	}
	return all, errors.Join(err, ctx.Err())
}

// removeError returns the error of a cache that could not be removed.
func removeError(c cache.Cache, err error) error {
	if err == nil {
		return nil
	}
	message := "cannot remove " + c.Dir + ": " + hostpath.Reason(err)
	switch {
	case errors.Is(err, cache.ErrInUse):
		return &Error{Message: message, Hint: "it can be removed once that has ended: paddock list shows the sandboxes that run"}
	case errors.Is(err, unix.EPERM):
		return &Error{Message: message, Hint: "something in it may be immutable: look with lsattr -R, and take that away with chattr -R -i"}
	case errors.Is(err, unix.EACCES):
		return &Error{Message: message, Hint: "something in it may belong to another user"}
	}
	return &Error{Message: message}
}

func cacheOf(c cache.Cache) Cache {
	return Cache{Tool: c.Tool, Workspace: c.Workspace, Principal: c.Principal, Dir: c.Dir, Used: c.Used, InUse: c.InUse,
		Bytes: c.Bytes, Partial: c.Partial, Measured: !c.Measured.IsZero()}
}

// chooseCaches opens the store and returns the chosen caches.
func (o Options) chooseCaches(what CacheChoice) (*cache.Store, []cache.Cache, error) {
	if known := append(policy.CacheTools(), cache.Home); what.Tool != "" && !slices.Contains(known, what.Tool) {
		return nil, nil, &policy.FieldError{Field: "tool", Value: what.Tool, Reason: "unknown tool", Hint: "the tools are " + strings.Join(known, ", ")}
	}
	workspace := ""
	if what.Workspace != "" {
		abs, err := hostpath.Abs(what.Workspace)
		if err != nil {
			return nil, nil, &Error{Message: "cannot use " + what.Workspace + ": " + hostpath.Reason(err)}
		}
		workspace = hostpath.Future(abs) // it may be gone
	}
	_, seen, err := o.stateDir()
	if err != nil {
		return nil, nil, err
	}
	store, err := cache.Open(seen)
	if err != nil {
		return nil, nil, cacheError(err)
	}
	all, _, err := store.List()
	if err != nil {
		return nil, nil, cacheError(err)
	}
	if dir, _, err := store.Find(cache.Key{Workspace: workspace}); err == nil {
		for i := range all { // those with a damaged record are told by their place
			if all[i].Workspace == "" && filepath.Dir(filepath.Dir(all[i].Dir)) == filepath.Dir(dir) {
				all[i].Workspace = workspace
			}
		}
	}
	return store, slices.DeleteFunc(all, func(c cache.Cache) bool {
		return workspace != "" && c.Workspace != workspace || what.Tool != "" && c.Tool != what.Tool
	}), nil
}
