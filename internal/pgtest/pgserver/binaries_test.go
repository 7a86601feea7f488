package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// installed makes a folder that looks like an installation of version under root.
func installed(t *testing.T, root, version string, programs ...string) string {
	t.Helper()
	dir := filepath.Join(root, version, "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindBinaries(t *testing.T) {
	t.Run("NewestSupportedVersionThatHasAServerWins", func(t *testing.T) {
		t.Setenv(EnvBin, "")
		root := t.TempDir()
		installed(t, root, "9", "initdb", "postgres")
		installed(t, root, "13", "initdb", "postgres")
		installed(t, root, "14", "initdb", "postgres")
		want := installed(t, root, "15", "initdb", "postgres")
		installed(t, root, "16", "psql")
		got, err := findBinaries([]string{root + "/*/bin"})
		if err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})
	t.Run("LinkInPathIsFollowed", func(t *testing.T) {
		t.Setenv(EnvBin, "")
		want := installed(t, t.TempDir(), "15", "initdb", "postgres")
		path := t.TempDir()
		if err := os.Symlink(filepath.Join(want, "initdb"), filepath.Join(path, "initdb")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", path)
		got, err := findBinaries(nil)
		if err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})
	t.Run("NoneIsAnErrorThatNamesTheRemedy", func(t *testing.T) {
		t.Setenv(EnvBin, "")
		t.Setenv("PATH", t.TempDir())
		if got, err := findBinaries(nil); !errors.Is(err, ErrNone) {
			t.Errorf("got %q, %v, want ErrNone", got, err)
		}
	})
	t.Run("NamedFolderIsNotReplacedByAnother", func(t *testing.T) {
		t.Setenv(EnvBin, t.TempDir())
		root := t.TempDir()
		installed(t, root, "15", "initdb", "postgres")
		if got, err := findBinaries([]string{root + "/*/bin"}); err == nil {
			t.Errorf("got %q, want an error", got)
		}
	})
}
