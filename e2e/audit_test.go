package e2e

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// auditSQL has the database keep what the product forgets: every claim that was made, and every row that came
// back because its lease had expired.
const auditSQL = `
CREATE SCHEMA audit;
CREATE TABLE audit.claim (
    claim_epoch bigint NOT NULL,
    claimed_by text NOT NULL,
    claimed_at timestamptz NOT NULL,
    lease_expires_at timestamptz NOT NULL,
    outbox_ids bigint[] NOT NULL,
    claim_xact xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE TABLE audit.expiry (
    outbox_id bigint NOT NULL,
    claim_epoch bigint NOT NULL,
    claim_xact xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE TABLE audit.release (
    outbox_id bigint NOT NULL,
    claim_epoch bigint NOT NULL
);
CREATE FUNCTION audit.note_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit.claim (claim_epoch, claimed_by, claimed_at, lease_expires_at, outbox_ids)
    VALUES (NEW.claim_epoch, NEW.claimed_by, NEW.claimed_at, NEW.lease_expires_at, NEW.outbox_ids);
    RETURN NULL;
END;
$$;
CREATE FUNCTION audit.note_pending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.expiry_count > OLD.expiry_count THEN
        INSERT INTO audit.expiry (outbox_id, claim_epoch) VALUES (NEW.outbox_id, NEW.last_epoch);
    ELSE
        INSERT INTO audit.release (outbox_id, claim_epoch) VALUES (NEW.outbox_id, NEW.last_epoch);
    END IF;
    RETURN NULL;
END;
$$;
CREATE TRIGGER audit_claim AFTER INSERT ON fencerow.ledger_claim
FOR EACH ROW EXECUTE FUNCTION audit.note_claim();
CREATE TRIGGER audit_pending AFTER UPDATE ON fencerow.ledger_pending
FOR EACH ROW EXECUTE FUNCTION audit.note_pending();`

// auditedClaim is one claim as it was made.
type auditedClaim struct {
	Epoch     int64     `db:"claim_epoch"`
	Worker    string    `db:"claimed_by"`
	At        time.Time `db:"claimed_at"`
	ExpiresAt time.Time `db:"lease_expires_at"`
	Rows      []int64   `db:"outbox_ids"`
	Xact      uint64    `db:"claim_xact"`
}

// auditedClaims returns every claim that was made, in the order in which they were made.
func (w *world) auditedClaims() []auditedClaim {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), `
SELECT
    claim_epoch, claimed_by, claimed_at, lease_expires_at, outbox_ids,
    claim_xact::text::bigint AS claim_xact
FROM audit.claim
ORDER BY claimed_at`)
	check(w.t, err)
	claims, err := pgx.CollectRows(rows, pgx.RowToStructByName[auditedClaim])
	check(w.t, err)
	return claims
}

// auditedExpiry says that a row came back because the lease of a claim had expired, and in which transaction.
type auditedExpiry struct {
	Row   int64  `db:"outbox_id"`
	Epoch int64  `db:"claim_epoch"`
	Xact  uint64 `db:"claim_xact"`
}

func (w *world) auditedExpiries() []auditedExpiry {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), `
SELECT outbox_id, claim_epoch, claim_xact::text::bigint AS claim_xact FROM audit.expiry`)
	check(w.t, err)
	expiries, err := pgx.CollectRows(rows, pgx.RowToStructByName[auditedExpiry])
	check(w.t, err)
	return expiries
}
