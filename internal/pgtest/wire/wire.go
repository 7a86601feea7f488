// Package wire is what a test binary and its pgtest-server say to each other: commands, one a line, on the
// server's standard input, and one JSON answer a line on its standard output. The first answer comes unasked,
// once tests may connect. The end of the input ends the server.
package wire

// Command asks a private server for a change. It is answered when the change is complete.
type Command string

// Commands.
const (
	// Start starts a stopped server on its old port with its old data.
	Start Command = "start"
	// Stop shuts the server down in order: sessions are ended, a last checkpoint is written.
	Stop Command = "stop"
	// Crash ends the server as a crash does: the next start recovers from the write-ahead log.
	Crash Command = "crash"
)

// Answer is the server's answer to a command, or its greeting.
type Answer struct {
	DSN    string `json:"dsn,omitempty"`
	Source string `json:"source,omitempty"`
	Error  string `json:"error,omitempty"` // empty where all went well
}
