package paddock

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/url"
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
	// Host lets tools also read what the caller's own caches have downloaded: Go's modules.
	Host bool
}

// stays are the directories of the store that one sandbox uses.
type stays struct {
	store *cache.Store
	used  []*cache.Used
	most  int64
	// lost says why there is no cache, if that is worth saying.
	lost []string
	// auto: the sandbox is started without caches if they cannot be mounted.
	auto bool
}

// release ends the use of all of them.
func (k *stays) release() {
	for _, u := range k.used {
		u.Release()
	}
	k.used = nil
}

// stay adds the caches and the home that the spec asks for to the request: mounts, which
// commands can change, and variables. make says whether those that do not exist are made and
// all of them locked; otherwise only those that exist are added.
//
// "auto" never keeps a sandbox from starting. An unsafe or full store is then an entry of
// Isolation.Lost, and a store that cannot exist here is passed over.
func (o Options) stay(req *backend.Request, make bool) (*stays, error) {
	words := req.Spec.Caches
	if len(words) == 0 && o.Caches.Auto {
		words = []string{policy.CachesAuto}
	}
	k := &stays{auto: slices.Equal(words, []string{policy.CachesAuto})}
	spec := &req.Spec
	var tools []string
	if cachesFit(*spec) || !k.auto {
		tools = cache.Chosen(words, hostpath.Real(spec.Workspace.Source))
	}
	keepHome := spec.Home == policy.HomeKeep
	if len(tools) == 0 && !keepHome {
		return k, nil
	}
	err := k.open(req)
	if err == nil && len(tools) > 0 {
		err = o.addCaches(k, req, tools, make)
	}
	if err != nil && k.auto {
		k.release()
		if worthSaying(err) {
			k.lost = append(k.lost, "caches: "+err.Error()+" ("+CacheDirEnv+" names another place for them)")
		}
		err = nil
	}
	if err == nil && keepHome {
		err = o.addHome(k, req, make)
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
	if os.Geteuid() == 0 && spec.Level == policy.LevelLandlock {
		return hostpath.Refuse("caches", strings.Join(spec.Caches, ","), "at the landlock level root's commands are those of another user", "use level full, or leave it out")
	}
	return nil
}

// open finds the store, and checks that it can be used.
func (k *stays) open(req *backend.Request) (err error) {
	if err := lendable(req.Spec); err != nil {
		return err
	}
	if k.store, err = cache.Open(seenOf(req)); err != nil {
		return err
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
		return 0, &policy.FieldError{Field: CacheMaxEnv, Value: text, Reason: "it is not a size above 0", Hint: "write 20GiB"}
	}
	return int64(size), nil
}

// addCaches adds the caches of these tools.
func (o Options) addCaches(k *stays, req *backend.Request, tools []string, make bool) error {
	spec := req.Spec
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
		dir, there, err := k.place(o, req, tool, make)
		if err != nil {
			return err
		}
		set(cache.Env(tool, dir))
		stored = append(stored, backend.Stored{Source: dir, Tool: tool})
		if there {
			spec.Mounts = append(spec.Mounts, Mount{Source: dir, Target: dir, Mode: "rw"})
		}
		if tool == cache.Go && o.Caches.Host {
			if from := goDownloads(req, spec); from != "" {
				spec.Mounts = append(spec.Mounts, Mount{Source: from, Target: from, Mode: "ro"})
				stored = append(stored, backend.Stored{Source: from})
				set(map[string]string{"GOPROXY": goProxy(from, spec.Network)})
			}
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
func (k *stays) place(o Options, req *backend.Request, tool string, make bool) (dir string, there bool, err error) {
	key := cache.Key{Workspace: hostpath.Real(req.Spec.Workspace.Source), Principal: o.Caches.Principal, Tool: tool}
	dir, there, err = k.store.Find(key)
	if err == nil && tool != cache.Home {
		err = clear(req.Spec, dir)
	}
	if err != nil || !make {
		return dir, there, err
	}
	u, err := k.store.Use(key, k.most)
	if err != nil {
		return "", false, err
	}
	k.used = append(k.used, u)
	return u.Dir, true, nil
}

// clear refuses a cache at whose path another mount would be.
func clear(spec Spec, dir string) error {
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
func (o Options) addHome(k *stays, req *backend.Request, make bool) error {
	dir, there, err := k.place(o, req, cache.Home, make)
	if err != nil {
		return err
	}
	if !there { // a plan changes nothing
		req.Spec.Home = ""
		return nil
	}
	req.Spec.Home = dir
	req.Stored = append(req.Stored, backend.Stored{Source: dir})
	return nil
}

// goDownloads returns the directory with the modules that the caller's go has downloaded, if
// it lies below the caller's home and no sandbox could have written there. What go has from
// version control systems lies beside it, and is not shown.
func goDownloads(req *backend.Request, spec Spec) string {
	if req.Home == "" {
		return ""
	}
	mod := os.Getenv("GOMODCACHE")
	if mod == "" {
		first, _, _ := strings.Cut(cmp.Or(os.Getenv("GOPATH"), filepath.Join(req.Home, "go")), string(filepath.ListSeparator))
		mod = filepath.Join(first, "pkg", "mod")
	}
	dir := filepath.Join(mod, "cache", "download")
	if !filepath.IsAbs(dir) || strings.ContainsAny(dir, ",|") {
		return ""
	}
	way, err := seenOf(req).Trust(backend.OwnFile{Path: dir, What: "go's modules", Dir: true})
	if err != nil || !way.IsDir() || mappable(way.Path) != nil || clear(spec, way.Path) != nil {
		return ""
	}
	if _, below := hostpath.Within(way.Path, hostpath.Real(req.Home)); !below {
		return ""
	}
	return way.Path
}

// goProxy returns a GOPROXY that begins with a directory of modules.
func goProxy(dir, network string) string {
	from := (&url.URL{Scheme: "file", Path: dir}).String()
	if network == "none" {
		return from + ",off"
	}
	return from + ",https://proxy.golang.org,direct" // go's default
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
// just is no place for one.
func worthSaying(err error) bool {
	for _, no := range []error{hostpath.ErrNoHome, errUnmappable, fs.ErrPermission, unix.EROFS, fs.ErrNotExist} {
		if errors.Is(err, no) {
			return false
		}
	}
	e := (*policy.FieldError)(nil)
	return !errors.As(err, &e) || e.Field != "caches" && !strings.HasPrefix(e.Field, "mounts")
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

// Cache is a directory that stays between sandboxes: the cache of a tool, or a HOME.
type Cache struct {
	Tool      string // "home" is a HOME
	Workspace string // empty if its record is damaged
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
	return store, slices.DeleteFunc(all, func(c cache.Cache) bool {
		return workspace != "" && c.Workspace != workspace || what.Tool != "" && c.Tool != what.Tool
	}), nil
}
