package paddock

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/policy"
)

// CacheDirEnv is the environment variable with the path of the store of caches, which must
// lie outside of the state directory. Default: for root /var/cache/paddock, else
// $XDG_CACHE_HOME/paddock, else ~/.cache/paddock.
const CacheDirEnv = cache.DirEnv

// CacheMaxEnv is the environment variable with the size that all caches of a user may have
// together: a number of bytes, or "20GiB". Default: [DefaultCacheMax].
const CacheMaxEnv = "PADDOCK_CACHE_MAX"

// DefaultCacheMax is the size of all caches of a user together from which on those that were
// used least recently are removed.
const DefaultCacheMax = 10 * policy.GiB

// CacheOptions say how sandboxes get caches.
type CacheOptions struct {
	// Auto gives a spec without [Spec].Caches those of "auto".
	Auto bool
	// Principal is whose caches they are. No two principals share one.
	Principal string
	// Host lets tools in a sandbox without a network also read what the caller has downloaded:
	// go's modules, the packages of cargo and npm, and the directories of PIP_FIND_LINKS.
	Host bool
}

// stays are the directories of the store that one sandbox uses.
type stays struct {
	store  *cache.Store
	used   []*cache.Used
	most   int64
	making bool // what does not exist is made
	// lost says why there is no cache, if that is worth saying.
	lost []string
	// auto: the sandbox is started without caches if they cannot be mounted.
	auto bool
	// inside: downloads of the caller's are mounted in caches, where commands of other
	// sandboxes can move the mount points.
	inside bool
}

// release ends the use of all of them.
func (k *stays) release() {
	for _, u := range k.used {
		u.Release()
	}
	k.used = nil
}

// stay adds the caches and the home that the spec asks for to the request: mounts, which
// commands can change, and variables. making says whether those that do not exist are made and
// all of them locked; otherwise only those that exist are added.
//
// "auto" never keeps a sandbox from starting. An unsafe or full store is then an entry of
// Isolation.Lost, and a store that cannot exist here is passed over.
func (o Options) stay(ctx context.Context, req *backend.Request, making bool) (*stays, error) {
	words := req.Spec.Caches
	if len(words) == 0 && o.Caches.Auto {
		words = []string{policy.CachesAuto}
	}
	k := &stays{making: making, auto: slices.Equal(words, []string{policy.CachesAuto})}
	spec := &req.Spec
	var tools []string
	if cachesFit(*spec) || !k.auto {
		tools = cache.Chosen(words, hostpath.Real(spec.Workspace.Source))
	}
	if err := layerable(*spec); err != nil && len(tools) > 0 {
		if !k.auto {
			return nil, err
		}
		tools = nil
		k.lost = append(k.lost, lostCaches(err))
	}
	keepHome := spec.Home == policy.HomeKeep
	if len(tools) == 0 && !keepHome {
		return k, nil
	}
	closed := k.open(req, len(tools) > 0)
	err := closed
	if err == nil {
		err = o.addCaches(ctx, k, req, tools)
	}
	if err != nil && k.auto {
		k.release()
		if worthSaying(err) {
			k.lost = append(k.lost, lostCaches(err))
		}
		err = nil
	}
	if err == nil && keepHome {
		if err = closed; err == nil {
			err = o.addHome(ctx, k, req)
		}
	}
	if err != nil {
		k.release()
		return nil, cacheError(err)
	}
	return k, nil
}

// cachesFit reports whether "auto" gives caches to a sandbox: to the default walls, with the
// host's programs and without rules for commands.
func cachesFit(spec Spec) bool {
	return spec.Backend == policy.BackendLinux && spec.Commands == nil && spec.RootFS == policy.RootHost && lendable(spec) == nil
}

// lendable returns why commands that root starts cannot use root's directories, or nil.
func lendable(spec Spec) error {
	if os.Geteuid() == 0 && (spec.Level == policy.LevelLandlock || spec.Allows(policy.DegradeNamespaces)) {
		return hostpath.Refuse("caches", strings.Join(spec.Caches, ","), "at the landlock level root's commands are those of another user", "use level full, or leave it out")
	}
	return nil
}

// layerable returns why caches cannot have the fate of the workspace's changes, which end with
// the sandbox or with a layer, or nil. A layer above them needs mounts.
func layerable(spec Spec) error {
	if spec.Workspace.Stays() || spec.Level != policy.LevelLandlock && !spec.Allows(policy.DegradeNamespaces) {
		return nil
	}
	return hostpath.Refuse("caches", strings.Join(spec.Caches, ","), "what commands change in them would stay, and the workspace is read-only; the landlock level has no layers above caches", "use level full, or a workspace that commands may change")
}

