package faults

import (
	"context"
	_ "embed" // the sources of the overlay
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed overlay/hostclock.go.txt
var hostClock string

//go:embed overlay/offset.go.txt
var clockOffset string

// edit changes a source file of the programs. Pattern must match just as often as Times says; the rest of the
// file stays as it is.
type edit struct {
	file string // below the module's folder, or GOROOT/ for the standard library
	// section is the beginning of the text that may be changed, which ends with the next line that ends by a
	// backquote; empty is all of the file.
	section string
	pattern string
	with    string
	times   int
}

// clockEdit lets the wall clock of the programs be set.
var clockEdit = edit{
	file: "GOROOT/src/time/time.go", pattern: `\n\tsec, nsec, mono := runtimeNow\(\)\n`,
	with: "${0}\tif HostClockOffset != nil {\n\t\tsec += *HostClockOffset\n\t}\n", times: 1,
}

// apply returns text with the edit made.
func (e edit) apply(text string) (string, error) {
	before, section, after := "", text, ""
	if e.section != "" {
		begin := strings.Index(text, e.section)
		if begin < 0 {
			return "", fmt.Errorf("%s has no %q", e.file, e.section)
		}
		end := strings.Index(text[begin:], "\n`\n")
		if end < 0 {
			return "", fmt.Errorf("%s: %q does not end", e.file, e.section)
		}
		before, section, after = text[:begin], text[begin:begin+end], text[begin+end:]
	}
	expr := regexp.MustCompile(e.pattern)
	if n := len(expr.FindAllString(section, -1)); n != e.times {
		return "", fmt.Errorf("%s: %q matches %d times, not %d", e.file, e.pattern, n, e.times)
	}
	return before + expr.ReplaceAllString(section, e.with) + after, nil
}

// moduleRoot is the folder of go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	path := strings.TrimSpace(string(out))
	if path == "" || path == os.DevNull {
		return "", fmt.Errorf("not inside the module")
	}
	return filepath.Dir(path), nil
}

// programs are fencerow and fencerowd, built for a run.
type programs struct{ root, dir string }

// build builds the programs into dir, with the edits of the mutant, if any, and a clock that can be set.
func build(ctx context.Context, c Config, dir string) (*programs, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	o := overlay{
		root: root, goroot: strings.TrimSpace(string(goroot)), dir: filepath.Join(dir, "overlay"),
		replace: map[string]string{},
	}
	edits := []edit{clockEdit}
	if c.Mutant != "" {
		m, ok := Mutants()[c.Mutant]
		if !ok {
			return nil, fmt.Errorf("there is no mutant %q", c.Mutant)
		}
		edits = append(edits, m.edits...)
	}
	path, err := o.write(edits)
	if err != nil {
		return nil, err
	}
	p := &programs{root: root, dir: filepath.Join(dir, "bin")}
	args := []string{"build", "-overlay", path, "-o", p.dir + string(filepath.Separator)}
	if c.Race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/fencerow", "./cmd/fencerowd")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return p, nil
}

// overlay is what go build reads instead of the files on disk.
type overlay struct {
	root, goroot, dir string
	replace           map[string]string
}

// write writes the edited sources and returns the path of the overlay's description.
func (o *overlay) write(edits []edit) (string, error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return "", err
	}
	texts := map[string]string{
		filepath.Join(o.goroot, "src/time/zz_host_clock.go"):    clockOffset,
		filepath.Join(o.root, "cmd/fencerowd/zz_host_clock.go"): hostClock,
		filepath.Join(o.root, "cmd/fencerow/zz_host_clock.go"):  hostClock,
	}
	for _, e := range edits {
		path := filepath.Join(o.root, e.file)
		if name, std := strings.CutPrefix(e.file, "GOROOT/"); std {
			path = filepath.Join(o.goroot, name)
		}
		text, edited := texts[path]
		if !edited {
			content, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			text = string(content)
		}
		var err error
		if texts[path], err = e.apply(text); err != nil {
			return "", err
		}
	}
	for path, text := range texts {
		copied := filepath.Join(o.dir, fmt.Sprintf("%d.go", len(o.replace)))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		o.replace[path] = copied
	}
	description, err := json.Marshal(map[string]map[string]string{"Replace": o.replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.dir, "overlay.json")
	return path, os.WriteFile(path, description, 0o600)
}
