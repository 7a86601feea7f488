package secretfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestALineIsReadFromASmallRegularFileOnly(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	full := strings.Repeat("a", MaxLine)
	tests := []struct {
		name, path  string
		line, token string // empty if it is refused
	}{
		{"WithWhiteSpaceAround", write(t, " \r\n s3cr et\t\n\n"), "s3cr et", "s3cr et"},
		{"AsLongAsMayBe", write(t, full), full, full},
		{"LongerByOne", write(t, full+"a"), "", ""},
		{"LongerByWhiteSpace", write(t, full+"\n"), "", ""},
		{"Empty", write(t, ""), "", ""},
		{"WhiteSpaceOnly", write(t, " \n"), "", ""},
		{"TwoLines", write(t, "a\nb"), "", ""},
		{"TwoLinesOfAnOldMachine", write(t, "a\rb"), "", ""},
		{"ZeroByte", write(t, "a\x00b"), "", ""},
		{"NotASCII", write(t, "pässword"), "pässword", ""},
		{"TabInside", write(t, "a\tb"), "a\tb", ""},
		{"Missing", filepath.Join(t.TempDir(), "gone"), "", ""},
		{"Folder", t.TempDir(), "", ""},
		{"PipeThatNobodyWrites", pipe, "", ""},
		{"DeviceWithoutEnd", "/dev/zero", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if line, ok := ReadLine(tt.path); line != tt.line || ok != (tt.line != "") {
				t.Errorf("as a line: got %.40q, %v", line, ok)
			}
			if token, ok := ReadToken(tt.path); token != tt.token || ok != (tt.token != "") {
				t.Errorf("as a token: got %.40q, %v", token, ok)
			}
		})
	}
}

func TestAFileIsExposedIfOthersCanReadOrChangeIt(t *testing.T) {
	path := write(t, "secret")
	for mode, want := range map[os.FileMode]bool{
		0o600: false, 0o640: false, 0o660: false, 0o604: true, 0o602: true,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if got := Exposed(path); got != want {
			t.Errorf("%o: got %v, want %v", mode, got, want)
		}
	}
	if Exposed(path+".gone") || Exposed("") {
		t.Error("a file that is not there is called exposed")
	}
}
