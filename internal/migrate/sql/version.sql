SELECT version
FROM fencerow.schema_version
