// Package redis stores privileges in a Redis server, for several servers of
// Paddock that share them, and for the bot whose masks Paddock understands.
//
// Two hashes hold a principal's mask in decimal, unless it is 0:
//
//	stargazer:user_privileges   every bit but Paddock's own
//	paddock:privileges          Paddock's own bits ([privilege.Own])
//
// Bits 32 to 47 of the first have another owner: they are ignored and never changed.
//
// Nothing is cached, so that a revoked grant has no effect any more at once, and nothing is
// retried: if the server does not answer within a second, a call returns a
// [*privilege.Unavailable], and the next call tries again.
//
// The server is trusted: everybody who can write to it can grant privileges. Give it a
// password or a socket that only its users can reach, and TLS (rediss://) if others share the
// network.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/paddock-dev/paddock/privilege"
)

// The keys of the two hashes.
const (
	SharedKey = "stargazer:user_privileges"
	OwnKey    = "paddock:privileges"
)

const (
	// patience bounds a request, connecting included.
	patience = time.Second
	// updateTime bounds a change, including retries because of concurrent changes.
	updateTime = 5 * time.Second
	// connections bounds the open connections.
	connections = 8
)

// Store keeps privileges in a Redis server.
type Store struct {
	client *redis.Client
	name   string        // for messages
	turn   chan struct{} // held by a writer: one at a time in this process
}

// Open returns the store at redis://[USER[:PASSWORD]@]HOST[:PORT][/DB], with rediss:// for
// TLS, or at unix://[USER[:PASSWORD]@]/SOCKET[?db=N]. It connects with the first request.
// Certificates are always verified.
func Open(address string) (privilege.Store, error) {
	options, err := parse(address)
	if err != nil {
		// The address is not repeated: it may hold a password.
		return nil, &privilege.Unavailable{Store: "Redis", Cause: err,
			Hint: "write redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH?db=N"}
	}
	logging.Disable() // errors are returned instead
	return &Store{
		client: redis.NewClient(options),
		name:   "Redis at " + options.Network + " " + strconv.Quote(options.Addr),
		turn:   make(chan struct{}, 1),
	}, nil
}

func parse(address string) (*redis.Options, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("its address is not a URL")
	}
	for name := range u.Query() {
		// Others change timeouts, or even turn off verification.
		if name != "db" {
			return nil, fmt.Errorf("unknown parameter %q in its address, want db", name)
		}
	}
	if u.Scheme == "unix" && u.Host != "" {
		return nil, errors.New("its address has both a host and a socket")
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, errors.New("its address cannot be used")
	}
	if o.TLSConfig != nil {
		o.TLSConfig = &tls.Config{ServerName: o.TLSConfig.ServerName, MinVersion: tls.VersionTLS12}
	}
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patience, patience, patience, patience
	o.ContextTimeoutEnabled = true
	o.PoolSize, o.MaxActiveConns = connections, connections
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

// Get returns the privileges that the two hashes grant to a principal.
func (s *Store) Get(ctx context.Context, principal string) (privilege.Set, error) {
	if err := privilege.CheckName(principal); err != nil {
		return 0, err
	}
	now, err := s.read(ctx, principal)
	if err != nil {
		return 0, s.unavailable(ctx, err)
	}
	return now.set(), nil
}

// Update changes the hashes by compare and swap, retried for at most five seconds. If the
// connection breaks before the answer, it returns an error, although the change may have been
// made.
func (s *Store) Update(ctx context.Context, principal string, change func(privilege.Set) privilege.Set) (before, after privilege.Set, err error) {
	if err := privilege.CheckName(principal); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return 0, 0, s.unavailable(ctx, errors.New("others are changing it"))
	}
	for {
		was, err := s.read(ctx, principal)
		if err != nil {
			return 0, 0, s.unavailable(ctx, err)
		}
		before := was.set()
		after := change(before)
		done, err := s.swap(ctx, principal, was, was.with(after))
		if err != nil {
			return 0, 0, s.unavailable(ctx, err)
		}
		if done {
			return before, after, nil
		}
	}
}

// List returns the privileges that the two hashes grant to each principal. It reads them page
// by page; concurrent changes may be missing.
func (s *Store) List(ctx context.Context) (map[string]privilege.Set, error) {
	all := make(map[string]privilege.Set)
	for _, key := range []string{SharedKey, OwnKey} {
		if err := s.scan(ctx, key, all); err != nil {
			return nil, s.unavailable(ctx, err)
		}
	}
	return all, nil
}

// Close closes the connections.
func (s *Store) Close() error { return s.client.Close() }

