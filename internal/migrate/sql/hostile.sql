-- Rows that the first migration allowed and that no rule of today would: each must come through the history unchanged.
INSERT INTO fencerow.ledger_outbox (
    outbox_id, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, status, attempt_count, next_retry_at, enqueued_at
)
VALUES
    (1, 'plain-1', 'fill', 'slot-1', 12.50, 'USD', '{"quantity": 3}', 'pending', 0, '2024-01-02 03:04:05.678901Z', '2024-01-02Z'),
    (2, 'plain-2', 'fee', 'slot-1', -0.25, 'USD', '{"fee": true}', 'completed', 1, NULL, '2024-01-02Z'),
    (3, 'not a number', 'fill', NULL, 'NaN', NULL, '{}', 'pending', 0, now(), now()),
    (4, 'infinite', 'fill', NULL, 'Infinity', 'usd', '{}', 'pending', 0, 'infinity', 'infinity'),
    (5, 'minus infinite', 'fill', NULL, '-Infinity', '', '{}', 'pending', 0, '-infinity', '-infinity'),
    (6, 'longer than a rule allows', 'fill', NULL, 1e1000, NULL, '{}', 'pending', 0, now(), now()),
    (7, 'finer than a rule allows', 'fill', NULL, 1e-1000, NULL, '{}', 'pending', 0, now(), now()),
    (8, 'zero with a scale', 'fill', NULL, 0.0000000000000000000000000000000000000000, NULL, '{}', 'pending', 0, now(), now()),
    (9, '', '', '', 0, '', '{}', '', 0, NULL, now()),
    (10, '  ', 'Not A Kind', ' slot ', 0, 'not a currency', '{}', 'no such status', -1, NULL, now()),
    (11, E'tab\tnewline\ncarriage\rbell\x07escape\x1b[31m', E'\x01', E'\x7f', 0, NULL, '{}', E'\x02', 2147483647, NULL, now()),
    (12, E'\u00e9\u4e2d\U0001f600 and e\u0301', 'fill', NULL, 0, NULL, '{}', 'pending', -2147483648, NULL, now()),
    (13, 'repeated', 'fill', NULL, 1, 'EUR', '{"copy": 1}', 'pending', 0, now(), now()),
    (14, 'repeated', 'fill', NULL, 1, 'EUR', '{"copy": 1}', 'pending', 0, now(), now()),
    (15, 'repeated', 'fill', NULL, 2, 'EUR', '{"copy": 3}', 'dead_lettered', 20, now(), now()),
    (16, 'scalar', 'fill', NULL, 0, NULL, '1', 'pending', 0, now(), now()),
    (17, 'text', 'fill', NULL, 0, NULL, '"text"', 'pending', 0, now(), now()),
    (18, 'null literal', 'fill', NULL, 0, NULL, 'null', 'pending', 0, now(), now()),
    (19, 'array', 'fill', NULL, 0, NULL, '[{}, [], ""]', 'pending', 0, now(), now()),
    (20, 'odd but an object', 'fill', NULL, 0, NULL, E' \t\r\n{"b":1, "a":1e999, "b":2,"u":"\\u0000"}\n ', 'pending', 0, now(), now()),
    (4294967296, 'above 2^32', 'fill', NULL, 0, NULL, '{}', 'pending', 0, now(), now()),
    (0, 'number zero', 'fill', NULL, 0, NULL, '{}', 'pending', 0, now(), now()),
    (-1, 'number below zero', 'fill', NULL, 0, NULL, '{}', 'pending', 0, now(), now()),
    (9223372036854775807, 'the highest number', 'fill', NULL, 0, NULL, '{}', 'pending', 0, now(), now());

-- A correlation id of 10 kB that does not compress, thrice, and a payload of 1 MB.
INSERT INTO fencerow.ledger_outbox (outbox_id, correlation_id, entry_kind, payload)
SELECT 100 + n, (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 320) AS i), repeat('k', 5000), '{}'
FROM generate_series(1, 3) AS n;

INSERT INTO fencerow.ledger_outbox (outbox_id, correlation_id, entry_kind, payload)
SELECT 200, 'large', 'fill', ('{"text": "' || string_agg(md5(i::text), '') || '"}')::json
FROM generate_series(1, 32768) AS i;
