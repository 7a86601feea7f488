package pgstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// An entry from before ownership is nobody's: no claim takes it, and whoever names it is told that it is not
// theirs.
func TestUnownedEntryIsNobodys(t *testing.T) {
	t.Parallel()
	for _, complaint := range touchUnowned(t, nil) {
		t.Error(complaint)
	}
}

// The case above is worth what it finds.
func TestClaimingUnownedEntriesIsFound(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]mutation{
		"NULL rows claimable": {
			queries: []string{"ClaimOne"},
			pattern: `(WHERE correlation_id = \$\d+::text AND) (instance_key = \$\d+::text)\n`,
			with:    "${1} (${2} OR instance_key IS NULL)\n",
		},
		"NULL rows requeueable": {
			queries: []string{"OutcomeRequeue"},
			pattern: `(WHERE correlation_id = \$\d+::text AND) (instance_key = \$\d+::text)\n`,
			with:    "${1} (${2} OR instance_key IS NULL)\n",
		},
		"NULL rows unknown": {
			queries: []string{"EntryForeign"},
			pattern: `fencerow\.foreign_owned\((\$\d+::text), \$\d+::text\)`,
			with: "${0} AND EXISTS (SELECT FROM fencerow.ledger_outbox o " +
				"WHERE o.correlation_id = ${1} AND o.instance_key IS NOT NULL)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rewrite, changed := m.apply()
			complaints := touchUnowned(t, func(s *Store) { s.texts.rewrite = rewrite })
			if changed.Load() == 0 {
				t.Fatal("the mutation matches no statement")
			}
			if len(complaints) == 0 {
				t.Error("nothing was found")
			}
		})
	}
}

// touchUnowned tries every verb that names an entry on one without an owner, and returns what went wrong.
func touchUnowned(t *testing.T, mutate func(*Store)) (complaints []string) {
	t.Helper()
	database := pgtest.NewDatabase(t, schema)
	database.Exec(t, `
		ALTER TABLE fencerow.ledger_outbox DROP CONSTRAINT ledger_outbox_instance_key_present;
		INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, payload) VALUES ('old', 'fill', '{}');
		ALTER TABLE fencerow.ledger_outbox
			ADD CONSTRAINT ledger_outbox_instance_key_present CHECK (instance_key IS NOT NULL) NOT VALID;`)
	store := openOn(t, database)
	if mutate != nil {
		mutate(store)
	}
	complain := func(verb string, err error) {
		if !errors.Is(err, fencerow.ErrForeignInstance) {
			complaints = append(complaints, fmt.Sprintf("%s: got %v, want foreign_instance", verb, err))
		}
	}
	if c := claim(t, store, "i", 10); len(c.Entries) != 0 {
		complaints = append(complaints, fmt.Sprintf("claimed %d rows", len(c.Entries)))
	}
	_, err := store.ClaimOne(t.Context(), fencerow.ClaimOneParams{
		Instance: "i", Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: "old", Lease: fencerow.MaxLease,
		ForceDue: true,
	})
	complain("claim one", err)
	_, err = store.Show(t.Context(), fencerow.EntryParams{Instance: "i", CorrelationID: "old"})
	complain("show", err)
	complain("requeue", store.Requeue(t.Context(), fencerow.RequeueParams{
		Instance: "i", CorrelationID: "old", From: fencerow.StatusDeadLettered,
	}))
	return complaints
}
