SELECT to_regclass('fencerow.schema_version') IS NOT NULL
