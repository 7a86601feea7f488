// Package natsrpc carries requests for slots and their answers over NATS.
//
// Every daemon hears every request. Those of one instance form a queue group, of which NATS picks one for
// each request; it answers if the request names its instance, and is silent otherwise. So two daemons of one
// instance answer once, and a request for an instance without a daemon is answered by nobody. A request that
// cannot be read names no instance: all daemons form a second group, which answers only those. Each group
// has a connection of its own.
//
// What a server sends is bounded before the client library reads it: see guard.
//
// A NATS server that is not there is no trouble of the daemon's: it is tried for ever, in the background. A
// connection that breaks is closed, and a new one made; the client library's own reconnecting, its buffers
// and its printing to standard error are not used.
package natsrpc