// open finds the store, and checks that it can be used.
func (k *stays) open(req *backend.Request, tools bool) (err error) {
	if err := lendable(req.Spec); err != nil {
		if e := (*policy.FieldError)(nil); errors.As(err, &e) && !tools {
			return hostpath.Refuse("home", req.Spec.Home, e.Reason, e.Hint)
		}
		return err
	}
	if k.store, err = cache.Open(seenOf(req)); err != nil {
		return err
	}
	ws := req.Spec.Workspace
	if _, in := hostpath.Within(k.store.Dir, hostpath.Real(ws.Source)); in && ws.Mode == policy.ModeCopy {
		return hostpath.Refuse("the cache directory", k.store.Dir, "it lies in the workspace, which is copied", "keep it outside: "+CacheDirEnv+"=DIR")
	}
	if err := mappable(k.store.Dir); err != nil {
		return err
	}
	k.most, err = cacheMax()
	return err
}

// seenOf returns what this start has read about the host.
func seenOf(req *backend.Request) *hostpath.Seen {
	if s, ok := req.Seen.(*hostpath.Seen); ok {
		return s
	}
	return hostpath.NewSeen(hostpath.List(req.StateDir))
}

// cacheMax returns the bound of all caches together, in bytes.
func cacheMax() (int64, error) {
	text := os.Getenv(CacheMaxEnv)
	if text == "" {
		return int64(DefaultCacheMax), nil
	}
	size, err := policy.ParseSize(text)
	if err != nil || size <= 0 {
		return 0, &policy.FieldError{Field: CacheMaxEnv, Value: text, Reason: "it is not a size above 0", Hint: "write " + CacheMaxEnv + "=20GiB; `caches: [none]` turns caches off"}
	}
	return int64(size), nil
}

// addCaches adds the caches of these tools.
func (o Options) addCaches(ctx context.Context, k *stays, req *backend.Request, tools []string) error {
	if len(tools) == 0 {
		return nil
	}
	spec, mode := req.Spec, "rw"
	if !spec.Workspace.Stays() {
		mode = "ro" // with a layer above it
	}
	spec.Mounts, spec.Env = slices.Clone(spec.Mounts), maps.Clone(spec.Env)
	if spec.Env == nil {
		spec.Env = map[string]string{}
	}
	var stored []backend.Stored
	set := func(vars map[string]string) {
		for name, value := range vars {
			_, plain := spec.Env[name]
			_, capitals := spec.Env[strings.ToUpper(name)]
			if !plain && !capitals {
				spec.Env[name] = value
			}
		}
	}
	for _, tool := range tools {
		dir, there, err := k.place(ctx, o, req, tool)
		if err != nil {
			return err
		}
		set(cache.Env(tool, dir))
		stored = append(stored, backend.Stored{Source: dir, Tool: tool, Ends: mode == "ro"})
		if there {
			spec.Mounts = append(spec.Mounts, Mount{Source: dir, Target: dir, Mode: mode})
		}
		if o.Caches.Host {
			shown, vars := k.sources(req, spec, tool, dir, there)
			for _, d := range shown {
				from := backend.Stored{Source: d.Source, Tool: tool, Downloads: true, Hidden: d.hidden}
				if d.merged {
					from.Over = d.Target
				}
				stored, spec.Mounts = append(stored, from), append(spec.Mounts, d.Mount)
				k.inside = k.inside || hostpath.Under(d.Target, dir)
			}
			set(vars)
		}
	}
	checked, err := spec.Resolve(policy.Base{}) // targets that a sandbox cannot have, for example
	if err != nil {
		return err
	}
	req.Spec, req.Stored = checked, append(req.Stored, stored...)
	return nil
}

// place returns the directory of a tool's cache, and whether it exists.
func (k *stays) place(ctx context.Context, o Options, req *backend.Request, tool string) (dir string, there bool, err error) {
	key := cache.Key{Workspace: hostpath.Real(req.Spec.Workspace.Source), Principal: o.Caches.Principal, Tool: tool}
	dir, there, err = k.store.Find(key)
	if err == nil && tool != cache.Home {
		err = unmounted(req.Spec, dir)
	}
	if err != nil || !k.making {
		return dir, there, err
	}
	u, err := k.store.Use(ctx, key, k.most)
	if err != nil {
		return "", false, err
	}
	k.used = append(k.used, u)
	return u.Dir, true, nil
}

