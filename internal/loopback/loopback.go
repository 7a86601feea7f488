// Package loopback says which hosts are this machine.
package loopback

import (
	"net/netip"
	"strings"
)

// Names reports whether a host, as a URL or an address of HOST:PORT has it, is this machine: an address of
// loopback, or localhost in any case of letters. It looks at the text only: who connects or listens must look
// at the address that a name led to as well. An empty host is none: to listen at, it means every interface.
func Names(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}
