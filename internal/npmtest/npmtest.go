// Package npmtest installs packages of npm for tests.
//
// A folder of the tree has a package.json and a package-lock.json. npm installs what the lock file names once for each
// lock file, into the user's cache. No file of a package enters the tree.
package npmtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// manifests are the files that npm needs.
var manifests = []string{"package.json", "package-lock.json"}

var installs sync.Map // of func() (string, error) by folder

// Modules returns the absolute path of the node_modules folder with the packages of the lock file in folder. It blocks
// while npm installs them. A process asks npm once for each folder. Modules is safe for concurrent use. It returns the
// error of the first call, such as [exec.ErrNotFound] if this machine does not have npm.
func Modules(folder string) (string, error) {
	install, _ := installs.LoadOrStore(folder, sync.OnceValues(func() (string, error) { return modules(folder) }))
	return install.(func() (string, error))() //nolint:forcetypeassert // stored above
}

func modules(folder string) (string, error) {
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return "", fmt.Errorf("npmtest: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("npmtest: %w", err)
	}
	parent := filepath.Join(cache, "fanonce-npm")
	installed := filepath.Join(parent, fmt.Sprintf("%x", sha256.Sum256(lock)))
	if _, err := os.Stat(installed); errors.Is(err, fs.ErrNotExist) {
		if err := install(folder, parent, installed); err != nil {
			return "", fmt.Errorf("npmtest: %w", err)
		}
	}
	return filepath.Join(installed, "node_modules"), nil
}

// install makes the folder installed as a whole: a process that dies leaves nothing half done there.
func install(folder, parent, installed string) error {
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // after the rename it is not there
	for _, name := range manifests {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	// Another test binary may have been faster. Its folder is as good.
	if err := os.Rename(dir, installed); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// CheckLock returns an error if the lock file in folder names the host of a registry, or lacks the hash sums. A host's
// name would bind each reader of the lock file to that host.
func CheckLock(folder string) error {
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	switch {
	case err != nil:
		return fmt.Errorf("npmtest: %w", err)
	case strings.Contains(string(lock), `"resolved"`):
		return errors.New("npmtest: the lock file names the host of a registry")
	case !strings.Contains(string(lock), `"integrity"`):
		return errors.New("npmtest: the lock file lacks hash sums")
	}
	return nil
}
