CREATE INDEX `session_end` ON `session` ((CASE WHEN revoked_at IS NULL THEN expires_at ELSE revoked_at END));
