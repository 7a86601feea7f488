package pgserver

import (
	"fmt"
	"os/user"
	"strconv"
)

// account is whom a server runs as when this process is root.
type account struct{ uid, gid int }

func unprivilegedAccount() (*account, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("not as root, and no account postgres or nobody to run the server as: %w", err)
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &account{uid: uid, gid: gid}, nil
}
