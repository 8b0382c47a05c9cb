//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// An account is the user that Postgres runs as. It differs from our user if we
// are root: Postgres refuses to run as root. The nil account is our own user.
type account struct {
	name     string
	uid, gid uint32
}

// serverAccount returns the account for Postgres: nil unless we are root. For
// root it is the user postgres, or else the user nobody.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("pgtest: Postgres refuses to run as root, and there is neither a user postgres nor a user nobody to run it as")
}

// canReach reports whether the account may open path, as far as the permission
// bits for others tell.
func (a *account) canReach(path string) bool {
	if a == nil {
		return true
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for p := resolved; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if p == filepath.Dir(p) {
			return true
		}
	}
}

func (a *account) chown(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// sysProcAttr has the attributes of Postgres's processes.
func (a *account) sysProcAttr() *syscall.SysProcAttr {
	// Postgres gets a process group of its own: Ctrl-C is for our program,
	// which decides when Postgres stops.
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	dieWithParent(attr)
	return attr
}
