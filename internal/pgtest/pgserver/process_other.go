//go:build !linux

package pgserver

import "syscall"

// processAttributes has no way here to bind the server's life to this process.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{}
}
