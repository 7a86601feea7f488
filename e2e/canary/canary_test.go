package canary

import (
	"regexp"
	"testing"
)

// row is one failure.
type row struct {
	name string
	// codes are the reasons, error codes and refusals that the row stands for.
	codes []string
	// shown are the words that must appear in what the row rendered, so that it is known to have happened; nil
	// is the codes.
	shown []string
	// drive brings the failure about and returns where.
	drive func(t testing.TB) *world
}

// scene is a group of rows that share a world. It is only set up when it is run.
type scene struct {
	name string
	rows func(t *testing.T) []row
}

func scenes() []scene {
	return []scene{
		{"ledger", ledgerScene}, {"database", databaseScene}, {"postgres", postgresScene},
		{"obstacles", obstacleScene},
		{"commands", commandScene}, {"migrations", migrationScene},
		{"ops", opsScene}, {"stale", staleScene}, {"configuration", configScene},
		{"webhook", webhookScene}, {"slow_webhook", slowWebhookScene}, {"nats", natsScene},
		{"memstore", memoryScene}, {"pgstore", storeScene}, {"forms", formScene},
	}
}

func TestNothingSecretIsShown(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range s.rows(t) {
				t.Run(r.name, func(t *testing.T) {
					w := r.drive(t)
					w.sweep()
					words := r.shown
					if words == nil {
						words = r.codes
					}
					for _, word := range words {
						if !regexp.MustCompile(`\b` + word + `\b`).MatchString(w.rendered.String()) {
							t.Errorf("%s was shown nowhere:\n%.6000s", word, w.rendered.String())
						}
					}
				})
			}
		})
	}
}
