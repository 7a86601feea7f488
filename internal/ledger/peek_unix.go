//go:build unix && !aix

package ledger

import (
	"errors"
	"syscall"
)

// peek reports whether a socket has neither bytes to be read nor come to its end.
func peek(fd uintptr) (quiet bool) {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return errors.Is(err, syscall.EAGAIN)
}
