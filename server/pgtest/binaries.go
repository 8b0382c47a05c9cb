package pgtest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// installFolders are the folders for a server's binaries in packages that do
// not put them on PATH. The asterisk is the version.
var installFolders = []string{
	"/usr/lib/postgresql/*/bin",              // Debian, Ubuntu
	"/usr/pgsql-*/bin",                       // Red Hat
	"/usr/libexec/postgresql*",               // Alpine
	"/opt/homebrew/opt/postgresql@*/bin",     // Homebrew, Apple silicon
	"/usr/local/opt/postgresql@*/bin",        // Homebrew, Intel
	"/home/linuxbrew/.linuxbrew/opt/*@*/bin", // Homebrew, Linux
}

// findBinaries returns the folder with initdb and postgres that acct may use.
func findBinaries(cfg Config, acct *account) (string, error) {
	wanted := cfg.Bin
	if wanted == "" {
		wanted = os.Getenv(EnvBin)
	}
	switch wanted {
	case "":
	case NoBin:
		return "", &unavailableError{}
	default:
		if err := usableBinaries(wanted, acct); err != nil {
			return "", &unavailableError{looked: []string{err.Error()}}
		}
		return wanted, nil
	}
	looked := []string{"PATH"}
	for _, dir := range candidateFolders() {
		err := usableBinaries(dir, acct)
		if err == nil {
			return dir, nil
		}
		looked = append(looked, err.Error())
	}
	return "", &unavailableError{looked: append(looked, installFolders...)}
}

// candidateFolders lists the folders that exist: first that of PATH's initdb, then
// the others with the highest version first.
func candidateFolders() []string {
	var dirs []string
	if initdb, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(initdb))
	}
	for _, pattern := range installFolders {
		found, err := filepath.Glob(pattern)
		if err != nil {
			continue // a malformed pattern; ours are constant and tested
		}
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
		dirs = append(dirs, found...)
	}
	return dirs
}

// version is the first number in path, and 0 if there is none. It is 15 for
// /usr/lib/postgresql/15/bin, and 9.6 for /usr/lib/postgresql/9.6/bin.
func version(path string) float64 {
	isDigit := func(r byte) bool { return r >= '0' && r <= '9' }
	start := 0
	for start < len(path) && !isDigit(path[start]) {
		start++
	}
	end := start
	for end < len(path) && (isDigit(path[end]) || path[end] == '.') {
		end++
	}
	v, err := strconv.ParseFloat(path[start:end], 64)
	if err != nil {
		return 0
	}
	return v
}

// usableBinaries returns the defect of dir.
func usableBinaries(dir string, acct *account) error {
	for _, name := range []string{"initdb", "postgres"} {
		file := filepath.Join(dir, name)
		if _, err := exec.LookPath(file); err != nil {
			return fmt.Errorf("%s (no %s)", dir, name)
		}
		if !acct.canReach(file) {
			return fmt.Errorf("%s (closed to user %s)", dir, acct.name)
		}
	}
	return nil
}