// unmounted refuses a cache at whose path another mount would be.
func unmounted(spec Spec, dir string) error {
	taken := []string{policy.WorkspacePath}
	if spec.Home != "" {
		taken = append(taken, policy.HomePath)
	}
	for _, m := range spec.Mounts {
		taken = append(taken, m.Target)
	}
	for _, at := range taken {
		if _, in := hostpath.Within(dir, at); in {
			return hostpath.Refuse("caches", strings.Join(spec.Caches, ","), "the caches are in "+dir+", and "+at+" is another mount inside", "leave that mount out, or keep the caches elsewhere with "+CacheDirEnv)
		}
	}
	return nil
}

// addHome replaces "keep" by the directory of the store.
func (o Options) addHome(ctx context.Context, k *stays, req *backend.Request) error {
	dir, there, err := k.place(ctx, o, req, cache.Home)
	if err != nil {
		return err
	}
	if !req.Spec.Workspace.Stays() {
		k.lost = append(k.lost, "ending HOME with the sandbox: what commands change in it stays, though what they change in the workspace does not, and later sandboxes with this HOME obey it")
	}
	if !there { // a plan changes nothing
		req.Spec.Home = ""
		return nil
	}
	req.Spec.Home = dir
	req.Stored = append(req.Stored, backend.Stored{Source: dir})
	return nil
}

// errUnmappable is the error of root's store on a file system that has no id-mapped mounts.
var errUnmappable = errors.New("its file system cannot be id-mapped, and root's commands are those of another user")

// mappable returns an error for a directory of root's that surely cannot be id-mapped. The
// start itself finds out about other file systems.
func mappable(dir string) error {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		return nil
	}
	var st unix.Statfs_t
	for unix.Statfs(dir, &st) != nil {
		if dir == "/" {
			return nil
		}
		dir = filepath.Dir(dir)
	}
	switch uint32(st.Type) {
	case 0x794c7630 /* overlay */, 0x65735546 /* FUSE */, 0x6969 /* NFS */, 0x01021997 /* 9p */, 0x858458f6 /* ramfs */ :
		return &fs.PathError{Op: "use", Path: dir, Err: errUnmappable}
	}
	return nil
}

// worthSaying reports whether the user should know why "auto" gives no cache: not if there
// just is no place for one, unless it was named.
func worthSaying(err error) bool {
	if os.Getenv(CacheDirEnv) != "" {
		return true
	}
	for _, no := range []error{hostpath.ErrNoHome, errUnmappable, fs.ErrPermission, unix.EROFS, fs.ErrNotExist} {
		if errors.Is(err, no) {
			return false
		}
	}
	e := (*policy.FieldError)(nil)
	return !errors.As(err, &e) || e.Field != "caches" && !strings.HasPrefix(e.Field, "mounts")
}

// lostCaches returns what an isolation says that has no caches because of this error.
func lostCaches(err error) string {
	const elsewhere = "choose another place for the caches with " + CacheDirEnv
	why, hint := err.Error(), elsewhere
	if e := (*Error)(nil); errors.As(cacheError(err), &e) {
		why, hint = e.Message, e.Hint
	}
	if all := policy.FieldErrors(err); len(all) > 0 { // the first says it
		why, hint = all[0].Error(), cmp.Or(all[0].Hint, elsewhere)
		if all[0].Field == "caches" {
			why = all[0].Reason
		}
	}
	return "caches: " + why + " (" + hint + ")"
}

// cacheError returns an error about the store with what to do about it.
func cacheError(err error) error {
	hint := "choose another place for the caches with " + CacheDirEnv
	switch e := (*policy.FieldError)(nil); {
	case errors.As(err, &e):
		return err
	case hostpath.Full(err):
		hint = "make room: paddock cache list shows the caches, and paddock cache rm removes them; or " + hint
	case errors.Is(err, hostpath.ErrNoHome):
		hint = "set " + CacheDirEnv + " to a directory of your own"
	}
	return &Error{Message: "cannot use the caches: " + err.Error(), Hint: hint}
}

// upkeepAfter is how long a sandbox lives before the store is looked after, so that short
// commands cost nothing.
const upkeepAfter = time.Second

// upkeep measures and trims the store in the background until ctx ends.
func (k *stays) upkeep(ctx context.Context) {
	if k.store == nil || len(k.used) == 0 {
		return
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(upkeepAfter):
			if k.store.Due() {
				_, _ = k.store.Trim(ctx, k.most) // "paddock cache rm" reports what cannot be removed
			}
		}
	}()
}
