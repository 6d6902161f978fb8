// Package redis keeps privileges in a Redis server, for several servers of
// Paddock that share them, and for the bot whose masks Paddock understands.
//
// Two hashes hold a principal's mask in decimal, as far as it is not 0:
//
//	stargazer:user_privileges   every bit but Paddock's own
//	paddock:privileges          Paddock's own bits ([privilege.Own])
//
// What the first says about bits 32 to 47 is somebody else's: it is neither
// believed nor changed.
//
// Nothing is remembered between two questions, so that a grant that was taken
// away is gone at once, and nothing is tried twice: a server that does not
// answer within a second is a [*privilege.Unavailable], and the next question
// tries again.
//
// The server is trusted: whoever can write to it grants. Give it a password or
// a socket that only its users can reach, and TLS (rediss://) where the way to
// it is not one's own. This package alone imports a client of Redis.
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
	// patience bounds a question, connecting included.
	patience = time.Second
	// updateTime bounds a change, others' changes at the same time included.
	updateTime = 5 * time.Second
	// connections bounds how many are open at a time.
	connections = 8
)

// Store is a Redis server.
type Store struct {
	client *redis.Client
	name   string        // for messages
	turn   chan struct{} // held by who changes, one at a time in this process
}

// Open names the server at redis://[USER[:PASSWORD]@]HOST[:PORT][/DB], with
// rediss:// for TLS, or at unix://[USER[:PASSWORD]@]/SOCKET[?db=N]. It is
// first spoken to by the first question: one that is away can come back.
// Certificates are always verified.
func Open(address string) (privilege.Store, error) {
	options, err := parse(address)
	if err != nil {
		// The text is not repeated: it may hold a password.
		return nil, &privilege.Unavailable{Store: "Redis", Cause: err,
			Hint: "write redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH?db=N"}
	}
	logging.Disable() // errors are returned, and told once
	return &Store{
		client: redis.NewClient(options),
		name:   "Redis at " + options.Network + " " + strconv.Quote(options.Addr),
		turn:   make(chan struct{}, 1),
	}, nil
}

func parse(address string) (*redis.Options, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("its address is no URL")
	}
	for name := range u.Query() {
		// Others would change timeouts, and even switch verification off.
		if name != "db" {
			return nil, fmt.Errorf("its address has a parameter %q, and only db is one", name)
		}
	}
	if u.Scheme == "unix" && u.Host != "" {
		return nil, errors.New("its address names a host and a socket")
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

// Get is what the two hashes say of a principal.
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

// Update changes what they say, where nobody else has changed it meanwhile,
// and else does so again with what is there then, for at most five seconds.
// An error may come after the change was made: the connection can break
// between the two.
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
		return 0, 0, s.unavailable(ctx, errors.New("others change it"))
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

// List is what the two hashes say of everybody. It reads them page by page:
// what changes meanwhile may be in it or not.
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
