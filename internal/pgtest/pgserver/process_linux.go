package pgserver

import "syscall"

// processAttributes makes the kernel end the server (SIGQUIT: at once, without a core dump) when this process
// is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
}
