// Package wire is the one protocol between the two sides of a Paddock wall:
// the agent inside, and whoever drives it from outside.
//
// It holds the types that cross the wall, the framing, and a client. It
// imports the standard library only, so that both sides, and programs that
// want to speak to a bare agent, can use it without inheriting anything.
// The agent's half of each action lives in package agent.
//
// # Shape
//
// One connection carries one request: a line of JSON in; a line of JSON out,
// or a header line followed by what the header announces. WIRE.md beside this
// file is the specification. A request with "keep_alive" set leaves the
// connection open for the next one.
//
// An exec with "stream" set is answered by a header line, after which the
// connection carries frames in both directions: an 8-byte header (stream
// byte, three zero bytes, big-endian uint32 length) and the payload.
//
// # Use
//
// A [Client] needs only a way to dial. Exec runs a command to its end; Start
// follows one, and gives a Process as os/exec gives a Cmd. An agent reads
// with [ReadLine], [HeadOf], [DecodeRequest] and [FrameReader], and answers
// with [WriteLine] and [FrameWriter]. What went wrong is an [*Error] with a
// [Code] wherever a program may want to act on it.
//
// # Trust
//
// Neither side trusts the other. Every line, header and payload has a bound,
// and a decoder never allocates what a peer merely announces.
package wire
