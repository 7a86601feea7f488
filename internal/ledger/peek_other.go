//go:build !unix || aix

package ledger

// peek cannot look at a socket here: a connection that the ledger has ended is found out by the next request.
func peek(uintptr) (quiet bool) { return true }
