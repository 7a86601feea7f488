-- name: plain_sum
SELECT currency, sum(cash_delta)::text, count(*)
FROM fencerow.ledger_pending
WHERE instance_key = $1::text AND currency IS NOT NULL
GROUP BY currency;
