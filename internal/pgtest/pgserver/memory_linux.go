package pgserver

import "syscall"

const (
	// sharedMemory is where Linux keeps files in memory.
	sharedMemory = "/dev/shm"
	tmpfsMagic   = 0x01021994
	// memoryRoom is what must be free there: several times what a run of all tests has at once. The default of
	// container engines, 64 MiB in all, is too little.
	memoryRoom = 4 << 30
)

// memoryFolder returns a folder whose files stay in memory, or nothing where there is none with enough room.
func memoryFolder() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(sharedMemory, &fs); err != nil || fs.Type != tmpfsMagic {
		return ""
	}
	if fs.Bavail*uint64(fs.Bsize) < memoryRoom {
		return ""
	}
	return sharedMemory
}
