-- What the product forgets, kept for the checker. Every time is the server's own at the moment of writing, whatever the product believes.
CREATE SCHEMA audit;

CREATE TABLE audit.claim (
    instance_key text COLLATE "C" NOT NULL,
    claim_epoch bigint NOT NULL,
    claimed_by text NOT NULL,
    lease interval NOT NULL,
    outbox_ids bigint[] NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- How an unfinished row left a claim; a finished one has its outcome.
CREATE TABLE audit.let_go (
    outbox_id bigint NOT NULL,
    claim_epoch bigint NOT NULL,
    how text NOT NULL,
    attempts_before integer NOT NULL,
    attempts_after integer NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION audit.note_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO audit.claim (instance_key, claim_epoch, claimed_by, lease, outbox_ids)
    VALUES (NEW.instance_key, NEW.claim_epoch, NEW.claimed_by, NEW.lease_expires_at - NEW.claimed_at, NEW.outbox_ids);
    RETURN NULL;
END;
$$;

CREATE FUNCTION audit.note_pending() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO audit.let_go (outbox_id, claim_epoch, how, attempts_before, attempts_after)
    VALUES (
        NEW.outbox_id,
        NEW.last_epoch,
        CASE
            WHEN NEW.expiry_count > OLD.expiry_count THEN 'expired'
            WHEN NEW.next_retry_at <> OLD.next_retry_at OR NEW.attempt_count <> OLD.attempt_count THEN 'retried'
            ELSE 'released'
        END,
        OLD.attempt_count,
        NEW.attempt_count
    );
    RETURN NULL;
END;
$$;

CREATE TRIGGER audit_claim AFTER INSERT ON fencerow.ledger_claim FOR EACH ROW EXECUTE FUNCTION audit.note_claim();
CREATE TRIGGER audit_pending AFTER UPDATE ON fencerow.ledger_pending FOR EACH ROW EXECUTE FUNCTION audit.note_pending();

-- A disk that is full refuses every statement that would write.
CREATE TABLE audit.disk (is_full boolean NOT NULL);
INSERT INTO audit.disk VALUES (false);

CREATE FUNCTION audit.write_to_disk() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF (SELECT is_full FROM audit.disk) THEN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER disk_of_claims BEFORE INSERT OR UPDATE OR DELETE ON fencerow.ledger_claim
FOR EACH STATEMENT EXECUTE FUNCTION audit.write_to_disk();
CREATE TRIGGER disk_of_pending BEFORE INSERT OR UPDATE OR DELETE ON fencerow.ledger_pending
FOR EACH STATEMENT EXECUTE FUNCTION audit.write_to_disk();
CREATE TRIGGER disk_of_outcomes BEFORE INSERT ON fencerow.ledger_outcome
FOR EACH STATEMENT EXECUTE FUNCTION audit.write_to_disk();
CREATE TRIGGER disk_of_entries BEFORE INSERT ON fencerow.ledger_outbox
FOR EACH STATEMENT EXECUTE FUNCTION audit.write_to_disk();

CREATE INDEX claim_epoch ON audit.claim (claim_epoch);
CREATE INDEX let_go_at ON audit.let_go (at);
