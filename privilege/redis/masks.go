package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/paddock-dev/paddock/privilege"
)

// page is the number of entries of one scan request.
const page = 1000

// errBroken means that an entry is invalid. It grants nothing.
var errBroken = errors.New("invalid entry")

// masks are the entries of one principal in the two hashes.
type masks struct {
	shared, own string        // as they are written; empty if there is none
	s, o        privilege.Set // their values
}

func parseMasks(shared, own string) (masks, error) {
	m := masks{shared: shared, own: own}
	var err error
	if m.s, err = parseMask(SharedKey, shared); err != nil {
		return m, err
	}
	m.o, err = parseMask(OwnKey, own)
	return m, err
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
	return parseMasks(texts[0], texts[1])
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
