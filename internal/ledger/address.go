package ledger

import (
	"errors"
	"net/netip"
	"syscall"
)

// errAddressBlocked refuses an address that a ledger never has.
var errAddressBlocked = errors.New("address blocked")

var (
	// nat64 embeds an IPv4 address in its last four bytes (RFC 6052).
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// metadata are the addresses at which clouds hand out credentials to whoever runs on the machine, beside the
	// link-local ones.
	metadata = []netip.Addr{
		netip.MustParseAddr("fd00:ec2::254"),   // Amazon
		netip.MustParseAddr("fd20:ce::254"),    // Google
		netip.MustParseAddr("100.100.100.200"), // Alibaba
		netip.MustParseAddr("168.63.129.16"),   // Azure
		netip.MustParseAddr("192.0.0.192"),     // Oracle
	}
	broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
)

// blocked reports whether a ledger must not be looked for at addr. Loopback and private networks are allowed:
// ledgers live there.
func blocked(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() || addr == broadcast {
		return true
	}
	for _, m := range metadata {
		if addr == m {
			return true
		}
	}
	return false
}

// addressRule returns a net.Dialer.Control function. It sees each address after the name was resolved and
// just before the connection is made, so a name that resolves anew cannot get past it.
func addressRule(loopbackOnly bool) func(network, address string, c syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || blocked(ap.Addr()) || loopbackOnly && !ap.Addr().Unmap().IsLoopback() {
			return errAddressBlocked
		}
		return nil
	}
}
