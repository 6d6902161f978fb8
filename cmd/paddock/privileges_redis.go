//go:build redis

package main

import "github.com/paddock-dev/paddock/privilege/redis"

// This is paddock-redis, which paddock becomes where privileges are kept in
// Redis.
var openRemote = redis.Open

func (*app) becomeRedis() {}