func (s *Store) unavailable(ctx context.Context, err error) error {
	u := &privilege.Unavailable{Store: s.name, Cause: err, Hint: "start the server, or name another"}
	switch {
	case errors.Is(err, errBroken):
		u.Hint = "correct it with HSET or HDEL"
	case ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)):
		u.Cause = fmt.Errorf("it did not answer within %v: %w", patience, err)
	}
	return u
}

// page is the number of entries of one scan request.
const page = 1000

// errBroken means that an entry is invalid. It grants nothing.
var errBroken = errors.New("invalid entry")

// masks are the entries of one principal in the two hashes.
type masks struct {
	shared, own string        // as they are written; empty if there is none
	s, o        privilege.Set // their values
}

func parseMask(key, text string) (privilege.Set, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s holds %.40q, which is not a mask", errBroken, key, text)
	}
	return privilege.Set(n), nil
}

func formatMask(s privilege.Set) string {
	if s == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(s), 10)
}

// set returns what both grant.
func (m masks) set() privilege.Set { return m.s&^privilege.Own | m.o&privilege.Own }

// with returns the entries that grant set. An entry whose value does not change keeps its
// text.
func (m masks) with(set privilege.Set) masks {
	next := m
	if s := m.s&privilege.Own | set&^privilege.Own; s != m.s {
		next.shared, next.s = formatMask(s), s
	}
	if o := set & privilege.Own; o != m.o {
		next.own, next.o = formatMask(o), o
	}
	return next
}

func (s *Store) read(ctx context.Context, principal string) (masks, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pipe := s.client.Pipeline()
	shared, own := pipe.HGet(ctx, SharedKey, principal), pipe.HGet(ctx, OwnKey, principal)
	// Exec returns only the first error, and a missing entry is one.
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return masks{}, err
	}
	texts := make([]string, 2)
	for i, reply := range []*redis.StringCmd{shared, own} {
		text, err := reply.Result()
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			return masks{}, err
		case text == "":
			return masks{}, fmt.Errorf("%w: an empty mask", errBroken)
		}
		texts[i] = text
	}
	m := masks{shared: texts[0], own: texts[1]}
	var err error
	if m.s, err = parseMask(SharedKey, m.shared); err != nil {
		return m, err
	}
	m.o, err = parseMask(OwnKey, m.own)
	return m, err
}

// swapScript writes ARGV[4] and ARGV[5] if the entries still are ARGV[2] and ARGV[3]. An
// empty text means no entry.
const swapScript = `
for i = 1, 2 do
	if (redis.call('HGET', KEYS[i], ARGV[1]) or '') ~= ARGV[1 + i] then return 0 end -- changed by another client
end
for i = 1, 2 do
	local old, new = ARGV[1 + i], ARGV[3 + i]
	if new == '' then redis.call('HDEL', KEYS[i], ARGV[1])
	elseif new ~= old then redis.call('HSET', KEYS[i], ARGV[1], new) end -- otherwise it stays
end
return 1`

func (s *Store) swap(ctx context.Context, principal string, was, next masks) (done bool, err error) {
	if was == next {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n, err := redis.NewScript(swapScript).Run(ctx, s.client, []string{SharedKey, OwnKey},
		principal, was.shared, was.own, next.shared, next.own).Int()
	return n == 1, err
}

// scan adds the entries of one hash.
func (s *Store) scan(ctx context.Context, key string, all map[string]privilege.Set) error {
	seen := make(map[string]bool) // a scan may return an entry twice
	for cursor := uint64(0); ; {
		entries, next, err := s.scanPage(ctx, key, cursor)
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(entries); i += 2 {
			if err := addEntry(all, seen, key, entries[i], entries[i+1]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (s *Store) scanPage(ctx context.Context, key string, cursor uint64) ([]string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.client.HScan(ctx, key, cursor, "", page).Result()
}

func addEntry(all map[string]privilege.Set, seen map[string]bool, key, name, text string) error {
	if seen[name] {
		return nil
	}
	seen[name] = true
	if len(seen) > privilege.MaxPrincipals {
		return fmt.Errorf("%w: %s holds more than %d principals", errBroken, key, privilege.MaxPrincipals)
	}
	mask, err := parseMask(key, text)
	if err := errors.Join(privilege.CheckName(name), err); err != nil {
		return fmt.Errorf("%w: %s: %w", errBroken, key, err)
	}
	part := mask &^ privilege.Own
	if key == OwnKey {
		part = mask & privilege.Own
	}
	if part |= all[name]; part != 0 {
		all[name] = part
	}
	return nil
}
