package config

import (
	"strings"
	"testing"
)

// The address is a secret, and every user of the machine can read flags.
func TestTheAddressForAlertsComesFromAVariableOrAFile(t *testing.T) {
	const (
		variable, fileVariable = "FENCEROW_ALERT_WEBHOOK_URL", "FENCEROW_ALERT_WEBHOOK_URL_FILE"
		address                = "https://alerts.example/" + sentinel
	)
	path := file(t, address+"\n")
	tests := []struct {
		name      string
		variables map[string]string
		want      bool   // there is a sender
		problem   string // of the error; empty if there is none
	}{
		{"Neither", nil, false, ""},
		{"FromTheVariable", map[string]string{variable: address}, true, ""},
		{"FromAFile", map[string]string{fileVariable: path}, true, ""},
		{"FromAFileWithAnEmptyVariable", map[string]string{fileVariable: path, variable: ""}, true, ""},
		{"FromBoth", map[string]string{fileVariable: path, variable: address}, false, variable + " are both given"},
		{"FileMissing", map[string]string{fileVariable: path + ".gone"}, false, "--alert-webhook-url-file ("},
		{"FileOfTwoLines", map[string]string{fileVariable: file(t, address+"\n"+address)}, false, fileVariable},
		{"BadInTheFile", map[string]string{fileVariable: file(t, "ftp://"+sentinel)}, false,
			"(" + fileVariable + ") holds an address that must begin with https://"},
		{"BadInTheVariable", map[string]string{variable: "ftp://" + sentinel}, false,
			variable + " must begin with https://"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"--instance-key=a"}
			if tt.want {
				args = append(args, "--alert-webhook-secret-file="+file(t, webhookSecret))
			}
			line, err := parse(t, tt.variables, args...)
			if tt.problem != "" {
				text, ok := UsageText(err)
				if !ok || !strings.Contains(text, tt.problem) || strings.Contains(text, sentinel) {
					t.Errorf("got %q, %v", text, err)
				}
				return
			}
			check(t, err)
			sender, err := line.Alerts.Webhook()
			check(t, err)
			if (sender != nil) != tt.want {
				t.Errorf("a sender: %v, want %v", sender != nil, tt.want)
			}
		})
	}
}
